//! `rank`: a user and candidates through a pipeline; scores, best first where `top` asks for it.
//! Its invariant: items come back as they went in, each with the score of its own row.

use crate::candidates::Candidates;
use crate::model_run::{Printed, Run, no_scores, priority, run};
use crate::{Served, find, no_default};
use millpond_catalog::Catalog;
use millpond_pipelines::{Pipeline, RequestKind};
use millpond_wire_payload::{Payload, Value};
use millpond_wire_schema::{Field as _, Status, rank as schema};
use std::sync::Arc;

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, reserved) = schema::Call::decode(payload)?;
    let named = decoded.pipeline.as_deref();
    let name = named.or_else(|| catalog.sections().pipeline_default(RequestKind::Rank));
    let name = name.ok_or_else(|| no_default("pipeline for rank", "pipeline", "default_pipeline"))?;
    let pipeline = find("pipeline", &catalog.pipelines, name)?;
    if decoded.items.is_empty() {
        let answer = answer(pipeline, Vec::new(), Vec::new());
        call.answer(reserved.trace, |out| schema::Answer::write(&answer, out));
        return Ok(());
    }
    let request = Candidates {
        user: &decoded.user,
        items: &decoded.items,
    };
    let rows = decoded.items.len();
    let work = Run {
        rows,
        bytes: pipeline.input_bytes(rows),
        kept_bytes: decoded.items.iter().map(owned_bytes).sum(),
        deadline: call.deadline(reserved.deadline_ms)?,
        priority: priority(call, reserved.priority),
        trace: reserved.trace,
    };
    run(call, pipeline, &request, &work, || {
        let items: Vec<Value<'static>> = decoded.items.iter().cloned().map(Value::into_owned).collect();
        let (top, pipeline) = (decoded.top, Arc::clone(pipeline));
        move |output| {
            let scores = output.scores().ok_or_else(no_scores)?.to_vec();
            let (items, best) = match top {
                Some(top) => select(items, &scores, top),
                None => (items, scores.clone()),
            };
            let answer = answer(&pipeline, items, best);
            Ok(Printed {
                scores,
                write: Box::new(move |out| schema::Answer::write(&answer, out)),
            })
        }
    })
}

/// An answer, with each table of the pipeline and the version that was read of it.
fn answer(pipeline: &Pipeline, items: Vec<Value<'static>>, scores: Vec<f32>) -> schema::Answer<'static> {
    let versions = pipeline.versions();
    schema::Answer {
        items,
        scores,
        model: pipeline.model().unwrap_or_default().to_owned().into(),
        versions: versions
            .map(|(table, version)| (table.to_owned().into(), version))
            .collect(),
    }
}

/// The `top` best, best first; equal scores keep the call's order.
fn select(items: Vec<Value<'static>>, scores: &[f32], top: usize) -> (Vec<Value<'static>>, Vec<f32>) {
    let mut rows: Vec<(Value<'static>, f32)> = items.into_iter().zip(scores.iter().copied()).collect();
    rows.sort_by(|(_, left), (_, right)| right.total_cmp(left));
    rows.truncate(top);
    rows.into_iter().unzip()
}

/// Bytes that an id takes when it outlives its request.
fn owned_bytes(item: &Value<'_>) -> usize {
    let text = match item {
        Value::Text(text) => text.len(),
        _ => 0,
    };
    size_of::<Value<'_>>() + text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_come_first_and_ties_keep_their_order() {
        let items = vec![Value::UInt(1), Value::UInt(2), Value::UInt(3), Value::UInt(4)];
        let (items, scores) = select(items, &[0.5, 0.9, 0.5, 0.1], 3);
        assert_eq!(items, [Value::UInt(2), Value::UInt(1), Value::UInt(3)]);
        assert_eq!(scores, [0.9, 0.5, 0.5]);
    }
}
