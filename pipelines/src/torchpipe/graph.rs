//! The nodes of a file as pipelines: which node takes what from which, and the stages and models that they become.
//!
//! It knows no backend: members of a node do (`members.rs`). Its invariant: each node belongs to one root, and stands behind those that it takes from.

use super::chain::Chain;
use super::expression;
use super::file::Node;
use super::members::{Flow, Keys};
use super::own::{self, Own};
use super::{Note, Outcome, Refused, Translation};
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};

pub(super) fn translate(nodes: &[Node], registered: &BTreeSet<String>) -> Result<Translation, Refused> {
    let graph = Graph::new(nodes, registered)?;
    let mut own = BTreeMap::<String, Own>::new();
    let (mut models, mut pipelines) = (Table::new(), Table::new());
    let mut notes: Vec<Vec<Note>> = vec![Vec::new(); nodes.len()];
    let mut reached = BTreeSet::new();
    for root in graph.roots() {
        let (mut stages, mut outputs) = (Vec::new(), Vec::<Value>::new());
        let mut flows = BTreeMap::new();
        let members = graph.members(root)?;
        for &at in &members {
            graph.check_root(at, &members)?;
            let mut keys = Keys::new(&nodes[at], registered);
            let mut chain = graph.chain(at, &mut keys, &mut models, &flows)?;
            for made in chain.own.drain(..) {
                own.entry(made.model.clone()).or_insert(made);
            }
            notes[at] = keys.finish();
            flows.insert(at, chain.flow.clone());
            if graph.next[at].is_empty() {
                outputs.extend(chain.outputs());
            }
            stages.extend(chain.finish());
        }
        reached.extend(members.iter().copied());
        let pipeline: Table = [
            ("request".to_owned(), "values".into()),
            ("outputs".to_owned(), outputs.into()),
            ("stages".to_owned(), stages.into()),
        ]
        .into_iter()
        .collect();
        pipelines.insert(stage_name(&nodes[root].name), pipeline.into());
    }
    if let Some(unreached) = (0..nodes.len()).find(|at| !reached.contains(at)) {
        return Err(graph.cycle(unreached));
    }
    let mut own: Vec<Own> = own.into_values().collect();
    own::settle(&mut own, &pipelines, &graph.split());
    let roots = graph.roots().into_iter().filter(|root| graph.brings[*root]);
    let roots = roots.map(|root| stage_name(&nodes[root].name));
    let roots = roots.map(|root| (pipelines.get(&root).is_some_and(own::reads_data), root));
    let brings = roots.map(|(reads, root)| (root, reads)).collect();
    let mut sections = Table::new();
    if !models.is_empty() {
        sections.insert("models".to_owned(), models.into());
    }
    sections.insert("pipelines".to_owned(), pipelines.into());
    let notes = notes.into_iter().flatten().collect();
    Ok(Translation {
        sections,
        notes,
        own,
        brings,
    })
}

/// What a node is called here, where a dot means an output of a stage.
pub(super) fn stage_name(node: &str) -> String {
    node.replace('.', "-")
}

pub(super) struct Graph<'n> {
    pub(super) nodes: &'n [Node],
    /// Backends that the program has registered.
    registered: &'n BTreeSet<String>,
    /// Whether the pipeline of each root wants to know the request.
    brings: Vec<bool>,
    /// The nodes that follow each.
    next: Vec<Vec<usize>>,
    /// What each node takes of others: `x` and `data` of `B[result:x],C[result:data]`.
    pub(super) takes: Vec<Vec<Taken>>,
}

/// The result of a node, and the key by which another takes it.
#[derive(Debug, Clone)]
pub(super) struct Taken {
    pub(super) from: usize,
    pub(super) key: String,
}

impl<'n> Graph<'n> {
    fn new(nodes: &'n [Node], registered: &'n BTreeSet<String>) -> Result<Graph<'n>, Refused> {
        let mut graph = Graph {
            nodes,
            registered,
            brings: vec![false; nodes.len()],
            next: vec![Vec::new(); nodes.len()],
            takes: vec![Vec::new(); nodes.len()],
        };
        for (at, node) in nodes.iter().enumerate() {
            for name in node.list("next") {
                let to = graph.find(at, "next", &name)?;
                graph.next[at].push(to);
            }
        }
        for (at, node) in nodes.iter().enumerate() {
            let before: Vec<usize> = (0..nodes.len())
                .filter(|other| graph.next[*other].contains(&at))
                .collect();
            graph.takes[at] = match (node.get("map"), before.as_slice()) {
                (Some(map), _) => graph.mapped(at, map, &before)?,
                (None, []) => Vec::new(),
                (None, [from]) => vec![Taken {
                    from: *from,
                    key: "data".to_owned(),
                }],
                (None, [..]) => {
                    let names: Vec<&str> = before.iter().map(|at| nodes[*at].name.as_str()).collect();
                    let problem = format!("{names:?} lead to it, and nothing says what it takes of which");
                    let hint = format!("set map = \"{}[result:data]\"", names.first().unwrap_or(&""));
                    return Err(Refused::new(&node.name, "map", problem, hint));
                }
            };
        }
        graph.bring();
        Ok(graph)
    }

    /// Finds the roots whose nodes run registered backends, or jump to one that does.
    fn bring(&mut self) {
        let is_own = |at: &usize| own::has_own(self.owner(*at), self.registered);
        let mut wants: BTreeSet<usize> = (0..self.nodes.len()).filter(is_own).collect();
        loop {
            let count = wants.len();
            for (at, node) in self.nodes.iter().enumerate() {
                let to = self
                    .nodes
                    .iter()
                    .position(|other| Some(other.name.as_str()) == node.get("jump"));
                let leads = self.next[at].iter().chain(&to).any(|to| wants.contains(to));
                if leads {
                    wants.insert(at);
                }
            }
            if wants.len() == count {
                break;
            }
        }
        self.brings = (0..self.nodes.len()).map(|at| wants.contains(&at)).collect();
    }

    /// The pipelines that a split value goes to.
    fn split(&self) -> BTreeSet<String> {
        let splits = self.nodes.iter().filter(|node| node.get("split").is_some());
        splits
            .filter_map(|node| node.get("jump"))
            .map(stage_name)
            .collect()
    }

    fn find(&self, at: usize, key: &str, name: &str) -> Result<usize, Refused> {
        let found = self.nodes.iter().position(|node| node.name == name);
        found.ok_or_else(|| {
            let problem = format!("it names `{name}`, which is not there");
            let there: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
            Refused::new(
                &self.nodes[at].name,
                key,
                problem,
                format!("nodes are {}", there.join(", ")),
            )
        })
    }

    /// `B[result:x],C[result:data]`.
    fn mapped(&self, at: usize, map: &str, before: &[usize]) -> Result<Vec<Taken>, Refused> {
        let node = &self.nodes[at].name;
        let refused = |problem: String| {
            Refused::new(
                node,
                "map",
                problem,
                "write \"B[result:x],C[result:data]\", with nodes whose next is this one",
            )
        };
        let mut takes = Vec::new();
        for member in expression::parse(map).map_err(&refused)? {
            let from = self.find(at, "map", &member.name)?;
            if !before.contains(&from) {
                return Err(refused(format!("`{}` does not lead to it", member.name)));
            }
            for pair in &member.inside {
                match pair.name.split_once(':') {
                    Some(("result", key)) => takes.push(Taken {
                        from,
                        key: key.trim().to_owned(),
                    }),
                    Some((key, _)) => {
                        return Err(refused(format!(
                            "it takes `{key}` of `{}`; a node gives its result",
                            member.name
                        )));
                    }
                    None => return Err(refused(format!("`{}` is no pair of keys", pair.name))),
                }
            }
        }
        match takes.iter().any(|taken| taken.key == "data") {
            true => Ok(takes),
            false => Err(refused("nothing becomes `data`".to_owned())),
        }
    }

    fn roots(&self) -> Vec<usize> {
        let is_root = |at: &usize| !self.next.iter().any(|next| next.contains(at));
        (0..self.nodes.len()).filter(is_root).collect()
    }

    /// The nodes below a root, each behind those that it takes from.
    fn members(&self, root: usize) -> Result<Vec<usize>, Refused> {
        let mut open: BTreeMap<usize, usize> = BTreeMap::new();
        let mut reached = vec![root];
        let mut at = 0;
        while let Some(&node) = reached.get(at) {
            for &next in &self.next[node] {
                *open.entry(next).or_default() += 1;
                if !reached.contains(&next) {
                    reached.push(next);
                }
            }
            at += 1;
        }
        let (mut ordered, mut ready) = (Vec::new(), vec![root]);
        while let Some(node) = ready.pop() {
            ordered.push(node);
            for next in self.next[node].iter().rev() {
                let left = open.entry(*next).or_default();
                *left = left.saturating_sub(1);
                if *left == 0 {
                    ready.push(*next);
                }
            }
        }
        match reached.iter().find(|node| !ordered.contains(node)) {
            None => Ok(ordered),
            Some(node) => Err(self.cycle(*node)),
        }
    }

    fn cycle(&self, node: usize) -> Refused {
        let hint = "let every node lead on, never back";
        Refused::new(
            &self.nodes[node].name,
            "next",
            "it leads back to itself, or follows a node that does",
            hint,
        )
    }

    /// A node takes from nodes of its own root alone.
    fn check_root(&self, at: usize, members: &[usize]) -> Result<(), Refused> {
        match self.takes[at].iter().find(|taken| !members.contains(&taken.from)) {
            None => Ok(()),
            Some(taken) => {
                let problem = format!(
                    "it also takes from `{}`, which another root leads to",
                    self.nodes[taken.from].name
                );
                let hint = "put one node before both";
                Err(Refused::new(&self.nodes[at].name, "map", problem, hint))
            }
        }
    }

    /// The node whose instances this one shares, or itself.
    fn owner(&self, at: usize) -> &'n Node {
        let node = &self.nodes[at];
        let owner = node
            .alias_of
            .as_ref()
            .and_then(|of| self.nodes.iter().find(|other| other.name == *of));
        owner.unwrap_or(node)
    }

    /// The stages of one node; `flows` is what is known of the results of those before it.
    fn chain(
        &self,
        at: usize,
        keys: &mut Keys<'n>,
        models: &mut Table,
        flows: &BTreeMap<usize, Flow>,
    ) -> Result<Chain, Refused> {
        let node = &self.nodes[at];
        let owner = self.owner(at);
        for key in ["node_entrypoint", "entrypoint"] {
            if node.get(key).is_some() {
                let hint = "leave it out: models have instances, batches and a queue of their own here (models.NAME)";
                return Err(Refused::new(
                    &node.name,
                    key,
                    "it replaces torchpipe's scheduler",
                    hint,
                ));
            }
        }
        let mut shared = Keys::new(owner, self.registered);
        let source = if owner.name == node.name {
            &mut *keys
        } else {
            &mut shared
        };
        let members = match owner.get("backend") {
            Some(text) => expression::parse(text)
                .map_err(|problem| Refused::new(&owner.name, "backend", problem, "write \"S[A,B]\""))?,
            None if node.get("jump").is_some() => Vec::new(),
            None => {
                return Err(Refused::new(
                    &node.name,
                    "backend",
                    "it has no backend",
                    "name one",
                ));
            }
        };
        source.note("backend", Outcome::Kept, "stages, in this order");
        let mut chain = Chain::of(self, at, flows)?;
        for member in &members {
            chain.member(member, source, models, &owner.name)?;
        }
        chain.instances(source)?;
        self.graph_keys(at, keys, &mut chain)?;
        Ok(chain)
    }

    /// What the keys between nodes are here.
    fn graph_keys(&self, at: usize, keys: &mut Keys<'_>, chain: &mut Chain) -> Result<(), Refused> {
        let node = &self.nodes[at];
        keys.note("next", Outcome::Kept, "the stages that take its value name it");
        keys.note("map", Outcome::Kept, "its inputs name their stages");
        if let Some(to) = node.get("jump") {
            let found = self.find(at, "jump", to)?;
            if !self.roots().contains(&found) {
                let hint = "name a node that no other leads to";
                return Err(Refused::new(
                    &node.name,
                    "jump",
                    format!("`{to}` is no root"),
                    hint,
                ));
            }
            chain.jump(&stage_name(to), self.brings[found]);
            keys.note(
                "jump",
                Outcome::Kept,
                format!("a stage that is the pipeline {:?}", stage_name(to)),
            );
        }
        for key in ["split", "merge"] {
            keys.note(
                key,
                Outcome::Changed,
                "a value carries how many items each row has, and stages run on all of them at once",
            );
        }
        keys.note("priority", Outcome::Dropped, "a call brings its own (_priority)");
        keys.note("min", Outcome::Dropped, "a free instance takes what waits");
        if let Some(filter) = node.get("filter") {
            let outcome = chain
                .filter(filter)
                .map_err(|problem| Refused::new(&node.name, "filter", problem, instead_of(filter)))?;
            keys.note("filter", Outcome::Changed, outcome);
        }
        if let Some(of) = &node.alias_of {
            keys.note(
                "backend",
                Outcome::Dropped,
                format!("it is that of {of}, as there"),
            );
        }
        Ok(())
    }
}

/// What to write instead of a filter without a counterpart.
fn instead_of(filter: &str) -> &'static str {
    match filter.to_ascii_lowercase().replace('_', "").as_str() {
        "serialskip" | "subgraphskip" => {
            "put the nodes that it skips into a pipeline of their own, and skip the stage that runs it: \
             filter = { skip = \"none STAGE\" }"
        }
        "break" => "end the pipeline by a condition: filter = { break = \"none STAGE\" }",
        "error" => {
            "raise in a backend, which fails the request: @millpond.backend, or millpond.torchpipe.register"
        }
        _ => "run, swap, skip and or have; conditions are { skip = \"…\" } and { break = \"…\" } here",
    }
}
