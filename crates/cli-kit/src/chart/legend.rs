//! The names of series: in rows above a plot, or at the ends of the lines.

use super::{LINE, RADIUS, SMALL, Series};
use crate::svg::{Area, Svg, text_width};

/// Distance from the left edge of a dot to its name.
const INDENT: f64 = 13.0;
/// Space between names in a row.
const SPACE: f64 = 18.0;
/// Minimum distance between names at the ends of lines.
const NAME: f64 = 14.0;
/// Distance between the points of [`along`].
const STEP: f64 = 4.0;

/// The named series with the row and the horizontal position of their names, in a plot of this
/// width.
fn placed(series: &[Series], width: f64) -> Vec<(usize, &str, usize, f64)> {
    let (mut row, mut at) = (0, 0.0);
    let named = series.iter().enumerate().filter(|(_, series)| !series.name.is_empty());
    named
        .map(|(kind, series)| {
            let wide = INDENT + text_width(&series.name, SMALL);
            if at > 0.0 && at + wide > width {
                (row, at) = (row + 1, 0.0);
            }
            let place = at;
            at += wide + SPACE;
            (kind, series.name.as_str(), row, place)
        })
        .collect()
}

/// Number of rows above a plot of this width.
pub fn rows(series: &[Series], width: f64) -> usize {
    placed(series, width).last().map_or(0, |(_, _, row, _)| row + 1)
}

/// Draws the names in rows, with the upper left corner at `from`.
pub fn draw_above(svg: &mut Svg, series: &[Series], from: (f64, f64), width: f64) {
    for (kind, name, row, at) in placed(series, width) {
        // A legend has few rows.
        let y = from.1 + LINE * row as f64 + 12.0;
        svg.dot(kind, from.0 + at + RADIUS, y - 4.0, RADIUS);
        svg.text("text small", from.0 + at + INDENT, y, name);
    }
}

/// Space for names at the ends of lines.
pub fn width_at_ends(series: &[Series]) -> f64 {
    3.0 + INDENT + series.iter().map(|s| text_width(&s.name, SMALL)).fold(0.0, f64::max)
}

/// Draws each name at the last point of its line.
pub fn draw_at_ends(svg: &mut Svg, series: &[Series], lines: &[Vec<(f64, f64)>], plot: Area) {
    let last = |(kind, line): (usize, &Vec<(f64, f64)>)| Some((line.last()?.1, kind));
    let ends = lines.iter().enumerate().filter_map(last).collect();
    let right = plot.x + plot.width + 3.0;
    for (y, kind) in spread(ends, plot.y + plot.height) {
        svg.dot(kind, right, y, RADIUS);
        svg.text("text small", right + INDENT - RADIUS, y + 4.0, &series[kind].name);
    }
}

/// Moves names apart that are too close to each other. None moves below `bottom`.
fn spread(mut ends: Vec<(f64, usize)>, bottom: f64) -> Vec<(f64, usize)> {
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut lowest = f64::NEG_INFINITY;
    for (y, _) in &mut ends {
        *y = y.max(lowest + NAME);
        lowest = *y;
    }
    let mut highest = bottom + NAME;
    for (y, _) in ends.iter_mut().rev() {
        *y = y.min(highest - NAME);
        highest = *y;
    }
    ends
}

/// Points on a line, close enough to detect a label that covers it.
pub fn along(line: &[(f64, f64)]) -> impl Iterator<Item = (f64, f64)> {
    let ends = line.windows(2).map(|pair| (pair[0], pair[1]));
    ends.flat_map(|(from, to)| {
        let (x, y) = (to.0 - from.0, to.1 - from.1);
        // Pictures are far smaller than 2^32 pixels.
        let steps = ((x * x + y * y).sqrt() / STEP).ceil().max(1.0) as u32;
        (0..=steps).map(move |step| {
            let share = f64::from(step) / f64::from(steps);
            (from.0 + x * share, from.1 + y * share)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_at_ends_do_not_touch() {
        let ends = vec![(100.0, 0), (101.0, 1), (50.0, 2), (199.0, 3), (200.0, 4)];
        let places = spread(ends, 200.0);
        assert!(places.windows(2).all(|pair| pair[1].0 - pair[0].0 >= NAME - 1e-9));
        assert!(places.iter().all(|(y, _)| *y <= 200.0));
        assert_eq!(places.iter().map(|(_, index)| *index).collect::<Vec<_>>(), [2, 0, 1, 3, 4]);
        let top = spread(vec![(10.0, 0), (11.0, 1), (12.0, 2)], 200.0);
        assert_eq!(top, [(10.0, 0), (10.0 + NAME, 1), (10.0 + 2.0 * NAME, 2)]);
    }

    #[test]
    fn names_above_continue_in_the_next_row() {
        let named = |name: &str| Series { name: name.to_owned(), points: vec![], marked: false };
        let series = [named("a long name"), named(""), named("another one"), named("third")];
        assert_eq!(rows(&series, 1000.0), 1);
        assert_eq!(rows(&series, 200.0), 2);
        assert_eq!(rows(&series, 1.0), 3, "a name that is too long has a row of its own");
        assert_eq!(rows(&[named("")], 100.0), 0);
        let kinds: Vec<usize> = placed(&series, 1000.0).iter().map(|placed| placed.0).collect();
        assert_eq!(kinds, [0, 2, 3], "each has the colour of its line");
    }
}
