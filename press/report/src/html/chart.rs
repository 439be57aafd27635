//! A figure: pictures that share their axes, with one legend and one caption.
//!
//! Its invariant: a line has one colour in every picture, and a figure without a value says that it is empty.

use super::axis::Axis;
use super::escape::escape;
use super::plot::{self, Plot};

/// How high a picture is.
const HEIGHT: f64 = 320.0;

/// What a figure shows.
#[derive(Default)]
pub(crate) struct Chart {
    /// What its ids begin with.
    pub(crate) id: String,
    /// What stands above it.
    pub(crate) heading: &'static str,
    /// The pictures; several stand side by side.
    pub(crate) pictures: Vec<Picture>,
    /// What colours and styles mean.
    pub(crate) legend: String,
    /// What must be known to read it.
    pub(crate) caption: String,
}

/// Lines under a title.
pub(crate) struct Picture {
    pub(crate) title: String,
    /// The same in words.
    pub(crate) description: String,
    pub(crate) lines: Vec<Line>,
}

/// One line; a value that does not exist breaks it.
#[derive(Default)]
pub(crate) struct Line {
    pub(crate) colour: usize,
    /// Whether it stands beside the solid line of its colour.
    pub(crate) is_dashed: bool,
    pub(crate) points: Vec<(f64, Option<f64>)>,
    /// How many of the last points have a marker.
    pub(crate) markers: usize,
    /// The single measurements behind the points.
    pub(crate) dots: Vec<(f64, f64)>,
    /// A point that stands out.
    pub(crate) ring: Option<(f64, f64)>,
}

impl Line {
    /// The values along the axes of all points and dots.
    fn values(&self) -> impl Iterator<Item = (f64, Option<f64>)> {
        let dots = self.dots.iter().map(|&(x, y)| (x, Some(y)));
        self.points.iter().copied().chain(dots)
    }
}

impl Chart {
    /// Draws it over an axis of its own kind to the right, and latency upwards.
    pub(crate) fn drawn(&self, x: impl FnOnce(&mut dyn Iterator<Item = f64>) -> Axis) -> String {
        let (id, heading) = (&self.id, escape(self.heading));
        let lines = || self.pictures.iter().flat_map(|picture| &picture.lines);
        let mut latencies = lines().flat_map(Line::values).filter_map(|(_, y)| y).peekable();
        if latencies.peek().is_none() {
            return format!(
                "<figure id=\"{id}\" class=\"empty\">\n<p class=\"figure-title\">{heading}</p>\n<p>There is nothing to draw: \
                 no point has samples enough for a percentile.</p>\n</figure>\n"
            );
        }
        let solid = lines().filter(|line| !line.is_dashed);
        let axes = (
            x(&mut solid.flat_map(Line::values).map(|(x, _)| x)),
            Axis::latency(latencies),
        );
        let pictures = self.pictures.iter().enumerate();
        let pictures: String = pictures
            .map(|(at, picture)| self.picture(at, picture, &axes))
            .collect();
        let many = if self.pictures.len() > 1 { " many" } else { "" };
        format!(
            "<figure id=\"{id}\">\n<p class=\"figure-title\">{heading}</p>\n<ul class=\"legend\">\n{}</ul>\n\
             <div class=\"pictures{many}\">\n{pictures}</div>\n<figcaption>{}</figcaption>\n</figure>\n",
            self.legend,
            escape(&self.caption)
        )
    }

    /// A picture under its title, which stands outside of it because only there a long one is broken into lines.
    fn picture(&self, at: usize, picture: &Picture, (x, y): &(Axis, Axis)) -> String {
        let mut plot = Plot::new(x.clone(), y.clone(), 32.0, HEIGHT - 32.0 - 50.0, true);
        for line in &picture.lines {
            plot.draw(line);
        }
        let (id, title) = (format!("{}-{}", self.id, at + 1), &picture.title);
        let words = format!("{}, {title}", self.heading);
        let drawn = plot::picture(&id, HEIGHT, &words, &picture.description, &plot.drawn());
        let title = escape(title);
        format!("<div>\n<p class=\"picture-title\">{title}</p>\n{drawn}</div>\n")
    }
}
