//! Threads that work at their own pace and share controllers and links.
//!
//! The next piece of a thread's work is a flow: the time that it needs of each controller and link,
//! and the time that it takes when it has all of them to itself. At every moment all flows receive
//! lines at the same rate, up to what a controller, a link or the thread itself can do (max-min
//! fairness: Bertsekas and Gallager, Data Networks, 6.5.2). A thread that completes a flow
//! continues with its next one. Threads that began in step therefore drift apart, or begin to
//! disturb each other.

/// A piece of a thread's work.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// By position of the controller or link: the seconds of it that the flow takes.
    pub uses: Vec<(usize, f64)>,
    /// Its lines from memory.
    pub lines: f64,
    /// The time that it takes when nothing else uses the machine.
    pub alone_seconds: f64,
}

impl Flow {
    /// The flow, repeated `factor` times.
    #[must_use]
    pub fn times(mut self, factor: f64) -> Self {
        self.uses.iter_mut().for_each(|(_, seconds)| *seconds *= factor);
        Self { lines: self.lines * factor, alone_seconds: self.alone_seconds * factor, ..self }
    }
}

/// The end of all threads.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct End {
    /// The time at which the last thread ends.
    pub seconds: f64,
    /// The last thread.
    pub thread: usize,
    /// The controller or link that delayed this thread more than the thread itself and all others.
    pub held_by: Option<usize>,
}

/// A thread in the middle of a flow.
struct Runner<'a> {
    thread: usize,
    flows: &'a [Flow],
    /// The share of the first flow that is left.
    left: f64,
    /// Seconds of delay by each controller and link; those of the thread itself come last.
    held_seconds: Vec<f64>,
}

/// The time at which all threads have completed their flows, one after the other. The flows of
/// `beside` continue forever, each at most at the pace that it has alone. Controllers and links
/// have numbers below `shared`.
#[must_use]
pub fn end(threads: &[Vec<Flow>], beside: &[Flow], shared: usize) -> Option<End> {
    let runner =
        |(thread, flows)| Runner { thread, flows, left: 1.0, held_seconds: vec![0.0; shared + 1] };
    let mut runners: Vec<Runner<'_>> =
        threads.iter().map(Vec::as_slice).enumerate().map(runner).collect();
    let mut now = 0.0;
    let mut last = None;
    loop {
        for runner in runners.iter_mut().filter(|runner| runner.flows.is_empty()) {
            last = Some(ended(runner, now));
        }
        runners.retain(|runner| !runner.flows.is_empty());
        if runners.is_empty() {
            return last;
        }
        let flows: Vec<&Flow> = runners.iter().map(|r| &r.flows[0]).chain(beside).collect();
        let paces = paces(&flows, shared);
        let ends = runners.iter().zip(&paces).map(|(runner, pace)| runner.left / pace.per_second);
        let step = ends.fold(f64::INFINITY, f64::min);
        now += step;
        for (runner, pace) in runners.iter_mut().zip(&paces) {
            runner.held_seconds[pace.held_by.unwrap_or(shared)] += step;
            runner.left -= pace.per_second * step;
            if runner.left <= DONE {
                runner.flows = &runner.flows[1..];
                runner.left = 1.0;
            }
        }
    }
}

/// A flow with a smaller share left is complete; the rest is a rounding error.
const DONE: f64 = 1e-9;

fn ended(runner: &Runner<'_>, seconds: f64) -> End {
    let longest = runner.held_seconds.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1));
    let itself = runner.held_seconds.len() - 1;
    let held_by = longest.map(|(at, _)| at).filter(|at| *at < itself);
    End { seconds, thread: runner.thread, held_by }
}

/// The pace of a flow.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pace {
    /// How many times per second the whole flow would complete.
    per_second: f64,
    /// What prevents a faster pace, unless it is the flow itself.
    held_by: Option<usize>,
}

/// Raises the rate of all flows together until a resource is full; the flows that use it then keep
/// their rate.
fn paces(flows: &[&Flow], shared: usize) -> Vec<Pace> {
    // A flow without lines keeps its own pace, and so does one that takes no time.
    let own = |flow: &&Flow| Pace {
        per_second: 1.0 / flow.alone_seconds.max(f64::MIN_POSITIVE),
        held_by: None,
    };
    let mut paces: Vec<Pace> = flows.iter().map(own).collect();
    let most = |at: usize| flows[at].lines * paces[at].per_second;
    let limits: Vec<f64> = (0..flows.len()).map(most).collect();
    let mut growing: Vec<usize> = (0..flows.len()).filter(|at| flows[*at].lines > 0.0).collect();
    let mut free = vec![1.0; shared];
    let mut rate = 0.0;
    while !growing.is_empty() {
        let mut per_line = vec![0.0; shared];
        for &at in &growing {
            let flow = flows[at];
            flow.uses.iter().for_each(|(on, seconds)| per_line[*on] += seconds / flow.lines);
        }
        let used = || (0..shared).filter(|on| per_line[*on] > 0.0);
        let room = used().map(|on| free[on] / per_line[on]).fold(f64::INFINITY, f64::min);
        let own = growing.iter().map(|at| limits[*at] - rate).fold(f64::INFINITY, f64::min);
        let by = room.min(own).max(0.0);
        rate += by;
        used().for_each(|on| free[on] -= by * per_line[on]);
        let full = |on: usize| free[on] <= FULL;
        growing.retain(|&at| {
            let held_by = flows[at].uses.iter().map(|(on, _)| *on).find(|on| full(*on));
            if rate >= limits[at] * (1.0 - FULL) {
                return false;
            }
            if held_by.is_some() {
                paces[at] = Pace { per_second: rate / flows[at].lines, held_by };
            }
            held_by.is_none()
        });
    }
    paces
}

/// The capacity left of a full controller or link, which is a rounding error.
const FULL: f64 = 1e-9;

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(uses: &[(usize, f64)], lines: f64, alone_seconds: f64) -> Flow {
        Flow { uses: uses.to_vec(), lines, alone_seconds }
    }

    fn seconds(threads: &[Vec<Flow>], beside: &[Flow]) -> f64 {
        end(threads, beside, 2).unwrap().seconds
    }

    #[test]
    fn who_shares_nothing_takes_its_own_time() {
        let one = flow(&[(0, 1.0)], 10.0, 2.0);
        assert_eq!(
            end(&[vec![one.clone()]], &[], 2),
            Some(End { seconds: 2.0, thread: 0, held_by: None })
        );
        assert_eq!(seconds(&[vec![one.clone(), one]], &[]), 4.0);
        assert_eq!(end(&[], &[], 2), None);
        assert_eq!(seconds(&[vec![]], &[]), 0.0);
    }

    #[test]
    fn what_is_full_is_shared() {
        let one = vec![flow(&[(0, 1.0)], 10.0, 1.0)];
        let end = end(&[one.clone(), one.clone(), one], &[], 2).unwrap();
        assert!((end.seconds - 3.0).abs() < 1e-6, "{end:?}");
        assert_eq!(end.held_by, Some(0));
    }

    #[test]
    fn a_short_flow_leaves_its_share_to_the_long_one() {
        // Half a second each for ten lines; then the long flow has the whole resource.
        let short = vec![flow(&[(0, 0.5)], 10.0, 0.5)];
        let long = vec![flow(&[(0, 1.5)], 30.0, 1.5)];
        assert!((seconds(&[short, long], &[]) - 2.0).abs() < 1e-6);
    }

    #[test]
    fn a_slow_one_leaves_the_rest() {
        // It takes a quarter of the resource; the other flow takes three quarters.
        let slow = vec![flow(&[(0, 1.0)], 10.0, 4.0)];
        let fast = vec![flow(&[(0, 1.0)], 10.0, 1.0)];
        let end = end(&[slow, fast], &[], 2).unwrap();
        assert!((end.seconds - 4.0).abs() < 1e-6 && end.thread == 0 && end.held_by.is_none());
    }

    #[test]
    fn threads_that_follow_each_other_stay_out_of_the_way() {
        let (here, there) = (flow(&[(0, 1.0)], 10.0, 1.0), flow(&[(1, 1.0)], 10.0, 1.0));
        let opposite = [vec![here.clone(), there.clone()], vec![there.clone(), here.clone()]];
        assert!((seconds(&opposite, &[]) - 2.0).abs() < 1e-6);
        let in_step = [vec![here.clone(), there.clone()], vec![here, there]];
        assert!((seconds(&in_step, &[]) - 4.0).abs() < 1e-6);
    }

    #[test]
    fn a_neighbour_takes_what_it_asks_for_or_its_share() {
        let beside = |share: f64| flow(&[(0, share)], share * 10.0, 1.0);
        let one = [vec![flow(&[(0, 1.0)], 10.0, 1.0)]];
        assert!((seconds(&one, &[beside(0.25)]) - 4.0 / 3.0).abs() < 1e-6);
        assert!((seconds(&one, &[beside(0.75)]) - 2.0).abs() < 1e-6);
    }

    #[test]
    fn what_needs_no_memory_is_not_held_back() {
        let busy = vec![flow(&[(0, 8.0)], 10.0, 1.0)];
        let cached = vec![flow(&[], 0.0, 3.0)];
        assert!((seconds(&[busy, cached], &[]) - 8.0).abs() < 1e-6);
    }
}
