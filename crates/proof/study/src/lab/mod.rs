//! Studies of the lab: programs run on emulated machines, and their figures are compared with a
//! paper's or with the machine's description.
//!
//! ```text
//!  studies/lab.toml --Study--> runs (numapilot lab run --json) --Evidence--> Study::judge
//!                                  guest: any program, or a Probe            -> verdicts
//! ```

mod errors;
mod evidence;
mod judge;
mod probe;
mod study;

pub use errors::Errors;
pub use evidence::Evidence;
pub use judge::{CurveResult, FigureResult, Judged};
pub use probe::{Marks, Placement, Probe, ProbeError};
pub use study::{Curve, Figure, Measured, Reading, Run, Study, StudyError, Term, Value};
