//! Transparent huge pages.
//!
//! Source: Documentation/admin-guide/mm/transhuge.rst: huge pages save page faults and TLB misses.
//! systematic-numa-study, section 4.6: they gave no benefit where accesses are random, and some
//! allocators lose by them. numalloc, section 4.4.3: 2.6 % on average with its own allocator.
//! T. W. Barr, A. L. Cox, S. Rixner, "Translation Caching: Skip, Don't Walk (the Page Table)", ISCA
//! 2010: most page walks skip the upper levels.

use numapilot_observe::Metric;
use numapilot_place::Thp;
use numapilot_tune::space::{FactorName, Level};

use super::percent;
use crate::finding::{Bound, Factor, Finding, Verdict};
use crate::run::Run;
use crate::shares::AT_LEAST;

const FACTOR: Factor = Factor::Plan(FactorName::Thp);
const SOURCE: &str = "transhuge.rst; systematic-numa-study 4.6; numalloc 4.4.3";

/// Cycles of a page walk whose entries all come from the last cache: four levels, 50 cycles each.
/// An assumption for a bound; a walk that misses that cache takes longer.
const WALK_CYCLES: f64 = 200.0;
/// Cycles that are expected of a page walk: its last level alone, from the last cache.
const USUAL_WALK_CYCLES: f64 = WALK_CYCLES / 4.0;
/// Memory that a second-level TLB of 1024 entries covers with pages of 4 KiB.
const COVERED_BYTES: f64 = 4096.0 * 1024.0;

/// Memory that a TLB of 1024 entries covers with huge pages.
const HUGE_COVERED_BYTES: f64 = 512.0 * COVERED_BYTES;

/// Share of CPU time that is at stake, from which another setting is tried first.
const WORTH_TRYING: f64 = 0.05;

/// What a run says about huge pages.
pub fn advise(run: &Run) -> Finding {
    let levels = match run.levels(FactorName::Thp) {
        Ok(levels) => levels,
        Err(reason) => return Finding::not_varied(FACTOR, reason, SOURCE),
    };
    let kernel = run.kernel_share();
    let walks = run
        .figure(Metric::DtlbMisses)
        .and_then(|misses| Ok(misses * WALK_CYCLES / run.figure(Metric::Cycles)?.max(1.0)));
    let rss = run.figure(Metric::PeakRssBytes);
    let setting = run.facts.thp.as_deref().unwrap_or("unknown");
    let faults = match &kernel {
        Ok(kernel) => format!("{} of CPU time is spent in the kernel", percent(*kernel)),
        Err(reason) => format!("time in the kernel is unknown: {reason}"),
    };
    let (verdict, bound, tlb) = match (&kernel, &walks, &rss) {
        (Ok(kernel), Ok(walks), _) => {
            let share = (kernel + walks).min(1.0);
            let verdict =
                if share >= AT_LEAST { Verdict::CanMatter } else { Verdict::CannotMatter };
            let text = format!("TLB misses cost at most about {}", percent(walks.min(1.0)));
            (verdict, Some(Bound::of(share, run.concurrency())), text)
        }
        (Ok(kernel), Err(_), Ok(rss)) if *rss < COVERED_BYTES && *kernel < AT_LEAST => {
            let text = "its memory is smaller than what a TLB covers".to_owned();
            (Verdict::CannotMatter, None, text)
        }
        (Ok(kernel), Err(reason), _) if *kernel >= AT_LEAST => {
            let text = format!("TLB misses were not counted: {reason}");
            (Verdict::CanMatter, None, text)
        }
        (_, Err(reason), _) => {
            (Verdict::Unknown, None, format!("TLB misses were not counted: {reason}"))
        }
        (Err(_), Ok(walks), _) => {
            (Verdict::Unknown, None, format!("TLB misses cost at most about {}", percent(*walks)))
        }
    };
    let because = format!("huge pages are set to {setting} here; {faults}; {tlb}");
    // Huge pages save page faults and page walks. On a processor whose TLB has few entries for them,
    // they cost page walks: most misses of a program are then on huge pages, although a TLB of the
    // usual size would cover all of its memory. Their clearing costs no more time in the kernel than
    // that of small pages, unless the program leaves most of it unused.
    let on_huge = run.figure(Metric::HugeDtlbMisses);
    let misses = run.figure(Metric::DtlbMisses);
    let has_few_entries = match (&on_huge, &misses, &walks, &rss) {
        (Ok(on_huge), Ok(misses), Ok(walks), Ok(rss)) => {
            let usual = walks * USUAL_WALK_CYCLES / WALK_CYCLES * on_huge / misses.max(1.0);
            usual >= WORTH_TRYING && *on_huge > misses / 2.0 && *rss < HUGE_COVERED_BYTES
        }
        _ => false,
    };
    let first = match setting {
        "always" => {
            let never = levels.iter().find(|level| **level == Level::Thp(Thp::Never));
            never.filter(|_| has_few_entries)
        }
        _ => {
            let saves = kernel.as_ref().unwrap_or(&0.0) + walks.as_ref().unwrap_or(&0.0);
            let always = levels.iter().find(|level| **level == Level::Thp(Thp::Always));
            always.filter(|_| saves >= WORTH_TRYING)
        }
    };
    let first = first.filter(|_| verdict == Verdict::CanMatter);
    Finding { bound, ..Finding::new(FACTOR, verdict, because, SOURCE) }
        .but(
            "time in the kernel is not all for page faults; page walks are counted with 200 cycles \
             each; what huge pages do to the placement of memory is not in these figures",
        )
        .with("kernel_share", kernel.ok())
        .with("minor_faults", run.figure(Metric::MinorFaults).ok())
        .with("dtlb_misses", misses.ok())
        .with("huge_dtlb_misses", on_huge.ok())
        .with("page_walk_share", walks.ok())
        .with("peak_rss_bytes", rss.ok())
        .expecting(levels, first)
}

#[cfg(test)]
mod tests {
    use super::super::example::{Example, run};
    use super::*;

    #[test]
    fn faults_ask_for_huge_pages_where_they_are_not_set() {
        let finding = advise(&run(Example { user: 8.0, system: 2.0, ..Example::default() }));
        assert_eq!(finding.verdict, Verdict::CanMatter);
        assert_eq!(finding.first, Some(Level::Thp(Thp::Always)));
        // The TLB's part is not known, so there is no bound.
        assert_eq!(finding.bound, None);
        assert!(finding.because.contains("20.0 % of CPU time"), "{}", finding.because);
    }

    #[test]
    fn counted_misses_bound_the_gain() {
        let tlb = |dtlb| Example {
            user: 10.0,
            system: 0.01,
            cycles: Some(1e10),
            dtlb: Some(dtlb),
            ..Example::default()
        };
        let finding = advise(&run(tlb(1e5)));
        assert_eq!((finding.verdict, finding.first), (Verdict::CannotMatter, None));
        assert!(finding.bound.unwrap().cpu_share < 0.004);
        assert_eq!(advise(&run(tlb(1e7))).verdict, Verdict::CanMatter);
    }

    #[test]
    fn where_they_are_set_time_in_the_kernel_is_no_reason_against_them() {
        let mut run = run(Example {
            user: 8.0,
            system: 2.0,
            cycles: Some(1e10),
            dtlb: Some(1e6),
            ..Example::default()
        });
        run.facts.thp = Some("always".to_owned());
        let finding = advise(&run);
        assert_eq!((finding.verdict, finding.first), (Verdict::CanMatter, None));
    }

    #[test]
    fn where_they_are_set_they_go_if_the_tlb_has_few_entries_for_them() {
        let set = |huge: f64, rss: f64| {
            let dtlb = Some(4e7);
            let example = Example {
                user: 10.0,
                system: 0.01,
                cycles: Some(1e10),
                dtlb,
                rss,
                ..Example::default()
            };
            let mut run = run(example);
            run.facts.thp = Some("always".to_owned());
            run.figures.insert(Metric::HugeDtlbMisses, Ok(huge));
            advise(&run).first
        };
        // 10.5 % of the time in page walks of 50 cycles on huge pages.
        assert_eq!(set(2.1e7, 1e9), Some(Level::Thp(Thp::Never)));
        // Most misses are on small pages, or the memory is larger than a TLB covers.
        assert_eq!(set(1.9e7, 1e9), None);
        assert_eq!(set(2.1e7, 3e9), None);
    }

    #[test]
    fn a_small_program_has_no_use_for_them() {
        let small = Example { user: 10.0, system: 0.01, rss: 1e6, ..Example::default() };
        assert_eq!(advise(&run(small)).verdict, Verdict::CannotMatter);
        let short = Example { user: 0.0, system: 0.003, rss: 1e6, ..Example::default() };
        let finding = advise(&run(short));
        assert_eq!((finding.verdict, finding.first), (Verdict::Unknown, None));
        assert!(finding.because.contains("3.0 ms of CPU time"), "{}", finding.because);
        let large = Example { user: 10.0, system: 0.01, rss: 1e9, ..Example::default() };
        assert_eq!(advise(&run(large)).verdict, Verdict::Unknown);
    }
}
