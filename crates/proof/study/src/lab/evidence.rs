//! The results of a study's runs, and the lookup of numbers in them.

use std::collections::BTreeMap;

use serde_json::Value as Json;

use super::study::{Axis, Term, Value};

/// The known results, by name.
#[derive(Clone, Debug, Default)]
pub struct Evidence {
    /// The output of `lab run --json` for each run.
    pub counted: BTreeMap<String, Json>,
    /// The output of each program, if it is JSON.
    pub printed: BTreeMap<String, Json>,
    /// Timing models of machines.
    pub machines: BTreeMap<String, Json>,
}

impl Evidence {
    /// A value, or the reason why it is missing.
    ///
    /// # Errors
    /// The reason, as text for the user.
    pub fn value(&self, value: &Value) -> Result<f64, String> {
        match value {
            Value::Number(number) => Ok(*number),
            Value::Term(term) => self.term(term),
        }
    }

    /// A term, or the reason why it is missing.
    ///
    /// # Errors
    /// The reason, as text for the user.
    pub fn term(&self, term: &Term) -> Result<f64, String> {
        let number = if let Some(run) = &term.run {
            let region = term.region.as_deref().unwrap_or("all");
            number(self.region(run, region)?, &term.field)
        } else if let Some(run) = &term.output {
            let printed = self.printed.get(run);
            number(printed.ok_or(format!("run {run} printed no JSON"))?, &term.field)
        } else {
            let name = term.machine.as_deref().unwrap_or_default();
            let model = self.machines.get(name);
            number(model.ok_or(format!("machine {name} is not known"))?, &term.field)
        }?;
        let below = term.over.as_deref().map_or(Ok(1.0), |over| self.term(over))?;
        if below == 0.0 {
            return Err(format!("{} would be divided by 0", term.field));
        }
        Ok(number * term.times / below)
    }

    /// The coordinate of a point on an axis.
    pub(super) fn on(&self, axis: &Axis, run: &str, region: &str) -> Result<f64, String> {
        Ok(number(self.region(run, region)?, &axis.field)? * axis.times)
    }

    fn region(&self, run: &str, name: &str) -> Result<&Json, String> {
        let counted = self.counted.get(run).ok_or(format!("run {run} was not made"))?;
        let mut regions = counted["regions"].as_array().into_iter().flatten();
        let found = regions.find(|region| region["name"] == name);
        found.ok_or(format!("run {run} has no region {name}"))
    }
}

/// The number at a path.
fn number(json: &Json, path: &str) -> Result<f64, String> {
    let mut at = Some(json);
    for name in path.split('.') {
        at = at.and_then(|at| match (at, name.parse::<usize>()) {
            (Json::Array(items), Ok(index)) => items.get(index),
            _ => at.get(name),
        });
    }
    at.and_then(Json::as_f64).ok_or(format!("there is no number at {path}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_are_found_and_what_is_missing_is_named() {
        let mut evidence = Evidence::default();
        let regions = json!({"regions": [{"name": "all", "a": [[1, 8]], "zero": 0, "none": null}]});
        evidence.counted.insert("r".to_owned(), regions);
        evidence.printed.insert("r".to_owned(), json!({"interleave": {"1": 4}}));
        let term = |text: &str| toml::from_str::<Term>(text).unwrap();
        let value = |text: &str| evidence.term(&term(text));
        assert_eq!(value("run = 'r'\nfield = 'a.0.1'\ntimes = 2"), Ok(16.0));
        assert_eq!(value("output = 'r'\nfield = 'interleave.1'"), Ok(4.0));
        let over = "[over]\noutput = 'r'\nfield = 'interleave.1'";
        assert_eq!(value(&format!("run = 'r'\nfield = 'a.0.1'\n{over}")), Ok(2.0));
        let error = |text: &str| value(text).unwrap_err();
        assert_eq!(error("run = 'q'\nfield = 'a'"), "run q was not made");
        assert_eq!(error("run = 'r'\nregion = 'x'\nfield = 'a'"), "run r has no region x");
        assert_eq!(error("run = 'r'\nfield = 'none'"), "there is no number at none");
        let zero = "run = 'r'\nfield = 'a.0.1'\n[over]\nrun = 'r'\nfield = 'zero'";
        assert!(error(zero).contains("divided by 0"));
    }
}
