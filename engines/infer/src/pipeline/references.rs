//! Which stage a name means: an earlier one that gives what is needed, or an error
//! that says which would. It knows nothing of what stages do with what they read.
//! Invariant: an index that comes from here is smaller than the asking stage's.

use super::planner::Planner;
use super::{StageSpec, Value};
use crate::Error;

impl Planner<'_> {
    /// The index of the earlier stage `other`, which must give what `fits` accepts.
    pub(super) fn refer(
        &mut self,
        index: usize,
        stage: &str,
        key: &str,
        other: &str,
        wanted: &str,
        fits: impl Fn(Value) -> bool,
    ) -> Result<usize, Error> {
        let Some(found) = self
            .pipeline
            .stages
            .iter()
            .position(|candidate| candidate.name == other)
        else {
            let problem = format!("no stage is called `{other}`");
            return Err(self.at(stage, key, problem, self.candidates(wanted, &fits)));
        };
        if found >= index {
            return Err(self.refers_forward(index, found, key));
        }
        if !fits(self.planned[found].value) {
            let problem = format!("stage `{other}` gives {}", words(self.planned[found].value));
            return Err(self.at(stage, key, problem, self.candidates(wanted, &fits)));
        }
        self.used[found] = true;
        Ok(found)
    }

    /// "name a hash stage: `a`, `b`", of the stages so far.
    fn candidates(&self, wanted: &str, fits: &impl Fn(Value) -> bool) -> String {
        let names: Vec<String> = self
            .planned
            .iter()
            .filter(|stage| fits(stage.value))
            .map(|stage| format!("`{}`", stage.name))
            .collect();
        if names.is_empty() {
            format!("put {wanted} before this one and name it")
        } else {
            format!("name {wanted}: {}", names.join(", "))
        }
    }

    /// A stage that reads itself or a later one: a cycle when that one needs this one, else a wrong order.
    fn refers_forward(&self, index: usize, found: usize, key: &str) -> Error {
        let stages = &self.pipeline.stages;
        let (stage, other) = (&stages[index].name, &stages[found].name);
        if self.needs(found, index) {
            let problem = if index == found {
                "the stage reads itself".to_string()
            } else {
                format!("it reads `{other}`, which needs `{stage}`: a cycle")
            };
            return self.at(stage, key, problem, "let it read a stage that does not need it");
        }
        let problem = format!("stage `{other}` is listed later; stages run in listed order");
        self.at(stage, key, problem, format!("move `{other}` before `{stage}`"))
    }

    /// Whether stage `from` reads stage `to`, directly or through others.
    fn needs(&self, from: usize, to: usize) -> bool {
        let stages = &self.pipeline.stages;
        let mut reached = vec![false; stages.len()];
        let mut open = vec![from];
        while let Some(index) = open.pop() {
            if index == to {
                return true;
            }
            if !std::mem::replace(&mut reached[index], true) {
                let names = names_read(&stages[index]);
                open.extend(names.filter_map(|name| stages.iter().position(|other| other.name == name)));
            }
        }
        false
    }
}

/// The names that a stage's keys mention.
fn names_read(stage: &StageSpec) -> impl Iterator<Item = &str> {
    let hash = stage.hash.iter().map(|hash| hash.from.as_str());
    let lookup = stage.lookup.iter().map(|lookup| lookup.keys.as_str());
    let assemble = stage
        .assemble
        .iter()
        .flat_map(|assemble| assemble.columns.iter().map(String::as_str));
    let model = stage.model.iter().map(|model| model.input.as_str());
    hash.chain(lookup).chain(assemble).chain(model)
}

fn words(value: Value) -> &'static str {
    match value {
        Value::Texts => "texts",
        Value::Keys(..) => "keys",
        Value::Floats(_) => "floats",
        Value::Scores => "scores",
    }
}
