//! One run of a server inside a guest, for a search that runs on the host.
//!
//! ```text
//!  host   search --boots--> guest: tune __serve --profile ... -- server
//!           ^                  server, --ready, --load, as on hardware
//!           '-- output of the load, and a line that says how the run ended --'
//! ```

use numapilot_place::Plan;
use serde::{Deserialize, Serialize};

use super::{RunError, Runner, marked, new_mark, tail};
use crate::evidence::{Failure, Order, Phase, Remains};
use crate::shape::{Candidate, DEFAULT};

/// What the line begins with. It follows the output of the load.
const BEGINNING: &str = "numapilot: served: ";

/// Most bytes of the load's output that are passed on. The host keeps the last MiB of all output.
const MOST: usize = (1 << 20) - (64 << 10);

/// How a run of a server in a guest ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GuestServer {
    /// Why it failed, if it did.
    pub failure: Option<Failure>,
    /// Time of the load by the guest's clock, in seconds.
    pub seconds: f64,
    /// The end of the output that explains the failure.
    pub explanation: String,
    /// Whether the server has never been ready.
    pub never_started: bool,
    /// What it left, which was ended and removed.
    pub remains: Remains,
}

impl GuestServer {
    /// The line for the host.
    ///
    /// # Errors
    /// Never in practice: all fields have a form in JSON.
    pub fn line(&self) -> serde_json::Result<String> {
        Ok(format!("{BEGINNING}{}", serde_json::to_string(self)?))
    }

    /// Splits the output of a guest into that of the load and how the run ended; `None` if the
    /// guest has not come to its end.
    pub(super) fn split(output: &str) -> Option<(&str, Self)> {
        let start = match output.rfind(&format!("\n{BEGINNING}")) {
            Some(before) => before + 1,
            None => output.starts_with(BEGINNING).then_some(0)?,
        };
        let line = output[start + BEGINNING.len()..].lines().next()?;
        Some((&output[..start], serde_json::from_str(line).ok()?))
    }
}

impl Runner<'_> {
    /// Makes one run of the server under a plan. Returns what the load printed, and how it ended.
    ///
    /// # Errors
    /// [`RunError`] if the server cannot be started or stopped, `--ready` is of no use, or the user
    /// interrupts. A server that fails is not an error.
    pub fn serve(&mut self, plan: &Plan) -> Result<(String, GuestServer), RunError> {
        let mark = new_mark()?;
        let failed = |failure: Failure| GuestServer {
            failure: Some(failure),
            seconds: 0.0,
            explanation: String::new(),
            never_started: true,
            remains: Remains::default(),
        };
        let prepared = match self.prepared(&marked(plan, &mark)) {
            Ok(prepared) => prepared,
            Err(reason) => return Ok((String::new(), failed(Failure::NotApplied(reason)))),
        };
        let Some(service) = self.program.service.clone() else {
            let reason = "the command is no server".to_owned();
            return Ok((String::new(), failed(Failure::NotApplied(reason))));
        };
        // The search knows which plan is the default, and what its failure means.
        let order = Order { phase: Phase::Race, block: 0, candidate: Candidate(DEFAULT.0 + 1) };
        let ran = self.run_server(&prepared, &service, mark, None, order)?;
        let explanation = match &ran.failure {
            Some(_) => tail(&ran.explanation),
            None => String::new(),
        };
        let server = GuestServer {
            failure: ran.failure,
            seconds: ran.metric_seconds,
            explanation,
            never_started: ran.never_started,
            remains: ran.remains,
        };
        Ok((printable(&ran.text), server))
    }
}

/// The output of a load, as the host can take it with the line after it: what is not UTF-8 in one
/// byte each, and no more of the end than the host keeps.
fn printable(text: &str) -> String {
    let text = text.replace(char::REPLACEMENT_CHARACTER, "?");
    let Some(mut start) = text.len().checked_sub(MOST) else { return text };
    while !text.is_char_boundary(start) {
        start += 1;
    }
    // Whole lines, because a part of a number is another number.
    text[start..].split_once('\n').map_or(String::new(), |(_, lines)| lines.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(failure: Option<Failure>) -> GuestServer {
        GuestServer {
            failure,
            seconds: 0.25,
            explanation: "in use\nagain".to_owned(),
            never_started: false,
            remains: Remains { ended: vec!["python3 (7)".to_owned()], ..Remains::default() },
        }
    }

    #[test]
    fn the_line_ends_the_output_of_the_load() {
        for failure in [None, Some(Failure::Server("ended early: exit status 1".to_owned()))] {
            let server = server(failure);
            let line = server.line().unwrap();
            assert!(!line.contains('\n'), "{line}");
            let output = format!("rps 5\nrps 7\n{line}\n");
            assert_eq!(GuestServer::split(&output), Some(("rps 5\nrps 7\n", server.clone())));
            assert_eq!(GuestServer::split(&line), Some(("", server)));
        }
    }

    #[test]
    fn the_end_of_a_long_output_is_passed_on_in_whole_lines() {
        assert_eq!(printable("rps 5\n\u{fffd}\u{fffd}"), "rps 5\n??");
        let long = format!("rps 1234\n{}", "rps 5\n".repeat(MOST / 6));
        let passed = printable(&long);
        assert!(passed.len() <= MOST && passed.len() > MOST - 12, "{}", passed.len());
        assert!(passed.lines().all(|line| line == "rps 5"));
    }

    #[test]
    fn without_the_line_the_guest_has_not_come_to_its_end() {
        assert_eq!(GuestServer::split("rps 5\n"), None);
        assert_eq!(GuestServer::split(&format!("{BEGINNING}{{\"sec")), None);
    }
}
