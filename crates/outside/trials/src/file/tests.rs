use std::panic::catch_unwind;

use numapilot_test_kit::damaged_bytes;
use numapilot_tune::evidence::Goal;
use proptest::prelude::*;

use super::*;
use crate::row::Source;

fn sample() -> Vec<Row> {
    let source = Source {
        host: "node \u{e4}".to_owned(),
        topology: Some("0123456789abcdef".to_owned()),
        version: "0.1.0".to_owned(),
        metric: "t\np=s".to_owned(),
        goal: Goal::Maximize,
        ..Source::default()
    };
    let good = Row {
        run: "r".to_owned(),
        time_ms: Some(1_764_000_000_123),
        source,
        plan: "default".to_owned(),
        phase: "race".to_owned(),
        round: 7,
        value: Some(0.1 + 0.2),
        seconds: 1.5,
        peak_rss_bytes: Some(i64::MAX),
        outcome: "ok".to_owned(),
    };
    let bad = Row {
        value: None,
        peak_rss_bytes: None,
        time_ms: None,
        outcome: "timeout".to_owned(),
        ..good.clone()
    };
    vec![good, bad]
}

#[test]
fn what_was_written_is_read_back() {
    for rows in [Vec::new(), sample()] {
        assert_eq!(super::rows(parquet(&rows).unwrap()).unwrap(), rows);
    }
}

#[test]
fn another_schema_is_named() {
    let schema = Arc::new(parse_message_type("message x { REQUIRED INT64 run; }").unwrap());
    let writer = SerializedFileWriter::new(Vec::new(), schema, Arc::default()).unwrap();
    let bytes = writer.into_inner().unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let error = read(file.path()).unwrap_err().to_string();
    assert!(error.contains("not one of numapilot's runs: it has no column 'time'"), "{error}");
    std::fs::write(file.path(), "run,host\n").unwrap();
    let error = read(file.path()).unwrap_err().to_string();
    assert!(error.contains("is no Parquet file, or is damaged or compressed"), "{error}");
    let error = read(Path::new("/nonexistent")).unwrap_err().to_string();
    assert!(error.starts_with("cannot read /nonexistent"), "{error}");
}

proptest! {
    #[test]
    fn a_damaged_file_is_an_error_or_has_rows(bytes in damaged_bytes(parquet(&sample()).unwrap())) {
        // The crate panics at some damage that only decoding shows.
        if let Ok(Ok(rows)) = catch_unwind(|| super::rows(bytes)) {
            prop_assert!(rows.len() as i64 <= MOST_ROWS);
        }
    }
}
