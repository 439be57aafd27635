//! What each backend of torchpipe is here, and which keys of its node it reads.
//!
//! It knows one member of an expression at a time. Its invariant: a backend that is not listed is refused by its name.

use super::expression::Member;
use super::file::Node;
use super::{Note, Outcome, Refused};
use std::collections::BTreeSet;
use toml::{Table, Value};

/// What a member becomes.
pub(super) enum Counterpart {
    /// A stage, by its key and what stands there beside its input.
    Stage(&'static str, Table),
    /// A model, by its section, behind the stages that make its input.
    Model {
        before: Vec<(&'static str, Table)>,
        section: Table,
    },
    /// Nothing at all.
    Nothing,
}

/// The keys of one node, of which each is noted once.
pub(super) struct Keys<'n> {
    pub(super) node: &'n Node,
    pub(super) notes: Vec<Note>,
    noted: BTreeSet<String>,
}

impl<'n> Keys<'n> {
    pub(super) fn new(node: &'n Node) -> Keys<'n> {
        Keys {
            node,
            notes: Vec::new(),
            noted: BTreeSet::new(),
        }
    }

    /// Says what became of a key that the node has.
    pub(super) fn note(&mut self, key: &str, outcome: Outcome, text: impl Into<String>) {
        let Some(value) = self.node.get(key) else { return };
        if self.noted.insert(key.to_owned()) {
            self.notes.push(Note {
                node: self.node.name.clone(),
                key: format!("{key} = {value:?}"),
                outcome,
                text: text.into(),
            });
        }
    }

    /// Notes what nothing has read.
    pub(super) fn finish(mut self) -> Vec<Note> {
        for (key, _) in &self.node.keys {
            self.note(key, Outcome::Dropped, "nothing reads it");
        }
        self.notes
    }

    /// The value of a key for `member`: its own argument, or the node's.
    fn read(&mut self, member: &Member, key: &str, to: &str) -> Option<String> {
        let own = member.arguments.iter().find(|(name, _)| name == key);
        let value = match own {
            Some((_, value)) => Some(value.clone()),
            None => self.node.get(key).map(str::to_owned),
        };
        self.note(key, Outcome::Kept, to);
        value
    }

    fn refused(&self, key: &str, problem: impl Into<String>, hint: impl Into<String>) -> Refused {
        Refused::new(&self.node.name, key, problem, hint)
    }

    fn number(&mut self, member: &Member, key: &str, to: &str) -> Result<Option<i64>, Refused> {
        let Some(text) = self.read(member, key, to) else {
            return Ok(None);
        };
        match text.trim().parse() {
            Ok(number) => Ok(Some(number)),
            Err(_) => Err(self.refused(key, format!("`{text}` is no whole number"), "write one")),
        }
    }

    fn numbers(&mut self, member: &Member, key: &str, to: &str) -> Result<Option<Value>, Refused> {
        let Some(text) = self.read(member, key, to) else {
            return Ok(None);
        };
        let numbers: Result<Vec<f64>, _> = text.split(',').map(|item| item.trim().parse::<f64>()).collect();
        match numbers {
            Ok(numbers) => Ok(Some(numbers.into())),
            Err(_) => Err(self.refused(
                key,
                format!("`{text}` is no list of numbers"),
                "write \"1.0, 2.0\"",
            )),
        }
    }
}

/// What `member` is here.
pub(super) fn counterpart(member: &Member, keys: &mut Keys<'_>) -> Result<Counterpart, Refused> {
    Ok(match member.name.as_str() {
        "DecodeMat" | "DecodeTensor" => {
            let color = keys.read(member, "color", "decode.color");
            let color = color.unwrap_or_else(|| "bgr".to_owned());
            Counterpart::Stage("decode", table([("color", Some(color.into()))]))
        }
        "ResizeMat" | "ResizeTensor" => {
            let height = keys.number(member, "resize_h", "resize.height")?;
            let width = keys.number(member, "resize_w", "resize.width")?;
            if height.is_none() || width.is_none() {
                return Err(keys.refused("backend", "it resizes to no size", "set resize_h and resize_w"));
            }
            let sizes = [
                ("height", height.map(Value::from)),
                ("width", width.map(Value::from)),
            ];
            Counterpart::Stage("resize", table(sizes))
        }
        "CropMat" | "CropTensor" => Counterpart::Stage("crop", crop(member, keys)?),
        "cvtColorMat" | "CvtColorMat" | "CvtColorTensor" => {
            let color = keys.read(member, "color", "colour.to");
            let color =
                color.ok_or_else(|| keys.refused("backend", "it converts to no colour", "set color"))?;
            Counterpart::Stage("colour", table([("to", Some(color.into()))]))
        }
        "Mat2Tensor" | "Mat2GpuTensor" => Counterpart::Stage("layout", table([("to", Some("chw".into()))])),
        "Tensor2Mat" => Counterpart::Stage("layout", table([("to", Some("hwc".into()))])),
        "SoftmaxTensor" | "ResultProcess" => Counterpart::Stage("softmax", Table::new()),
        "SoftmaxArgMaxTensor" => Counterpart::Stage("topk", table([("k", Some(1.into()))])),
        "OnnxTensor" | "TensorrtTensor" => model(member, keys)?,
        "Identity" | "Identities" => Counterpart::Nothing,
        "StreamGuard" | "SyncTensor" | "StreamPool" | "FakeInstance" => Counterpart::Nothing,
        name => return Err(refusal(name, keys)),
    })
}

fn table<const N: usize>(keys: [(&str, Option<Value>); N]) -> Table {
    let given = keys.into_iter();
    given
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}

fn crop(member: &Member, keys: &mut Keys<'_>) -> Result<Table, Refused> {
    let mut crop = Table::new();
    for (theirs, ours) in [("crop_h", "height"), ("crop_w", "width")] {
        let value = keys.number(member, theirs, &format!("crop.{ours}"))?;
        crop.extend(value.map(|value| (ours.to_owned(), value.into())));
    }
    Ok(crop)
}

fn model(member: &Member, keys: &mut Keys<'_>) -> Result<Counterpart, Refused> {
    let Some(path) = keys.read(member, "model", "models.NAME.path") else {
        return Err(keys.refused("model", "the model has no file", "set model = \"net.onnx\""));
    };
    let mut normalise = Table::new();
    for key in ["mean", "std"] {
        let values = keys.numbers(member, key, &format!("normalise.{key}"))?;
        normalise.extend(values.map(|values| (key.to_owned(), values)));
    }
    keys.note(
        "model::cache",
        Outcome::Dropped,
        "no engine is cached; provider_options.tensorrt has such options",
    );
    keys.note(
        "precision",
        Outcome::Dropped,
        "the model's own types; provider_options.tensorrt = { trt_fp16_enable = true } on an accelerator",
    );
    let before = match normalise.is_empty() {
        true => Vec::new(),
        false => vec![("normalise", normalise)],
    };
    let section = table([("path", Some(path.into()))]);
    Ok(Counterpart::Model { before, section })
}

/// The error of a backend without a counterpart.
fn refusal(name: &str, keys: &Keys<'_>) -> Refused {
    let (problem, hint) = match name {
        "Python" => (
            format!("`{name}` names an object of the program"),
            "give the function itself: {\"backend\": millpond.backend(function)} in millpond.Pipeline",
        ),
        "Random" | "Register" | "IoC" | "ContinuousBatching" | "Restart" | "Send2Queue" => (
            format!("`{name}` is a part of torchpipe's scheduler"),
            "leave it out: models have instances, batches and a queue of their own here (models.NAME)",
        ),
        _ => (
            format!("`{name}` has no counterpart"),
            "write that stage with @millpond.backend, or as a plugin",
        ),
    };
    keys.refused("backend", problem, hint)
}
