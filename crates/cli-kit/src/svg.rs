//! Writes SVG: elements in order, with external text escaped.
//!
//! A picture follows the viewer's light or dark scheme (`prefers-color-scheme`); renderers without
//! schemes show it light. Shapes therefore take their colours from the classes of [`STYLE`], never
//! from attributes.

use std::fmt::{Display, Write};

/// Classes: `ground` for the background, `box` and `frame` for areas, `text`, `dim` and `strong`
/// for text, `line0` to `line7` and `dot0` to `dot7` for series of lines and dots, `axis` for
/// reference lines, and `heat` for cells whose opacity shows a value.
pub const STYLE: &str = "\
text{font-family:system-ui,'DejaVu Sans',sans-serif;font-size:13px}\
.text{fill:#1c2430}.dim{fill:#5b6675}.strong{fill:#1c2430;font-weight:bold}\
.end{text-anchor:end}.middle{text-anchor:middle}.large{font-size:18px}.small{font-size:11px}\
.ground{fill:#ffffff}.box{fill:#f2f5f9;stroke:#7a8798;stroke-width:1.2}\
.hollow{stroke-dasharray:5 4}.frame{fill:none;stroke:#b4becb;stroke-width:1}\
.heat{fill:#d9480f}.grid{fill:none;stroke:#d5dbe3;stroke-width:1}\
.line0,.line1,.line2,.line3,.line4,.line5,.line6,.line7{fill:none;stroke-linecap:round}\
.line0{stroke:#1864ab}.line1{stroke:#2b8a3e}.line2{stroke:#a61e4d}.line3{stroke:#6741d9}\
.line4{stroke:#d9480f}.line5{stroke:#0c8599}.line6{stroke:#868e96}.line7{stroke:#846358}\
.dot4{fill:#d9480f}.dot5{fill:#0c8599}.dot6{fill:#868e96}.dot7{fill:#846358}\
.dot0{fill:#1864ab}.dot1{fill:#2b8a3e}.dot2{fill:#a61e4d}.dot3{fill:#6741d9}\
.axis{stroke:#5b6675;stroke-width:1.6}\
@media (prefers-color-scheme:dark){\
.text{fill:#e6ebf2}.dim{fill:#9aa7b8}.strong{fill:#ffffff}\
.ground{fill:#12171f}.box{fill:#1e2733;stroke:#6f7f94}.frame{stroke:#3d4a5c}\
.heat{fill:#e8590c}.grid{stroke:#2f3a48}\
.line0{stroke:#4dabf7}.line1{stroke:#69db7c}.line2{stroke:#f783ac}.line3{stroke:#b197fc}\
.line4{stroke:#ffa94d}.line5{stroke:#66d9e8}.line6{stroke:#adb5bd}.line7{stroke:#d8b5a5}\
.dot4{fill:#ffa94d}.dot5{fill:#66d9e8}.dot6{fill:#adb5bd}.dot7{fill:#d8b5a5}\
.dot0{fill:#4dabf7}.dot1{fill:#69db7c}.dot2{fill:#f783ac}.dot3{fill:#b197fc}\
.axis{stroke:#9aa7b8}}";

/// Number of line classes.
const LINES: usize = 8;
/// Mean width of a character of plain 13 px text; wide enough for digits and capitals.
const CHARACTER: f64 = 7.9;

/// The width of a text of `size` pixels, rounded up.
pub fn text_width(text: &str, size: f64) -> f64 {
    // Ids and words are far shorter than 2^52 characters.
    #[allow(clippy::cast_precision_loss)]
    let characters = text.chars().count() as f64;
    (characters * CHARACTER * size / 13.0).ceil()
}

/// A picture under construction.
#[derive(Default)]
pub struct Svg {
    body: String,
}

impl Svg {
    /// A text with its baseline at `y`.
    pub fn text(&mut self, class: &str, x: f64, y: f64, text: &str) {
        self.element("text", class, &[("x", &x), ("y", &y)], Some(text));
    }

    /// A rectangle; `radius` rounds its corners.
    pub fn rectangle(&mut self, class: &str, area: Area, radius: f64) {
        self.element("rect", class, &area.attributes(&radius), None);
    }

    /// A cell with rounded corners, filled in proportion to `share` (0 to 1).
    pub fn heat(&mut self, area: Area, radius: f64, share: f64) {
        // The opacity is limited, so that text on the cell is readable in both schemes.
        let opacity = (6.0 + 50.0 * share.clamp(0.0, 1.0)).round() / 100.0;
        let mut attributes = area.attributes(&radius).to_vec();
        attributes.push(("fill-opacity", &opacity));
        self.element("rect", "heat", &attributes, None);
    }

    /// A path of line class `class` (modulo the eight classes).
    pub fn path(&mut self, class: usize, width: f64, data: &str) {
        let class = format!("line{}", class % LINES);
        self.element("path", &class, &[("stroke-width", &width), ("d", &data)], None);
    }

    /// A straight line of a class.
    pub fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        let ends: [(&str, &dyn Display); 4] =
            [("x1", &from.0), ("y1", &from.1), ("x2", &to.0), ("y2", &to.1)];
        self.element("line", class, &ends, None);
    }

    /// A filled circle in the colour of line class `class` (modulo the eight classes).
    pub fn dot(&mut self, class: usize, x: f64, y: f64, radius: f64) {
        let class = format!("dot{}", class % LINES);
        self.element("circle", &class, &[("cx", &x), ("cy", &y), ("r", &radius)], None);
    }

    fn element(
        &mut self,
        name: &str,
        class: &str,
        attributes: &[(&str, &dyn Display)],
        content: Option<&str>,
    ) {
        let mut tag = format!("<{name} class=\"{}\"", escape(class));
        for (key, value) in attributes {
            // Writing to a String cannot fail.
            let _ = write!(tag, " {key}=\"{}\"", escape(&value.to_string()));
        }
        match content {
            Some(text) => {
                let _ = writeln!(self.body, "{tag}>{}</{name}>", escape(text));
            }
            None => {
                let _ = writeln!(self.body, "{tag}/>");
            }
        }
    }

    /// The whole document; `title` is for screen readers.
    pub fn finish(self, width: f64, height: f64, title: &str) -> String {
        self.document(width, height, title, &format!("<style>{STYLE}</style>\n"))
    }

    /// The picture for a page that has [`STYLE`] already.
    pub fn inline(self, width: f64, height: f64, title: &str) -> String {
        self.document(width, height, title, "")
    }

    fn document(self, width: f64, height: f64, title: &str, style: &str) -> String {
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" role=\"img\">\n<title>{}</title>\n{style}\
             <rect class=\"ground\" width=\"{width}\" height=\"{height}\"/>\n{}</svg>\n",
            escape(title),
            self.body
        )
    }
}

/// A rectangle.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Area {
    /// Left edge.
    pub x: f64,
    /// Upper edge.
    pub y: f64,
    /// Horizontal extent.
    pub width: f64,
    /// Vertical extent.
    pub height: f64,
}

impl Area {
    /// Whether a point is in the area.
    pub fn contains(&self, (x, y): (f64, f64)) -> bool {
        (self.x..=self.x + self.width).contains(&x) && (self.y..=self.y + self.height).contains(&y)
    }

    fn attributes<'a>(&'a self, radius: &'a f64) -> [(&'static str, &'a dyn Display); 5] {
        [
            ("x", &self.x),
            ("y", &self.y),
            ("width", &self.width),
            ("height", &self.height),
            ("rx", radius),
        ]
    }

    /// Whether two areas are closer than `gap`.
    pub fn is_near(&self, other: &Self, gap: f64) -> bool {
        self.x < other.x + other.width + gap
            && other.x < self.x + self.width + gap
            && self.y < other.y + other.height + gap
            && other.y < self.y + self.height + gap
    }
}

/// Escapes text for XML and HTML; characters that XML forbids become `?`.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&apos;"),
            '\t' | '\n' | '\r' => escaped.push(' '),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => escaped.push('?'),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_stays_text() {
        let mut svg = Svg::default();
        svg.text("text", 1.0, 2.5, "a<b & \"c\"\u{1b}");
        let document = svg.finish(10.0, 20.0, "</title>");
        assert!(
            document.contains(
                "<text class=\"text\" x=\"1\" y=\"2.5\">a&lt;b &amp; &quot;c&quot;?</text>"
            )
        );
        assert!(document.contains("<title>&lt;/title&gt;</title>"));
    }

    #[test]
    fn areas_are_near_when_the_gap_is_crossed() {
        let a = Area { x: 0.0, y: 0.0, width: 10.0, height: 10.0 };
        let b = Area { x: 15.0, ..a };
        assert!(a.is_near(&b, 6.0));
        assert!(!a.is_near(&b, 5.0));
    }
}
