//! What a stage sees while it is planned: the stages and inputs that it can take.
//!
//! It decides nothing of the stage. Its invariant: what a stage takes stands before it, and is of a kind that it asked for, or is held
//! to one when a request runs.

use super::{Check, Planner, Taken, Words};
use crate::graph::{Before, Node, Target, Wrong};
use crate::source::{Reference, is_name};
use crate::stage::{Form, Kind};
use crate::{Error, RequestKind, Source};

/// The place of the stage that is being planned, among those before it.
pub struct Place<'p, 'd> {
    pub(super) planner: &'p mut Planner<'d>,
    pub(super) index: usize,
    pub(super) takes: Vec<Taken>,
    pub(super) checks: Vec<Check>,
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
        let is_last = self.index + 1 == self.planner.graph.nodes.len();
        is_last && self.request() != RequestKind::Values
    }

    /// Whether a stage is called that.
    pub fn has_stage(&self, name: &str) -> bool {
        self.planner.graph.has_stage(self.node().scope, name)
    }

    /// Whether it is a stage of a sub-pipeline.
    pub fn is_inner(&self) -> bool {
        self.node().scope != 0
    }

    fn node(&self) -> &Node<'_> {
        &self.planner.graph.nodes[self.index]
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
        let target = match Reference::parse(other) {
            Err(_) => Err((format!("no stage is called `{other}`"), String::new())),
            Ok(_) => self.planner.graph.resolve(self.node().scope, other),
        };
        self.take_target(key, other, target, kinds)
    }

    /// Takes what the key `from` of a stage names; where it is left out, what stands before the stage: the stage that names it in
    /// `next`, else in a list the stage before it, and `inputs.data` for the first one.
    ///
    /// # Errors
    /// As [`Place::take`].
    pub fn from(&mut self, key: &str, from: Option<&str>, kinds: &[Kind]) -> Result<Form, Error> {
        if let Some(from) = from {
            return self.take_of(key, from, kinds);
        }
        let (before, scope) = (self.node().before, self.node().scope);
        let name = match before {
            Before::Stage(stage) => stage.to_owned(),
            Before::Root if self.request() == RequestKind::Values || self.is_inner() => {
                "inputs.data".to_owned()
            }
            Before::Root => {
                let hint = "write where it reads from";
                return Err(self.error(key, "it is missing, and no stage stands before", hint));
            }
        };
        let target = self.planner.graph.before_target(scope, before);
        self.take_target(key, &name, target, kinds)
    }

    /// Says in words of the stage's own what it takes, for the error of a request that gives it something else.
    pub fn expects(&mut self, words: Words) {
        self.checks.iter_mut().for_each(|check| check.words = Some(words));
    }

    /// Takes what `other` was found to mean.
    pub(super) fn take_target(
        &mut self,
        key: &str,
        other: &str,
        target: Result<Target, Wrong>,
        kinds: &[Kind],
    ) -> Result<Form, Error> {
        let (found, output) = match target {
            Ok(Target::Source(source @ Source::Input(_))) if self.request() == RequestKind::Values => {
                return self.take_input(key, source, kinds);
            }
            Ok(Target::Source(_)) => {
                let problem = format!("no stage is called `{other}`");
                return Err(self.error(key, problem, self.names(other, kinds)));
            }
            Ok(Target::Node(found, output)) => (found, output),
            Err((problem, hint)) if hint.is_empty() => {
                return Err(self.error(key, problem, self.names(other, kinds)));
            }
            Err((problem, hint)) => return Err(self.error(key, problem, hint)),
        };
        if found >= self.index {
            return Err(self.planner.refers_forward(self.index, found, key));
        }
        let mut form = self.planner.planned[found].gives;
        if output.is_some() && form.kind == Kind::Scores {
            form.kind = Kind::Floats;
        }
        self.fits(key, &format!("stage `{other}`"), form, kinds)?;
        let taken = self.planner.taken(found, output.as_deref());
        self.takes.push(taken);
        Ok(form)
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
        let taken = self.takes.pop();
        self.fits(key, &format!("`inputs.{name}`"), form, kinds)?;
        self.takes.extend(taken);
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
                words: None,
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

    /// What to write for a name that nothing has: an input, where the request has inputs, or a stage.
    fn names(&self, other: &str, kinds: &[Kind]) -> String {
        let stages = self.candidates(kinds);
        if self.request() != RequestKind::Values && !self.is_inner() {
            return stages;
        }
        // A pipeline inside of another takes any inputs, and so does one that declares none.
        let takes_any = self.is_inner() || self.planner.description.inputs.is_empty();
        let declared = match self.is_inner() {
            true => Vec::new(),
            false => self.declared(kinds),
        };
        let is_input = is_name(other) && other != "inputs" && (takes_any || declared.contains(&other));
        let input = match is_input {
            true => format!("`inputs.{other}` for an input of the request"),
            false if takes_any => "`inputs.NAME` for an input of the request".to_owned(),
            false if declared.is_empty() => return stages,
            false => format!(
                "an input of the request: `inputs.{}`",
                declared.join("`, `inputs.")
            ),
        };
        format!("write {input}, or {stages}")
    }

    /// The declared inputs that may be of these kinds.
    fn declared(&self, kinds: &[Kind]) -> Vec<&str> {
        let declared = self.planner.description.inputs.iter();
        let fitting = declared.filter(|(_, input)| kinds.iter().any(|kind| input.kind().may_be(*kind)));
        fitting.map(|(name, _)| name.as_str()).collect()
    }

    /// "name a stage that gives keys: `a`, `b`", of the stages so far.
    fn candidates(&self, kinds: &[Kind]) -> String {
        let planned = self.planner.planned.iter();
        let fitting = planned.filter(|stage| kinds.contains(&stage.gives.kind));
        let names: Vec<String> = fitting.map(|stage| format!("`{}`", stage.name)).collect();
        let kinds: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
        let kinds = kinds.join(" or ");
        match names.is_empty() {
            true => format!("put a stage that gives {kinds} before this one and name it"),
            false => format!("name a stage that gives {kinds}: {}", names.join(", ")),
        }
    }
}
