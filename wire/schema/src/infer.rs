//! `infer`, in its two forms: named tensors, and report R1's samples of strings.
//!
//! In: `{model?, version?, inputs: {name: {shape, type, data: bin or nested array}}, outputs?: [name]}` or
//! `{samples: [[string …] …], model?}`. Out: `{model, version, outputs: {name: {shape, type, data}}}` or
//! `{scores: [f32]}`. Its invariant: a tensor's data has exactly the elements that its shape says.

mod answer;
mod elements;

pub(crate) use answer::scores_field;
pub use answer::{Answer, decode_scores, encode_answer, encode_scores};

use crate::frame::{Encoder, FieldError, Fields, Map, Reserved, Value};
use elements::{decode_elements, encode_elements};
use millpond_tensor::Error as TensorError;
pub use millpond_tensor::{Data, ElementType, Elements, Tensor};
use std::borrow::Cow;

/// Samples one call may carry.
pub const SAMPLES_MAX: usize = 10_000;

/// What a call asks to be scored.
#[derive(Debug, Clone, PartialEq)]
pub enum Inputs<'a> {
    /// Named tensors for one model.
    Tensors(Vec<(Cow<'a, str>, Tensor)>),
    /// Strings for a pipeline: samples × features.
    Samples(Vec<Vec<Cow<'a, str>>>),
}

/// A decoded call.
#[derive(Debug, Clone, PartialEq)]
pub struct Call<'a> {
    /// The model (or the pipeline, for samples); the default one when absent.
    pub model: Option<Cow<'a, str>>,
    /// Refuse to answer from another version.
    pub version: Option<u64>,
    /// What to score.
    pub inputs: Inputs<'a>,
    /// Outputs wanted; all when empty.
    pub outputs: Vec<Cow<'a, str>>,
    /// Binary blocks of a JSON answer as base64.
    pub base64: bool,
}

impl<'a> Call<'a> {
    /// Reads the payload's map.
    ///
    /// # Errors
    /// [`FieldError`] naming the key.
    pub fn decode(map: Map<'a>) -> Result<(Self, Reserved<'a>), FieldError> {
        let (mut fields, reserved) = Fields::root(map)?;
        let base64 = fields.base64();
        let model = fields.optional_text("model")?;
        if fields.has("samples") {
            let inputs = Inputs::Samples(decode_samples(&mut fields)?);
            fields.finish()?;
            return Ok((
                Call {
                    model,
                    version: None,
                    inputs,
                    outputs: Vec::new(),
                    base64,
                },
                reserved,
            ));
        }
        let version = fields.optional_uint("version", u64::MAX)?;
        let expected = "a map of tensors (or \"samples\": [[text …] …])";
        let tensors = decode_tensors(&mut fields, "inputs", expected)?;
        let mut outputs = Vec::new();
        if let Some(value) = fields.optional("outputs") {
            let Value::Array(names) = value else {
                return Err(fields.invalid("outputs", &value, "an array of names"));
            };
            for name in names {
                match name {
                    Value::Text(name) => outputs.push(name),
                    other => return Err(fields.invalid("outputs", &other, "an array of names")),
                }
            }
        }
        fields.finish()?;
        Ok((
            Call {
                model,
                version,
                inputs: Inputs::Tensors(tensors),
                outputs,
                base64,
            },
            reserved,
        ))
    }

    /// Writes the payload's map.
    pub fn encode(&self, out: &mut Encoder<'_>) {
        out.map(
            1 + usize::from(self.model.is_some())
                + usize::from(self.version.is_some())
                + usize::from(!self.outputs.is_empty()),
        );
        if let Some(model) = &self.model {
            out.key("model");
            out.text(model);
        }
        if let Some(version) = self.version {
            out.key("version");
            out.uint(version);
        }
        match &self.inputs {
            Inputs::Samples(samples) => {
                out.key("samples");
                out.array(samples.len());
                for sample in samples {
                    out.array(sample.len());
                    sample.iter().for_each(|feature| out.text(feature));
                    out.end_array();
                }
                out.end_array();
            }
            Inputs::Tensors(tensors) => {
                out.key("inputs");
                encode_tensors(out, tensors.iter().map(|(name, tensor)| (name.as_ref(), tensor)));
            }
        }
        if !self.outputs.is_empty() {
            out.key("outputs");
            out.array(self.outputs.len());
            self.outputs.iter().for_each(|name| out.text(name));
            out.end_array();
        }
        out.end_map();
    }
}

fn decode_samples<'a>(fields: &mut Fields<'a>) -> Result<Vec<Vec<Cow<'a, str>>>, FieldError> {
    let expected = "an array of arrays of text";
    let items = fields.array("samples", expected)?;
    if items.len() > SAMPLES_MAX {
        return Err(FieldError::invalid(
            "samples",
            format!("{} samples", items.len()),
            format!("at most {SAMPLES_MAX}"),
        ));
    }
    let mut samples: Vec<Vec<Cow<'a, str>>> = Vec::with_capacity(items.len());
    for (at, item) in items.into_iter().enumerate() {
        let Value::Array(features) = item else {
            return Err(FieldError::invalid(
                format!("samples[{at}]"),
                item.kind(),
                "an array of text",
            ));
        };
        let mut sample = Vec::with_capacity(features.len());
        for (number, feature) in features.into_iter().enumerate() {
            match feature {
                Value::Text(text) => sample.push(text),
                other => {
                    return Err(FieldError::invalid(
                        format!("samples[{at}][{number}]"),
                        other.kind(),
                        "text",
                    ));
                }
            }
        }
        samples.push(sample);
    }
    Ok(samples)
}

fn decode_tensors<'a>(
    fields: &mut Fields<'a>,
    key: &'static str,
    expected: &str,
) -> Result<Vec<(Cow<'a, str>, Tensor)>, FieldError> {
    let mut tensors = Vec::new();
    for (name, value) in fields.map(key, expected)?.0 {
        let path = format!("{key}.{name}");
        match value {
            Value::Map(map) => {
                let tensor = decode_tensor(fields.nested(map, &path))?;
                tensors.push((name, tensor));
            }
            other => {
                return Err(FieldError::invalid(
                    path,
                    other.kind(),
                    "a map {shape, type, data}",
                ));
            }
        }
    }
    Ok(tensors)
}

fn decode_tensor(mut fields: Fields<'_>) -> Result<Tensor, FieldError> {
    let mut shape = Vec::new();
    for item in fields.array("shape", "an array of integers")? {
        match item {
            Value::UInt(size) if size <= u64::from(u32::MAX) => shape.push(size as usize),
            other => return Err(fields.invalid("shape", &other, "integers from 0 to 4294967295")),
        }
    }
    let type_name = fields.text("type")?;
    let value = fields.required("data", "the tensor's elements")?;
    let data = match ElementType::parse(&type_name) {
        Some(element_type) => decode_elements(&fields, element_type, flatten(value))?,
        None => {
            let found = format!("{type_name:?}");
            return Err(FieldError::invalid(fields.at("type"), found, type_names()));
        }
    };
    let elements = data.len();
    let tensor = Tensor::new(shape, data).map_err(|error| {
        let (TensorError::Length { shape, .. } | TensorError::TooLarge { shape }) = error;
        let expected = format!("as many as shape {shape:?} holds");
        FieldError::invalid(fields.at("data"), format!("{elements} elements"), expected)
    })?;
    fields.finish()?;
    Ok(tensor)
}

/// All names of element types, for a message.
fn type_names() -> String {
    let names: Vec<String> = ElementType::ALL
        .iter()
        .map(|known| format!("{:?}", known.as_str()))
        .collect();
    names.join(", ")
}

/// A number of any kind.
pub(crate) fn number(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Float(value) => Some(*value),
        Value::UInt(value) => Some(*value as f64),
        Value::Int(value) => Some(*value as f64),
        _ => None,
    }
}

/// Nested arrays to one flat array; the shape says how it nests.
fn flatten(value: Value<'_>) -> Value<'_> {
    fn push<'a>(value: Value<'a>, flat: &mut Vec<Value<'a>>) {
        match value {
            Value::Array(items) => items.into_iter().for_each(|item| push(item, flat)),
            other => flat.push(other),
        }
    }
    match value {
        Value::Array(items) if items.iter().any(|item| matches!(item, Value::Array(_))) => {
            let mut flat = Vec::new();
            items.into_iter().for_each(|item| push(item, &mut flat));
            Value::Array(flat)
        }
        other => other,
    }
}

/// Writes a map of named tensors.
pub fn encode_tensors<'t>(
    out: &mut Encoder<'_>,
    tensors: impl ExactSizeIterator<Item = (&'t str, &'t Tensor)>,
) {
    out.map(tensors.len());
    for (name, tensor) in tensors {
        out.key(name);
        out.map(3);
        out.key("shape");
        out.array(tensor.shape().len());
        tensor.shape().iter().for_each(|size| out.uint(*size as u64));
        out.end_array();
        out.key("type");
        out.text(tensor.element_type().as_str());
        out.key("data");
        encode_elements(out, tensor.elements());
        out.end_map();
    }
    out.end_map();
}

#[cfg(test)]
mod tests;
