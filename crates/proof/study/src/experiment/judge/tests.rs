use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::experiment::tests::{TINY, tiny};

/// Trials of [`TINY`] with these seconds by round.
fn trials(fast: &[f64], slow: &[f64]) -> Vec<Trial> {
    let tiny = tiny();
    let of = |(cell, seconds): (&Cell, &[f64])| -> Vec<Trial> {
        let rounds = seconds.iter().zip(0..).map(|(s, round)| trial(&cell.command, round, *s));
        rounds.collect()
    };
    cells(&tiny, ScaleName::Smoke).iter().zip([fast, slow]).flat_map(of).collect()
}

fn trial(command: &str, round: u32, seconds: f64) -> Trial {
    let values = [("seconds".to_owned(), Ok(json!(seconds)))].into();
    Trial { command: command.to_owned(), round, seconds, outcome: Outcome::Values(values) }
}

fn judged(fast: &[f64], slow: &[f64]) -> Judged {
    tiny().judge(ScaleName::Smoke, &trials(fast, slow))
}

#[test]
fn verdicts_follow_band_direction_and_interval() {
    let verdicts = |fast: &[f64], slow: &[f64]| {
        let judged = judged(fast, slow);
        let claims: Vec<Verdict> = judged.claims.iter().map(|claim| claim.verdict).collect();
        assert_eq!(judged.verdict, *claims.iter().min().unwrap());
        [claims[0], claims[1], claims[2]]
    };
    use Verdict::*;
    let one = [1.0, 1.0, 1.0];
    assert_eq!(verdicts(&one, &[1.9, 2.0, 2.1]), [Reproduced, Reproduced, Shown]);
    assert_eq!(verdicts(&one, &[5.0, 5.1, 5.2]), [DirectionOnly, Reproduced, Shown]);
    assert_eq!(verdicts(&one, &[0.5, 0.4, 0.5]), [NotReproduced, NotReproduced, Shown]);
    // The values differ too much, or are too few.
    assert_eq!(verdicts(&one, &[0.5, 2.0, 9.0]), [Undecided, Undecided, Shown]);
    assert_eq!(verdicts(&one[..2], &[2.0, 2.0]), [Undecided, Undecided, Shown]);
    assert_eq!(verdicts(&one, &[]), [NotReached, NotReached, Shown]);
    assert_eq!(verdicts(&[], &[]), [NotReached, NotReached, NotReached]);
}

#[test]
fn ratios_are_of_the_same_round() {
    let judged = judged(&[1.0, 10.0, 100.0], &[2.0, 20.0, 200.0]);
    let (_, estimate) = &judged.claims[0].values[0];
    assert_eq!((estimate.value, estimate.interval), (2.0, Some([2.0, 2.0])));
    assert_eq!(judged.points[1].estimate.unwrap().value, 20.0);
}

#[test]
fn a_mean_speedup_is_the_arithmetic_mean_over_its_cells() {
    let text = TINY
        .replace("[factors]", "[factors]\ntest = [\"a\", \"b\"]\nthreads = [\"1\", \"8\"]")
        .replace("# {size}", "# {size} {test} {threads}")
        .replace(
            "of = { metric = \"seconds\", at = { kind = \"slow\" }, over = { kind = \"fast\" } }",
            "of = { metric = \"seconds\", speedup_from = { kind = \"slow\", threads = \"1\" }, \
             at = { kind = \"fast\", threads = \"8\" }, over = { kind = \"slow\", threads = \"8\" } }",
        );
    let experiment = Experiment::parse("speedup", &text).unwrap();
    // The times that slow took with one thread over those of this cell: 4 and 8 for fast, 2 and 1
    // for slow.
    let seconds = |cell: &At| match (&*cell["kind"], &*cell["test"], &*cell["threads"]) {
        ("slow", "a", "1") => 12.0,
        ("slow", "b", "1") => 40.0,
        ("fast", "a", "8") => 3.0,
        ("fast", "b", "8") => 5.0,
        ("slow", "a", "8") => 6.0,
        ("slow", "b", "8") => 40.0,
        _ => 7.0,
    };
    let trials: Vec<Trial> = cells(&experiment, ScaleName::Smoke)
        .iter()
        .flat_map(|cell| (0..3).map(|round| trial(&cell.command, round, seconds(&cell.at))))
        .collect();
    let judged = experiment.judge(ScaleName::Smoke, &trials);
    let [(_, estimate)] = &judged.claims[0].values[..] else { panic!("{judged:?}") };
    assert!((estimate.value - 6.0 / 1.5).abs() < 1e-12, "{estimate:?}");
}

#[test]
fn without_a_direction_the_whole_interval_must_be_in_the_band() {
    let text = TINY.replace("above = 1.0", "");
    let tiny = Experiment::parse("tiny", &text).unwrap();
    let verdict =
        |slow: &[f64]| tiny.judge(ScaleName::Smoke, &trials(&[1.0; 3], slow)).claims[0].verdict;
    assert_eq!(verdict(&[1.6, 2.0, 2.4]), Verdict::Reproduced);
    assert_eq!(verdict(&[1.4, 2.0, 2.4]), Verdict::Undecided);
    assert_eq!(verdict(&[0.4, 0.5, 0.6]), Verdict::NotReproduced);
}

#[test]
fn claims_about_levels_that_a_scale_leaves_out_are_not_judged_at_it() {
    let text = TINY.replace("[scale.smoke]", "[scale.smoke]\nonly = { kind = [\"fast\"] }");
    let tiny = Experiment::parse("tiny", &text).unwrap();
    let judged = tiny.judge(ScaleName::Smoke, &trials(&[1.0; 3], &[2.0; 3]));
    let left: Vec<&str> = judged.claims.iter().map(|claim| claim.text.as_str()).collect();
    assert_eq!((left, judged.verdict), (vec!["both"], Verdict::Shown));
}

#[test]
fn trials_that_were_made_twice_for_other_numbers_count_together() {
    let mut trials = trials(&[1.0; 3], &[2.0; 3]);
    let again: Vec<Trial> = trials
        .iter()
        .map(|trial| Trial {
            outcome: Outcome::Values([("bytes".to_owned(), Ok(json!(7)))].into()),
            ..trial.clone()
        })
        .collect();
    trials.extend(again);
    assert_eq!(tiny().judge(ScaleName::Smoke, &trials).verdict, Verdict::Reproduced);
}

#[test]
fn a_round_without_a_value_is_left_out() {
    let mut trials = trials(&[1.0; 4], &[2.0; 4]);
    let lose = |trial: &mut Trial| {
        let nothing = Err("nothing printed has seconds".to_owned());
        trial.outcome = Outcome::Values([("seconds".to_owned(), nothing)].into());
    };
    lose(&mut trials[0]);
    let judged = |trials: &[Trial]| tiny().judge(ScaleName::Smoke, trials);
    assert_eq!(
        (judged(&trials).verdict, judged(&trials).claims[0].values[0].1.n),
        (Verdict::Reproduced, 3)
    );
    trials[..4].iter_mut().for_each(lose);
    assert_eq!(judged(&trials).verdict, Verdict::NotRunHere);
    assert_eq!(judged(&trials).claims[2].verdict, Verdict::Shown);
}

#[test]
fn what_cannot_be_run_here_says_what_it_needs() {
    let mut trials = trials(&[1.0; 3], &[]);
    let command = cells(&tiny(), ScaleName::Smoke)[1].command.clone();
    let outcome = Outcome::NotHere("QEMU is missing".to_owned());
    trials.push(Trial { command, round: 0, seconds: 0.1, outcome });
    let judged = tiny().judge(ScaleName::Smoke, &trials);
    assert_eq!(judged.verdict, Verdict::NotRunHere);
    assert_eq!(judged.claims[0].remark.as_deref(), Some("slow: QEMU is missing"));
    assert_eq!(judged.points[1].missing.as_deref(), Some("QEMU is missing"));
    if let Some(last) = trials.last_mut() {
        last.outcome = Outcome::Failed("exit status 3: why".to_owned());
    }
    let judged = tiny().judge(ScaleName::Smoke, &trials);
    assert_eq!((judged.verdict, judged.claims[2].verdict), (Verdict::Failed, Verdict::Shown));
    assert_eq!(judged.claims[0].remark.as_deref(), Some("slow: exit status 3: why"));
}

proptest! {
    /// For any values, a verdict never contradicts the interval.
    #[test]
    fn no_verdict_contradicts_its_interval(
        fast in prop::collection::vec(0.1f64..10.0, 3..8),
        slow in prop::collection::vec(0.1f64..10.0, 3..8),
    ) {
        let judged = judged(&fast, &slow);
        let claim = &judged.claims[0];
        let estimate = claim.values[0].1;
        let [low, high] = estimate.interval.unwrap();
        match claim.verdict {
            Verdict::Reproduced => {
                prop_assert!((1.5..=2.5).contains(&estimate.value));
                prop_assert!(low > 1.0 || (1.5 <= low && high <= 2.5));
            }
            Verdict::DirectionOnly => prop_assert!(low > 1.0 && !(1.5..=2.5).contains(&estimate.value)),
            Verdict::NotReproduced => prop_assert!(high < 1.0),
            _ => prop_assert!(low <= 1.0 && 1.0 <= high, "{:?}", claim),
        }
    }
}
