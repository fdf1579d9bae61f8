//! The schema of a file: one line for each column.

use numapilot_tune::evidence::Goal;

use crate::row::Row;

/// A column.
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// Whether a run may lack it.
    pub is_optional: bool,
    /// Its type, with the way from a row and back.
    pub values: Values,
}

/// The type of a column.
pub enum Values {
    /// Text in UTF-8.
    Text(fn(&Row) -> Option<&str>, fn(&mut Row, String) -> Result<(), String>),
    /// A whole number.
    Integer(fn(&Row) -> Option<i64>, fn(&mut Row, i64)),
    /// Milliseconds since 1970 (UTC).
    Time(fn(&Row) -> Option<i64>, fn(&mut Row, i64)),
    /// A number.
    Number(fn(&Row) -> Option<f64>, fn(&mut Row, f64)),
}

/// A column of text, of which every row has one.
macro_rules! text {
    ($name:literal, $($field:ident).+) => {
        Column {
            name: $name,
            is_optional: false,
            values: Values::Text(
                |row| Some(&row.$($field).+),
                |row, text| {
                    row.$($field).+ = text;
                    Ok(())
                },
            ),
        }
    };
}

/// A column of text that may be missing.
macro_rules! optional_text {
    ($name:literal, $($field:ident).+) => {
        Column {
            name: $name,
            is_optional: true,
            values: Values::Text(
                |row| row.$($field).+.as_deref(),
                |row, text| {
                    row.$($field).+ = Some(text);
                    Ok(())
                },
            ),
        }
    };
}

pub const COLUMNS: [Column; 18] = [
    text!("run", run),
    Column {
        name: "time",
        is_optional: true,
        values: Values::Time(|row| row.time_ms, |row, ms| row.time_ms = Some(ms)),
    },
    text!("host", source.host),
    optional_text!("topology", source.topology),
    optional_text!("emulated", source.emulated),
    optional_text!("processor", source.processor),
    optional_text!("kernel", source.kernel),
    text!("version", source.version),
    text!("command", source.command),
    text!("metric", source.metric),
    Column {
        name: "goal",
        is_optional: false,
        values: Values::Text(
            |row| {
                Some(match row.source.goal {
                    Goal::Minimize => MINIMIZE,
                    Goal::Maximize => MAXIMIZE,
                })
            },
            |row, text| {
                row.source.goal = match text.as_str() {
                    MINIMIZE => Goal::Minimize,
                    MAXIMIZE => Goal::Maximize,
                    other => return Err(format!("'{other}' is neither {MINIMIZE} nor {MAXIMIZE}")),
                };
                Ok(())
            },
        ),
    },
    text!("plan", plan),
    text!("phase", phase),
    Column {
        name: "round",
        is_optional: false,
        values: Values::Integer(|row| Some(row.round), |row, round| row.round = round),
    },
    Column {
        name: "value",
        is_optional: true,
        values: Values::Number(|row| row.value, |row, value| row.value = Some(value)),
    },
    Column {
        name: "seconds",
        is_optional: false,
        values: Values::Number(|row| Some(row.seconds), |row, seconds| row.seconds = seconds),
    },
    Column {
        name: "peak_rss_bytes",
        is_optional: true,
        values: Values::Integer(
            |row| row.peak_rss_bytes,
            |row, bytes| row.peak_rss_bytes = Some(bytes),
        ),
    },
    text!("outcome", outcome),
];

const MINIMIZE: &str = "minimize";
const MAXIMIZE: &str = "maximize";

/// The schema in Parquet's own words.
pub fn message() -> String {
    let mut text = "message trials {\n".to_owned();
    for Column { name, is_optional, values } in &COLUMNS {
        let need = if *is_optional { "OPTIONAL" } else { "REQUIRED" };
        let column = match values {
            Values::Text(..) => format!("BYTE_ARRAY {name} (STRING)"),
            Values::Integer(..) => format!("INT64 {name}"),
            Values::Time(..) => format!("INT64 {name} (TIMESTAMP(MILLIS,true))"),
            Values::Number(..) => format!("DOUBLE {name}"),
        };
        text += &format!("  {need} {column};\n");
    }
    text + "}\n"
}
