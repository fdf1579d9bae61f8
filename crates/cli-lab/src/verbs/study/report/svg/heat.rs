//! Draws a matrix as cells whose colour is stronger for larger numbers.

use numapilot_cli_kit::svg::{Area, Svg};
use serde_json::Value;

use crate::verbs::study::short;

const CELL: f64 = 58.0;
const HEIGHT: f64 = 26.0;
const LEFT: f64 = 40.0;
/// Minimum width, so that the text above fits.
const LEAST: f64 = 330.0;
const TOP: f64 = 72.0;
/// Integers below this are written out.
const WRITTEN_OUT: f64 = 1e6;

/// Draws the picture: rows are the CPUs' nodes, columns the memory's.
pub fn draw(name: &str, matrix: &Value) -> String {
    let numbers = |row: &Value| -> Vec<f64> {
        row.as_array().into_iter().flatten().map(|v| v.as_f64().unwrap_or(0.0)).collect()
    };
    let rows: Vec<Vec<f64>> = matrix.as_array().into_iter().flatten().map(numbers).collect();
    let most = rows.iter().flatten().copied().fold(f64::MIN_POSITIVE, f64::max);
    let mut svg = Svg::default();
    svg.text("strong", 10.0, 20.0, name);
    svg.text("dim small", 10.0, 38.0, "columns: home node of the memory; rows: node of the CPUs");
    let mut y = TOP;
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let x = |column: usize| LEFT + CELL * column as f64;
    for column in 0..columns {
        svg.text("dim small middle", x(column) + CELL / 2.0, TOP - 8.0, &format!("{column}"));
    }
    for (index, row) in rows.iter().enumerate() {
        svg.text("dim small end", LEFT - 8.0, y + 17.0, &format!("{index}"));
        for (column, value) in row.iter().enumerate() {
            let area = Area { x: x(column), y, width: CELL - 2.0, height: HEIGHT - 2.0 };
            svg.heat(area, 2.0, value / most);
            let text = match value.fract() == 0.0 && *value < WRITTEN_OUT {
                true => value.to_string(),
                false => short(*value),
            };
            svg.text("text small middle", area.x + area.width / 2.0, y + 17.0, &text);
        }
        y += HEIGHT;
    }
    svg.inline((x(columns) + 10.0).max(LEAST), y + 10.0, name)
}
