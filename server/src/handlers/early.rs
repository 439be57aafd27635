//! Refusals that decode nothing: while a model refuses calls it refuses most of them, and what each costs is taken from the
//! work of the others.
//!
//! It looks at a few keys of a msgpack payload; what it does not understand is decoded, and judged with words. Its invariant:
//! it refuses only what the model's queue would refuse if it came decoded, with as little as one row.

use super::infer::samples_pipeline;
use super::model_run::{Run, refusal as queue_refusal};
use crate::config::check::default_pipeline;
use crate::methods::Work;
use crate::router::Call;
use millpond_engines_batcher::Batcher;
use millpond_pipelines::RequestKind;
use millpond_wire_frame::{Encoding, Peeked, peek_map};
use millpond_wire_schema::Status;
use millpond_wire_transport::Request;

/// What a call says of where it goes.
#[derive(Default)]
struct Asked<'p> {
    model: Option<&'p str>,
    pipeline: Option<&'p str>,
    token: Option<&'p str>,
    deadline_ms: Option<u64>,
    has_samples: bool,
    /// One of these keys has a value that belongs to another type.
    is_odd: bool,
}

/// Why the model that the call is for refuses it; nothing where that needs the whole call to tell.
#[inline]
pub(crate) fn refusal(call: &Call<'_>, work: &Work, request: &Request<'_>) -> Option<Status> {
    let is_for_model = matches!(work, Work::Infer | Work::Rank);
    let is_looked_at = is_for_model && request.encoding == Encoding::Msgpack;
    if !is_looked_at || !call.shared.admission.refuses(call.arrival.entered) {
        return None;
    }
    refused(call, work, request)
}

fn refused(call: &Call<'_>, work: &Work, request: &Request<'_>) -> Option<Status> {
    let asked = Asked::read(request.payload)?;
    let batcher = asked.batcher(call, work)?;
    call.open_with(asked.token).ok()?;
    let deadline = call.deadline(asked.deadline_ms).ok()?;
    let least = Run {
        rows: 1,
        bytes: 0,
        kept_bytes: 0,
        deadline,
        trace: None,
    };
    queue_refusal(call, batcher, &least).err()
}

impl<'p> Asked<'p> {
    fn read(payload: &'p [u8]) -> Option<Asked<'p>> {
        let mut asked = Asked::default();
        peek_map(payload, |key, value| asked.see(key, value))?;
        (!asked.is_odd).then_some(asked)
    }

    fn see(&mut self, key: &[u8], value: Peeked<'p>) {
        match key {
            b"model" => self.model = self.odd(value.text()),
            b"pipeline" => self.pipeline = self.odd(value.text()),
            b"_token" => self.token = self.odd(value.text()),
            b"_deadline_ms" => self.deadline_ms = self.odd(value.uint()),
            b"samples" => self.has_samples = true,
            _ => {}
        }
    }

    fn odd<T>(&mut self, value: Option<T>) -> Option<T> {
        self.is_odd |= value.is_none();
        value
    }

    /// The batcher that the handler would find.
    fn batcher<'e>(&self, call: &Call<'e>, work: &Work) -> Option<&'e Batcher> {
        let engines = call.engines;
        match work {
            Work::Infer if self.has_samples => Some(samples_pipeline(call, self.model).ok()?.batcher()),
            Work::Infer => {
                let name = self.model.or_else(|| call.shared.config.model_default())?;
                Some(&engines.models.get(name)?.batcher)
            }
            Work::Rank => {
                let default = || default_pipeline(&call.shared.config, RequestKind::Rank);
                let name = self.pipeline.or_else(default)?;
                Some(engines.pipelines.get(name)?.batcher())
            }
            _ => None,
        }
    }
}
