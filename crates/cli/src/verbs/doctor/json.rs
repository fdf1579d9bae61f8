//! The JSON form of all checks.

use serde::Serialize;

use super::check::{Check, State};
use super::report::Report;

/// The fields are documented in docs/src/json.md.
impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Row<'a> {
            group: &'static str,
            #[serde(flatten)]
            check: &'a Check,
        }
        #[derive(Serialize)]
        struct Whole<'a> {
            version: &'static str,
            works: usize,
            limited: usize,
            missing: usize,
            checks: Vec<Row<'a>>,
        }
        Whole {
            version: env!("CARGO_PKG_VERSION"),
            works: self.count(State::Works),
            limited: self.count(State::Limited),
            missing: self.count(State::Missing),
            checks: self
                .groups
                .iter()
                .flat_map(|group| group.checks.iter().map(|check| Row { group: group.key, check }))
                .collect(),
        }
        .serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::sample;

    #[test]
    fn json_is_flat() {
        let text = serde_json::to_string_pretty(&sample()).unwrap();
        insta::assert_snapshot!(text.replace(env!("CARGO_PKG_VERSION"), "X.Y.Z"), @r#"
        {
          "version": "X.Y.Z",
          "works": 1,
          "limited": 1,
          "missing": 1,
          "checks": [
            {
              "group": "a",
              "name": "short",
              "state": "works",
              "found": "yes",
              "cause": null,
              "remedy": null,
              "essential": false
            },
            {
              "group": "a",
              "name": "a longer name",
              "state": "limited",
              "found": "in part",
              "cause": "a cause that is longer than one line of this narrow table can hold",
              "remedy": "a remedy",
              "essential": false
            },
            {
              "group": "b",
              "name": "gone",
              "state": "missing",
              "found": "no",
              "cause": "why",
              "remedy": "how",
              "essential": true
            }
          ]
        }
        "#);
    }
}
