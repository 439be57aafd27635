//! Resolves a pipeline's names and checks that its stages fit. It runs nothing and
//! knows no table, store or model: whether those exist is the server's to check.
//! Invariant: a [`Plan`] leaves here only when every stage has been checked.

use super::source::{Reference, is_name, is_reserved};
use super::{
    Action, AssembleSpec, HashSpec, KeysPerRow, LookupSpec, ModelSpec, Pipeline, Plan, PlannedStage, Pool,
    RequestKind, Rows, SCAN_LIMIT_MAX, ScanSpec, Source, StageSpec, Template, Value,
};
use crate::Error;

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

/// A pipeline half-way to its plan.
pub(super) struct Planner<'a> {
    name: &'a str,
    pub(super) pipeline: &'a Pipeline,
    /// The stages before the one being planned.
    pub(super) planned: Vec<PlannedStage>,
    /// Which stages a later one reads.
    pub(super) used: Vec<bool>,
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
    pub(super) fn at(
        &self,
        stage: &str,
        key: &str,
        problem: impl Into<String>,
        mend: impl Into<String>,
    ) -> Error {
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
        let from = self.source(index, stage, &hash.from)?;
        self.check_split(stage, hash, &from)?;
        let (rows, per_row) = match (&from, &hash.split) {
            (Source::Items | Source::Sample(_), _) => (Rows::Each, KeysPerRow::One),
            (Source::User(_), None) => (Rows::One, KeysPerRow::OneOrSeveral),
            (Source::User(_), Some(_)) | (Source::Stage(_), _) => (Rows::One, KeysPerRow::Several),
        };
        let (slot, split) = (hash.slot.clone(), hash.split.clone());
        Ok((Action::Hash { slot, from, split }, Value::Keys(rows, per_row)))
    }

    /// Where a hash stage reads, which must be in this pipeline's kind of request.
    fn source(&mut self, index: usize, stage: &str, from: &str) -> Result<Source, Error> {
        let key = "hash.from";
        let reference =
            Reference::parse(from).map_err(|(problem, mend)| self.at(stage, key, problem, mend))?;
        let (source, found_in) = match reference {
            Reference::User(field) => (Source::User(field.to_string()), RequestKind::Rank),
            Reference::Items => (Source::Items, RequestKind::Rank),
            Reference::Sample(position) => (Source::Sample(position), RequestKind::Samples),
            Reference::Stage(other) => {
                let is_texts = |value| matches!(value, Value::Texts);
                let other = self.refer(index, stage, key, other, "a scan stage", is_texts)?;
                return Ok(Source::Stage(other));
            }
        };
        if found_in == self.pipeline.request {
            return Ok(source);
        }
        let mend = match self.pipeline.request {
            RequestKind::Rank => "write user.FIELD or items, or set request = \"samples\"",
            RequestKind::Samples => "write samples.J, or set request = \"rank\"",
        };
        let problem = format!("`{from}` is not in the request of this pipeline");
        Err(self.at(stage, key, problem, mend))
    }

    fn check_split(&self, stage: &str, hash: &HashSpec, from: &Source) -> Result<(), Error> {
        let key = "hash.split";
        match (&hash.split, from) {
            (Some(split), _) if split.is_empty() => {
                let mend = "write what stands between the values, or leave it out";
                Err(self.at(stage, key, "it is empty", mend))
            }
            (Some(_), Source::User(_)) | (None, _) => Ok(()),
            (Some(_), _) => {
                let problem = format!("`{}` is not split", hash.from);
                Err(self.at(stage, key, problem, "leave it out; only user.FIELD can be split"))
            }
        }
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
