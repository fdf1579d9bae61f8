//! Finds JSON in a program's output, and numbers in JSON.

use serde_json::{Deserializer, Value};

use super::definition::{Kind, Metric};

/// Splits the output into the JSON objects and lists that start a line, and the other lines.
pub(super) fn split_json(text: &str) -> (Vec<Value>, Vec<&str>) {
    let mut found = Vec::new();
    let mut others = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let end = rest.find('\n').map_or(rest.len(), |at| at + 1);
        let mut skipped = end;
        let mut values = Deserializer::from_str(rest).into_iter::<Value>();
        match rest.starts_with(['{', '[']).then(|| values.next()).flatten() {
            Some(Ok(value)) => {
                found.push(value);
                skipped = values.byte_offset();
            }
            _ => others.push(rest[..end].trim()),
        }
        rest = &rest[skipped..];
    }
    others.retain(|line| !line.is_empty());
    (found, others)
}

/// The value at a path of names and positions, separated by dots. In a list, a name selects the
/// element whose `name` (or `test`, `allocator` and so on) equals it, or starts with it if the name
/// ends with a star.
#[must_use]
pub(crate) fn at<'a>(json: &'a Value, path: &str) -> Option<&'a Value> {
    path.split('.').try_fold(json, |at, name| match at {
        Value::Array(items) => match name.parse::<usize>() {
            Ok(index) => items.get(index),
            Err(_) => items.iter().find(|item| is_called(item, name)),
        },
        _ => at.get(name),
    })
}

/// Fields that identify the elements of numapilot's lists.
const NAMES: [&str; 5] = ["name", "test", "allocator", "workload", "activity"];

fn is_called(item: &Value, name: &str) -> bool {
    let is = |called: &str| match name.strip_suffix('*') {
        Some(beginning) => called.starts_with(beginning),
        None => called == name,
    };
    NAMES.iter().any(|field| item.get(field).and_then(Value::as_str).is_some_and(is))
}

/// Reads a metric from the last value that has it.
///
/// # Errors
/// The reason, for the user, when the metric is missing.
pub(super) fn read_metric(metric: &Metric, printed: &[Value]) -> Result<Value, String> {
    let found = printed.iter().rev().find_map(|json| at(json, &metric.field));
    let found = found.filter(|value| !value.is_null());
    let found = found.ok_or(format!("nothing printed has {}", metric.field))?;
    match (metric.kind, &metric.points) {
        (Kind::Number, _) if found.is_number() => Ok(found.clone()),
        (Kind::Matrix, _) if found.is_array() => Ok(found.clone()),
        (Kind::Traffic, _) if found.is_object() => Ok(found.clone()),
        (Kind::Points, Some([x, y])) => {
            let point = |(index, item): (usize, &Value)| {
                let x = if x.is_empty() { Value::from(index) } else { at(item, x)?.clone() };
                Some(Value::from(vec![x, at(item, y)?.clone()]))
            };
            let items = found.as_array().into_iter().flatten().enumerate();
            let points: Vec<Value> = items.filter_map(point).collect();
            if points.is_empty() {
                Err(format!("{} has no points", metric.field))
            } else {
                Ok(points.into())
            }
        }
        _ => Err(format!("{} is not of kind {:?}", metric.field, metric.kind).to_lowercase()),
    }
}

#[cfg(test)]
mod tests {
    use numapilot_test_kit::damaged;
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn json_is_found_among_other_lines() {
        let text = "starting\n{\n  \"a\": 1\n}\nwarning {\n{\"b\": [\n2]}\n{ broken\n[3]";
        let (values, others) = split_json(text);
        assert_eq!(values, [json!({"a": 1}), json!({"b": [2]}), json!([3])]);
        assert_eq!(others, ["starting", "warning {", "{ broken"]);
    }

    #[test]
    fn elements_of_lists_have_names() {
        let json = json!({"regions": [{"name": "all", "v": 1}, {"name": "work", "v": [[5]]}]});
        assert_eq!(at(&json, "regions.work.v.0.0"), Some(&json!(5)));
        assert_eq!(at(&json, "regions.0.v"), Some(&json!(1)));
        assert_eq!(at(&json, "regions.w*.v.0.0"), Some(&json!(5)));
        assert_eq!(at(&json, "regions.none.v"), None);
    }

    #[test]
    fn what_is_missing_or_of_another_kind_is_reported() {
        let number = |field: &str| Metric {
            field: field.to_owned(),
            unit: String::new(),
            kind: Kind::Number,
            points: None,
        };
        let printed = [json!({"a": 1, "n": null}), json!({"a": 2, "m": [{"x": 1, "y": 2}]})];
        assert_eq!(read_metric(&number("a"), &printed), Ok(json!(2)));
        assert_eq!(read_metric(&number("n"), &printed).unwrap_err(), "nothing printed has n");
        assert_eq!(read_metric(&number("m"), &printed).unwrap_err(), "m is not of kind number");
        let points = ["x", "y"].map(str::to_owned);
        let points = Metric { kind: Kind::Points, points: Some(points), ..number("m") };
        assert_eq!(read_metric(&points, &printed), Ok(json!([[1, 2]])));
        let counted = Metric { points: Some(["", "y"].map(str::to_owned)), ..points };
        assert_eq!(read_metric(&counted, &printed), Ok(json!([[0, 2]])));
    }

    proptest! {
        #[test]
        fn damaged_output_is_read(text in damaged(
            "w1: 10 records\n{\"seconds\": 1.5, \"phases\": [{\"name\": \"load\"}]}\n{\n  \"nodes\": [1, 2]\n}\n",
        )) {
            split_json(&text);
        }
    }
}
