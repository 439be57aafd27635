//! A pipeline as lines of text, a node each. Its invariant: a node's line stands below those of what it takes.

use super::graph::Graph;
use std::fmt::Write as _;

/// The title, then a line a node: name, what it does, what it takes, when it does not run; `*` marks what the answer has.
pub(super) fn draw(graph: &Graph) -> String {
    let width = |text: fn(&super::graph::Node) -> &str| {
        graph
            .nodes
            .iter()
            .map(|node| text(node).chars().count())
            .max()
            .unwrap_or(0)
    };
    let (names, deeds) = (width(|node| &node.name), width(|node| &node.does));
    let mut out = format!("{}\n", graph.title);
    for node in &graph.nodes {
        let mark = if node.is_output { '*' } else { ' ' };
        let from: Vec<&str> = node
            .takes
            .iter()
            .map(|at| graph.nodes[*at].name.as_str())
            .collect();
        let from = match from.is_empty() {
            true => String::new(),
            false => format!("<- {}", from.join(", ")),
        };
        let filter = node
            .filter
            .as_ref()
            .map(|filter| format!("  [{filter}]"))
            .unwrap_or_default();
        let line = format!(
            "{mark} {:names$}  {:deeds$}  {from}{filter}",
            node.name, node.does
        );
        // Writing to a String does not fail.
        let _ = writeln!(out, "{}", line.trim_end());
    }
    out
}

#[cfg(test)]
mod tests {
    use crate::pipeline::graph::tests::example;

    #[test]
    fn every_node_has_its_line() {
        let expected = "\
page: request = \"values\"
  inputs.page
  image        decode          <- inputs.page
  small        resize          <- image
  boxes        model detector  <- small
  crops        crop            <- image, boxes  [skip boxes.items == 0]
* angles       model <angles>  <- crops
";
        assert_eq!(super::draw(&example()), expected);
    }
}
