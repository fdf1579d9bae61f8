//! Tests of the journal.

use super::*;
use crate::evidence::{Failure, Order, Outcome, Phase, Remains};
use crate::shape::Candidate;

fn search(command: &str) -> Fingerprint {
    [("command".to_owned(), command.into())].into_iter().collect()
}

fn trials() -> Vec<Trial> {
    let failures = [Failure::Timeout, Failure::Exit(3), Failure::OverLimit("x\n\"y".into())];
    let outcomes = failures.map(Outcome::Failed).into_iter().chain([Outcome::Value(0.1 + 0.2)]);
    (0..)
        .zip(outcomes)
        .map(|(block, outcome)| Trial {
            peak_rss_bytes: Some(1),
            remains: Remains {
                output: "the end".into(),
                ended: vec!["sh (1)".into()],
                ..Remains::default()
            },
            ..Trial::new(
                Order { phase: Phase::Race, block, candidate: Candidate(7) },
                1.0 / 3.0,
                outcome,
            )
        })
        .collect()
}

#[test]
fn what_was_written_is_read_back() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, past) = Journal::open(folder.path(), &search("a"), false).unwrap();
    assert!(past.trials.is_empty());
    trials().iter().for_each(|t| journal.append(t).unwrap());
    journal.append_answer("42").unwrap();
    drop(journal);
    let (_, past) = Journal::open(folder.path(), &search("a"), true).unwrap();
    assert_eq!(past.trials, trials());
    assert_eq!(past.answer.as_deref(), Some("42"));
}

#[test]
fn a_line_cut_short_loses_that_line_only() {
    let folder = tempfile::tempdir().unwrap();
    let (mut journal, _) = Journal::open(folder.path(), &search("a"), false).unwrap();
    trials().iter().for_each(|t| journal.append(t).unwrap());
    drop(journal);
    let path = folder.path().join(FILE);
    let text = std::fs::read(&path).unwrap();
    let header = 1 + text.iter().position(|&b| b == b'\n').unwrap();
    for length in header..text.len() {
        std::fs::write(&path, &text[..length]).unwrap();
        let (mut journal, past) = Journal::open(folder.path(), &search("a"), true).unwrap();
        let whole = text[..length].iter().filter(|&&b| b == b'\n').count() - 1;
        assert_eq!(past.trials, trials()[..whole]);
        journal.append(&trials()[0]).unwrap();
        drop(journal);
        let (_, past) = Journal::open(folder.path(), &search("a"), true).unwrap();
        assert_eq!(past.trials.len(), whole + 1);
    }
}

#[test]
fn another_search_is_refused_and_an_earlier_one_kept() {
    let folder = tempfile::tempdir().unwrap();
    let open = |command, resume| Journal::open(folder.path(), &search(command), resume);
    assert!(matches!(open("a", true), Err(JournalError::Nothing(_))));
    let (mut journal, _) = open("a", false).unwrap();
    journal.append(&trials()[0]).unwrap();
    assert!(matches!(open("a", true), Err(JournalError::Lines(LinesError::InUse(_)))));
    drop(journal);
    let error = open("b", true).unwrap_err().to_string();
    assert!(error.contains("its command was 'a' and is now 'b'"), "{error}");
    drop(open("b", false).unwrap());
    // A search without a trial does not replace the one that is kept.
    drop(open("c", false).unwrap());
    let lines =
        |name: &str| std::fs::read_to_string(folder.path().join(name)).unwrap().lines().count();
    assert_eq!((lines(EARLIER), lines(FILE)), (2, 1));
}

#[test]
fn what_differs_is_reported_in_words() {
    let factors = serde_json::json!([{"name": "allocator",
        "levels": [{"allocator": "inherit"}, {"allocator": "jemalloc"}]}]);
    assert_eq!(in_words("factors", &factors), "allocator=inherit,jemalloc");
    assert_eq!(in_words("factors", &serde_json::json!([])), "none");
    assert_eq!(in_words("command", &serde_json::json!(["ls", "-l"])), "'ls -l'");
    assert_eq!(in_words("stdin", &serde_json::json!({"bytes": 3})), "bytes 3");
    assert_eq!(in_words("check", &Value::Null), "none");
}

#[test]
fn a_program_that_has_changed_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let open = |bytes: u64, resume| {
        let mut search = search("a");
        search.insert(PROGRAM.to_owned(), serde_json::json!({"bytes": bytes}));
        Journal::open(folder.path(), &search, resume)
    };
    drop(open(7, false).unwrap());
    drop(open(7, true).unwrap());
    let error = open(8, true).unwrap_err().to_string();
    for part in ["the program has changed", "7", "8", "start a new search without --resume"] {
        assert!(error.contains(part), "{part} is not in {error}");
    }
}

#[test]
fn damage_is_named() {
    let folder = tempfile::tempdir().unwrap();
    drop(Journal::open(folder.path(), &search("a"), false).unwrap());
    let path = folder.path().join(FILE);
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, format!("{text}{{\n")).unwrap();
    let error = Journal::open(folder.path(), &search("a"), true).unwrap_err();
    assert!(error.to_string().contains("line 2"), "{error}");
}
