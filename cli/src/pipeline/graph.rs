//! A pipeline as a drawing sees it: boxes, what each takes of which, and the layers that they lie in.
//!
//! It draws nothing. Its invariant: a node stands behind those that it takes from.

/// A pipeline's inputs and stages.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Graph {
    /// What stands above it.
    pub(super) title: String,
    pub(super) nodes: Vec<Node>,
}

/// An input or a stage.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Node {
    pub(super) name: String,
    /// What it does, in a few words; empty for an input.
    pub(super) does: String,
    /// When it does not run.
    pub(super) filter: Option<String>,
    /// The nodes that it takes from, all before it.
    pub(super) takes: Vec<usize>,
    /// Whether the pipeline's answer has its value.
    pub(super) is_output: bool,
    /// Whether it is a part of the request.
    pub(super) is_input: bool,
}

/// A place in a layer: a node, or the way of an edge through that layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cell {
    Node(usize),
    Way,
}

/// Nodes in layers, each edge from one layer to the next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Layers {
    pub(super) layers: Vec<Vec<Cell>>,
    /// For each layer but the first, pairs of a place in the layer above and a place in it.
    pub(super) edges: Vec<Vec<(usize, usize)>>,
}

/// Sweeps over all layers that sort each by the one before it.
const SWEEPS: usize = 4;

impl Graph {
    /// Which layer each node lies in: behind all that it takes from; an input just above what takes it first.
    fn depths(&self) -> Vec<usize> {
        let mut depths: Vec<usize> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let before = node.takes.iter().filter_map(|at| depths.get(*at));
            depths.push(before.max().map_or(0, |deepest| deepest + 1));
        }
        for at in 0..self.nodes.len() {
            let takers = self
                .nodes
                .iter()
                .zip(&depths)
                .filter(|(node, _)| node.takes.contains(&at));
            if let (true, Some(first)) = (self.nodes[at].is_input, takers.map(|(_, depth)| *depth).min()) {
                depths[at] = first.saturating_sub(1);
            }
        }
        depths
    }

    /// The layers, with few crossings.
    pub(super) fn layers(&self) -> Layers {
        let depths = self.depths();
        let count = depths.iter().max().map_or(0, |deepest| deepest + 1);
        let mut layers: Vec<Vec<Cell>> = vec![Vec::new(); count];
        let mut edges: Vec<Vec<(usize, usize)>> = vec![Vec::new(); count.saturating_sub(1)];
        let mut places = Vec::with_capacity(self.nodes.len());
        for (at, depth) in depths.iter().enumerate() {
            places.push(layers[*depth].len());
            layers[*depth].push(Cell::Node(at));
        }
        for (at, node) in self.nodes.iter().enumerate() {
            for &from in &node.takes {
                let mut place = places[from];
                for layer in depths[from] + 1..depths[at] {
                    edges[layer - 1].push((place, layers[layer].len()));
                    place = layers[layer].len();
                    layers[layer].push(Cell::Way);
                }
                edges[depths[at] - 1].push((place, places[at]));
            }
        }
        let mut layers = Layers { layers, edges };
        for sweep in 0..SWEEPS {
            layers.sort(sweep % 2 == 0);
        }
        layers
    }
}

impl Layers {
    /// Sorts every layer by the places of its neighbours: those above it where it goes `down`.
    fn sort(&mut self, down: bool) {
        let count = self.layers.len();
        for step in 1..count {
            let layer = if down { step } else { count - 1 - step };
            let mean = |place: usize| {
                let neighbours: Vec<usize> = match down {
                    true => self.edges[layer - 1]
                        .iter()
                        .filter(|(_, to)| *to == place)
                        .map(|(from, _)| *from)
                        .collect(),
                    false => self.edges[layer]
                        .iter()
                        .filter(|(from, _)| *from == place)
                        .map(|(_, to)| *to)
                        .collect(),
                };
                match neighbours.len() {
                    0 => place as f64,
                    some => neighbours.iter().sum::<usize>() as f64 / some as f64,
                }
            };
            let mut order: Vec<(usize, f64)> = (0..self.layers[layer].len())
                .map(|place| (place, mean(place)))
                .collect();
            order.sort_by(|(_, left), (_, right)| left.total_cmp(right));
            self.reorder(
                layer,
                &order.into_iter().map(|(place, _)| place).collect::<Vec<usize>>(),
            );
        }
    }

    /// Puts a layer into another order, and its edges with it.
    fn reorder(&mut self, layer: usize, order: &[usize]) {
        self.layers[layer] = order.iter().map(|place| self.layers[layer][*place]).collect();
        let now = |before: usize| order.iter().position(|place| *place == before).unwrap_or(before);
        if let Some(above) = layer.checked_sub(1) {
            self.edges[above].iter_mut().for_each(|(_, to)| *to = now(*to));
        }
        if let Some(below) = self.edges.get_mut(layer) {
            below.iter_mut().for_each(|(from, _)| *from = now(*from));
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A detector and a classifier on what it cuts out of the same image.
    pub(in crate::pipeline) fn example() -> Graph {
        let node = |name: &str, does: &str, takes: &[usize]| Node {
            name: name.to_owned(),
            does: does.to_owned(),
            takes: takes.to_vec(),
            ..Node::default()
        };
        let mut nodes = vec![
            node("inputs.page", "", &[]),
            node("image", "decode", &[0]),
            node("small", "resize", &[1]),
            node("boxes", "model detector", &[2]),
            node("crops", "crop", &[1, 3]),
            node("angles", "model <angles>", &[4]),
        ];
        nodes[0].is_input = true;
        nodes[4].filter = Some("skip boxes.items == 0".to_owned());
        nodes[5].is_output = true;
        Graph {
            title: "page: request = \"values\"".to_owned(),
            nodes,
        }
    }

    #[test]
    fn a_long_edge_has_its_way_through_each_layer() {
        let Layers { layers, edges } = example().layers();
        let shape: Vec<usize> = layers.iter().map(Vec::len).collect();
        assert_eq!(shape, [1, 1, 2, 2, 1, 1]);
        let ways = layers.iter().flatten().filter(|cell| **cell == Cell::Way).count();
        assert_eq!((ways, edges.iter().map(Vec::len).sum::<usize>()), (2, 6 + 2));
        for (above, edges) in edges.iter().enumerate() {
            let inside =
                |(from, to): &(usize, usize)| *from < layers[above].len() && *to < layers[above + 1].len();
            assert!(edges.iter().all(inside));
        }
    }

    #[test]
    fn sorting_takes_a_crossing_out() {
        // Two chains whose second nodes are listed the other way round.
        let node = |takes: &[usize]| Node {
            takes: takes.to_vec(),
            ..Node::default()
        };
        let graph = Graph {
            title: String::new(),
            nodes: vec![node(&[]), node(&[]), node(&[1]), node(&[0])],
        };
        assert_eq!(graph.layers().edges, [[(1, 1), (0, 0)]]);
        assert_eq!(Graph::default().layers(), Layers::default());
    }
}
