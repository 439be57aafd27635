//! A plugin in this process as a model. Its invariant: a plugin's failure is an error that names the file or the output.

use crate::{bounded, c_api};
use millpond_backends_elf::{self as elf, Flaw};
use millpond_backends_interface::{Error, Instance, Model, Signature};
use millpond_tensor::Tensor;
use serde_json::Value;
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Loads it into this process.
pub(crate) fn load(path: &Path, options: &BTreeMap<String, Value>) -> Result<Arc<dyn Model>, Error> {
    let failed = |problem: &str| Error::Load {
        path: path.to_owned(),
        problem: bounded(problem),
        hint: "docs/plugins.md says what a plugin exports".to_owned(),
    };
    // A name without a folder would be searched for in the loader's own.
    let real = fs::canonicalize(path).map_err(|error| failed(&error.to_string()))?;
    elf::check(&real).map_err(|flaw| failed(&flawed(&flaw)))?;
    let text = |text: &str| CString::new(text).map_err(|_| failed("an option holds a zero byte"));
    let pairs = options
        .iter()
        .map(|(key, value)| Ok((text(key)?, text(&text_of(value))?)))
        .collect::<Result<Vec<(CString, CString)>, Error>>()?;
    let (model, signature, runs_inline) = c_api::load(&real, &pairs).map_err(|problem| failed(&problem))?;
    Ok(Arc::new(PluginModel {
        model,
        signature: Arc::new(signature),
        runs_inline,
    }))
}

/// The loader would end the process by a signal where a file is shorter than its headers say.
fn flawed(flaw: &Flaw) -> String {
    match flaw {
        Flaw::Unreadable(error) => format!("it cannot be read: {error}"),
        Flaw::NotALibrary => "it is no shared library of this kind of machine".to_owned(),
        Flaw::Cut { promised, has } => {
            format!("it is cut short: it has {has} bytes of at least {promised}; copy or build it again")
        }
    }
}

/// A value as a plugin receives it.
pub(crate) fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

struct PluginModel {
    model: Arc<c_api::Model>,
    signature: Arc<Signature>,
    runs_inline: bool,
}

impl Model for PluginModel {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn instance(&self) -> Result<Box<dyn Instance>, Error> {
        Ok(Box::new(PluginInstance {
            instance: self.model.instance().map_err(|problem| run_failed(&problem))?,
            signature: Arc::clone(&self.signature),
        }))
    }

    fn runs_inline(&self) -> bool {
        self.runs_inline
    }
}

struct PluginInstance {
    instance: c_api::Instance,
    signature: Arc<Signature>,
}

impl Instance for PluginInstance {
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
        let signature = &self.signature;
        let rows = signature.batched.then(|| signature.rows(&inputs));
        let outputs = self.instance.run(&inputs, &signature.outputs, rows);
        outputs.map_err(|problem| run_failed(&problem))
    }
}

fn run_failed(problem: &str) -> Error {
    Error::Run {
        problem: bounded(problem),
    }
}
