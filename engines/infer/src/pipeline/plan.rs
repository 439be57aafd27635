//! Resolves a pipeline's names and checks that its stages fit. It runs nothing and
//! knows no table, store or model: whether those exist is the server's to check.
//! Invariant: a [`PlannedStage`] refers to stages of smaller index only.

use super::source::{Reference, is_name, is_reserved};
use super::{
    AssembleSpec, HashSpec, LookupSpec, ModelSpec, Pipeline, Pool, RequestKind, SCAN_LIMIT_MAX, ScanSpec,
    Source, StageSpec, Template,
};
use crate::Error;

/// A pipeline ready to be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The pipeline's name.
    pub name: String,
    /// What its requests look like.
    pub request: RequestKind,
    /// Strings that each sample must have; 0 for `rank` requests.
    pub sample_width: usize,
    /// The stages in the order they run; the last one is the model.
    pub stages: Vec<PlannedStage>,
}

/// One stage of a [`Plan`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedStage {
    /// Its name.
    pub name: String,
    /// What it does.
    pub action: Action,
    /// What it gives.
    pub value: Value,
}

/// What a stage does; stages are named by their index in [`Plan::stages`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Texts to keys.
    Hash {
        /// The name space.
        slot: String,
        /// Where the texts are.
        from: Source,
        /// What stands between the values of one text.
        split: Option<String>,
    },
    /// The newest entries below a prefix.
    Scan {
        /// The ordered store.
        store: String,
        /// What their keys start with.
        prefix: Template,
        /// How many.
        limit: usize,
    },
    /// Keys to rows of floats.
    Lookup {
        /// The feature table.
        table: String,
        /// The stage with the keys.
        keys: usize,
        /// How several keys become one row.
        pool: Pool,
    },
    /// Rows side by side.
    Assemble {
        /// The stages with the floats.
        columns: Vec<usize>,
    },
    /// The model.
    Model {
        /// Its name.
        model: String,
        /// The stage with its input.
        input: usize,
    },
}

/// What a stage gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Value {
    /// A list of texts, in one row.
    Texts,
    /// Keys.
    Keys(Rows, KeysPerRow),
    /// A row of floats for each row.
    Floats(Rows),
    /// One float for each row of the request.
    Scores,
}

/// How many rows a value has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rows {
    /// One, whatever the request.
    One,
    /// One for each item or sample.
    Each,
}

/// How many keys a row has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeysPerRow {
    /// Exactly one.
    One,
    /// One, or several when the request gives a list: known when it comes.
    OneOrSeveral,
    /// Any number, none included.
    Several,
}

pub(super) fn plan(name: &str, pipeline: &Pipeline) -> Result<Plan, Error> {
    let mut planner = Planner {
        name,
        pipeline,
        planned: Vec::new(),
        used: vec![false; pipeline.stages.len()],
    };
    planner.check_names()?;
    for (index, stage) in pipeline.stages.iter().enumerate() {
        let planned = planner.stage(index, stage)?;
        planner.planned.push(planned);
    }
    planner.check_uses()?;
    let sample_width = planner.planned.iter().filter_map(|stage| match stage.action {
        Action::Hash {
            from: Source::Sample(index),
            ..
        } => Some(index + 1),
        _ => None,
    });
    Ok(Plan {
        name: name.to_string(),
        request: pipeline.request,
        sample_width: sample_width.max().unwrap_or(0),
        stages: planner.planned,
    })
}

struct Planner<'a> {
    name: &'a str,
    pipeline: &'a Pipeline,
    /// The stages before the one being planned.
    planned: Vec<PlannedStage>,
    /// Which stages a later one reads.
    used: Vec<bool>,
}

impl Planner<'_> {
    fn error(&self, place: String, problem: impl Into<String>, mend: impl Into<String>) -> Error {
        Error::Pipeline {
            pipeline: self.name.to_string(),
            place,
            problem: problem.into(),
            mend: mend.into(),
        }
    }

    /// An error at one key of a stage.
    fn at(&self, stage: &str, key: &str, problem: impl Into<String>, mend: impl Into<String>) -> Error {
        self.error(format!("stage `{stage}`, key `{key}`"), problem, mend)
    }

    fn check_names(&self) -> Result<(), Error> {
        let stages = &self.pipeline.stages;
        if stages.is_empty() {
            let mend = "add stages, the last one with model = { model = \"NAME\", input = \"STAGE\" }";
            return Err(self.error("key `stages`".to_string(), "there is no stage", mend));
        }
        for (index, stage) in stages.iter().enumerate() {
            let name = &stage.name;
            if !is_name(name) || is_reserved(name) {
                let problem = format!("`{name}` cannot be a name");
                let mend = "begin with a letter, go on with letters, digits, _ and -, and leave user, items and \
                            samples to the request";
                return Err(self.error(format!("stage number {}, key `name`", index + 1), problem, mend));
            }
            if let Some(first) = stages[..index].iter().position(|other| other.name == *name) {
                let problem = format!("stage number {} has this name already", first + 1);
                return Err(self.at(name, "name", problem, "give each stage a name of its own"));
            }
        }
        Ok(())
    }

    fn stage(&mut self, index: usize, stage: &StageSpec) -> Result<PlannedStage, Error> {
        let name = &stage.name;
        let (action, value) = match stage {
            StageSpec {
                hash: Some(hash),
                scan: None,
                lookup: None,
                assemble: None,
                model: None,
                ..
            } => self.hash(index, name, hash)?,
            StageSpec {
                hash: None,
                scan: Some(scan),
                lookup: None,
                assemble: None,
                model: None,
                ..
            } => self.scan(name, scan)?,
            StageSpec {
                hash: None,
                scan: None,
                lookup: Some(lookup),
                assemble: None,
                model: None,
                ..
            } => self.lookup(index, name, lookup)?,
            StageSpec {
                hash: None,
                scan: None,
                lookup: None,
                assemble: Some(assemble),
                model: None,
                ..
            } => self.assemble(index, name, assemble)?,
            StageSpec {
                hash: None,
                scan: None,
                lookup: None,
                assemble: None,
                model: Some(model),
                ..
            } => self.model(index, name, model)?,
            _ => return Err(self.not_one_action(stage)),
        };
        Ok(PlannedStage {
            name: name.clone(),
            action,
            value,
        })
    }

    fn not_one_action(&self, stage: &StageSpec) -> Error {
        let given: Vec<&str> = [
            ("hash", stage.hash.is_some()),
            ("scan", stage.scan.is_some()),
            ("lookup", stage.lookup.is_some()),
            ("assemble", stage.assemble.is_some()),
            ("model", stage.model.is_some()),
        ]
        .into_iter()
        .filter_map(|(key, is_given)| is_given.then_some(key))
        .collect();
        let mend = "give it exactly one of hash, scan, lookup, assemble, model";
        match given.as_slice() {
            [] => self.error(format!("stage `{}`", stage.name), "it does nothing", mend),
            _ => self.at(&stage.name, &given.join("`, `"), "it does several things", mend),
        }
    }

    fn hash(&mut self, index: usize, stage: &str, hash: &HashSpec) -> Result<(Action, Value), Error> {
        let reference = Reference::parse(&hash.from)
            .map_err(|(problem, mend)| self.at(stage, "hash.from", problem, mend))?;
        let (needs, from, value) = match reference {
            Reference::User(field) => {
                let per_row = if hash.split.is_some() {
                    KeysPerRow::Several
                } else {
                    KeysPerRow::OneOrSeveral
                };
                (
                    Some(RequestKind::Rank),
                    Source::User(field.to_string()),
                    Value::Keys(Rows::One, per_row),
                )
            }
            Reference::Items => (
                Some(RequestKind::Rank),
                Source::Items,
                Value::Keys(Rows::Each, KeysPerRow::One),
            ),
            Reference::Sample(position) => {
                let value = Value::Keys(Rows::Each, KeysPerRow::One);
                (Some(RequestKind::Samples), Source::Sample(position), value)
            }
            Reference::Stage(other) => {
                let other = self.refer(index, stage, "hash.from", other, "a scan stage", |value| {
                    matches!(value, Value::Texts)
                })?;
                (
                    None,
                    Source::Stage(other),
                    Value::Keys(Rows::One, KeysPerRow::Several),
                )
            }
        };
        if needs.is_some_and(|needs| needs != self.pipeline.request) {
            let mend = match self.pipeline.request {
                RequestKind::Rank => "write user.FIELD or items, or set request = \"samples\"",
                RequestKind::Samples => "write samples.J, or set request = \"rank\"",
            };
            let problem = format!("`{}` is not in the request of this pipeline", hash.from);
            return Err(self.at(stage, "hash.from", problem, mend));
        }
        match (&hash.split, &from) {
            (Some(split), _) if split.is_empty() => {
                return Err(self.at(
                    stage,
                    "hash.split",
                    "it is empty",
                    "write what stands between the values, or leave it out",
                ));
            }
            (Some(_), from) if !matches!(from, Source::User(_)) => {
                let problem = format!("`{}` is not split", hash.from);
                return Err(self.at(
                    stage,
                    "hash.split",
                    problem,
                    "leave it out; only user.FIELD can be split",
                ));
            }
            _ => {}
        }
        Ok((
            Action::Hash {
                slot: hash.slot.clone(),
                from,
                split: hash.split.clone(),
            },
            value,
        ))
    }

    fn scan(&self, stage: &str, scan: &ScanSpec) -> Result<(Action, Value), Error> {
        self.check_name_given(stage, "scan.store", &scan.store)?;
        if self.pipeline.request == RequestKind::Samples {
            let problem = "a request of samples has no user to scan for";
            return Err(self.at(
                stage,
                "scan",
                problem,
                "remove the stage, or set request = \"rank\"",
            ));
        }
        let prefix = Template::parse(&scan.prefix).map_err(|problem| {
            self.at(
                stage,
                "scan.prefix",
                problem,
                "write text with {user.FIELD} in it, as in u/{user.id}/",
            )
        })?;
        if scan.limit == 0 || scan.limit > SCAN_LIMIT_MAX {
            let mend = format!("write a number from 1 to {SCAN_LIMIT_MAX}");
            return Err(self.at(stage, "scan.limit", format!("it is {}", scan.limit), mend));
        }
        Ok((
            Action::Scan {
                store: scan.store.clone(),
                prefix,
                limit: scan.limit,
            },
            Value::Texts,
        ))
    }

    fn lookup(&mut self, index: usize, stage: &str, lookup: &LookupSpec) -> Result<(Action, Value), Error> {
        self.check_name_given(stage, "lookup.table", &lookup.table)?;
        let keys = self.refer(
            index,
            stage,
            "lookup.keys",
            &lookup.keys,
            "a hash stage",
            |value| matches!(value, Value::Keys(..)),
        )?;
        let Value::Keys(rows, per_row) = self.planned[keys].value else {
            return Err(self.at(stage, "lookup.keys", "it has no keys", "name a hash stage"));
        };
        if lookup.pool == Pool::None && per_row == KeysPerRow::Several {
            let problem = format!("`{}` gives several keys a row and none pools them", lookup.keys);
            return Err(self.at(
                stage,
                "lookup.pool",
                problem,
                "write pool = \"mean\" or pool = \"sum\"",
            ));
        }
        Ok((
            Action::Lookup {
                table: lookup.table.clone(),
                keys,
                pool: lookup.pool,
            },
            Value::Floats(rows),
        ))
    }

    fn assemble(&mut self, index: usize, stage: &str, spec: &AssembleSpec) -> Result<(Action, Value), Error> {
        if spec.columns.is_empty() {
            return Err(self.at(
                stage,
                "assemble.columns",
                "it is empty",
                "name at least one lookup stage",
            ));
        }
        let columns = spec
            .columns
            .iter()
            .map(|column| self.refer_to_floats(index, stage, "assemble.columns", column))
            .collect::<Result<Vec<usize>, Error>>()?;
        let one_row = columns
            .iter()
            .all(|&column| self.planned[column].value == Value::Floats(Rows::One));
        let rows = if one_row { Rows::One } else { Rows::Each };
        Ok((Action::Assemble { columns }, Value::Floats(rows)))
    }

    fn model(&mut self, index: usize, stage: &str, spec: &ModelSpec) -> Result<(Action, Value), Error> {
        self.check_name_given(stage, "model.model", &spec.model)?;
        let input = self.refer_to_floats(index, stage, "model.input", &spec.input)?;
        if self.planned[input].value == Value::Floats(Rows::One) {
            let problem = format!(
                "`{}` has one row, but a score is due for each item or sample",
                spec.input
            );
            let mend = "assemble it with a column looked up for items or samples.J";
            return Err(self.at(stage, "model.input", problem, mend));
        }
        if index + 1 != self.pipeline.stages.len() {
            let mend = "move it behind all others; a pipeline has one model";
            return Err(self.at(stage, "model", "it is not the last stage", mend));
        }
        Ok((
            Action::Model {
                model: spec.model.clone(),
                input,
            },
            Value::Scores,
        ))
    }

    fn check_name_given(&self, stage: &str, key: &str, name: &str) -> Result<(), Error> {
        if name.is_empty() {
            return Err(self.at(
                stage,
                key,
                "it is empty",
                "write the name it has in the configuration",
            ));
        }
        Ok(())
    }

    fn refer_to_floats(&mut self, index: usize, stage: &str, key: &str, other: &str) -> Result<usize, Error> {
        self.refer(index, stage, key, other, "a lookup or assemble stage", |value| {
            matches!(value, Value::Floats(_))
        })
    }

    /// The index of the earlier stage `other`, which must give what `fits` accepts.
    fn refer(
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

    /// The last stage is the model, and every other is read by a later one.
    fn check_uses(&self) -> Result<(), Error> {
        let Some((last, others)) = self.planned.split_last() else {
            return Ok(());
        };
        if last.value != Value::Scores {
            let mend = "add a last stage with model = { model = \"NAME\", input = \"STAGE\" }";
            return Err(self.error(
                format!("stage `{}`", last.name),
                "the last stage is not a model",
                mend,
            ));
        }
        match others.iter().zip(&self.used).find(|(_, used)| !**used) {
            Some((unused, _)) => {
                let place = format!("stage `{}`", unused.name);
                Err(self.error(place, "no later stage reads it", "use it or remove it"))
            }
            None => Ok(()),
        }
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
