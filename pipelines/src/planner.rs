//! Resolves a pipeline's names and checks that its stages fit. It runs nothing and knows no kind of stage: each checks itself.
//!
//! Whether tables, stores and models are there is not known here. Its invariant: a [`Plan`] leaves here only when every stage has
//! been checked, and in it a stage takes what stands before it alone.

mod check;
mod place;

pub use check::{Check, Words};
pub use place::Place;

use crate::condition::Condition;
use crate::filter::Filter;
use crate::graph::{Graph, Node, Target, reaches};
use crate::source::{is_name, is_reserved};
use crate::stage::{Form, Kind, Name, PerRow};
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
    /// What messages call it: `page/decode` for a stage of the sub-pipeline `page`.
    pub name: String,
    /// The position of the description's stage that it is, or is part of.
    pub origin: usize,
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
    /// What decides whether it runs.
    pub filters: Vec<PlannedFilter>,
    /// Whether a request may have no value of it.
    pub may_skip: bool,
}

/// A filter, and the value that it looks at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlannedFilter {
    /// The stage is skipped where the condition holds.
    Skip(Condition, Taken),
    /// The pipeline ends where the condition holds.
    Break(Condition, Taken),
    /// The stage gives that value, where it is there.
    Or(Taken),
}

impl PlannedFilter {
    /// The value that it looks at.
    pub(crate) fn taken(&self) -> Taken {
        match self {
            PlannedFilter::Skip(_, taken) | PlannedFilter::Break(_, taken) | PlannedFilter::Or(taken) => {
                *taken
            }
        }
    }
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

impl PlannedStage {
    /// What it does, in a few words: `decode`, `lookup embeddings`, `model ranker`.
    pub fn does(&self) -> String {
        let Some((key, action)) = self.description.action() else {
            return String::new();
        };
        match action.names() {
            Some(named) => format!("{key} {}", named.name),
            None => key.to_owned(),
        }
    }
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

pub(crate) fn plan(
    name: &str,
    description: &Description,
    others: &BTreeMap<String, Description>,
) -> Result<Plan, Error> {
    check_names(name, description)?;
    let graph = Graph::of(name, description, others)?;
    let mut planner = Planner {
        name,
        description,
        used: vec![false; graph.nodes.len()],
        graph: &graph,
        inputs: Vec::new(),
        planned: Vec::new(),
        breaks: false,
    };
    for (index, node) in graph.nodes.iter().enumerate() {
        let planned = planner.stage(index, node)?;
        planner.planned.push(planned);
    }
    let outputs = match description.request {
        RequestKind::Values => planner.outputs()?,
        RequestKind::Rank | RequestKind::Samples => {
            planner.check_uses()?;
            Vec::new()
        }
    };
    planner.check_keys(&outputs)?;
    if let Some(error) = graph.unread_input() {
        return Err(error);
    }
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
    graph: &'d Graph<'d>,
    inputs: Vec<Source>,
    /// The stages before the one being planned.
    planned: Vec<PlannedStage>,
    /// Which stages a later one reads.
    used: Vec<bool>,
    /// A stage so far may end the pipeline.
    breaks: bool,
}

/// An error of a pipeline, of a stage of it, or of a key of that.
fn error(
    pipeline: &str,
    (stage, key): (Option<usize>, &str),
    place: String,
    problem: impl Into<String>,
    hint: impl Into<String>,
) -> Error {
    Error::Description {
        pipeline: pipeline.to_owned(),
        stage: stage.map(|stage| Box::new((stage, key.to_owned()))),
        place,
        problem: problem.into(),
        hint: hint.into(),
    }
}

fn check_names(pipeline: &str, description: &Description) -> Result<(), Error> {
    let stages = &description.stages;
    if stages.is_empty() {
        let hint = "add stages, the last one with model = { model = \"NAME\", input = \"STAGE\" }";
        let place = "key `stages`".to_owned();
        return Err(error(pipeline, (None, ""), place, "there is no stage", hint));
    }
    for (index, stage) in stages.iter().enumerate() {
        let name = &stage.name;
        if !is_name(name) || is_reserved(name) {
            let problem = format!("`{name}` cannot be a name");
            let hint = "begin with a letter, go on with letters, digits, _ and -, and leave user, items, \
                        samples and inputs to the request";
            let place = format!("stage number {}, key `name`", index + 1);
            return Err(error(pipeline, (Some(index), "name"), place, problem, hint));
        }
        if let Some(first) = stages[..index].iter().position(|other| other.name == *name) {
            let problem = format!("stage number {} has this name already", first + 1);
            let place = format!("stage `{name}`, key `name`");
            let hint = "give each stage a name of its own";
            return Err(error(pipeline, (Some(index), "name"), place, problem, hint));
        }
    }
    Ok(())
}

impl Planner<'_> {
    fn error(
        &self,
        stage: (Option<usize>, &str),
        place: String,
        problem: impl Into<String>,
        hint: impl Into<String>,
    ) -> Error {
        error(self.name, stage, place, problem, hint)
    }

    /// An error of a stage, at one of its keys or as a whole.
    fn at(&self, index: usize, key: &str, problem: impl Into<String>, hint: impl Into<String>) -> Error {
        let node = &self.graph.nodes[index];
        let stage = &node.name;
        let place = match key {
            "" => format!("stage `{stage}`"),
            key => format!("stage `{stage}`, key `{key}`"),
        };
        self.error((Some(node.origin), key), place, problem, hint)
    }

    fn stage(&mut self, index: usize, node: &Node<'_>) -> Result<PlannedStage, Error> {
        let stage = node.stage;
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
        let mut gives = action.plan(&mut place)?;
        let Place { takes, checks, .. } = place;
        let skipped = |taken: &Taken| self.may_skip(*taken);
        let mut planned = PlannedStage {
            name: node.name.clone(),
            origin: node.origin,
            description: stage.clone(),
            may_skip: self.breaks || takes.iter().any(skipped),
            takes,
            checks,
            gives,
            outputs: Vec::new(),
            filters: Vec::new(),
        };
        for (scope, filter) in &node.filters {
            let Some(filter) = self.filter(index, *scope, filter, &mut gives)? else {
                continue;
            };
            match &filter {
                PlannedFilter::Skip(..) => planned.may_skip = true,
                PlannedFilter::Break(..) => (planned.may_skip, self.breaks) = (true, true),
                PlannedFilter::Or(taken) => planned.may_skip &= self.may_skip(*taken),
            }
            planned.filters.push(filter);
        }
        planned.gives = gives;
        Ok(planned)
    }

    fn may_skip(&self, taken: Taken) -> bool {
        match taken {
            Taken::Input(_) => false,
            Taken::Stage(stage) | Taken::Output(stage, _) => self.planned[stage].may_skip,
        }
    }

    /// A filter with what it looks at; what `or` gives is of the form of both.
    fn filter(
        &mut self,
        index: usize,
        scope: usize,
        filter: &Filter,
        gives: &mut Form,
    ) -> Result<Option<PlannedFilter>, Error> {
        let condition = |text: &str| {
            Condition::parse(text).map_err(|(problem, hint)| self.at(index, "filter", problem, hint))
        };
        let (text, condition) = match filter {
            Filter::Run => return Ok(None),
            Filter::Skip(text) | Filter::Break(text) => {
                let condition = condition(text)?;
                (condition.of.clone(), Some(condition))
            }
            Filter::Or(stage) => (stage.clone(), None),
        };
        let kinds = condition.as_ref().map_or(&[Kind::Any][..], Condition::kinds);
        let (form, taken) = self.look(index, scope, &text, kinds)?;
        Ok(Some(match (filter, condition) {
            (Filter::Skip(_), Some(condition)) => PlannedFilter::Skip(condition, taken),
            (Filter::Break(_), Some(condition)) => PlannedFilter::Break(condition, taken),
            _ => {
                if !self.may_skip(taken) {
                    let problem = format!("`{text}` always has a value, so this stage would never run");
                    let hint = "name a stage that a filter may skip";
                    return Err(self.at(index, "filter", problem, hint));
                }
                if !form.kind.may_be(gives.kind) || form.rows != gives.rows {
                    let (other, own) = (form.kind.as_str(), gives.kind.as_str());
                    let problem = format!("`{text}` gives {other}, and this stage {own}, or in other rows");
                    return Err(self.at(index, "filter", problem, "name a stage that gives the same"));
                }
                if form.kind == Kind::Any {
                    gives.kind = Kind::Any;
                }
                if form.per_row != gives.per_row {
                    gives.per_row = PerRow::Several;
                }
                PlannedFilter::Or(taken)
            }
        }))
    }

    /// A value that a filter looks at.
    fn look(
        &mut self,
        index: usize,
        scope: usize,
        text: &str,
        kinds: &[Kind],
    ) -> Result<(Form, Taken), Error> {
        let mut place = Place {
            planner: self,
            index,
            takes: Vec::new(),
            checks: Vec::new(),
        };
        let target = place.planner.graph.resolve(scope, text);
        let form = place.take_target("filter", text, target, kinds)?;
        match place.takes.pop() {
            Some(taken) => Ok((form, taken)),
            None => Err(Error::not_given("what its filter looks at")),
        }
    }

    /// What a request of values gets: what the description names, or all that no stage reads.
    fn outputs(&mut self) -> Result<Vec<(String, Taken)>, Error> {
        let mut outputs: Vec<(String, Taken)> = Vec::new();
        for (name, target) in self.graph.all_outputs() {
            let wrong = |problem: String, hint: String| {
                self.error((None, "outputs"), "key `outputs`".to_owned(), problem, hint)
            };
            if outputs.iter().any(|(other, _)| *other == name) {
                return Err(wrong(
                    format!("it names `{name}` twice"),
                    "name each output once".to_owned(),
                ));
            }
            let taken = match target {
                Ok(Target::Node(stage, output)) => self.taken(stage, output.as_deref()),
                Ok(Target::Source(_)) => {
                    let problem = format!("it names `{name}`, which is no stage");
                    return Err(wrong(problem, "name stages".to_owned()));
                }
                Err((problem, _)) => {
                    let stages = self.description.stages.iter();
                    let names: Vec<&str> = stages.map(|stage| stage.name.as_str()).collect();
                    let hint = format!("write one of {}, or STAGE.OUTPUT", names.join(", "));
                    return Err(wrong(format!("it names `{name}`, and {problem}"), hint));
                }
            };
            outputs.push((name, taken));
        }
        match self.unused() {
            Some(unused) => {
                let hint = "use it, name it in outputs, or remove it";
                Err(self.at(unused, "", "no later stage reads it, and it is no output", hint))
            }
            None => Ok(outputs),
        }
    }

    /// A stage of the pipeline itself that nobody reads.
    fn unused(&self) -> Option<usize> {
        let unused = |at: &usize| !self.used[*at] && self.graph.nodes[*at].scope == 0;
        (0..self.used.len()).find(unused)
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
    fn check_keys(&self, outputs: &[(String, Taken)]) -> Result<(), Error> {
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
        let takes = self.planned.iter().flat_map(|stage| stage.takes.iter().copied());
        let filters = self.planned.iter().flat_map(|stage| &stage.filters);
        let takes = takes.chain(filters.map(PlannedFilter::taken));
        for taken in takes.chain(outputs.iter().map(|(_, taken)| *taken)) {
            if let Taken::Stage(stage) = taken
                && let Some(output) = self.planned[stage].outputs.first()
            {
                let name = &self.planned[stage].name;
                let problem = format!("it is read as a whole, and its output `{output}` by name");
                return Err(self.at(stage, "", problem, format!("write `{name}.{output}` everywhere")));
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
        if last.may_skip || !last.filters.is_empty() {
            let hint = "let the last stage take what always has a value, as by a stage with filter = { or = \"STAGE\" }";
            return Err(self.at(
                others.len(),
                "",
                "filters may leave requests without scores",
                hint,
            ));
        }
        match self.unused().filter(|unused| *unused < others.len()) {
            Some(unused) => Err(self.at(unused, "", "no later stage reads it", "use it or remove it")),
            None => Ok(()),
        }
    }

    /// A stage that reads itself or a later one: a cycle when that one needs this one, else a wrong order.
    fn refers_forward(&self, index: usize, found: usize, key: &str) -> Error {
        let (node, other) = (&self.graph.nodes[index], &self.graph.nodes[found]);
        let before = self.graph.root_before();
        if reaches(self.description, &before, other.origin, node.origin) {
            let problem = match index == found {
                true => "the stage reads itself".to_owned(),
                false => format!("it reads `{}`, which needs `{}`: a cycle", other.name, node.name),
            };
            return self.at(index, key, problem, "let it read a stage that does not need it");
        }
        let (stage, other) = (&node.name, &other.name);
        let problem = format!("stage `{other}` is listed later; stages run in listed order");
        self.at(index, key, problem, format!("move `{other}` before `{stage}`"))
    }
}
