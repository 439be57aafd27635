//! Resolves a pipeline's names and checks that its stages fit. It runs nothing and knows no kind of stage: each checks itself.
//!
//! Whether tables, stores and models are there is not known here. Its invariant: a [`Plan`] leaves here only when every stage has
//! been checked, and in it a stage takes what stands before it alone.

use crate::source::{Reference, is_name, is_reserved};
use crate::stage::{Form, Kind, Name};
use crate::threads::ThreadKeys;
use crate::{Declared, Description, Error, RequestKind, Source, StageDescription};
use std::collections::{BTreeMap, BTreeSet};

/// A pipeline whose parts can be looked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The pipeline's name.
    pub name: String,
    /// What its requests look like.
    pub request: RequestKind,
    /// What its stages read of a request.
    pub inputs: Vec<Source>,
    /// What is known of the values of a request.
    pub declared: BTreeMap<String, Declared>,
    /// The stages in the order they run; for a user's items and for samples the last one is the model.
    pub stages: Vec<PlannedStage>,
    /// What a request of values gets, by name.
    pub outputs: Vec<(String, Taken)>,
}

/// One stage of a [`Plan`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedStage {
    /// What the configuration says of it.
    pub description: StageDescription,
    /// What it takes, in its own order.
    pub takes: Vec<Taken>,
    /// What of that is held to a kind when a request runs.
    pub checks: Vec<Check>,
    /// What it gives.
    pub gives: Form,
    /// Which outputs others read by name; none where they read it as a whole.
    pub outputs: Vec<String>,
}

/// A value whose kind is known only when a request runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    /// Which of the values that the stage takes.
    pub at: usize,
    /// The stage's key that names it.
    pub key: String,
    /// What the stage can take.
    pub kinds: Vec<Kind>,
}

/// One value that a stage takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// Of the request, by its index in [`Plan::inputs`].
    Input(usize),
    /// Of a stage, by its index in [`Plan::stages`].
    Stage(usize),
    /// One output of a stage, by its index in [`PlannedStage::outputs`].
    Output(usize, usize),
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
    let outputs = match description.request {
        RequestKind::Values => planner.outputs()?,
        RequestKind::Rank | RequestKind::Samples => {
            planner.check_uses()?;
            Vec::new()
        }
    };
    planner.check_keys()?;
    Ok(Plan {
        name: name.to_owned(),
        request: description.request,
        inputs: planner.inputs,
        declared: description.inputs.clone(),
        stages: planner.planned,
        outputs,
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
                let hint = "begin with a letter, go on with letters, digits, _ and -, and leave user, items, \
                            samples and inputs to the request";
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
        let has_threads = action.has_threads();
        if !has_threads && stage.threads() != ThreadKeys::default() {
            let hint =
                "leave instances, queue_max and queue_bytes_max out; a model has them in its own section";
            return Err(self.at(index, "instances", "it has no threads of its own", hint));
        }
        let mut place = Place {
            planner: self,
            index,
            takes: Vec::new(),
            checks: Vec::new(),
        };
        let gives = action.plan(&mut place)?;
        let Place { takes, checks, .. } = place;
        Ok(PlannedStage {
            description: stage.clone(),
            takes,
            checks,
            gives,
            outputs: Vec::new(),
        })
    }

    /// What a request of values gets: what the description names, or all that no stage reads.
    fn outputs(&mut self) -> Result<Vec<(String, Taken)>, Error> {
        let named = &self.description.outputs;
        let mut outputs: Vec<(String, Taken)> = Vec::with_capacity(named.len());
        for name in named {
            let place = || "key `outputs`".to_owned();
            if outputs.iter().any(|(other, _)| other == name) {
                let problem = format!("it names `{name}` twice");
                return Err(self.error((None, "outputs"), place(), problem, "name each output once"));
            }
            let (stage, output) = name
                .split_once('.')
                .map_or((name.as_str(), None), |(stage, output)| (stage, Some(output)));
            let found = self
                .description
                .stages
                .iter()
                .position(|known| known.name == stage);
            let Some(found) = found else {
                let names: Vec<&str> = self
                    .description
                    .stages
                    .iter()
                    .map(|stage| stage.name.as_str())
                    .collect();
                let (problem, hint) = (
                    format!("it names `{name}`, and no stage is called `{stage}`"),
                    format!("write one of {}, or STAGE.OUTPUT", names.join(", ")),
                );
                return Err(self.error((None, "outputs"), place(), problem, hint));
            };
            let taken = self.taken(found, output);
            outputs.push((name.clone(), taken));
        }
        if named.is_empty() {
            let unused = (0..self.planned.len()).filter(|at| !self.used[*at]);
            outputs.extend(unused.map(|at| (self.planned[at].description.name.clone(), Taken::Stage(at))));
        }
        match self.used.iter().position(|used| !used) {
            Some(unused) if !named.is_empty() => {
                let hint = "use it, name it in outputs, or remove it";
                Err(self.at(unused, "", "no later stage reads it, and it is no output", hint))
            }
            _ => Ok(outputs),
        }
    }

    /// A reader of a stage, or of one of its outputs.
    fn taken(&mut self, stage: usize, output: Option<&str>) -> Taken {
        self.used[stage] = true;
        let Some(output) = output else {
            return Taken::Stage(stage);
        };
        let outputs = &mut self.planned[stage].outputs;
        let at = outputs
            .iter()
            .position(|known| known == output)
            .unwrap_or_else(|| {
                outputs.push(output.to_owned());
                outputs.len() - 1
            });
        Taken::Output(stage, at)
    }

    /// Keys that fit no single stage: what is declared is read, and no stage is read both as a whole and by output.
    fn check_keys(&self) -> Result<(), Error> {
        let named = [
            ("inputs", self.description.inputs.is_empty()),
            ("outputs", self.description.outputs.is_empty()),
        ];
        let is_values = self.description.request == RequestKind::Values;
        if let Some((key, _)) = named.iter().find(|(_, is_empty)| !is_empty && !is_values) {
            let hint = "remove it, or set request = \"values\"";
            let place = format!("key `{key}`");
            return Err(self.error((None, *key), place, "only requests of values have it", hint));
        }
        let reads = |name: &str| {
            let mut inputs = self.inputs.iter();
            inputs.any(|input| matches!(input, Source::Input(read) if read == name))
        };
        if let Some(unread) = self.description.inputs.keys().find(|name| !reads(name)) {
            let problem = format!("no stage reads `inputs.{unread}`");
            return Err(self.error(
                (None, "inputs"),
                "key `inputs`".to_owned(),
                problem,
                "use it or remove it",
            ));
        }
        let takes = self.planned.iter().flat_map(|stage| &stage.takes);
        for taken in takes {
            if let Taken::Stage(stage) = taken
                && let Some(output) = self.planned[*stage].outputs.first()
            {
                let name = &self.planned[*stage].description.name;
                let problem = format!("it is read as a whole, and its output `{output}` by name");
                return Err(self.at(*stage, "", problem, format!("write `{name}.{output}` everywhere")));
            }
        }
        Ok(())
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
                let stage_of = |name: &str| {
                    let name = name.split_once('.').map_or(name, |(stage, _)| stage);
                    stages.iter().position(|other| other.name == name)
                };
                open.extend(names.filter_map(stage_of));
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
    checks: Vec<Check>,
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

    /// Whether the stage gives the scores of a request: it is the last one for items or samples.
    pub fn is_scores(&self) -> bool {
        let is_last = self.index + 1 == self.planner.description.stages.len();
        is_last && self.request() != RequestKind::Values
    }

    /// Whether a stage is called that.
    pub fn has_stage(&self, name: &str) -> bool {
        self.planner
            .description
            .stages
            .iter()
            .any(|stage| stage.name == name)
    }

    /// Takes a part of the request.
    pub fn read(&mut self, source: Source) -> Form {
        let mut form = source.form();
        if let Source::Input(name) = &source
            && let Some(declared) = self.planner.description.inputs.get(name)
        {
            form.kind = declared.kind();
        }
        let inputs = &mut self.planner.inputs;
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

    /// Takes what `other` is, which must be `kind`: an earlier stage, an output of it, or an input of a request of values.
    ///
    /// # Errors
    /// Which stages there are that would fit.
    pub fn take(&mut self, key: &str, other: &str, kind: Kind) -> Result<Form, Error> {
        self.take_of(key, other, &[kind])
    }

    /// As [`Place::take`], of any of several kinds.
    ///
    /// # Errors
    /// As [`Place::take`].
    pub fn take_of(&mut self, key: &str, other: &str, kinds: &[Kind]) -> Result<Form, Error> {
        let (stage, output) = match Reference::parse(other) {
            Ok(Reference::Request(source @ Source::Input(_))) if self.request() == RequestKind::Values => {
                return self.take_input(key, source, kinds);
            }
            Ok(Reference::Output(stage, output)) => (stage, Some(output)),
            _ => (other, None),
        };
        let stages = &self.planner.description.stages;
        let Some(found) = stages.iter().position(|candidate| candidate.name == stage) else {
            let problem = format!("no stage is called `{stage}`");
            return Err(self.error(key, problem, self.candidates(kinds)));
        };
        if found >= self.index {
            return Err(self.planner.refers_forward(self.index, found, key));
        }
        let mut form = self.planner.planned[found].gives;
        if output.is_some() && form.kind == Kind::Scores {
            form.kind = Kind::Floats;
        }
        self.fits(key, &format!("stage `{other}`"), form, kinds)?;
        let taken = self.planner.taken(found, output);
        self.takes.push(taken);
        Ok(form)
    }

    /// Takes what the key `from` of a stage names; where it is left out, what stands before the stage: the stage before it, or
    /// `inputs.data` for the first one.
    ///
    /// # Errors
    /// As [`Place::take`].
    pub fn from(&mut self, key: &str, from: Option<&str>, kinds: &[Kind]) -> Result<Form, Error> {
        let before = self.index.checked_sub(1);
        let before = before.map(|at| self.planner.description.stages[at].name.clone());
        match (from, before) {
            (Some(from), _) => self.take_of(key, from, kinds),
            (None, Some(before)) => self.take_of(key, &before, kinds),
            (None, None) if self.request() == RequestKind::Values => self.take_of(key, "inputs.data", kinds),
            (None, None) => {
                let hint = "write where it reads from";
                Err(self.error(key, "it is missing, and no stage stands before", hint))
            }
        }
    }

    fn take_input(&mut self, key: &str, source: Source, kinds: &[Kind]) -> Result<Form, Error> {
        let Source::Input(name) = &source else {
            return Err(Error::not_given("an input"));
        };
        let name = name.clone();
        let declared = &self.planner.description.inputs;
        if !declared.is_empty() && !declared.contains_key(&name) {
            let there: Vec<&str> = declared.keys().map(String::as_str).collect();
            let hint = format!("declare it, or write one of {}", there.join(", "));
            return Err(self.error(key, format!("`inputs.{name}` is not declared"), hint));
        }
        let form = self.read(source);
        self.takes.pop();
        self.fits(key, &format!("`inputs.{name}`"), form, kinds)?;
        let at = self
            .planner
            .inputs
            .iter()
            .position(|known| matches!(known, Source::Input(known) if *known == name));
        self.takes.push(Taken::Input(at.unwrap_or_default()));
        Ok(form)
    }

    /// Whether the next value may be one of these kinds; if that is known only later, it is checked then.
    fn fits(&mut self, key: &str, what: &str, form: Form, kinds: &[Kind]) -> Result<(), Error> {
        if !kinds.iter().any(|kind| form.kind.may_be(*kind)) {
            let problem = format!("{what} gives {}", form.kind.as_str());
            return Err(self.error(key, problem, self.candidates(kinds)));
        }
        if form.kind == Kind::Any && !kinds.contains(&Kind::Any) {
            self.checks.push(Check {
                at: self.takes.len(),
                key: key.to_owned(),
                kinds: kinds.to_vec(),
            });
        }
        Ok(())
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
    fn candidates(&self, kinds: &[Kind]) -> String {
        let planned = self.planner.planned.iter();
        let fitting = planned.filter(|stage| kinds.contains(&stage.gives.kind));
        let names: Vec<String> = fitting
            .map(|stage| format!("`{}`", stage.description.name))
            .collect();
        let kinds: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
        let kinds = kinds.join(" or ");
        match names.is_empty() {
            true => format!("put a stage that gives {kinds} before this one and name it"),
            false => format!("name a stage that gives {kinds}: {}", names.join(", ")),
        }
    }
}
