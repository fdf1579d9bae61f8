//! Line charts: series over two axes that start at 0.
//!
//! ```text
//!  Title
//!  name of y   o series  o series
//!   2 |        .--*  name at end
//!   1 |---.--*'          (marks are lines across the plot)
//!     +---1---2---4
//!           name of x
//! ```

mod legend;
mod page;
mod scale;

pub use page::Page;

use crate::svg::{Area, Svg, text_width};
use scale::Scale;

/// Size of the small text of labels.
const SMALL: f64 = 11.0;
/// Height of a line of small text.
const LINE: f64 = 18.0;
/// Space between a plot and the labels of its vertical axis.
const GAP: f64 = 8.0;
const RADIUS: f64 = 3.5;

/// A chart.
#[derive(Default)]
pub struct Chart {
    /// Heading; may be empty.
    pub title: String,
    /// The horizontal axis.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// The lines. The first one is drawn above the others.
    pub series: Vec<Series>,
    /// Where the names of the series are.
    pub names: Names,
    /// Areas behind the lines.
    pub bars: Vec<Bar>,
    /// Reference values.
    pub marks: Vec<Mark>,
}

/// An axis from 0.
#[derive(Default)]
pub struct Axis {
    /// Name, with the unit; may be empty.
    pub name: String,
    /// The axis extends at least to this value, and to all values of the series.
    pub most: f64,
    /// What is written at its ticks.
    pub labels: Labels,
}

/// What is written at the ticks of an axis.
pub enum Labels {
    /// The number and a unit, which may be empty.
    Number(&'static str),
    /// The number, at whole numbers only.
    Whole,
    /// A text made from the number.
    Text(fn(f64) -> String),
    /// These texts, at 0, 1, 2 and so on, with equal distances.
    Names(Vec<String>),
}

impl Default for Labels {
    fn default() -> Self {
        Self::Number("")
    }
}

/// A line.
pub struct Series {
    /// Name; may be empty.
    pub name: String,
    /// The points, in the order of the line. Those with a coordinate that is not a number are left
    /// out.
    pub points: Vec<(f64, f64)>,
    /// Whether each point has a dot.
    pub marked: bool,
}

impl Series {
    fn numbers(&self) -> impl Iterator<Item = &(f64, f64)> {
        self.points.iter().filter(|(x, y)| !x.is_nan() && !y.is_nan())
    }
}

/// Where the names of series are.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Names {
    /// In rows above the plot.
    #[default]
    Above,
    /// At the right ends of the lines.
    AtEnds,
}

/// An area from the horizontal axis up.
pub struct Bar {
    /// Left edge.
    pub from: f64,
    /// Right edge.
    pub to: f64,
    /// Height.
    pub height: f64,
}

/// A reference value: a line across the plot, with a label.
pub struct Mark {
    /// The axis that has the value.
    pub on: On,
    /// The value.
    pub value: f64,
    /// The label.
    pub label: String,
}

/// An axis of a chart.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum On {
    /// The horizontal axis.
    X,
    /// The vertical axis.
    Y,
}

impl Chart {
    fn most(&self, least: f64, of: fn(&(f64, f64)) -> f64) -> f64 {
        self.series.iter().flat_map(Series::numbers).map(of).fold(least, f64::max)
    }

    /// Scales for a plot in this area.
    fn scales(&self, plot: Area) -> (Scale<'_>, Scale<'_>) {
        let most = |on, axis: &Axis| {
            let marks = self.marks.iter().filter(|mark| mark.on == on).map(|mark| mark.value);
            marks.fold(axis.most, f64::max)
        };
        let x = self.most(most(On::X, &self.x), |point| point.0);
        let y = self.most(most(On::Y, &self.y), |point| point.1);
        (
            Scale::new(&self.x.labels, x, plot.x, plot.width),
            Scale::new(&self.y.labels, y, plot.y + plot.height, -plot.height),
        )
    }

    /// Space to the left of the plot.
    fn left(&self) -> f64 {
        let (_, y) = self.scales(Area { x: 0.0, y: 0.0, width: 1.0, height: 1.0 });
        y.ticks().map(|tick| text_width(&tick.label, SMALL)).fold(0.0, f64::max) + GAP
    }

    /// Space to the right of the plot.
    fn right(&self) -> f64 {
        let (x, _) = self.scales(Area { x: 0.0, y: 0.0, width: 1.0, height: 1.0 });
        let last = x.ticks().last().map_or(0.0, |tick| text_width(&tick.label, SMALL) / 2.0);
        match self.names {
            Names::Above => last,
            Names::AtEnds => legend::width_at_ends(&self.series).max(last),
        }
    }

    /// Space above a plot of this width.
    fn above(&self, width: f64) -> f64 {
        let title = if self.title.is_empty() { 0.0 } else { LINE + 4.0 };
        let name = if self.y.name.is_empty() { 0.0 } else { LINE };
        let rows = match self.names {
            Names::Above => legend::rows(&self.series, width),
            Names::AtEnds => 0,
        };
        // A legend has few rows.
        title + name + LINE * rows as f64 + GAP
    }

    /// Space below the plot.
    fn below(&self) -> f64 {
        if self.x.name.is_empty() { LINE + 4.0 } else { 2.0 * LINE + 4.0 }
    }

    /// Draws the chart. `plot` is the area between the axes; everything else is around it.
    fn draw(&self, svg: &mut Svg, plot: Area) {
        let mut y = plot.y - self.above(plot.width);
        if !self.title.is_empty() {
            svg.text("strong", plot.x, y + 13.0, &self.title);
            y += LINE + 4.0;
        }
        if !self.y.name.is_empty() {
            svg.text("dim small", plot.x, y + 12.0, &self.y.name);
            y += LINE;
        }
        if self.names == Names::Above {
            legend::draw_above(svg, &self.series, (plot.x, y), plot.width);
        }
        if self.series.iter().all(|series| series.numbers().next().is_none())
            && self.bars.is_empty()
        {
            svg.text("dim", plot.x, plot.y + plot.height / 2.0, "no figures");
            return;
        }
        let (across, up) = self.scales(plot);
        self.draw_axes(svg, plot, &across, &up);
        for bar in &self.bars {
            let (left, top) = (across.position(bar.from), up.position(bar.height));
            let (width, height) = (across.position(bar.to) - left, plot.y + plot.height - top);
            svg.heat(Area { x: left, y: top, width, height }, 0.0, 0.5);
        }
        let bottom = plot.y + plot.height;
        svg.line("axis", (plot.x, bottom), (plot.x + plot.width, bottom));
        let lines: Vec<Vec<(f64, f64)>> = self
            .series
            .iter()
            .map(|series| {
                let place = |&(x, y): &(f64, f64)| (across.position(x), up.position(y));
                series.numbers().map(place).collect()
            })
            .collect();
        for mark in &self.marks {
            let scale = if mark.on == On::X { &across } else { &up };
            draw_mark(svg, plot, mark, scale.position(mark.value), &lines);
        }
        for (kind, (series, line)) in self.series.iter().zip(&lines).enumerate().rev() {
            draw_line(svg, kind, line, series.marked);
        }
        if self.names == Names::AtEnds {
            legend::draw_at_ends(svg, &self.series, &lines, plot);
        }
    }

    fn draw_axes(&self, svg: &mut Svg, plot: Area, across: &Scale<'_>, up: &Scale<'_>) {
        for tick in up.ticks() {
            svg.line("grid", (plot.x, tick.position), (plot.x + plot.width, tick.position));
            svg.text("dim small end", plot.x - GAP, tick.position + 4.0, &tick.label);
        }
        let bottom = plot.y + plot.height;
        let mut free = f64::NEG_INFINITY;
        for tick in across.ticks() {
            if across.has_grid() {
                svg.line("grid", (tick.position, plot.y), (tick.position, bottom));
            }
            let half = text_width(&tick.label, SMALL) / 2.0;
            if tick.position - half >= free {
                svg.text("dim small middle", tick.position, bottom + 16.0, &tick.label);
                free = tick.position + half + 4.0;
            }
        }
        let middle = plot.x + plot.width / 2.0;
        if !self.x.name.is_empty() {
            svg.text("dim small middle", middle, bottom + 16.0 + LINE, &self.x.name);
        }
    }
}

fn draw_line(svg: &mut Svg, kind: usize, line: &[(f64, f64)], marked: bool) {
    let path: Vec<String> = line.iter().map(|(x, y)| format!("{x:.1} {y:.1}")).collect();
    if path.len() > 1 {
        svg.path(kind, 2.0, &format!("M{}", path.join("L")));
    }
    if marked || path.len() == 1 {
        line.iter().for_each(|&(x, y)| svg.dot(kind, x, y, RADIUS));
    }
}

/// Draws a reference line. Its label is at the end and on the side where it covers the fewest
/// points of the series.
fn draw_mark(svg: &mut Svg, plot: Area, mark: &Mark, at: f64, lines: &[Vec<(f64, f64)>]) {
    let (right, bottom) = (plot.x + plot.width, plot.y + plot.height);
    let (width, height) = (text_width(&mark.label, SMALL), 14.0);
    let area = |x: f64, y: f64| Area { x, y, width, height };
    let places = match mark.on {
        On::X => {
            svg.line("axis", (at, plot.y), (at, bottom));
            let sides = [at - 6.0 - width, at + 6.0];
            sides.map(|x| [area(x, plot.y + 4.0), area(x, bottom - 18.0)])
        }
        On::Y => {
            svg.line("axis", (plot.x, at), (right, at));
            let ends = [right - 4.0 - width, plot.x + 4.0];
            ends.map(|x| [area(x, at - 17.0), area(x, at + 3.0)])
        }
    };
    let covered = |area: &Area| {
        let is_outside = area.x < plot.x
            || area.x + width > right
            || area.y < plot.y
            || area.y + height > bottom;
        let on_it = lines.iter().flat_map(|line| legend::along(line));
        (is_outside, on_it.filter(|point| area.contains(*point)).count())
    };
    if let Some(place) = places.as_flattened().iter().min_by_key(|area| covered(area)) {
        svg.text("dim small", place.x, place.y + 11.0, &mark.label);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: (f64, f64) = (400.0, 200.0);

    fn line(name: &str, points: &[(f64, f64)]) -> Series {
        Series { name: name.to_owned(), points: points.to_vec(), marked: true }
    }

    #[test]
    fn a_chart_without_figures_says_so() {
        let picture = Page::inline(&Chart::default(), SIZE, "t");
        assert!(picture.contains("no figures") && !picture.contains("NaN"), "{picture}");
    }

    #[test]
    fn a_single_point_is_visible() {
        let mut series = line("", &[(1.0, 1.0)]);
        series.marked = false;
        let picture = Page::inline(&Chart { series: vec![series], ..Chart::default() }, SIZE, "t");
        assert!(picture.contains("<circle class=\"dot0\""), "{picture}");
        assert!(!picture.contains("<path"), "{picture}");
    }

    #[test]
    fn labels_below_the_plot_do_not_touch() {
        let names: Vec<String> = (0..40).map(|number| format!("level {number}")).collect();
        let x = Axis { labels: Labels::Names(names), ..Axis::default() };
        let series = vec![line("", &[(0.0, 1.0), (39.0, 2.0)])];
        let picture = Page::inline(&Chart { x, series, ..Chart::default() }, SIZE, "t");
        let drawn = picture.matches(">level ").count();
        assert!((4..=9).contains(&drawn), "{drawn} labels");
    }

    #[test]
    fn names_on_an_axis_are_at_equal_distances_up_to_its_end() {
        let names = ["a", "b", "c"].map(str::to_owned).to_vec();
        let x = Axis { labels: Labels::Names(names), ..Axis::default() };
        let series = vec![line("", &[(0.0, 1.0), (1.0, 1.0), (2.0, 1.0)])];
        let picture = Page::inline(&Chart { x, series, ..Chart::default() }, SIZE, "t");
        let (points, labels) = (
            numbers(&picture, "circle", "cx"),
            numbers(&picture, "text class=\"dim small middle\"", "x"),
        );
        assert_eq!(points, labels, "{picture}");
        let axis = |attribute| numbers(&picture, "line class=\"axis\"", attribute)[0];
        let (before, after) = (points[0] - axis("x1"), axis("x2") - points[2]);
        assert!((before - after).abs() < 0.2 && before > 0.0, "{points:?}");
        assert!((points[1] - (points[0] + points[2]) / 2.0).abs() < 0.2, "{points:?}");
    }

    #[test]
    fn axes_have_their_names_and_units() {
        let labels = Labels::Text(|tick| format!("{tick:.0} of 4"));
        let x = Axis { name: "clients".to_owned(), labels, most: 4.0 };
        let y = Axis { name: "time".to_owned(), labels: Labels::Number("ms"), most: 4.0 };
        let series = vec![line("", &[(0.0, 1.0)])];
        let picture = Page::inline(&Chart { x, y, series, ..Chart::default() }, SIZE, "t");
        for text in [">clients<", ">time<", ">4 of 4<", ">4.0 ms<"] {
            assert!(picture.contains(text), "{text}: {picture}");
        }
    }

    #[test]
    fn labels_beside_the_plot_are_within_the_picture() {
        let labels = Labels::Text(|_| "a long label".to_owned());
        let y = Axis { labels, ..Axis::default() };
        let series = vec![line("a long name", &[(0.0, 1.0), (1.0, 1.0)])];
        let chart = Chart { y, series, names: Names::AtEnds, ..Chart::default() };
        let picture = Page::inline(&chart, SIZE, "t");
        let ends = numbers(&picture, "text class=\"dim small end\"", "x");
        assert!(ends.iter().all(|end| *end >= text_width("a long label", SMALL)), "{picture}");
        let name = numbers(&picture, "text class=\"text small\"", "x")[0];
        let right = numbers(&picture, "svg", "width")[0];
        assert!(name + text_width("a long name", SMALL) <= right, "{picture}");
    }

    #[test]
    fn whole_numbers_have_whole_ticks() {
        let y = Axis { labels: Labels::Whole, most: 3.0, ..Axis::default() };
        let series = vec![line("", &[(0.0, 1.0), (1.0, 3.0)])];
        let picture = Page::inline(&Chart { y, series, ..Chart::default() }, SIZE, "t");
        let labels = picture.matches("class=\"dim small end\"").count();
        assert_eq!(labels, 4, "{picture}");
    }

    /// The numbers of an attribute of all elements with this start, in the order of the picture.
    pub fn numbers(picture: &str, start: &str, attribute: &str) -> Vec<f64> {
        let elements = picture.split('<').filter(|element| element.starts_with(start));
        let value = |element: &str| {
            let (_, rest) = element.split_once(&format!(" {attribute}=\"")).unwrap();
            rest.split('"').next().unwrap().parse().unwrap()
        };
        elements.map(value).collect()
    }

    #[test]
    fn a_point_is_at_the_ticks_of_its_values() {
        let axis = || Axis { most: 4.0, ..Axis::default() };
        let series = vec![line("", &[(1.0, 0.0), (3.0, 2.0), (4.0, 4.0)])];
        let chart = Chart { x: axis(), y: axis(), series, ..Chart::default() };
        let picture = Page::inline(&chart, SIZE, "t");
        let dots = |attribute| numbers(&picture, "circle", attribute);
        let grid = |attribute| numbers(&picture, "line class=\"grid\"", attribute);
        // The ticks are 0, 0.5 and so on to 4; the horizontal grid lines come first.
        let (x, y) = (grid("x1").split_off(9), grid("y1"));
        assert_eq!(dots("cx"), [x[2], x[6], x[8]], "{picture}");
        assert_eq!(dots("cy"), [y[0], y[4], y[8]], "{picture}");
        assert!((x[8] - x[0] - SIZE.0).abs() < 0.2 && (y[0] - y[8] - SIZE.1).abs() < 0.2);
    }

    #[test]
    fn an_axis_extends_to_its_end_and_to_every_point_and_mark() {
        let last = |most: f64, point: f64, mark: f64| {
            let y = Axis { most, ..Axis::default() };
            let series = vec![line("", &[(1.0, point)])];
            let marks = vec![Mark { on: On::Y, value: mark, label: String::new() }];
            let picture = Page::inline(&Chart { y, series, marks, ..Chart::default() }, SIZE, "t");
            let (_, label) = picture.rsplit_once("dim small end\"").unwrap();
            label.split(['>', '<']).nth(1).unwrap().to_owned()
        };
        assert_eq!(last(6.0, 1.0, 1.0), "6");
        assert_eq!(last(1.0, 6.0, 1.0), "6");
        assert_eq!(last(1.0, 1.0, 6.0), "6");
    }

    #[test]
    fn the_first_series_is_drawn_last_and_each_has_the_colour_of_its_name() {
        for names in [Names::Above, Names::AtEnds] {
            let points = |y: f64| [(0.0, y), (1.0, y)];
            let series = ["one", "two"].iter().zip([1.0, 2.0]);
            let series = series.map(|(name, y)| line(name, &points(y))).collect();
            let chart = Chart { series, names, ..Chart::default() };
            let picture = Page::inline(&chart, SIZE, "t");
            let at = |text: &str| picture.find(text).unwrap_or_else(|| panic!("{text}: {picture}"));
            assert!(at("class=\"line1\"") < at("class=\"line0\""), "{picture}");
            for (kind, name) in ["one", "two"].iter().enumerate() {
                let (before, _) = picture.split_once(&format!(">{name}<")).unwrap();
                let dot = before.rsplit("<circle").next().unwrap();
                assert!(dot.contains(&format!("class=\"dot{kind}\"")), "{name}: {picture}");
            }
        }
    }

    #[test]
    fn names_in_two_rows_do_not_cover_each_other() {
        let series = vec![line(&"a".repeat(40), &[(0.0, 1.0)]), line(&"b".repeat(40), &[])];
        let picture = Page::inline(&Chart { series, ..Chart::default() }, SIZE, "t");
        let rows = numbers(&picture, "text class=\"text small\"", "y");
        assert_eq!(rows.len(), 2, "{picture}");
        assert!(rows[1] - rows[0] >= LINE, "{rows:?}");
    }

    #[test]
    fn what_is_not_a_number_is_left_out() {
        let points = [(0.0, 1.0), (1.0, f64::NAN), (f64::NAN, 2.0), (2.0, 3.0)];
        let chart = Chart { series: vec![line("", &points)], ..Chart::default() };
        let picture = Page::inline(&chart, SIZE, "t");
        assert!(!picture.contains("NaN"), "{picture}");
        assert_eq!(picture.matches("<circle").count(), 2, "{picture}");
        let chart = Chart { series: vec![line("", &points[1..3])], ..Chart::default() };
        assert!(Page::inline(&chart, SIZE, "t").contains("no figures"));
    }

    #[test]
    fn a_bar_reaches_from_the_axis_to_its_height() {
        let series = vec![line("", &[(0.0, 0.0), (1.0, 2.0), (4.0, 4.0)])];
        let bars = vec![Bar { from: 1.0, to: 4.0, height: 2.0 }];
        let picture = Page::inline(&Chart { series, bars, ..Chart::default() }, SIZE, "t");
        let dots = |attribute| numbers(&picture, "circle", attribute);
        let bar = |attribute| numbers(&picture, "rect class=\"heat\"", attribute)[0];
        let (x, y) = (dots("cx"), dots("cy"));
        assert_eq!((bar("x"), bar("y")), (x[1], y[1]), "{picture}");
        assert!((bar("x") + bar("width") - x[2]).abs() < 0.2, "{picture}");
        assert!((bar("y") + bar("height") - y[0]).abs() < 0.2, "{picture}");
    }

    #[test]
    fn the_label_of_a_mark_is_where_no_line_is() {
        let label = |points: &[(f64, f64)]| {
            let mark = Mark { on: On::Y, value: 5.0, label: "limit".to_owned() };
            let y = Axis { most: 10.0, ..Axis::default() };
            let (series, marks) = (vec![line("", points)], vec![mark]);
            let chart = Chart { y, series, marks, ..Chart::default() };
            let picture = Page::inline(&chart, SIZE, "t");
            let before = picture.split(">limit<").next().unwrap().to_owned();
            let number = before.rsplit("y=\"").next().unwrap().split('"').next().unwrap();
            number.parse::<f64>().unwrap()
        };
        let above = label(&[(0.0, 4.7), (10.0, 4.7)]);
        let below = label(&[(0.0, 5.5), (10.0, 5.5)]);
        assert!(above < below, "{above} above, {below} below");
    }
}
