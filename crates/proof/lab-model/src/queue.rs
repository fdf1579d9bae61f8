//! The waiting time for a resource that serves one line at a time: an M/D/1 queue (Kleinrock,
//! Queueing Systems I, 5.8).

/// The upper limit of the utilisation. Above it, the queue of an open system grows without bound,
/// and bandwidth is the limit.
const MAX_UTILISATION: f64 = 0.95;

/// The mean waiting time of a line: `s * u / (2 (1 - u))`, in the unit of `service`, the service
/// time of a line. `utilisation` is the used share of the bandwidth.
#[must_use]
pub fn wait(service: f64, utilisation: f64) -> f64 {
    let utilisation = utilisation.min(MAX_UTILISATION);
    service * utilisation / (2.0 * (1.0 - utilisation))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_grows_up_to_the_end_of_the_queue() {
        assert_eq!(wait(10.0, 0.0), 0.0);
        assert_eq!(wait(10.0, 0.5), 5.0);
        assert_eq!(wait(10.0, 0.95), wait(10.0, 3.0));
        assert!((wait(10.0, 3.0) - 95.0).abs() < 1e-9);
    }
}
