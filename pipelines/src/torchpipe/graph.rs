//! The nodes of a file as pipelines: which node takes what from which, and the stages and models that they become.
//!
//! It reads no expression and knows no backend. Its invariant: each node belongs to one root, and stands behind those that it takes from.

use super::expression::{self, Member};
use super::file::Node;
use super::members::{Counterpart, Flow, Keys, counterpart};
use super::{Note, Outcome, Refused, Translation};
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};

pub(super) fn translate(nodes: &[Node]) -> Result<Translation, Refused> {
    let graph = Graph::new(nodes)?;
    let (mut models, mut pipelines) = (Table::new(), Table::new());
    let mut notes: Vec<Vec<Note>> = vec![Vec::new(); nodes.len()];
    let mut reached = BTreeSet::new();
    for root in graph.roots() {
        let (mut stages, mut outputs) = (Vec::new(), Vec::<Value>::new());
        let mut flows = BTreeMap::new();
        let members = graph.members(root)?;
        for &at in &members {
            graph.check_root(at, &members)?;
            let mut keys = Keys::new(&nodes[at]);
            let chain = graph.chain(at, &mut keys, &mut models, &flows)?;
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
    let mut sections = Table::new();
    if !models.is_empty() {
        sections.insert("models".to_owned(), models.into());
    }
    sections.insert("pipelines".to_owned(), pipelines.into());
    let notes = notes.into_iter().flatten().collect();
    Ok(Translation { sections, notes })
}

/// What a node is called here, where a dot means an output of a stage.
fn stage_name(node: &str) -> String {
    node.replace('.', "-")
}

struct Graph<'n> {
    nodes: &'n [Node],
    /// The nodes that follow each.
    next: Vec<Vec<usize>>,
    /// What each node takes: the node, that node's key and its own, `("B", "result", "x")`.
    takes: Vec<Vec<Taken>>,
}

#[derive(Debug, Clone)]
struct Taken {
    from: usize,
    key: String,
}

impl<'n> Graph<'n> {
    fn new(nodes: &'n [Node]) -> Result<Graph<'n>, Refused> {
        let mut graph = Graph {
            nodes,
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
        Ok(graph)
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
        let mut shared = Keys::new(owner);
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
            chain.jump(&stage_name(to));
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
            let outcome = chain.filter(filter).map_err(|problem| {
                let hint =
                    "run, swap, skip and or have; conditions are { skip = \"…\" } and { break = \"…\" } here";
                Refused::new(&node.name, "filter", problem, hint)
            })?;
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

/// The stages of one node while they are made.
struct Chain {
    node: String,
    /// What `data` is.
    data: String,
    /// What is known of the value so far.
    flow: Flow,
    made: Vec<Made>,
    /// The stage whose value it has where there is one.
    or: Option<String>,
}

/// One stage, not yet called as its node.
struct Made {
    name: String,
    key: &'static str,
    keys: Table,
    from: String,
    /// It runs where this one has no value.
    or: Option<String>,
    /// Of a stage with threads of its own.
    instances: Option<i64>,
}

/// Stages with threads of their own.
const WITH_THREADS: &[&str] = &["decode", "resize", "crop", "color", "normalise"];

impl Chain {
    fn of(graph: &Graph<'_>, at: usize, flows: &BTreeMap<usize, Flow>) -> Result<Chain, Refused> {
        let name = |taken: &Taken| stage_name(&graph.nodes[taken.from].name);
        let takes = &graph.takes[at];
        let data = |at: usize| graph.takes[at].iter().find(|taken| taken.key == "data");
        let from = |taken: Option<&Taken>| taken.map_or_else(|| "inputs.data".to_owned(), name);
        let flow = |taken: Option<&Taken>| {
            taken
                .and_then(|taken| flows.get(&taken.from).cloned())
                .unwrap_or_default()
        };
        let others = takes.iter().filter(|taken| taken.key != "data");
        let others: Vec<(String, String)> = others.map(|taken| (taken.key.clone(), name(taken))).collect();
        let mut chain = Chain {
            node: stage_name(&graph.nodes[at].name),
            data: from(data(at)),
            flow: flow(data(at)),
            made: Vec::new(),
            or: None,
        };
        if is_or(graph.nodes[at].get("filter")) {
            let Some(before) = data(at) else {
                let problem = "no node leads to it, so there is no other result";
                return Err(Refused::new(
                    &graph.nodes[at].name,
                    "filter",
                    problem,
                    "leave the filter out",
                ));
            };
            // A node without a result hands on what it took.
            chain.data = from(data(before.from));
            chain.flow = flow(data(before.from));
            chain.or = Some(name(before));
        }
        chain.flow.others = others;
        Ok(chain)
    }

    fn push(&mut self, key: &'static str, keys: Table) {
        let name = format!("{}-{}", self.node, self.made.len() + 1);
        let from = self
            .made
            .last()
            .map_or_else(|| self.data.clone(), |before| before.name.clone());
        self.made.push(Made {
            name,
            key,
            keys,
            from,
            or: None,
            instances: None,
        });
    }

    fn member(
        &mut self,
        member: &Member,
        keys: &mut Keys<'_>,
        models: &mut Table,
        owner: &str,
    ) -> Result<(), Refused> {
        let refused = |problem: String, hint: &str| Refused::new(owner, "backend", problem, hint);
        let before = self.made.len();
        let others = self.flow.others.clone();
        let found = counterpart(member, keys, &mut self.flow)?;
        self.flow.others = others;
        match found {
            Counterpart::Stages(stages) => {
                for (key, table) in stages {
                    self.push(key, table);
                }
            }
            Counterpart::Model { before, section } => {
                for (key, table) in before {
                    self.push(key, table);
                }
                let name = stage_name(owner);
                if !models.contains_key(&name) {
                    models.insert(name.clone(), sized(section, keys)?.into());
                }
                let model = [("model".to_owned(), name.into())].into_iter().collect();
                self.push("model", model);
            }
        }
        match &member.filter {
            None => {}
            filter if is_or(filter.as_deref()) && before > 0 && self.made.len() == before + 1 => {
                // It takes what the member before it took.
                let (name, from) = (
                    self.made[before - 1].name.clone(),
                    self.made[before - 1].from.clone(),
                );
                let made = &mut self.made[before];
                (made.from, made.or) = (from, Some(name));
            }
            Some(filter) => {
                let problem = format!("`({filter})` stands before `{}`", member.name);
                return Err(refused(problem, "make that member a node of its own with filter"));
            }
        }
        // What a wrapper holds runs in it: the wrappers that are known do nothing themselves.
        for inside in &member.inside {
            self.member(inside, keys, models, owner)?;
        }
        Ok(())
    }

    /// The instances of the node, for its stages that have threads.
    fn instances(&mut self, keys: &mut Keys<'_>) -> Result<(), Refused> {
        let count = match keys.node.get("instance_num") {
            Some(text) => text
                .parse()
                .map_err(|_| not_a_size(keys.node, "instance_num", text))?,
            None => return Ok(()),
        };
        for made in self
            .made
            .iter_mut()
            .filter(|made| WITH_THREADS.contains(&made.key))
        {
            made.instances = Some(count);
            keys.note(
                "instance_num",
                Outcome::Kept,
                "instances of each of its stages that has threads",
            );
        }
        Ok(())
    }

    /// What the pipeline gives where nothing follows the node.
    fn outputs(&self) -> Vec<Value> {
        let node = &self.node;
        match self.made.last() {
            Some(made) if made.key == "topk" => {
                vec![format!("{node}.values").into(), format!("{node}.indices").into()]
            }
            _ => vec![node.clone().into()],
        }
    }

    fn jump(&mut self, pipeline: &str) {
        (self.flow.is_image, self.flow.color) = (false, None);
        let keys = [("pipeline".to_owned(), pipeline.into())].into_iter().collect();
        self.push("pipeline", keys);
    }

    /// What a filter of a node becomes; the error is what is wrong with it.
    fn filter(&mut self, filter: &str) -> Result<String, String> {
        match filter.to_ascii_lowercase().as_str() {
            "run" | "swap" => Ok("a stage runs where its inputs have values, as by default".to_owned()),
            "or" => {
                let other = self.or.as_deref().unwrap_or_default();
                Ok(format!(
                    "it runs where `{other}` has no value, and has that one's value elsewhere"
                ))
            }
            "skip" => {
                self.made.clear();
                Ok("the node is left out".to_owned())
            }
            _ => Err(format!("`{filter}` has no counterpart")),
        }
    }

    /// The stages, wired; the last one is called as the node.
    fn finish(mut self) -> Vec<Value> {
        if self.made.is_empty() {
            self.push("identity", Table::new());
        }
        let last = self.made.len() - 1;
        self.made[last].name.clone_from(&self.node);
        let mut filters = vec![None; self.made.len()];
        for (at, made) in self.made.iter().enumerate() {
            filters[at] = made.or.clone().map(|other| ("or", other));
        }
        if let Some(other) = self.or {
            filters[0] = Some(("skip", format!("some {other}")));
            filters[last] = Some(("or", other));
        }
        let mut stages = Vec::with_capacity(self.made.len());
        for (made, filter) in self.made.into_iter().zip(filters) {
            stages.push(made.wired(&self.flow.others, filter).into());
        }
        stages
    }
}

/// Whether a filter is the one that keeps an earlier result.
fn is_or(filter: Option<&str>) -> bool {
    filter.is_some_and(|filter| filter.eq_ignore_ascii_case("or"))
}

impl Made {
    fn wired(mut self, others: &[(String, String)], filter: Option<(&str, String)>) -> Table {
        let takes_named = self.key == "pipeline" || self.key == "model" && !others.is_empty();
        let (key, value) = match (takes_named, self.key) {
            (true, _) => {
                let mut inputs: Table = [("data".to_owned(), self.from.into())].into_iter().collect();
                inputs.extend(
                    others
                        .iter()
                        .map(|(key, from)| (key.clone(), from.clone().into())),
                );
                ("inputs", inputs.into())
            }
            (false, "model") => ("input", Value::from(self.from)),
            (false, _) => ("from", Value::from(self.from)),
        };
        self.keys.insert(key.to_owned(), value);
        let mut stage = Table::new();
        stage.insert("name".to_owned(), self.name.into());
        if let Some(instances) = self.instances {
            stage.insert("instances".to_owned(), instances.into());
        }
        if let Some((key, other)) = filter {
            let filter: Table = [(key.to_owned(), other.into())].into_iter().collect();
            stage.insert("filter".to_owned(), filter.into());
        }
        stage.insert(self.key.to_owned(), self.keys.into());
        stage
    }
}

/// A model's section with the sizes of its batches, its instances and its wait.
fn sized(mut section: Table, keys: &mut Keys<'_>) -> Result<Table, Refused> {
    let node = keys.node;
    let refused = |key: &str, text: &str| {
        Refused::new(
            &node.name,
            key,
            format!("`{text}` is no size"),
            "write 4, or \"4x3x224x224\"",
        )
    };
    if let Some(max) = node.get("max") {
        let sizes = max
            .split(['&', ';'])
            .map(|shape| shape.split('x').next().unwrap_or_default().trim().parse::<i64>());
        let sizes: Result<BTreeSet<i64>, _> = sizes.collect();
        let sizes = sizes
            .ok()
            .filter(|sizes| sizes.first().is_some_and(|least| *least > 0));
        let sizes = sizes.ok_or_else(|| refused("max", max))?;
        let largest = sizes.last().copied().unwrap_or(1);
        section.insert("batch_size_max".to_owned(), largest.into());
        let (outcome, text) = match max.contains('x') {
            true if sizes.len() > 1 => (Outcome::Changed, "batch_sizes; shapes are the model's own"),
            true => (
                Outcome::Changed,
                "batch_size_max is its largest batch; shapes are the model's own",
            ),
            false if sizes.len() > 1 => (Outcome::Kept, "batch_sizes"),
            false => (Outcome::Kept, "batch_size_max"),
        };
        keys.note("max", outcome, text);
        if sizes.len() > 1 {
            let sizes: Vec<Value> = sizes.into_iter().map(Value::from).collect();
            section.insert("batch_sizes".to_owned(), sizes.into());
        }
    } else {
        section.insert("batch_size_max".to_owned(), 1.into());
    }
    if let Some(count) = node.get("instance_num") {
        let count: i64 = count.parse().map_err(|_| refused("instance_num", count))?;
        section.insert("instances".to_owned(), count.into());
        keys.note("instance_num", Outcome::Kept, "instances");
    }
    if let Some(text) = node.get("batching_timeout") {
        let us = delay_us(text).ok_or_else(|| {
            let problem = format!("`{text}` is no time");
            Refused::new(
                &node.name,
                "batching_timeout",
                problem,
                "write milliseconds, 0 or more",
            )
        })?;
        section.insert("batch_delay_us_max".to_owned(), us.into());
        keys.note(
            "batching_timeout",
            Outcome::Changed,
            "batch_delay_us_max, in microseconds; an instance waits only while measured arrivals say that the batch will fill",
        );
    }
    Ok(section)
}

/// Microseconds of a time in milliseconds, which may have a fraction.
fn delay_us(text: &str) -> Option<i64> {
    let us = text.trim().parse::<f64>().ok()? * 1e3;
    // Sizes that no table can hold are not times.
    (0.0..=1e15).contains(&us).then(|| us.round() as i64)
}

fn not_a_size(node: &Node, key: &str, text: &str) -> Refused {
    Refused::new(
        &node.name,
        key,
        format!("`{text}` is no size"),
        "write 4, or \"4x3x224x224\"",
    )
}
