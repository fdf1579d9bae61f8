//! The tables as Parquet files, and the checksum of the answer that two other engines give.

use std::path::{Path, PathBuf};
use std::process::Command;

use numapilot_engines::{Answer, Benchmark, Dataset, Digest};
use serde_json::Value;

use crate::{NUMAPILOT, err, target};

const SCALE: &str = "0.01";
/// A join of three tables, whose numbers are exact: no engine rounds them.
const QUERY: u32 = 3;
/// The tables that it joins.
pub const TABLES: [&str; 3] = ["customer", "orders", "lineitem"];

/// The data, the query and its checksum.
pub struct Tables {
    /// The directory with one file for each table.
    pub directory: PathBuf,
    /// The text of the query.
    pub sql: String,
    /// The checksum of the right answer.
    pub checksum: String,
}

impl Tables {
    /// Makes them, or says what is missing. DataFusion keeps its tables as Parquet files, compressed
    /// by zstd; what it answers must be what DuckDB answers.
    pub fn make() -> Result<Self, String> {
        let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("engines");
        let summaries = [bench("duckdb", &cache)?, bench("datafusion", &cache)?];
        let [duckdb, datafusion] = &summaries;
        let checksum = duckdb["checksum"].as_str().unwrap().to_owned();
        assert_eq!(datafusion["checksum"], checksum, "{summaries:?}");
        let dataset = Dataset::open(Benchmark::TpcH, SCALE.parse().unwrap()).unwrap();
        let engine = datafusion["engine"].as_str().unwrap().to_lowercase().replace(' ', "-");
        Ok(Self {
            directory: cache.join(dataset.name()).join(engine),
            sql: dataset.query(QUERY).unwrap().sql,
            checksum,
        })
    }
}

/// The summary of the query in one engine, which loads the tables if the cache lacks them.
fn bench(engine: &str, cache: &Path) -> Result<Value, String> {
    let query = QUERY.to_string();
    let output = Command::new(NUMAPILOT)
        .args(["bench", "w5", "--json", "--runs=1", "--scale-factor", SCALE])
        .args(["--engine", engine, "--queries", &query, "--cache"])
        .arg(cache)
        .env("PYTHONPATH", target().join("python"))
        .output()
        .unwrap();
    if err(&output).contains("is not installed") {
        return Err(format!("{engine} is not installed; scripts/setup test installs it"));
    }
    assert!(output.status.success(), "{}", err(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    Ok(serde_json::from_str(text.lines().last().unwrap()).unwrap())
}

/// The checksum of an answer, as `bench w5` prints it for this query alone.
pub fn checksum(rows: &Value) -> String {
    let answer = Answer { rows: serde_json::from_value(rows.clone()).unwrap() };
    Digest(answer.digest().0 ^ u64::from(QUERY)).to_string()
}
