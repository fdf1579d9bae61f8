//! A picture with one or more charts.

use super::{Chart, GAP};
use crate::svg::{Area, Svg, text_width};

const MARGIN: f64 = 24.0;
/// Space between charts.
const SPACE: f64 = 18.0;

/// The texts around charts, and their arrangement.
#[derive(Default)]
pub struct Page<'a> {
    /// Heading.
    pub title: &'a str,
    /// A line below the heading; may be empty.
    pub subtitle: &'a str,
    /// A line below the charts; may be empty.
    pub foot: &'a str,
    /// Width and height of each plot.
    pub plot: (f64, f64),
    /// Whether the charts are beside each other, and not one below the other.
    pub beside: bool,
}

impl Page<'_> {
    /// The document with these charts.
    pub fn draw(&self, charts: &[Chart]) -> String {
        let mut svg = Svg::default();
        svg.text("strong large", MARGIN, 30.0, self.title);
        let mut top = 42.0;
        if !self.subtitle.is_empty() {
            svg.text("dim", MARGIN, 52.0, self.subtitle);
            top += 28.0;
        }
        let (mut right, mut bottom) = arrange(&mut svg, charts, self.plot, self.beside, top);
        if !self.foot.is_empty() {
            bottom += 20.0;
            svg.text("dim small", MARGIN, bottom, self.foot);
        }
        let texts = [(self.title, 18.0), (self.subtitle, 13.0), (self.foot, 11.0)];
        for (text, size) in texts {
            right = right.max(MARGIN + text_width(text, size));
        }
        svg.finish(right + MARGIN, bottom + 16.0, self.title)
    }

    /// A single chart without a heading, for a page that has
    /// [`STYLE`](crate::svg::STYLE) already.
    pub fn inline(chart: &Chart, plot: (f64, f64), title: &str) -> String {
        let mut svg = Svg::default();
        let (right, bottom) = arrange(&mut svg, std::slice::from_ref(chart), plot, false, GAP);
        svg.inline(right + MARGIN, bottom + GAP, title)
    }
}

/// Draws charts from `top` down, and returns their right and lower ends. Plots are aligned.
fn arrange(
    svg: &mut Svg,
    charts: &[Chart],
    (width, height): (f64, f64),
    beside: bool,
    top: f64,
) -> (f64, f64) {
    let largest = |of: &dyn Fn(&Chart) -> f64| charts.iter().map(of).fold(0.0, f64::max);
    let (left, right) = (largest(&Chart::left), largest(&Chart::right));
    let (above, below) = (largest(&|chart| chart.above(width)), largest(&Chart::below));
    let mut at = (MARGIN + left, top);
    let mut end = at;
    for chart in charts {
        let over = if beside { above } else { chart.above(width) };
        let under = if beside { below } else { chart.below() };
        chart.draw(svg, Area { x: at.0, y: at.1 + over, width, height });
        let bottom = at.1 + over + height + under;
        end = (at.0 + width + right, end.1.max(bottom));
        if beside {
            at.0 = end.0 + SPACE + left;
        } else {
            at.1 = bottom + SPACE;
        }
    }
    end
}

#[cfg(test)]
mod tests {
    use super::super::tests::numbers;
    use super::super::{Axis, Series};
    use super::*;

    /// The positions of the horizontal axes of two charts, the second of which has a title.
    fn axes(page: &Page<'_>) -> Vec<(f64, f64)> {
        let chart = |title: &str| {
            let y = Axis { name: "y".to_owned(), ..Axis::default() };
            let points = vec![(0.0, 1.0), (1.0, 2.0)];
            let series = vec![Series { name: String::new(), points, marked: true }];
            Chart { title: title.to_owned(), y, series, ..Chart::default() }
        };
        let picture = page.draw(&[chart(""), chart("title")]);
        let ends = |attribute| numbers(&picture, "line class=\"axis\"", attribute);
        ends("x1").into_iter().zip(ends("y1")).collect()
    }

    #[test]
    fn charts_are_beside_each_other_or_one_below_the_other() {
        let plot = (100.0, 50.0);
        let beside = axes(&Page { plot, beside: true, ..Page::default() });
        assert!(beside[1].0 >= beside[0].0 + plot.0, "{beside:?}");
        assert_eq!(beside[0].1, beside[1].1, "the axes are level");
        let below = axes(&Page { plot, ..Page::default() });
        assert_eq!(below[0].0, below[1].0, "the axes are aligned");
        assert!(below[1].1 >= below[0].1 + plot.1, "{below:?}");
    }

    #[test]
    fn the_texts_around_the_charts_are_within_the_picture() {
        let (title, foot) = ("a title that is wider than the plot", "a foot");
        let page = Page { title, foot, plot: (10.0, 10.0), ..Page::default() };
        let picture = page.draw(&[Chart::default()]);
        let size = |attribute| numbers(&picture, "svg", attribute)[0];
        assert!(size("width") >= MARGIN + text_width(title, 18.0), "{picture}");
        let foot = numbers(&picture, "text class=\"dim small\"", "y")[0];
        let without = Page { title, plot: (10.0, 10.0), ..Page::default() };
        let without = numbers(&without.draw(&[Chart::default()]), "svg", "height")[0];
        assert!(foot < size("height") && foot > without - 16.0, "{picture}");
    }
}
