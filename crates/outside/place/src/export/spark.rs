//! Options of spark-submit for the executors.
//!
//! Source: Spark's documentation, "Configuration": `spark.executorEnv.NAME` sets a variable of the
//! executors. There is no property for CPUs, memory policy or huge pages; an executor inherits them
//! from the worker or node manager that starts it.

use super::setting::Inside;
use super::{Answer, Format};
use crate::shell::quoted;

/// The options of spark-submit.
#[derive(Default)]
pub(super) struct Spark {
    options: Vec<String>,
}

impl Format for Spark {
    fn program(&self) -> Option<&'static str> {
        None
    }

    fn add(&mut self, inside: &Inside) -> Answer {
        let (name, value) = match inside {
            Inside::Variable(name, value) if super::is_identifier(name) => (name, value),
            Inside::Variable(..) => return Answer::Cannot(super::NO_IDENTIFIER.to_owned()),
            _ => return Answer::Cannot("spark has no property for it".into()),
        };
        let word = quoted(&format!("spark.executorEnv.{name}={value}"));
        self.options.push(format!("--conf {word}"));
        Answer::Written
    }

    fn instead(&self) -> &'static str {
        "executors inherit it from the worker or node manager that starts them: {run} WORKER"
    }

    fn finish(&self, comments: &str) -> String {
        let options: String =
            self.options.iter().map(|option| format!(" \\\n  {option}")).collect();
        format!(
            "{comments}# For the executors; libraries must be on their machines, under the same \
             path.\nspark-submit{options} \\\n  APPLICATION\n"
        )
    }
}
