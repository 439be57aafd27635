//! `ordered.follow`, answered by the thread that reads the store's log, at once or when there are records.
//! Its invariant: it holds no place among the calls in flight, as it waits for others' writes; a stop of the server answers it, behind the
//! writes that wait for what it says.

use crate::ordered_write::not_leader;
use crate::{Served, store};
use millpond_calls::Spent;
use millpond_catalog::Catalog;
use millpond_engines_ordered::{Mark, Position, Pull, PullError, Shipment, Store};
use millpond_wire_payload::{Encoder, Payload, Reserved};
use millpond_wire_schema::{Code, Field as _, Status, ordered_follow as schema};
use std::time::Duration;

/// The longest name of a follower.
const NAME_BYTES_MAX: usize = 256;
/// What an answer has beside its records.
const BESIDE_BYTES: usize = 256;

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, reserved) = schema::Call::decode(payload)?;
    let question = Question::of(
        catalog,
        call,
        (decoded.table.as_deref(), decoded.bytes_max),
        &reserved,
    )?;
    let pull = pull(&decoded, question.bytes_max)?;
    let write = |shipment: &Shipment, out: &mut Encoder<'_>| schema::Answer::write(&answer(shipment), out);
    let done = answering(call, &reserved, (write, status_of))?;
    question.store.pull(pull, Box::new(done));
    Ok(())
}

/// What followers' questions have in common: another thread answers, and they hold no place among the calls in flight meanwhile.
pub(crate) struct Question<'c> {
    pub store: &'c Store,
    /// Bytes of records, or of a checkpoint, that an answer has at most.
    pub bytes_max: usize,
}

impl<'c> Question<'c> {
    pub fn of(
        catalog: &'c Catalog,
        call: &Served<'_>,
        (table, bytes_max): (Option<&str>, Option<u64>),
        reserved: &Reserved<'_>,
    ) -> Result<Question<'c>, Status> {
        call.deadline(reserved.deadline_ms)?;
        let most = call.calls.answer_bytes_max.saturating_sub(BESIDE_BYTES);
        let wanted = bytes_max.and_then(|wanted| usize::try_from(wanted).ok());
        Ok(Question {
            store: store(catalog, table)?,
            bytes_max: wanted.unwrap_or(usize::MAX).min(most),
        })
    }
}

/// What answers such a question.
pub(crate) fn answering<T, E, W>(
    call: &mut Served<'_>,
    reserved: &Reserved<'_>,
    (write, status_of): (W, fn(&E) -> Status),
) -> Result<impl FnOnce(Result<T, E>) + Send + use<T, E, W>, Status>
where
    W: FnOnce(&T, &mut Encoder<'_>) + Send + 'static,
{
    call.set_base64(reserved.base64);
    let mut call = call.detach(None, reserved.trace)?;
    Ok(move |result: Result<T, E>| match result {
        Ok(found) => {
            call.ready(Spent::default());
            call.ok(|out: &mut Encoder<'_>| write(&found, out));
        }
        Err(error) => call.refuse(&status_of(&error)),
    })
}

fn pull(decoded: &schema::Call<'_>, bytes_max: usize) -> Result<Pull, Status> {
    let bad = |ex: String| Status::new(Code::BadArgument, ex);
    let crc32c = decoded.record_crc32c.map(u32::try_from).transpose();
    let crc32c = crc32c.map_err(|_| bad("key \"record_crc32c\" has more than 32 bits".to_owned()))?;
    Ok(Pull {
        follower: named(&decoded.follower)?,
        position: Position {
            history: history(&decoded.history)?,
            epoch: decoded.epoch,
            sequence: decoded.position,
            mark: decoded
                .record_epoch
                .zip(crc32c)
                .map(|(epoch, crc32c)| Mark { epoch, crc32c }),
            partial: decoded.partial,
        },
        bytes_max,
        wait: Duration::from_millis(decoded.wait_ms),
    })
}

/// The history that a follower says.
pub(crate) fn history(bytes: &[u8]) -> Result<[u8; 16], Status> {
    <[u8; 16]>::try_from(bytes).map_err(|_| {
        let ex = format!("key \"history\" has {} bytes, expected 16", bytes.len());
        Status::new(Code::BadArgument, ex)
    })
}

/// Its name.
pub(crate) fn named(follower: &str) -> Result<String, Status> {
    if follower.is_empty() || follower.len() > NAME_BYTES_MAX {
        let bytes = follower.len();
        let ex = format!("key \"follower\" has {bytes} bytes, expected 1 to {NAME_BYTES_MAX}");
        return Err(Status::new(Code::BadArgument, ex));
    }
    Ok(follower.to_owned())
}

fn answer(shipment: &Shipment) -> schema::Answer<'_> {
    schema::Answer {
        history: shipment.history.as_slice().into(),
        epoch: shipment.epoch,
        first: shipment.first,
        last: shipment.last,
        records: shipment.bytes.as_slice().into(),
        skipped: (shipment.skipped > 0).then_some(shipment.skipped),
        rest: (shipment.rest > 0).then_some(shipment.rest),
        now_ms: Some(shipment.now_ms),
    }
}

fn status_of(error: &PullError) -> Status {
    let code = match error {
        PullError::NotLeader(known) => return not_leader(known),
        PullError::History | PullError::Diverged(_) => Code::Conflict,
        PullError::Gone(_) => Code::LogGone,
        PullError::TooMany => Code::Overloaded,
        PullError::Closed => Code::Stopping,
        // The answer names no file of this machine.
        _ => {
            tracing::error!(%error, "an ordered store's log cannot be read for a follower");
            let ex = "the store cannot read its log; see the server's log";
            return Status::new(Code::StorageFailed, ex);
        }
    };
    Status::new(code, error.to_string())
}
