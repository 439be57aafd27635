//! The stages of a description and of the pipelines that it names, in one list: sub-pipelines stand where their stage stood, each
//! stage behind all that it needs.
//!
//! It checks no stage. Its invariants: no pipeline contains itself, and a reference is resolved in the pipeline that it stands in.

use crate::condition::Condition;
use crate::filter::Filter;
use crate::source::Reference;
use crate::{Description, Error, RequestKind, Source, StageDescription};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Pipelines inside of each other.
const DEPTH_MAX: usize = 16;

/// One stage, wherever it was described.
pub(crate) struct Node<'d> {
    /// As later stages and messages call it: `page/decode` of the sub-pipeline `page`.
    pub(crate) name: String,
    pub(crate) stage: &'d StageDescription,
    /// The pipeline that it stands in.
    pub(crate) scope: usize,
    /// The position of the stage of the described pipeline that it is, or is part of.
    pub(crate) origin: usize,
    /// What it takes where it names nothing.
    pub(crate) before: Before<'d>,
    /// Its own, and those of the sub-pipelines around it, each with the scope that it stands in.
    pub(crate) filters: Vec<(usize, &'d Filter)>,
}

/// What stands before a stage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Before<'d> {
    /// A stage of its scope.
    Stage(&'d str),
    /// `inputs.data`.
    Root,
}

/// A pipeline, or one inside of it.
struct Scope<'d> {
    name: &'d str,
    description: &'d Description,
    prefix: String,
    /// The scope around it, what its inputs are there, and what stands before it.
    around: Option<(usize, &'d BTreeMap<String, String>, Before<'d>)>,
    /// The scopes of its sub-pipelines, by the names of their stages.
    inner: BTreeMap<&'d str, usize>,
    /// Which of its inputs are read.
    read: RefCell<BTreeSet<String>>,
}

/// What a reference means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Source(Source),
    /// A node, and one of its outputs.
    Node(usize, Option<String>),
}

/// What is wrong, and what to do.
pub(crate) type Wrong = (String, String);

pub(crate) struct Graph<'d> {
    pub(crate) nodes: Vec<Node<'d>>,
    scopes: Vec<Scope<'d>>,
}

impl<'d> Graph<'d> {
    pub(crate) fn of(
        name: &'d str,
        description: &'d Description,
        others: &'d BTreeMap<String, Description>,
    ) -> Result<Graph<'d>, Error> {
        let mut graph = Graph {
            nodes: Vec::new(),
            scopes: vec![Scope {
                name,
                description,
                prefix: String::new(),
                around: None,
                inner: BTreeMap::new(),
                read: RefCell::default(),
            }],
        };
        graph.flatten(0, None, &[], others)?;
        Ok(graph)
    }

    /// An error of a stage of the described pipeline.
    fn error(
        &self,
        scope: usize,
        at: usize,
        origin: Option<usize>,
        key: &str,
        (problem, hint): Wrong,
    ) -> Error {
        let Scope {
            prefix, description, ..
        } = &self.scopes[scope];
        let name = format!("{prefix}{}", description.stages[at].name);
        Error::Description {
            pipeline: self.scopes[0].name.to_owned(),
            stage: Some(Box::new((origin.unwrap_or(at), key.to_owned()))),
            place: format!("stage `{name}`, key `{key}`"),
            problem,
            hint,
        }
    }

    /// Appends the stages of a scope; `origin` is the stage of the described pipeline that stands for them.
    fn flatten(
        &mut self,
        scope: usize,
        origin: Option<usize>,
        filters: &[(usize, &'d Filter)],
        others: &'d BTreeMap<String, Description>,
    ) -> Result<(), Error> {
        let description = self.scopes[scope].description;
        let before = self.before(scope, origin)?;
        for at in order(description, &before) {
            let stage = &description.stages[at];
            let mut own = filters.to_vec();
            if stage.filter != Filter::Run {
                own.push((scope, &stage.filter));
            }
            let Some(other) = stage.other() else {
                let name = format!("{}{}", self.scopes[scope].prefix, stage.name);
                self.nodes.push(Node {
                    name,
                    stage,
                    scope,
                    origin: origin.unwrap_or(at),
                    before: before[at],
                    filters: own,
                });
                continue;
            };
            let wrong = |problem: String, hint: &str| {
                self.error(scope, at, origin, "pipeline.pipeline", (problem, hint.to_owned()))
            };
            let name = other.pipeline.as_str();
            let Some((name, found)) = others.get_key_value(name) else {
                let there: Vec<&str> = others.keys().map(String::as_str).collect();
                let hint = format!("name one of {}", there.join(", "));
                return Err(wrong(format!("no pipeline is called `{name}`"), &hint));
            };
            if self.is_around(scope, name) {
                let problem = format!("pipeline `{name}` contains itself: a cycle");
                return Err(wrong(
                    problem,
                    "let no pipeline run itself, directly or through others",
                ));
            }
            if found.request != RequestKind::Values {
                let problem = format!("pipeline `{name}` takes no values");
                return Err(wrong(problem, "name one with request = \"values\""));
            }
            if self.scopes[scope].prefix.matches('/').count() >= DEPTH_MAX {
                let problem = format!("more than {DEPTH_MAX} pipelines are inside of each other");
                return Err(wrong(problem, "nest fewer"));
            }
            if matches!(stage.filter, Filter::Or(_)) {
                let problem = "filter `or` is for one stage, and this is several".to_owned();
                let hint = "give the filter to the stage that takes what this one gives".to_owned();
                return Err(self.error(scope, at, origin, "filter", (problem, hint)));
            }
            let inner = self.scopes.len();
            let prefix = format!("{}{}/", self.scopes[scope].prefix, stage.name);
            self.scopes.push(Scope {
                name,
                description: found,
                prefix,
                around: Some((scope, &other.inputs, before[at])),
                inner: BTreeMap::new(),
                read: RefCell::default(),
            });
            self.scopes[scope].inner.insert(&stage.name, inner);
            self.flatten(inner, Some(origin.unwrap_or(at)), &own, others)?;
        }
        Ok(())
    }

    /// Whether a scope is, or is inside of, the pipeline of that name.
    fn is_around(&self, scope: usize, name: &str) -> bool {
        let Scope {
            name: own, around, ..
        } = &self.scopes[scope];
        *own == name || around.is_some_and(|(around, ..)| self.is_around(around, name))
    }

    /// What stands before each stage of a scope: what names it in `next`, else in a list the one before.
    fn before(&self, scope: usize, origin: Option<usize>) -> Result<Vec<Before<'d>>, Error> {
        let description = self.scopes[scope].description;
        let stages = &description.stages;
        let mut before: Vec<Option<&'d str>> = vec![None; stages.len()];
        for (at, stage) in stages.iter().enumerate() {
            for next in &stage.next {
                let wrong =
                    |problem: String, hint: String| self.error(scope, at, origin, "next", (problem, hint));
                let Some(found) = stages.iter().position(|other| other.name == *next) else {
                    let names: Vec<&str> = stages.iter().map(|stage| stage.name.as_str()).collect();
                    let hint = format!("name one of {}", names.join(", "));
                    return Err(wrong(format!("no stage is called `{next}`"), hint));
                };
                let follows = stages[found].action().is_some_and(|(_, action)| action.follows());
                let reads = || {
                    stages[found]
                        .actions()
                        .iter()
                        .any(|(_, action)| action.reads().contains(&stage.name.as_str()))
                };
                if !follows && !reads() {
                    let problem = format!(
                        "`{next}` says itself what it takes, and that is not `{}`",
                        stage.name
                    );
                    return Err(wrong(
                        problem,
                        format!("leave `{next}` out, or let it name no from"),
                    ));
                }
                if !follows {
                    continue;
                }
                if let Some(other) = before[found]
                    .replace(&stage.name)
                    .filter(|other| *other != stage.name)
                {
                    let problem = format!("`{other}` names `{next}` as well, and it takes one value");
                    return Err(wrong(problem, "name both in a merge stage".to_owned()));
                }
            }
        }
        let previous = |at: usize| match description.stages.is_table() {
            true => None,
            false => Some(stages[at.checked_sub(1)?].name.as_str()),
        };
        let resolved = before
            .into_iter()
            .enumerate()
            .map(|(at, named)| named.or_else(|| previous(at)));
        Ok(resolved
            .map(|stage| stage.map_or(Before::Root, Before::Stage))
            .collect())
    }

    /// What `text` means in a scope.
    pub(crate) fn resolve(&self, scope: usize, text: &str) -> Result<Target, Wrong> {
        match Reference::parse(text)? {
            Reference::Request(Source::Input(input)) => self.input(scope, input),
            Reference::Request(source) => Ok(Target::Source(source)),
            Reference::Stage(stage) => self.stage(scope, stage, None),
            Reference::Output(stage, output) => self.stage(scope, stage, Some(output)),
        }
    }

    /// What stands before a stage of a scope.
    pub(crate) fn before_target(&self, scope: usize, before: Before<'_>) -> Result<Target, Wrong> {
        match before {
            Before::Stage(stage) => self.stage(scope, stage, None),
            Before::Root => self.input(scope, "data".to_owned()),
        }
    }

    fn input(&self, scope: usize, input: String) -> Result<Target, Wrong> {
        let Scope {
            name,
            around,
            read,
            description,
            ..
        } = &self.scopes[scope];
        let Some((outer, inputs, before)) = around else {
            return Ok(Target::Source(Source::Input(input)));
        };
        read.borrow_mut().insert(input.clone());
        if !description.inputs.is_empty() && !description.inputs.contains_key(&input) {
            let problem = format!("`inputs.{input}` is not declared by pipeline `{name}`");
            return Err((problem, "declare it there".to_owned()));
        }
        match inputs.get(&input) {
            Some(text) => self.resolve(*outer, text),
            None if input == "data" && inputs.is_empty() => self.before_target(*outer, *before),
            None => {
                let problem = format!("pipeline `{name}` reads `inputs.{input}`");
                Err((
                    problem,
                    format!("add {input} = \"STAGE\" to the inputs of the stage that names it"),
                ))
            }
        }
    }

    fn stage(&self, scope: usize, stage: &str, output: Option<&str>) -> Result<Target, Wrong> {
        let Scope { prefix, inner, .. } = &self.scopes[scope];
        if let Some(inner) = inner.get(stage) {
            let outputs = self.outputs(*inner);
            let found = match output {
                Some(output) => outputs.iter().find(|known| *known == output),
                None if outputs.len() == 1 => outputs.first(),
                None => None,
            };
            return match found {
                Some(found) => self.resolve(*inner, found),
                None => {
                    let outputs: Vec<String> = outputs
                        .iter()
                        .map(|output| format!("`{stage}.{output}`"))
                        .collect();
                    let problem = match output {
                        Some(output) => format!("stage `{stage}` has no output `{output}`"),
                        None => format!("stage `{stage}` has several outputs"),
                    };
                    Err((problem, format!("write one of {}", outputs.join(", "))))
                }
            };
        }
        let name = format!("{prefix}{stage}");
        match self.nodes.iter().position(|node| node.name == name) {
            Some(at) => Ok(Target::Node(at, output.map(str::to_owned))),
            None => Err((format!("no stage is called `{stage}`"), String::new())),
        }
    }

    /// The outputs of a scope, as they are called in it: those that it names, or the stages that none of it reads.
    fn outputs(&self, scope: usize) -> Vec<String> {
        let description = self.scopes[scope].description;
        if !description.outputs.is_empty() {
            return description.outputs.clone();
        }
        unread(description, &self.before(scope, Some(0)).unwrap_or_default())
    }

    /// The outputs of the described pipeline, with what they mean.
    pub(crate) fn all_outputs(&self) -> Vec<(String, Result<Target, Wrong>)> {
        let mut outputs = Vec::new();
        for name in self.outputs(0) {
            match self.scopes[0].inner.get(name.as_str()) {
                // Each of a sub-pipeline that none reads.
                Some(inner) if self.outputs(*inner).len() != 1 => {
                    for output in self.outputs(*inner) {
                        let target = self.resolve(*inner, &output);
                        outputs.push((format!("{name}.{output}"), target));
                    }
                }
                _ => {
                    let target = self.resolve(0, &name);
                    outputs.push((name, target));
                }
            }
        }
        outputs
    }

    /// An input that a stage gives to another pipeline, which does not read it.
    pub(crate) fn unread_input(&self) -> Option<Error> {
        self.scopes.iter().find_map(|scope| {
            let (outer, inputs, _) = scope.around?;
            let input = inputs
                .keys()
                .find(|input| !scope.read.borrow().contains(*input))?;
            let stage = scope.prefix.trim_end_matches('/');
            let stage = stage.rsplit_once('/').map_or(stage, |(_, stage)| stage);
            let stages = &self.scopes[outer].description.stages;
            let at = stages.iter().position(|known| known.name == stage)?;
            let problem = format!("pipeline `{}` does not read `inputs.{input}`", scope.name);
            let wrong = (problem, "remove it".to_owned());
            Some(self.error(outer, at, None, "pipeline.inputs", wrong))
        })
    }
}

/// The stage that a reference names.
fn stage_of(text: &str) -> &str {
    text.split_once('.').map_or(text, |(stage, _)| stage)
}

/// What a stage needs: what it reads, what stands before it, and what its filter looks at.
fn needs<'s>(stage: &'s StageDescription, before: Option<&Before<'s>>) -> Vec<&'s str> {
    let actions = stage.actions();
    let mut needs: Vec<&str> = Vec::new();
    for (_, action) in &actions {
        needs.extend(action.reads().into_iter().map(stage_of));
        if let Some(Before::Stage(before)) = before.filter(|_| action.follows()) {
            needs.push(before);
        }
    }
    needs
}

/// What a stage's filter looks at.
fn looks_at(filter: &Filter) -> Option<String> {
    match filter {
        Filter::Run => None,
        Filter::Skip(text) | Filter::Break(text) => Condition::parse(text).ok().map(|condition| condition.of),
        Filter::Or(stage) => Some(stage.clone()),
    }
}

/// The order in which the stages of a table stand behind what they need, else as they are listed. Those of a cycle stand last.
fn order(description: &Description, before: &[Before<'_>]) -> Vec<usize> {
    let stages = &description.stages;
    if !stages.is_table() {
        return (0..stages.len()).collect();
    }
    let position = |name: &str| stages.iter().position(|stage| stage.name == name);
    let needed: Vec<Vec<usize>> = stages
        .iter()
        .zip(before)
        .map(|(stage, before)| {
            let mut needed: Vec<usize> = needs(stage, Some(before))
                .into_iter()
                .filter_map(position)
                .collect();
            needed.extend(looks_at(&stage.filter).and_then(|of| position(stage_of(&of))));
            needed
        })
        .collect();
    let mut order: Vec<usize> = Vec::with_capacity(stages.len());
    while let Some(next) = (0..stages.len())
        .find(|at| !order.contains(at) && needed[*at].iter().all(|needed| order.contains(needed)))
    {
        order.push(next);
    }
    order.extend(
        (0..stages.len())
            .filter(|at| !order.contains(at))
            .collect::<Vec<_>>(),
    );
    order
}

/// The stages of a description that no other reads. A look by a filter is no reading, but `or` is.
fn unread(description: &Description, before: &[Before<'_>]) -> Vec<String> {
    let mut read: BTreeSet<String> = BTreeSet::new();
    for (at, stage) in description.stages.iter().enumerate() {
        read.extend(needs(stage, before.get(at)).into_iter().map(str::to_owned));
        if let Filter::Or(other) = &stage.filter {
            read.insert(stage_of(other).to_owned());
        }
    }
    let names = description.stages.iter().map(|stage| stage.name.clone());
    names.filter(|name| !read.contains(name)).collect()
}

/// The stages of the described pipeline that a stage needs, directly or through others, by its position and its need.
pub(crate) fn reaches(description: &Description, before: &[Before<'_>], from: usize, to: usize) -> bool {
    let stages = &description.stages;
    let mut reached = vec![false; stages.len()];
    let mut open = vec![from];
    while let Some(index) = open.pop() {
        if index == to {
            return true;
        }
        if !std::mem::replace(&mut reached[index], true) {
            let mut names: Vec<String> = needs(&stages[index], before.get(index))
                .into_iter()
                .map(str::to_owned)
                .collect();
            names.extend(looks_at(&stages[index].filter).map(|of| stage_of(&of).to_owned()));
            open.extend(
                names
                    .iter()
                    .filter_map(|name| stages.iter().position(|other| other.name == *name)),
            );
        }
    }
    false
}

impl<'d> Graph<'d> {
    /// What stands before each stage of the described pipeline.
    pub(crate) fn root_before(&self) -> Vec<Before<'d>> {
        self.before(0, None).unwrap_or_default()
    }

    /// Whether a stage of that name is in a scope, as a stage or as a sub-pipeline.
    pub(crate) fn has_stage(&self, scope: usize, name: &str) -> bool {
        let stages = &self.scopes[scope].description.stages;
        stages.iter().any(|stage| stage.name == name)
    }
}
