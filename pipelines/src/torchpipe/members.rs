//! What each backend of torchpipe is here, and which keys of its node it reads.
//!
//! It knows one member of an expression at a time. Its invariant: a backend that is not listed is refused by its name.

use super::expression::Member;
use super::file::Node;
use super::{Note, Outcome, Refused};
use std::collections::BTreeSet;
use toml::{Table, Value};

/// What is known of the value that a member takes.
#[derive(Debug, Clone, Default)]
pub(super) struct Flow {
    /// Whether it is an image, with channels last.
    pub(super) is_image: bool,
    /// The order of its colours.
    pub(super) color: Option<String>,
    /// What else `map` brings, by key.
    pub(super) others: Vec<(String, String)>,
}

/// What a member becomes.
pub(super) enum Counterpart {
    /// Stages, each by its key and what stands there beside its input; none where nothing is left to do.
    Stages(Vec<(&'static str, Table)>),
    /// A model, by its section, behind the stages that make its input.
    Model {
        before: Vec<(&'static str, Table)>,
        section: Table,
    },
    /// A registered backend.
    Own,
}

/// The keys of one node, of which each is noted once.
pub(super) struct Keys<'n> {
    pub(super) node: &'n Node,
    pub(super) notes: Vec<Note>,
    noted: BTreeSet<String>,
    /// Backends that the program has registered.
    registered: &'n BTreeSet<String>,
    /// The registered backend that gets the keys which nothing else reads.
    passed_to: Option<String>,
}

impl<'n> Keys<'n> {
    pub(super) fn new(node: &'n Node, registered: &'n BTreeSet<String>) -> Keys<'n> {
        Keys {
            node,
            notes: Vec::new(),
            noted: BTreeSet::new(),
            registered,
            passed_to: None,
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

    /// Says what stands for a key that the node has not.
    pub(super) fn unset(&mut self, key: &str, text: impl Into<String>) {
        if self.noted.insert(key.to_owned()) {
            self.notes.push(Note {
                node: self.node.name.clone(),
                key: format!("{key} unset"),
                outcome: Outcome::Changed,
                text: text.into(),
            });
        }
    }

    /// Notes what nothing has read.
    pub(super) fn finish(mut self) -> Vec<Note> {
        for (key, _) in &self.node.keys {
            match self.passed_to.clone() {
                Some(backend) => self.note(key, Outcome::Kept, format!("given to init of {backend}")),
                None => self.note(key, Outcome::Dropped, "nothing reads it"),
            }
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

/// What `member` is here, given what it takes; `flow` becomes what it gives.
pub(super) fn counterpart(
    member: &Member,
    keys: &mut Keys<'_>,
    flow: &mut Flow,
) -> Result<Counterpart, Refused> {
    let stage = |key, table| Ok(Counterpart::Stages(vec![(key, table)]));
    if keys.registered.contains(&member.name) {
        keys.passed_to = Some(member.name.clone());
        *flow = Flow::default();
        return Ok(Counterpart::Own);
    }
    match member.name.as_str() {
        "DecodeMat" | "DecodeTensor" => {
            let color = keys.read(member, "color", "decode.color, and of color");
            let color = color.unwrap_or_else(|| "bgr".to_owned());
            (flow.is_image, flow.color) = (true, Some(color.clone()));
            stage("decode", table([("color", Some(color.into()))]))
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
            stage("resize", table(sizes))
        }
        "CropMat" | "CropTensor" => {
            let mut boxes = flow
                .others
                .iter()
                .filter(|(key, _)| matches!(key.as_str(), "box" | "boxes"));
            let Some((_, boxes)) = boxes.next() else {
                let hint = "map the boxes: map = \"detect[result:boxes],decode[result:data]\"";
                return Err(keys.refused("backend", "nothing says where to crop", hint));
            };
            stage("crop", table([("boxes", Some(boxes.clone().into()))]))
        }
        "cvtColorMat" | "CvtColorMat" | "CvtColorTensor" => {
            let to = keys.read(member, "color", "color.convert");
            let to = to.ok_or_else(|| keys.refused("backend", "it converts to no colour", "set color"))?;
            let from = flow.color.replace(to.clone()).unwrap_or_else(|| "bgr".to_owned());
            match from == to {
                true => Ok(Counterpart::Stages(Vec::new())),
                false => stage(
                    "color",
                    table([("convert", Some(format!("{from}_to_{to}").into()))]),
                ),
            }
        }
        "SoftmaxTensor" | "ResultProcess" => stage("softmax", Table::new()),
        "SoftmaxArgMaxTensor" => {
            let topk = table([("k", Some(1.into()))]);
            Ok(Counterpart::Stages(vec![
                ("softmax", Table::new()),
                ("topk", topk),
            ]))
        }
        "OnnxTensor" | "TensorrtTensor" => model(member, keys, std::mem::take(flow).is_image),
        // Channels come first when normalise, before the model, makes floats of an image.
        "Mat2Tensor" | "Mat2GpuTensor" | "Tensor2Mat" | "Identity" | "Identities" => {
            Ok(Counterpart::Stages(Vec::new()))
        }
        "StreamGuard" | "SyncTensor" | "StreamPool" | "FakeInstance" => Ok(Counterpart::Stages(Vec::new())),
        name => Err(refusal(name, keys)),
    }
}

fn table<const N: usize>(keys: [(&str, Option<Value>); N]) -> Table {
    let given = keys.into_iter();
    given
        .filter_map(|(key, value)| Some((key.to_owned(), value?)))
        .collect()
}

fn model(member: &Member, keys: &mut Keys<'_>, is_image: bool) -> Result<Counterpart, Refused> {
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
    let mut before = Vec::new();
    if is_image || !normalise.is_empty() {
        // What is 0 to 255 there is not scaled.
        normalise.extend(table([("scale", Some(1.into())), ("layout", Some("chw".into()))]));
        before.push(("normalise", normalise));
    }
    let section = table([("path", Some(path.into()))]);
    Ok(Counterpart::Model { before, section })
}

/// The error of a backend without a counterpart.
fn refusal(name: &str, keys: &Keys<'_>) -> Refused {
    let (problem, hint) = match name {
        "Python" => (
            format!("`{name}` names an object of the program"),
            "register the object: millpond.torchpipe.register(\"NAME\", object), and backend = \"NAME\"",
        ),
        "Random" | "Register" | "IoC" | "ContinuousBatching" | "Restart" | "Send2Queue" => (
            format!("`{name}` is a part of torchpipe's scheduler"),
            "leave it out: models have instances, batches and a queue of their own here (models.NAME)",
        ),
        _ => (
            format!("`{name}` has no counterpart"),
            "register it in the program that opens the file: millpond.torchpipe.register(name, object); or write a plugin",
        ),
    };
    keys.refused("backend", problem, hint)
}
