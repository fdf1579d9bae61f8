//! The number of cores while the program runs.
//!
//! Source: prt-pro, section 4: cores are taken away below 10 % load and given above 70 %. On several
//! nodes, fewer cores keep threads near their data.

use numapilot_observe::Metric;

use super::percent;
use crate::finding::{Factor, Finding, Verdict};
use crate::run::Run;

const FACTOR: Factor = Factor::Cores;
const SOURCE: &str = "prt-pro: fewer cores below 10 % load, more above 70 %";

/// Load of a core above which more cores are given (prt-pro).
const MOST_LOAD: f64 = 0.70;

/// What a run says about the number of cores.
pub fn advise(run: &Run) -> Finding {
    if run.facts.cpu_nodes < 2 {
        let because = "the CPUs that the program may use are all on one node: fewer of them are no \
                       nearer to its data";
        return Finding::new(FACTOR, Verdict::CannotMatter, because, SOURCE)
            .but("fewer cores can save energy, or leave more to other programs");
    }
    let threads = run.code.as_ref().map_or(0, |code| code.threads);
    let busy = match run.figure(Metric::CpusUtilized) {
        Ok(busy) => busy,
        Err(reason) => return Finding::new(FACTOR, Verdict::Unknown, reason, SOURCE),
    };
    let load = busy / run.cpus.max(1) as f64;
    let because = format!("{busy:.1} of {} CPUs were busy, {}", run.cpus, percent(load));
    let finding = |verdict, because: String| Finding::new(FACTOR, verdict, because, SOURCE);
    let finding = if threads == 1 {
        finding(Verdict::CannotMatter, format!("{because}; one thread used CPU time"))
    } else if load > MOST_LOAD {
        finding(Verdict::CannotMatter, format!("{because}; it can use them all"))
    } else {
        let because = format!("{because}; numapilot cores would take away what is idle");
        finding(Verdict::CanMatter, because)
            .but("how much it helps depends on the load over time, which one mean does not show")
    };
    finding.with("cpus_utilized", Some(busy)).with("load", Some(load))
}

#[cfg(test)]
mod tests {
    use super::super::example::{Example, run};
    use super::*;

    #[test]
    fn load_decides_on_several_nodes() {
        let of_busy = |busy| advise(&run(Example { busy, ..Example::default() })).verdict;
        assert_eq!(of_busy(1.0), Verdict::CanMatter);
        assert_eq!(of_busy(3.9), Verdict::CannotMatter);
        let one_node = advise(&run(Example { nodes: 1, ..Example::default() }));
        assert_eq!(one_node.verdict, Verdict::CannotMatter);
    }
}
