//! `infer`: tensors straight to a model, or report R1's samples through a pipeline.
//! Its invariant: inputs are checked against the model's signature before they join a batch.

use crate::model_run::{Printed, Run, no_scores, priority, run, run_tensors};
use crate::{Served, find, no_default};
use millpond_catalog::{Catalog, LoadedModel};
use millpond_pipelines::{Pipeline, Priority, Request as _, RequestKind, Samples};
use millpond_tensor::Tensor;
use millpond_wire_payload::Payload;
use millpond_wire_schema::{Code, Field as _, Status, infer as schema};
use std::sync::Arc;
use std::time::Instant;

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, reserved) = schema::Call::decode(payload)?;
    let urgency = (
        call.deadline(reserved.deadline_ms)?,
        priority(call, reserved.priority),
    );
    match decoded {
        schema::Call::Samples(decoded) => serve_samples(catalog, call, &decoded, urgency, reserved.trace),
        schema::Call::Tensors(decoded) => {
            call.set_base64(reserved.base64);
            serve_tensors(catalog, call, decoded, urgency, reserved.trace)
        }
    }
}

fn serve_samples(
    catalog: &Catalog,
    call: &mut Served<'_>,
    decoded: &schema::Samples<'_>,
    (deadline, priority): (Instant, Priority),
    trace: Option<&str>,
) -> Result<(), Status> {
    if decoded.samples.ends().is_empty() {
        // No samples are no work: an empty answer.
        let none = schema::Scores { scores: Vec::new() };
        call.answer(None, |out| schema::Scores::write(&none, out));
        return Ok(());
    }
    let pipeline = samples_pipeline(catalog, decoded.model.as_deref())?;
    let request = Samples {
        texts: decoded.samples.texts(),
        ends: decoded.samples.ends(),
    };
    let work = Run {
        rows: request.rows(),
        bytes: pipeline.input_bytes(request.rows()),
        kept_bytes: 0,
        deadline,
        priority,
        trace,
    };
    run(call, pipeline, &request, &work, || {
        |output| {
            let scores = output.scores().ok_or_else(no_scores)?.to_vec();
            let written = schema::Scores {
                scores: scores.clone(),
            };
            Ok(Printed {
                scores,
                write: Box::new(move |out| schema::Scores::write(&written, out)),
            })
        }
    })
}

/// A pipeline of that name; or the one for samples that runs the model of that name; or the default one.
fn samples_pipeline<'e>(catalog: &'e Catalog, name: Option<&str>) -> Result<&'e Arc<Pipeline>, Status> {
    let pipelines = &catalog.pipelines;
    match name {
        None => {
            let name = catalog.sections().pipeline_default(RequestKind::Samples);
            find(
                "pipeline",
                pipelines,
                name.ok_or_else(|| no_default("pipeline for samples", "model", "default_pipeline"))?,
            )
        }
        Some(name) => {
            let of_model = |pipeline: &&Arc<Pipeline>| {
                pipeline.model() == Some(name) && pipeline.request() == RequestKind::Samples
            };
            match pipelines.get(name).or_else(|| pipelines.values().find(of_model)) {
                Some(pipeline) => Ok(pipeline),
                None => find("pipeline", pipelines, name),
            }
        }
    }
}

fn serve_tensors(
    catalog: &Catalog,
    call: &mut Served<'_>,
    decoded: schema::Tensors<'_>,
    (deadline, priority): (Instant, Priority),
    trace: Option<&str>,
) -> Result<(), Status> {
    let Prepared {
        name,
        model,
        inputs,
        wanted,
    } = prepare(catalog, decoded)?;
    let kept = wanted
        .iter()
        .map(|(_, name)| size_of::<(usize, String)>() + name.len());
    let work = Run {
        rows: model.batcher.model().signature().rows(&inputs),
        bytes: inputs.iter().map(Tensor::bytes).sum(),
        kept_bytes: kept.sum(),
        deadline,
        priority,
        trace,
    };
    let version = model.version;
    run_tensors(call, &model.batcher, inputs, &work, move |found| {
        let mut outputs = Vec::with_capacity(wanted.len());
        for (at, name) in wanted {
            let tensor = found
                .get(at)
                .ok_or_else(|| Status::new(Code::Internal, "the model gave fewer outputs than it has"))?;
            outputs.push((name.into(), tensor.clone()));
        }
        let scores = found.first().and_then(Tensor::f32).unwrap_or_default().to_vec();
        let written = schema::Outputs {
            model: name.into(),
            version,
            outputs,
        };
        Ok(Printed {
            scores,
            write: Box::new(move |out| schema::Outputs::write(&written, out)),
        })
    })
}

/// A call with tensors whose model was found and takes them.
struct Prepared<'e> {
    name: String,
    model: &'e LoadedModel,
    /// In the model's order.
    inputs: Vec<Tensor>,
    /// Positions and names of the outputs wanted.
    wanted: Vec<(usize, String)>,
}

fn prepare<'e>(catalog: &'e Catalog, decoded: schema::Tensors<'_>) -> Result<Prepared<'e>, Status> {
    let name = match &decoded.model {
        Some(name) => name.to_string(),
        None => catalog
            .sections()
            .model_default()
            .ok_or_else(|| no_default("model", "model", "default_model"))?
            .to_owned(),
    };
    let model = find("model", &catalog.models, &name)?;
    if let Some(version) = decoded.version.filter(|version| *version != model.version) {
        let ex = format!("model {name:?} serves version {}, not {version}", model.version);
        return Err(Status::new(Code::VersionGone, ex));
    }
    let bad = |error: millpond_backends_interface::Error| Status::new(Code::BadArgument, error.to_string());
    let named = decoded
        .inputs
        .into_iter()
        .map(|(name, tensor)| (name.into_owned(), tensor));
    let signature = model.batcher.model().signature();
    let inputs = signature.check_inputs(named.collect()).map_err(bad)?;
    let ports = || signature.outputs.iter().enumerate();
    let mut wanted = Vec::new();
    for output in &decoded.outputs {
        match ports().find(|(_, port)| port.name == *output) {
            // Each is a copy of the tensor, and an answer's map has each key once.
            Some((at, _)) if wanted.iter().any(|(other, _)| *other == at) => {
                let ex = format!("key \"outputs\" names {output:?} twice; name each output once");
                return Err(Status::new(Code::BadArgument, ex));
            }
            Some((at, port)) => wanted.push((at, port.name.clone())),
            None => {
                let there: Vec<&str> = ports().map(|(_, port)| port.name.as_str()).collect();
                let ex = format!("key \"outputs\" names {output:?}; model {name:?} gives {there:?}");
                return Err(Status::new(Code::BadArgument, ex));
            }
        }
    }
    if wanted.is_empty() {
        wanted = ports().map(|(at, port)| (at, port.name.clone())).collect();
    }
    Ok(Prepared {
        name,
        model,
        inputs,
        wanted,
    })
}
