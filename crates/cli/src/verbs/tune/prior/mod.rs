//! What a search expects before its first run: by one observed run, and by earlier searches.
//!
//! ```text
//!  numapilot advise --json -o FILE -- COMMAND --advice--> levels  --.
//!  --advice FILE ---------------------------------------------------+--> Prior --> decide
//!  journals of this host, --history PATH ------history--> searches -'
//! ```

mod advice;
mod history;

use std::path::Path;
use std::sync::atomic::AtomicBool;

use anyhow::bail;
use numapilot_cli_kit::terminal::Terminal;
use numapilot_tune::decide::prior::Levels;
use numapilot_tune::decide::{Prior, is_selective};
use numapilot_tune::evidence::Trial;
use numapilot_tune::journal::Journal;

use super::args::Args;
use super::prior_args::Source;
use super::setup::Setup;
use advice::Advice;
use history::Place;

/// Checks what can be checked before a new search replaces an earlier one.
///
/// # Errors
/// A file of the options cannot be used, `--prior` rules it out, or no run can be observed and
/// `--prior advise` asks for one.
pub fn check(terminal: &Terminal, args: &Args, setup: &Setup) -> anyhow::Result<()> {
    args.prior.check()?;
    history::check(&args.prior.history)?;
    if let Some(path) = &args.prior.advice {
        let (advice, path) = (Advice::read(path)?, path.display());
        if !advice.concerns(&setup.space) {
            bail!("--advice {path} says nothing about the levels of this search; leave it out");
        }
        if let Some(other) = advice.other_command(args.command()) {
            terminal.warn(format_args!("--advice {path} is about another command, '{other}'"));
        }
    } else if let (Some(Source::Advise), Some(option)) = (args.prior.prior, elsewhere(args)) {
        bail!(
            "--prior advise observes a run of a program on this host, which {option} rules out; give \
             --advice FILE, a result of numapilot advise --json"
        );
    }
    Ok(())
}

/// The option because of which no run can be observed: the program runs elsewhere, or is a server,
/// which does its work only under its load.
fn elsewhere(args: &Args) -> Option<&'static str> {
    let measure = &args.measure;
    let options = [
        (measure.lab.is_some(), "--lab"),
        (measure.via.is_some(), "--via"),
        (args.server.server.is_some(), "--server"),
    ];
    options.into_iter().find(|(is_given, _)| *is_given).map(|(_, option)| option)
}

/// The prior of a new search. If a run is observed for it, the run is appended to the evidence as a
/// warm-up.
pub fn prior(
    terminal: &Terminal,
    args: &Args,
    setup: &Setup,
    interrupted: &AtomicBool,
    journal: &mut Journal,
    evidence: &mut Vec<Trial>,
) -> anyhow::Result<Prior> {
    let mut prior = Prior::default();
    // Of few plans all race at once, so that there is nothing to choose.
    if !is_selective(&setup.space.shape(), &setup.settings) {
        if let Some(option) = args.prior.given() {
            terminal.say(format_args!(
                "{option} is not used: there are so few plans that all of them run in every round"
            ));
        }
        return Ok(prior);
    }
    if args.prior.has_history() {
        let place = match args.measure.lab.as_deref() {
            Some(machine) => Place::Emulated(machine.to_owned()),
            None => Place::Here(setup.machine.topology_hash().to_string()),
        };
        let own = journal.path();
        prior.searches = history::searches(terminal, &args.prior.history, own, &place, setup)?;
        if !prior.searches.is_empty() {
            terminal.say(format_args!(
                "expects what {} found (--prior none: nothing)",
                plural_searches(prior.searches.len())
            ));
        }
    }
    if args.prior.has_advice() {
        prior.levels = advised(terminal, args, setup, interrupted, journal, evidence)?;
    }
    if !prior.is_empty() {
        journal.append_prior(&prior)?;
    }
    Ok(prior)
}

fn plural_searches(count: usize) -> String {
    match count {
        1 => "1 earlier search".to_owned(),
        _ => format!("{count} earlier searches"),
    }
}

/// What an observed run lets expect of levels.
fn advised(
    terminal: &Terminal,
    args: &Args,
    setup: &Setup,
    interrupted: &AtomicBool,
    journal: &mut Journal,
    evidence: &mut Vec<Trial>,
) -> anyhow::Result<Levels> {
    let levels = |path: &Path| anyhow::Ok(Advice::read(path)?.levels(&setup.space));
    if let Some(path) = &args.prior.advice {
        terminal.say(format_args!("expects what {} says", path.display()));
        return levels(path);
    }
    // To observe a run and read its samples takes longer than the run, which little time does not
    // allow.
    let is_free = setup.settings.warm_up > 0 && setup.settings.max_seconds.is_none();
    let is_wanted = is_free || args.prior.asks_for_a_run();
    if !is_wanted || elsewhere(args).is_some() {
        return Ok(Vec::new());
    }
    let Some((trial, path)) = advice::observe(setup, interrupted)? else {
        return Ok(Vec::new());
    };
    journal.append(&trial)?;
    evidence.push(trial);
    let Some(path) = path else {
        terminal.warn("the observed run gave no advice; nothing is expected by it");
        return Ok(Vec::new());
    };
    terminal.say(format_args!(
        "has observed 1 run as numapilot advise does, and expects what that says (--prior history: \
         nothing of it)"
    ));
    levels(&path)
}
