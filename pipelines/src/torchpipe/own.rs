//! Backends that the program has registered: what a node's member of that name becomes, and which pipelines bring their requests along.
//!
//! It knows no Python. Its invariant: a member of a registered name is a model of its own, which all aliases of its node share.

use super::expression::{self, Member};
use super::file::Node;
use std::collections::{BTreeMap, BTreeSet};
use toml::{Table, Value};

/// The input by which a request is found while it is under way.
pub const REQUEST: &str = "request";

/// A model that runs a registered backend.
#[derive(Debug, Clone, PartialEq)]
pub struct Own {
    /// The model's name, which stages have under `call`.
    pub model: String,
    /// The name that the backend is registered by.
    pub backend: String,
    /// What its `init` gets: the keys of the node, its arguments in the expression, and the node's name.
    pub parameters: BTreeMap<String, String>,
    /// The keys of the model's section; the backend's own `max` comes before `batch_size_max`.
    pub section: Table,
    /// The names of what it takes, in the order in which they come.
    pub inputs: Vec<String>,
    /// Whether a stage of ours, or a jump, reads what it gives: other results are handed on as objects.
    pub is_read: bool,
    /// Whether it runs on the parts of a value that was split.
    pub is_split: bool,
}

impl Own {
    pub(super) fn new(member: &Member, node: &Node, model: String, section: Table) -> Own {
        let mut parameters: BTreeMap<String, String> = node.keys.iter().cloned().collect();
        parameters.extend(member.arguments.iter().cloned());
        parameters.insert("node_name".to_owned(), node.name.clone());
        Own {
            model,
            backend: member.name.clone(),
            parameters,
            section,
            inputs: Vec::new(),
            is_read: false,
            is_split: false,
        }
    }
}

/// Whether the expression of a node has a member of one of these names. One that cannot be read has none.
pub(super) fn has_own(node: &Node, registered: &BTreeSet<String>) -> bool {
    fn is_own(member: &Member, registered: &BTreeSet<String>) -> bool {
        let mut inside = member.inside.iter();
        registered.contains(&member.name) || inside.any(|member| is_own(member, registered))
    }
    let members = node.get("backend").map(expression::parse);
    let members = members.and_then(Result::ok).unwrap_or_default();
    members.iter().any(|member| is_own(member, registered))
}

/// Notes what is read by others, and in which pipelines parts of a value run; `split` are the pipelines that split values go to.
pub(super) fn settle(own: &mut [Own], pipelines: &Table, split: &BTreeSet<String>) {
    let mut calls = BTreeMap::<String, Vec<(String, String)>>::new();
    let mut read = BTreeSet::new();
    for (pipeline, section) in pipelines {
        let stages = section.get("stages").and_then(Value::as_array);
        for stage in stages.into_iter().flatten().filter_map(Value::as_table) {
            let name = stage.get("name").and_then(Value::as_str).unwrap_or_default();
            if let Some(to) = jump(stage) {
                let outputs = pipelines.get(to).and_then(|section| section.get("outputs"));
                let outputs = outputs.and_then(Value::as_array).into_iter().flatten();
                read.extend(outputs.filter_map(|name| Some((to.to_owned(), name.as_str()?.to_owned()))));
            }
            match stage
                .get("call")
                .and_then(|call| call.get("model"))
                .and_then(Value::as_str)
            {
                Some(model) => {
                    let place = (pipeline.clone(), name.to_owned());
                    calls.entry(model.to_owned()).or_default().push(place);
                }
                None => texts(&Value::Table(stage.clone()), &mut |text| {
                    read.insert((pipeline.clone(), text.to_owned()));
                }),
            }
        }
    }
    for own in own {
        for place in calls.get(&own.model).into_iter().flatten() {
            own.is_read |= read.contains(place);
            own.is_split |= split.contains(&place.0);
        }
    }
}

/// Whether a stage of ours reads the input `data` of a pipeline.
pub(super) fn reads_data(section: &Value) -> bool {
    let stages = section.get("stages").and_then(Value::as_array);
    let mut reads = false;
    let natives = stages
        .into_iter()
        .flatten()
        .filter(|stage| stage.get("call").is_none());
    natives.for_each(|stage| texts(stage, &mut |text| reads |= text == "inputs.data"));
    reads
}

/// The pipeline that a stage is, if it is one.
fn jump(stage: &Table) -> Option<&str> {
    stage.get("pipeline")?.get("pipeline")?.as_str()
}

/// All texts in a value, but the stage's own name.
fn texts(value: &Value, found: &mut impl FnMut(&str)) {
    match value {
        Value::String(text) => found(text),
        Value::Array(items) => items.iter().for_each(|item| texts(item, found)),
        Value::Table(table) => {
            let others = table.iter().filter(|(key, _)| *key != "name");
            others.for_each(|(_, value)| texts(value, found));
        }
        _ => {}
    }
}
