//! A frame with two axes, and lines and markers in it, as SVG.
//!
//! Its invariant: every coordinate is finite and within the picture, and every number has one digit behind the point.

use std::fmt::Write as _;

use super::axis::Axis;
use super::chart::Line;
use super::escape::escape;

/// The width of every picture, in its own units.
pub(crate) const WIDTH: f64 = 520.0;

/// Left of the frame: the words of the axis, `500 µs` in the larger letters of a narrow window.
const LEFT: f64 = 70.0;

/// Right of the frame: half of the last word below it, `99.9999` likewise.
const RIGHT: f64 = 38.0;

/// How many colours there are; more lines than that are not drawn.
pub(crate) const COLOURS: usize = 8;

/// Shapes of markers, so that colours are not alone in telling lines apart.
const SHAPES: usize = 4;

/// A frame under construction.
#[derive(Debug)]
pub(crate) struct Plot {
    x: Axis,
    y: Axis,
    top: f64,
    height: f64,
    body: String,
}

impl Plot {
    /// A frame whose upper edge is at `top`. `x_words` is false for a frame that shares the axis of one below.
    pub(crate) fn new(x: Axis, y: Axis, top: f64, height: f64, x_words: bool) -> Plot {
        let mut plot = Plot {
            x,
            y,
            top,
            height,
            body: String::new(),
        };
        plot.grid(x_words);
        plot
    }

    fn grid(&mut self, x_words: bool) {
        let (right, bottom) = (WIDTH - RIGHT, self.top + self.height);
        let mut text = String::new();
        for (value, words) in &self.y.marks {
            let y = self.y_of(*value).unwrap_or(bottom);
            let _ = writeln!(
                text,
                "<path class=\"grid\" d=\"M{LEFT:.1} {y:.1}H{right:.1}\"/><text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\" \
                 text-anchor=\"end\">{}</text>",
                LEFT - 8.0,
                y + 4.5,
                escape(words)
            );
        }
        for (value, words) in &self.x.marks {
            let x = self.x_of(*value).unwrap_or(LEFT);
            let _ = writeln!(text, "<path class=\"mark\" d=\"M{x:.1} {bottom:.1}v5\"/>");
            if x_words {
                let _ = writeln!(
                    text,
                    "<text class=\"tick\" x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
                    bottom + 20.0,
                    escape(words)
                );
            }
        }
        let _ = writeln!(
            text,
            "<path class=\"frame\" d=\"M{LEFT:.1} {bottom:.1}H{right:.1}\"/><text class=\"title\" x=\"0\" y=\"{:.1}\">{}</text>",
            self.top - 15.0,
            escape(&self.y.title)
        );
        if x_words {
            let _ = writeln!(
                text,
                "<text class=\"title\" x=\"{right:.1}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                bottom + 40.0,
                escape(&self.x.title)
            );
        }
        self.body += &text;
    }

    fn x_of(&self, value: f64) -> Option<f64> {
        Some(LEFT + self.x.at(value)? * (WIDTH - RIGHT - LEFT))
    }

    fn y_of(&self, value: f64) -> Option<f64> {
        Some(self.top + (1.0 - self.y.at(value)?) * self.height)
    }

    fn place(&self, (x, y): (f64, f64)) -> Option<(f64, f64)> {
        self.x_of(x).zip(self.y_of(y))
    }

    /// Draws a line with what belongs to it, the line above its dots.
    pub(crate) fn draw(&mut self, line: &Line) {
        let style = format!("c{}", line.colour);
        for &at in &line.dots {
            self.dot(at, &style);
        }
        self.line(
            &line.points,
            &format!("{style}{}", if line.is_dashed { " dashed" } else { "" }),
        );
        let unmarked = line.points.len().saturating_sub(line.markers);
        for &(x, y) in &line.points[unmarked..] {
            if let Some(at) = y.and_then(|y| self.place((x, y))) {
                self.body += &shape(at.0, at.1, line.colour);
            }
        }
        if let Some(at) = line.ring {
            self.ring(at, &style);
        }
    }

    /// A line through `points`; it is broken where one of them does not exist.
    pub(crate) fn line(&mut self, points: &[(f64, Option<f64>)], style: &str) {
        let mut path = String::new();
        let mut drawn = false;
        let mut lone: Option<(f64, f64)> = None;
        for &(x, y) in points {
            let Some((x, y)) = y.and_then(|y| self.place((x, y))) else {
                lone_dot(&mut path, &mut lone);
                drawn = false;
                continue;
            };
            let _ = write!(path, "{}{x:.1} {y:.1}", if drawn { "L" } else { "M" });
            lone = (!drawn).then_some((x, y));
            drawn = true;
        }
        lone_dot(&mut path, &mut lone);
        if !path.is_empty() {
            let _ = writeln!(self.body, "<path class=\"line {style}\" d=\"{path}\"/>");
        }
    }

    /// A small pale dot.
    fn dot(&mut self, at: (f64, f64), style: &str) {
        if let Some((x, y)) = self.place(at) {
            let _ = writeln!(
                self.body,
                "<circle class=\"dot {style}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.2\"/>"
            );
        }
    }

    /// A ring around a value with a thin line down to the axis.
    fn ring(&mut self, at: (f64, f64), style: &str) {
        if let Some((x, y)) = self.place(at) {
            let bottom = self.top + self.height;
            let _ = writeln!(
                self.body,
                "<circle class=\"ring {style}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"9\"/><path class=\"drop {style}\" \
                 d=\"M{x:.1} {:.1}V{bottom:.1}\"/>",
                (y + 9.0).min(bottom)
            );
        }
    }

    /// What was drawn.
    pub(crate) fn drawn(self) -> String {
        self.body
    }
}

/// A value with no neighbour is a line of no length: round caps make it a dot.
fn lone_dot(path: &mut String, lone: &mut Option<(f64, f64)>) {
    if let Some((x, y)) = lone.take() {
        let _ = write!(path, "L{x:.1} {y:.1}");
    }
}

fn shape(x: f64, y: f64, index: usize) -> String {
    let style = format!("marker c{}", index % COLOURS);
    match index % SHAPES {
        0 => format!("<circle class=\"{style}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>\n"),
        1 => format!(
            "<rect class=\"{style}\" x=\"{:.1}\" y=\"{:.1}\" width=\"7.4\" height=\"7.4\"/>\n",
            x - 3.7,
            y - 3.7
        ),
        2 => format!(
            "<path class=\"{style}\" d=\"M{x:.1} {:.1}l4.8 8.4h-9.6z\"/>\n",
            y - 5.2
        ),
        _ => format!(
            "<path class=\"{style}\" d=\"M{x:.1} {:.1}l5 5l-5 5l-5 -5z\"/>\n",
            y - 5.0
        ),
    }
}

/// A picture with what it shows in words; `id` tells it apart from the others of the page.
pub(crate) fn picture(id: &str, height: f64, title: &str, description: &str, body: &str) -> String {
    format!(
        "<svg viewBox=\"0 0 {WIDTH:.0} {height:.0}\" role=\"img\" aria-labelledby=\"{id}-title {id}-desc\">\n\
         <title id=\"{id}-title\">{}</title>\n<desc id=\"{id}-desc\">{}</desc>\n{body}</svg>\n",
        escape(title),
        escape(description)
    )
}

/// A legend entry: the line as it is drawn, and its words.
pub(crate) fn entry(style: &str, index: Option<usize>, words: &str) -> String {
    let marker = index.map(|index| shape(16.0, 8.0, index)).unwrap_or_default();
    format!(
        "<li><svg class=\"swatch\" viewBox=\"0 0 32 16\" aria-hidden=\"true\"><path class=\"line {style}\" \
         d=\"M2 8H30\"/>{}</svg>{}</li>\n",
        marker.trim_end(),
        escape(words)
    )
}
