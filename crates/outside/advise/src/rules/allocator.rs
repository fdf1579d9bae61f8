//! The allocator.
//!
//! Source: systematic-numa-study, section 4.6: an allocator is worth exploring if several threads
//! often allocate at the same time. The bound is Amdahl's: what the program spends in malloc, and in
//! the kernel for its pages, is all that another allocator can save directly. What the layout of
//! blocks does to caches and TLB is not part of that time.

use numapilot_observe::Metric;
use numapilot_tune::space::{FactorName, Level};

use super::{counted, percent};
use crate::finding::{Bound, Factor, Finding, Verdict};
use crate::run::Run;
use crate::shares::AT_LEAST;

const FACTOR: Factor = Factor::Plan(FactorName::Allocator);
const SOURCE: &str = "systematic-numa-study 4.6: do several threads often allocate at once? Amdahl's \
                      law for the bound";

/// Allocators by the CPU time that the manual's tables of single tests give them as a geometric
/// mean, the least first (docs/src/bench-alloc.md).
const PREFERRED: [&str; 8] = [
    "numapilot",
    "snmalloc",
    "rpmalloc",
    "tcmalloc",
    "tcmalloc-minimal",
    "jemalloc",
    "mimalloc",
    "tbbmalloc",
];

/// The part of the time from which another allocator is tried first.
const WORTH_TRYING: f64 = 0.05;
/// The same if one thread allocates: the study names several. Allocators that scale gain little there,
/// and another layout of the blocks can lose more (SQLite takes 1.5 times as long with numapilot and
/// 1.4 times with tbbmalloc on an emulated Opteron, whose TLB just covers its pages with glibc).
const WORTH_TRYING_ALONE: f64 = 0.20;
/// CPU time that it costs to load an allocator, in seconds: 0.1 to 2.7 ms more for `true` with each of
/// five of them preloaded, on a virtual machine.
const LOADING_SECONDS: f64 = 0.003;

/// What a run says about the allocator.
pub fn advise(run: &Run) -> Finding {
    let levels = match run.levels(FactorName::Allocator) {
        Ok(levels) => levels,
        Err(reason) => return Finding::not_varied(FACTOR, reason, SOURCE),
    };
    if let Some(reason) = &run.fixed_malloc {
        return Finding::not_varied(FACTOR, reason.clone(), SOURCE);
    }
    let code = match &run.code {
        Ok(code) if code.samples > 0 => code,
        Ok(_) => return unknown("the program ended before a sample of its code was taken", levels),
        Err(reason) => return unknown(&format!("its code could not be sampled: {reason}"), levels),
    };
    let kernel = match run.kernel_share() {
        Ok(kernel) => kernel,
        Err(reason) => return unknown(&reason, levels),
    };
    let share = code.allocator_share();
    let most = share.most * (1.0 - kernel) + kernel;
    let bound = Bound::of(most, run.concurrency());
    let name = run.malloc.as_deref().unwrap_or("its malloc");
    let again = run.repeated_faults();
    let faults = match again {
        Some(again) => {
            format!("; {} of its page faults are for memory that it had before", percent(again))
        }
        None => String::new(),
    };
    let because = format!(
        "{} of {} of user time are in {name}, at most {} with 95 % confidence, by {} of {}; {} of \
         CPU time is spent in the kernel, of which page faults for malloc are a part{faults}",
        percent(share.value),
        counted(usize::try_from(code.samples).unwrap_or(usize::MAX), "sample"),
        percent(share.most),
        code.allocating_threads,
        counted(code.threads, "thread"),
        percent(kernel),
    );
    let verdict = if most >= AT_LEAST { Verdict::CanMatter } else { Verdict::CannotMatter };
    // Another allocator saves time in malloc, and faults on memory that was given back and taken
    // again. It does not save the first fault on a page.
    let saves = share.value * (1.0 - kernel) + kernel * again.unwrap_or(0.0);
    let outweighs_loading = run.cpu_seconds().is_ok_and(|cpu| saves * cpu > LOADING_SECONDS);
    let is_alone = code.allocating_threads < 2;
    let worth_trying = if is_alone { WORTH_TRYING_ALONE } else { WORTH_TRYING };
    let is_worth = share.least >= AT_LEAST && saves >= worth_trying && outweighs_loading;
    let first = (verdict == Verdict::CanMatter && is_worth).then(|| preferred(levels)).flatten();
    Finding::new(FACTOR, verdict, because, SOURCE)
        .at_most(bound)
        .but(
            "direct savings only: what another layout of its blocks changes (huge pages, locality, \
             false sharing), and waiting for malloc's locks, are not in the bound",
        )
        .with("allocator_share", Some(share.value))
        .with("allocator_share_most", Some(share.most))
        .with("kernel_share", Some(kernel))
        .with("threads", Some(code.threads as f64))
        .with("allocating_threads", Some(code.allocating_threads as f64))
        .with("repeated_fault_share", again)
        .with("minor_faults", run.figure(Metric::MinorFaults).ok())
        .expecting(levels, first)
}

fn unknown(reason: &str, levels: &[Level]) -> Finding {
    Finding::new(FACTOR, Verdict::Unknown, format!("time in malloc is unknown: {reason}"), SOURCE)
        .expecting(levels, None)
}

/// The level of the best allocator that is installed.
fn preferred(levels: &[Level]) -> Option<&Level> {
    PREFERRED.iter().find_map(|name| levels.iter().find(|level| level.name() == *name))
}

#[cfg(test)]
mod tests {
    use super::super::example::{Example, run};
    use super::*;
    use crate::run::CodeShares;

    fn code(allocator: u64, threads: usize) -> Result<CodeShares, String> {
        Ok(CodeShares {
            samples: 10_000,
            allocator,
            threads,
            allocating_threads: threads,
            ..CodeShares::default()
        })
    }

    #[test]
    fn little_time_in_malloc_bounds_the_gain() {
        let run =
            run(Example { user: 9.99, system: 0.01, code: code(20, 2), ..Example::default() });
        let finding = advise(&run);
        assert_eq!(finding.verdict, Verdict::CannotMatter);
        let bound = finding.bound.unwrap();
        assert!(bound.cpu_share > 0.003 && bound.cpu_share < 0.005, "{bound:?}");
        assert!(!bound.is_certain && finding.first.is_none());
        assert!(finding.because.contains("0.20 % of 10000 samples"), "{}", finding.because);
        assert!(finding.levels.iter().all(|level| level.ratio == 1.0 && level.deviation < 0.02));
    }

    #[test]
    fn a_malloc_that_cannot_be_replaced_is_not_varied() {
        let mut run = run(Example { code: code(3000, 4), ..Example::default() });
        run.fixed_malloc = Some("server: it is statically linked".to_owned());
        let finding = advise(&run);
        assert_eq!((finding.verdict, finding.first), (Verdict::NotVaried, None));
        assert_eq!(finding.because, "server: it is statically linked");
    }

    #[test]
    fn much_time_in_malloc_asks_for_the_best_that_is_installed() {
        let run = run(Example { code: code(3000, 4), ..Example::default() });
        let finding = advise(&run);
        assert_eq!(finding.verdict, Verdict::CanMatter);
        assert_eq!(finding.first.map(|level| level.name()).as_deref(), Some("jemalloc"));
        assert!(finding.levels[1].ratio < 0.9, "{:?}", finding.levels);
    }

    #[test]
    fn one_thread_must_allocate_much() {
        let first = |allocator, threads| {
            advise(&run(Example { code: code(allocator, threads), ..Example::default() })).first
        };
        assert!(first(1500, 2).is_some() && first(1500, 1).is_none());
        assert!(first(3000, 1).is_some());
    }

    #[test]
    fn code_that_is_not_known_counts_as_malloc_in_the_bound() {
        let shares = CodeShares { samples: 1000, unknown: 100, ..CodeShares::default() };
        let example = Example { user: 9.99, system: 0.01, code: Ok(shares), ..Example::default() };
        let finding = advise(&run(example));
        assert_eq!(finding.verdict, Verdict::CanMatter);
        assert_eq!(finding.first, None);
    }

    #[test]
    fn nothing_is_guessed() {
        let denied = run(Example { code: Err("not permitted".to_owned()), ..Example::default() });
        let finding = advise(&denied);
        assert_eq!((finding.verdict, finding.bound), (Verdict::Unknown, None));
        assert!(finding.because.contains("not permitted"));
        let none = run(Example { code: Ok(CodeShares::default()), ..Example::default() });
        assert_eq!(advise(&none).verdict, Verdict::Unknown);
    }
}
