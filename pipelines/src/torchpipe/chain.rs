//! The members of one node as stages that follow each other, the last one under the node's name.
//!
//! It knows no backend. Its invariant: each stage takes what the one before it gives, and the first what the node takes.

use super::Outcome;
use super::Refused;
use super::expression::Member;
use super::graph::{Graph, Taken, stage_name};
use super::members::{Counterpart, Flow, Keys, counterpart};
use super::own::{Own, REQUEST};
use super::sizes::{self, not_a_size, sized};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// The stages of one node while they are made.
pub(super) struct Chain {
    node: String,
    /// What `data` is.
    data: String,
    /// What is known of the value so far.
    pub(super) flow: Flow,
    made: Vec<Made>,
    /// Models of registered backends.
    pub(super) own: Vec<Own>,
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
    /// Of another pipeline, whether it wants to know the request.
    brings_request: bool,
}

/// Stages with threads of their own.
const WITH_THREADS: &[&str] = &["decode", "resize", "crop", "color", "normalise"];

impl Chain {
    pub(super) fn of(graph: &Graph<'_>, at: usize, flows: &BTreeMap<usize, Flow>) -> Result<Chain, Refused> {
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
            own: Vec::new(),
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
            brings_request: false,
        });
    }

    pub(super) fn member(
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
            Counterpart::Own => self.own(member, keys, owner)?,
        }
        match &member.filter {
            None => {}
            filter if is_or(filter.as_deref()) && self.reads_own() => {
                let problem = format!(
                    "`(or)` stands before `{}`, behind a registered backend",
                    member.name
                );
                return Err(refused(
                    problem,
                    "call the other one in its forward, where there is no result",
                ));
            }
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

    /// A model of its own for a registered backend; the second one of a node is called NODE/2.
    fn own(&mut self, member: &Member, keys: &mut Keys<'_>, owner: &str) -> Result<(), Refused> {
        let model = match self.own.len() {
            0 => stage_name(owner),
            before => format!("{}/{}", stage_name(owner), before + 1),
        };
        let section = sizes::of_own(keys)?;
        let call = [("model".to_owned(), model.clone().into())].into_iter().collect();
        self.push("call", call);
        let mut own = Own::new(member, keys.node, model, section);
        let others = self.flow.others.iter().map(|(key, _)| key.clone());
        own.inputs = others.chain(["data".to_owned(), REQUEST.to_owned()]).collect();
        // The stage gives them in this order.
        own.inputs.sort();
        self.own.push(own);
        Ok(())
    }

    /// The instances of the node, for its stages that have threads.
    pub(super) fn instances(&mut self, keys: &mut Keys<'_>) -> Result<(), Refused> {
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
    pub(super) fn outputs(&self) -> Vec<Value> {
        let node = &self.node;
        match self.made.last() {
            Some(made) if made.key == "topk" => {
                vec![format!("{node}.values").into(), format!("{node}.indices").into()]
            }
            _ => vec![node.clone().into()],
        }
    }

    /// Whether a registered backend gives what comes next.
    fn reads_own(&self) -> bool {
        self.made.iter().any(|made| made.key == "call")
    }

    /// A stage that is another pipeline, which may want to know the request.
    pub(super) fn jump(&mut self, pipeline: &str, brings_request: bool) {
        (self.flow.is_image, self.flow.color) = (false, None);
        let keys = [("pipeline".to_owned(), pipeline.into())].into_iter().collect();
        self.push("pipeline", keys);
        if let Some(made) = self.made.last_mut() {
            made.brings_request = brings_request;
        }
    }

    /// What a filter of a node becomes; the error is what is wrong with it.
    pub(super) fn filter(&mut self, filter: &str) -> Result<String, String> {
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
    pub(super) fn finish(mut self) -> Vec<Value> {
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
        let takes_named =
            matches!(self.key, "pipeline" | "call") || self.key == "model" && !others.is_empty();
        let (key, value) = match (takes_named, self.key) {
            (true, _) => {
                let mut inputs: Table = [("data".to_owned(), self.from.into())].into_iter().collect();
                inputs.extend(
                    others
                        .iter()
                        .map(|(key, from)| (key.clone(), from.clone().into())),
                );
                if self.key == "call" || self.brings_request {
                    inputs.insert(REQUEST.to_owned(), format!("inputs.{REQUEST}").into());
                }
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
