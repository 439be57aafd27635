//! `infer`: tensors straight to a model, or report R1's samples through a pipeline.
//! Its invariant: inputs are checked against the model's signature before they join a batch.

use super::model_run::{Load, Printed, Run, refusal, submit};
use super::{find, no_default};
use crate::config::check::default_pipeline;
use crate::router::Call;
use crate::stages::{Prepared, Subject};
use millpond_engines_infer::pipeline::RequestKind;
use millpond_tensor::Tensor;
use millpond_wire_schema::frame::Map;
use millpond_wire_schema::infer::{self as schema, Inputs};
use millpond_wire_schema::{Code, Status};
use millpond_wire_transport::Reply;
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

pub(crate) fn answer(call: &Call<'_>, map: Map<'_>, reply: Reply<'_>) {
    let (decoded, reserved) = match schema::Call::decode(map) {
        Ok(decoded) => decoded,
        Err(error) => return call.refuse(reply, &error.into()),
    };
    let trace = reserved.trace.as_deref().or(call.header_trace).map(str::to_owned);
    let deadline = match call.deadline(reserved.deadline_ms) {
        Ok(deadline) => deadline,
        Err(status) => return call.refuse(reply, &status),
    };
    match decoded.inputs {
        Inputs::Samples(samples) => {
            answer_samples(call, decoded.model.as_deref(), &samples, deadline, trace, reply)
        }
        Inputs::Tensors(_) => answer_tensors(call, decoded, deadline, trace, reply),
    }
}

fn answer_samples(
    call: &Call<'_>,
    model: Option<&str>,
    samples: &[Vec<Cow<'_, str>>],
    deadline: Instant,
    trace: Option<String>,
    reply: Reply<'_>,
) {
    if samples.is_empty() {
        return reply_no_rows(call, reply);
    }
    let subject = Subject::Samples(samples);
    let input = samples_pipeline(call, model).and_then(|prepared| {
        let load = Load {
            rows: subject.rows(),
            bytes: prepared.input_bytes(&subject),
        };
        refusal(call, &prepared.batcher, &load, deadline)?;
        Ok((prepared, prepared.run(&subject)?))
    });
    match input {
        Ok((prepared, input)) => {
            let run = Run {
                batcher: &prepared.batcher,
                inputs: vec![input.tensor],
                rows: input.rows,
                kept_bytes: 0,
                deadline,
                trace,
            };
            submit(call, run, reply, |answer| {
                let scores = scores(answer)?.to_vec();
                let written = scores.clone();
                Ok(Printed {
                    scores,
                    write: Box::new(move |out| schema::encode_scores(out, &written)),
                })
            });
        }
        Err(status) => call.refuse(reply, &status),
    }
}

/// No samples are no work: an empty answer.
fn reply_no_rows(call: &Call<'_>, reply: Reply<'_>) {
    call.answer(reply, None, |out| schema::encode_scores(out, &[]));
}

/// One score a row.
pub(super) fn scores(answer: &millpond_engines_infer::Answer) -> Result<&[f32], Status> {
    let scores = answer.outputs.first().and_then(Tensor::f32);
    scores.ok_or_else(|| Status::new(Code::Internal, "the model gave no f32 output"))
}

/// A pipeline of that name; or the one for samples that runs the model of that name; or the default one.
pub(super) fn samples_pipeline<'e>(call: &Call<'e>, name: Option<&str>) -> Result<&'e Arc<Prepared>, Status> {
    let pipelines = &call.engines.pipelines;
    match name {
        None => {
            let name = default_pipeline(&call.shared.config, RequestKind::Samples);
            find(
                "pipeline",
                pipelines,
                name.ok_or_else(|| no_default("pipeline for samples", "model", "default_pipeline"))?,
            )
        }
        Some(name) => {
            let of_model = |prepared: &&Arc<Prepared>| {
                prepared.model == name && prepared.request() == RequestKind::Samples
            };
            match pipelines.get(name).or_else(|| pipelines.values().find(of_model)) {
                Some(prepared) => Ok(prepared),
                None => find("pipeline", pipelines, name),
            }
        }
    }
}

fn answer_tensors(
    call: &Call<'_>,
    decoded: schema::Call<'_>,
    deadline: Instant,
    trace: Option<String>,
    mut reply: Reply<'_>,
) {
    reply.set_base64(decoded.base64);
    let prepared = prepare_tensors(call, decoded);
    let (name, version, batcher, inputs, wanted) = match prepared {
        Ok(prepared) => prepared,
        Err(status) => return call.refuse(reply, &status),
    };
    let rows = inputs.first().map_or(0, Tensor::rows);
    let kept = wanted
        .iter()
        .map(|(_, name)| size_of::<(usize, String)>() + name.len());
    let kept_bytes: usize = kept.sum();
    let bytes = inputs.iter().map(Tensor::bytes).sum::<usize>();
    let load = Load {
        rows,
        bytes: bytes.saturating_add(kept_bytes),
    };
    if let Err(status) = refusal(call, batcher, &load, deadline) {
        return call.refuse(reply, &status);
    }
    let run = Run {
        batcher,
        inputs,
        rows,
        kept_bytes,
        deadline,
        trace,
    };
    submit(call, run, reply, move |answer| {
        let mut outputs = Vec::with_capacity(wanted.len());
        for (at, name) in wanted {
            let tensor = answer
                .outputs
                .get(at)
                .ok_or_else(|| Status::new(Code::Internal, "the model gave fewer outputs than it has"))?;
            outputs.push((name, tensor.clone()));
        }
        let scores = answer
            .outputs
            .first()
            .and_then(Tensor::f32)
            .unwrap_or_default()
            .to_vec();
        let write = move |out: &mut millpond_wire_frame::Encoder<'_>| {
            schema::encode_answer(
                out,
                &name,
                version,
                outputs.iter().map(|(name, tensor)| (name.as_str(), tensor)),
            );
        };
        Ok(Printed {
            scores,
            write: Box::new(write),
        })
    });
}

/// A model's name, version and batcher, inputs in its order, and the outputs wanted with their positions.
type PreparedTensors<'e> = (
    String,
    u64,
    &'e millpond_engines_infer::Batcher,
    Vec<Tensor>,
    Vec<(usize, String)>,
);

fn prepare_tensors<'e>(call: &Call<'e>, decoded: schema::Call<'_>) -> Result<PreparedTensors<'e>, Status> {
    let name = match &decoded.model {
        Some(name) => name.to_string(),
        None => call
            .shared
            .config
            .model_default()
            .ok_or_else(|| no_default("model", "model", "default_model"))?
            .to_owned(),
    };
    let model = find("model", &call.engines.models, &name)?;
    if let Some(version) = decoded.version.filter(|version| *version != model.version) {
        let ex = format!("model {name:?} serves version {}, not {version}", model.version);
        return Err(Status::new(Code::VersionGone, ex));
    }
    let Inputs::Tensors(tensors) = decoded.inputs else {
        return Err(Status::new(Code::Internal, "samples are answered elsewhere"));
    };
    let bad = |error: millpond_backends_interface::Error| Status::new(Code::BadArgument, error.to_string());
    let named = tensors
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
    Ok((name, model.version, &model.batcher, inputs, wanted))
}
