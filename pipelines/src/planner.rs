//! Resolves a pipeline's names and checks that its stages fit. It runs nothing and knows no kind of stage: each checks itself.
//!
//! Whether tables, stores and models are there is not known here. Its invariant: a [`Plan`] leaves here only when every stage has
//! been checked, and in it a stage takes what stands before it alone.

use crate::source::{is_name, is_reserved};
use crate::stage::{Form, Kind, Name};
use crate::{Description, Error, RequestKind, Source, StageDescription};
use std::collections::BTreeSet;

/// A pipeline whose parts can be looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The pipeline's name.
    pub name: String,
    /// What its requests look like.
    pub request: RequestKind,
    /// What its stages read of a request.
    pub inputs: Vec<Source>,
    /// The stages in the order they run; the last one is the model.
    pub stages: Vec<PlannedStage>,
}

/// One stage of a [`Plan`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedStage {
    /// What the configuration says of it.
    pub description: StageDescription,
    /// What it takes, in its own order.
    pub takes: Vec<Taken>,
    /// What it gives.
    pub gives: Form,
}

/// One value that a stage takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// Of the request, by its index in [`Plan::inputs`].
    Input(usize),
    /// Of a stage, by its index in [`Plan::stages`].
    Stage(usize),
}

impl Plan {
    /// Strings that each sample must have; 0 for `rank` requests.
    pub fn sample_width(&self) -> usize {
        let width = |input: &Source| match input {
            Source::Sample(at) => at + 1,
            _ => 0,
        };
        self.inputs.iter().map(width).max().unwrap_or(0)
    }

    /// The fields of a user that its stages read.
    pub fn user_fields(&self) -> BTreeSet<&str> {
        let fields = self.inputs.iter().filter_map(|input| match input {
            Source::User(field) | Source::UserText(field) => Some(field.as_str()),
            _ => None,
        });
        fields.collect()
    }

    /// What its stages name outside of the pipeline, each with the stage's position.
    pub fn names(&self) -> impl Iterator<Item = (usize, Name<'_>)> {
        let stages = self.stages.iter().enumerate();
        stages.filter_map(|(at, stage)| Some((at, stage.description.action()?.1.names()?)))
    }
}

pub(crate) fn plan(name: &str, description: &Description) -> Result<Plan, Error> {
    let mut planner = Planner {
        name,
        description,
        inputs: Vec::new(),
        planned: Vec::new(),
        used: vec![false; description.stages.len()],
    };
    planner.check_names()?;
    for (index, stage) in description.stages.iter().enumerate() {
        let planned = planner.stage(index, stage)?;
        planner.planned.push(planned);
    }
    planner.check_uses()?;
    Ok(Plan {
        name: name.to_owned(),
        request: description.request,
        inputs: planner.inputs,
        stages: planner.planned,
    })
}

/// A pipeline half-way to its plan.
struct Planner<'d> {
    name: &'d str,
    description: &'d Description,
    inputs: Vec<Source>,
    /// The stages before the one being planned.
    planned: Vec<PlannedStage>,
    /// Which stages a later one reads.
    used: Vec<bool>,
}

impl Planner<'_> {
    fn error(
        &self,
        (stage, key): (Option<usize>, &str),
        place: String,
        problem: impl Into<String>,
        hint: impl Into<String>,
    ) -> Error {
        Error::Description {
            pipeline: self.name.to_owned(),
            stage: stage.map(|stage| Box::new((stage, key.to_owned()))),
            place,
            problem: problem.into(),
            hint: hint.into(),
        }
    }

    /// An error of a stage, at one of its keys or as a whole.
    fn at(&self, index: usize, key: &str, problem: impl Into<String>, hint: impl Into<String>) -> Error {
        let stage = &self.description.stages[index].name;
        let place = match key {
            "" => format!("stage `{stage}`"),
            key => format!("stage `{stage}`, key `{key}`"),
        };
        self.error((Some(index), key), place, problem, hint)
    }

    fn check_names(&self) -> Result<(), Error> {
        let stages = &self.description.stages;
        if stages.is_empty() {
            let hint = "add stages, the last one with model = { model = \"NAME\", input = \"STAGE\" }";
            return Err(self.error((None, ""), "key `stages`".to_owned(), "there is no stage", hint));
        }
        for (index, stage) in stages.iter().enumerate() {
            let name = &stage.name;
            if !is_name(name) || is_reserved(name) {
                let problem = format!("`{name}` cannot be a name");
                let hint = "begin with a letter, go on with letters, digits, _ and -, and leave user, items and \
                            samples to the request";
                let place = format!("stage number {}, key `name`", index + 1);
                return Err(self.error((Some(index), "name"), place, problem, hint));
            }
            if let Some(first) = stages[..index].iter().position(|other| other.name == *name) {
                let problem = format!("stage number {} has this name already", first + 1);
                return Err(self.at(index, "name", problem, "give each stage a name of its own"));
            }
        }
        Ok(())
    }

    fn stage(&mut self, index: usize, stage: &StageDescription) -> Result<PlannedStage, Error> {
        let Some((_, action)) = stage.action() else {
            let hint = format!("give it exactly one of {}", StageDescription::KEYS.join(", "));
            let keys: Vec<&str> = stage.actions().iter().map(|(key, _)| *key).collect();
            return Err(match keys.as_slice() {
                [] => self.at(index, "", "it does nothing", hint),
                keys => self.at(index, &keys.join("`, `"), "it does several things", hint),
            });
        };
        let mut place = Place {
            planner: self,
            index,
            takes: Vec::new(),
        };
        let gives = action.plan(&mut place)?;
        let takes = place.takes;
        Ok(PlannedStage {
            description: stage.clone(),
            takes,
            gives,
        })
    }

    /// The last stage is the model, and every other is read by a later one.
    fn check_uses(&self) -> Result<(), Error> {
        let Some((last, others)) = self.planned.split_last() else {
            return Ok(());
        };
        if last.gives.kind != Kind::Scores {
            let hint = "add a last stage with model = { model = \"NAME\", input = \"STAGE\" }";
            return Err(self.at(others.len(), "", "the last stage is not a model", hint));
        }
        match self.used[..others.len()].iter().position(|used| !used) {
            Some(unused) => Err(self.at(unused, "", "no later stage reads it", "use it or remove it")),
            None => Ok(()),
        }
    }

    /// A stage that reads itself or a later one: a cycle when that one needs this one, else a wrong order.
    fn refers_forward(&self, index: usize, found: usize, key: &str) -> Error {
        let stages = &self.description.stages;
        let (stage, other) = (&stages[index].name, &stages[found].name);
        if self.needs(found, index) {
            let problem = match index == found {
                true => "the stage reads itself".to_owned(),
                false => format!("it reads `{other}`, which needs `{stage}`: a cycle"),
            };
            return self.at(index, key, problem, "let it read a stage that does not need it");
        }
        let problem = format!("stage `{other}` is listed later; stages run in listed order");
        self.at(index, key, problem, format!("move `{other}` before `{stage}`"))
    }

    /// Whether stage `from` reads stage `to`, directly or through others.
    fn needs(&self, from: usize, to: usize) -> bool {
        let stages = &self.description.stages;
        let mut reached = vec![false; stages.len()];
        let mut open = vec![from];
        while let Some(index) = open.pop() {
            if index == to {
                return true;
            }
            if !std::mem::replace(&mut reached[index], true) {
                let actions = stages[index].actions();
                let names = actions.iter().flat_map(|(_, action)| action.reads());
                open.extend(names.filter_map(|name| stages.iter().position(|other| other.name == name)));
            }
        }
        false
    }
}

/// The place of the stage that is being planned, among those before it.
pub struct Place<'p, 'd> {
    planner: &'p mut Planner<'d>,
    index: usize,
    takes: Vec<Taken>,
}

impl Place<'_, '_> {
    /// An error at one key of the stage.
    pub fn error(&self, key: &str, problem: impl Into<String>, hint: impl Into<String>) -> Error {
        self.planner.at(self.index, key, problem, hint)
    }

    /// What requests look like.
    pub fn request(&self) -> RequestKind {
        self.planner.description.request
    }

    /// Whether no stage follows.
    pub fn is_last(&self) -> bool {
        self.index + 1 == self.planner.description.stages.len()
    }

    /// Takes a part of the request.
    pub fn read(&mut self, source: Source) -> Form {
        let inputs = &mut self.planner.inputs;
        let form = source.form();
        let at = inputs
            .iter()
            .position(|known| *known == source)
            .unwrap_or_else(|| {
                inputs.push(source);
                inputs.len() - 1
            });
        self.takes.push(Taken::Input(at));
        form
    }

    /// Takes what the earlier stage `other` gives, which must be `kind`.
    ///
    /// # Errors
    /// Which stages there are that would fit.
    pub fn take(&mut self, key: &str, other: &str, kind: Kind) -> Result<Form, Error> {
        let stages = &self.planner.description.stages;
        let Some(found) = stages.iter().position(|candidate| candidate.name == other) else {
            let problem = format!("no stage is called `{other}`");
            return Err(self.error(key, problem, self.candidates(kind)));
        };
        if found >= self.index {
            return Err(self.planner.refers_forward(self.index, found, key));
        }
        let form = self.planner.planned[found].gives;
        if form.kind != kind {
            let problem = format!("stage `{other}` gives {}", form.kind.as_str());
            return Err(self.error(key, problem, self.candidates(kind)));
        }
        self.planner.used[found] = true;
        self.takes.push(Taken::Stage(found));
        Ok(form)
    }

    /// Checks that a key names something.
    ///
    /// # Errors
    /// Where it is empty.
    pub fn check_named(&self, key: &str, name: &str) -> Result<(), Error> {
        match name {
            "" => Err(self.error(key, "it is empty", "write the name it has in the configuration")),
            _ => Ok(()),
        }
    }

    /// "name a stage that gives keys: `a`, `b`", of the stages so far.
    fn candidates(&self, kind: Kind) -> String {
        let planned = self.planner.planned.iter();
        let fitting = planned.filter(|stage| stage.gives.kind == kind);
        let names: Vec<String> = fitting
            .map(|stage| format!("`{}`", stage.description.name))
            .collect();
        match names.is_empty() {
            true => format!(
                "put a stage that gives {} before this one and name it",
                kind.as_str()
            ),
            false => format!("name a stage that gives {}: {}", kind.as_str(), names.join(", ")),
        }
    }
}
