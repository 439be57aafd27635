//! A pipeline as an SVG picture: a box a node, layers from top to bottom. Its invariant: text is escaped, so that any name can be drawn.

use super::graph::{Cell, Graph, Layers, Node};
use std::fmt::Write as _;

/// Pixels of a letter of the fixed-width font, and of the spaces between boxes.
const LETTER: f64 = 7.3;
const LINE: f64 = 16.0;
const PADDING: f64 = 10.0;
const GAP: f64 = 24.0;
const LAYER_GAP: f64 = 36.0;
const TITLE: f64 = 40.0;
const STYLE: &str = "text{font:12px ui-monospace,monospace;fill:#222}.does{fill:#666}.filter{fill:#a40}\
    rect{fill:#fff;stroke:#888;rx:4}.in{fill:#eef3fa}.out{stroke:#175;stroke-width:2}path{fill:none;stroke:#888}";

/// One box: left edge, width, and its lines.
struct Drawn {
    left: f64,
    width: f64,
}

impl Drawn {
    fn middle(&self) -> f64 {
        self.left + self.width / 2.0
    }
}

/// The whole picture.
pub(super) fn draw(graph: &Graph) -> String {
    let layers = graph.layers();
    let widths = |layer: &Vec<Cell>| -> f64 {
        let cells = layer.iter().map(|cell| width(graph, *cell));
        cells.sum::<f64>() + GAP * layer.len().saturating_sub(1) as f64
    };
    let title = letters(&graph.title);
    let total = layers.layers.iter().map(widths).fold(title, f64::max) + 2.0 * GAP;
    let mut top = TITLE;
    let mut body = String::new();
    let mut above: Option<(Vec<Drawn>, f64)> = None;
    for (at, layer) in layers.layers.iter().enumerate() {
        let drawn = placed(graph, layer, (total - widths(layer)) / 2.0);
        let height = layer.iter().map(|cell| height(graph, *cell)).fold(0.0, f64::max);
        if let Some((before, bottom)) = &above {
            edges(&layers, at, before, *bottom, &drawn, top, &mut body);
        }
        for (cell, drawn) in layer.iter().zip(&drawn) {
            cell_drawn(graph, *cell, drawn, top, height, &mut body);
        }
        above = Some((drawn, top + height));
        top += height + LAYER_GAP;
    }
    let title = escaped(&graph.title);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{total:.0}\" height=\"{top:.0}\" viewBox=\"0 0 {total:.0} {top:.0}\">\n\
         <style>{STYLE}</style>\n<text x=\"{GAP}\" y=\"24\">{title}</text>\n{body}</svg>\n"
    )
}

fn lines(node: &Node) -> Vec<(&'static str, &str)> {
    let does = Some(("does", node.does.as_str())).filter(|(_, text)| !text.is_empty());
    let filter = node.filter.as_deref().map(|filter| ("filter", filter));
    [Some(("name", node.name.as_str())), does, filter]
        .into_iter()
        .flatten()
        .collect()
}

fn letters(text: &str) -> f64 {
    text.chars().count() as f64 * LETTER
}

fn width(graph: &Graph, cell: Cell) -> f64 {
    match cell {
        Cell::Way => 1.0,
        Cell::Node(at) => {
            let lines = lines(&graph.nodes[at]);
            lines.iter().map(|(_, text)| letters(text)).fold(0.0, f64::max) + 2.0 * PADDING
        }
    }
}

fn height(graph: &Graph, cell: Cell) -> f64 {
    match cell {
        Cell::Way => 0.0,
        Cell::Node(at) => lines(&graph.nodes[at]).len() as f64 * LINE + 2.0 * PADDING,
    }
}

fn placed(graph: &Graph, layer: &[Cell], mut left: f64) -> Vec<Drawn> {
    let mut drawn = Vec::with_capacity(layer.len());
    for cell in layer {
        let width = width(graph, *cell);
        drawn.push(Drawn { left, width });
        left += width + GAP;
    }
    drawn
}

/// The edges into layer `at`.
fn edges(
    layers: &Layers,
    at: usize,
    above: &[Drawn],
    bottom: f64,
    below: &[Drawn],
    top: f64,
    body: &mut String,
) {
    for (from, to) in &layers.edges[at - 1] {
        let (Some(from), Some(to)) = (above.get(*from), below.get(*to)) else {
            continue;
        };
        let (x, y, middle) = (from.middle(), to.middle(), (bottom + top) / 2.0);
        // Writing to a String does not fail.
        let _ = writeln!(
            body,
            "<path d=\"M{x:.1} {bottom:.1} C{x:.1} {middle:.1} {y:.1} {middle:.1} {y:.1} {top:.1}\"/>"
        );
    }
}

fn cell_drawn(graph: &Graph, cell: Cell, drawn: &Drawn, top: f64, height: f64, body: &mut String) {
    let Cell::Node(at) = cell else {
        let x = drawn.middle();
        let _ = writeln!(body, "<path d=\"M{x:.1} {top:.1} V{:.1}\"/>", top + height);
        return;
    };
    let node = &graph.nodes[at];
    let class = match (node.is_input, node.is_output) {
        (true, _) => "in",
        (_, true) => "out",
        _ => "stage",
    };
    let (left, width) = (drawn.left, drawn.width);
    let _ = writeln!(
        body,
        "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{height:.1}\"/>"
    );
    for (line, (class, text)) in lines(node).into_iter().enumerate() {
        let (x, y) = (left + PADDING, top + PADDING + LINE * (line as f64 + 0.75));
        let text = escaped(text);
        let _ = writeln!(
            body,
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\">{text}</text>"
        );
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '&' => out.push_str("&amp;"),
            '"' => out.push_str("&quot;"),
            // XML allows no control character but these.
            letter if letter.is_control() && !matches!(letter, '\t' | '\n') => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::pipeline::graph::tests::example;

    #[test]
    fn every_node_has_its_box_and_text_is_escaped() {
        let picture = super::draw(&example());
        assert_eq!(picture.matches("<rect ").count(), 6);
        assert!(picture.contains("model &lt;angles&gt;") && !picture.contains("model <angles>"));
        assert!(picture.contains("class=\"filter\"") && picture.contains("class=\"out\""));
        assert_eq!(super::escaped("a\u{1}&\"b"), "a\u{fffd}&amp;&quot;b");
    }
}
