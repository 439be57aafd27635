//! `ordered.copy`, answered by the thread that reads the store's checkpoint for followers.
//! Its invariant: no more is read for an answer than it may have; a net thread waits for no disk.

use crate::ordered_follow::{history, named};
use crate::ordered_write::not_leader;
use crate::{Served, store};
use millpond_calls::Spent;
use millpond_catalog::Catalog;
use millpond_engines_ordered::{CopyAsk, CopyError, Piece, Position, Wanted};
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Code, Field as _, Status, ordered_copy as schema};

/// What an answer has beside its piece.
const BESIDE_BYTES: usize = 256;

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, reserved) = schema::Call::decode(payload)?;
    call.deadline(reserved.deadline_ms)?;
    let store = store(catalog, decoded.table.as_deref())?;
    let answer_bytes_max = call.calls.answer_bytes_max.saturating_sub(BESIDE_BYTES);
    let ask = ask(&decoded, answer_bytes_max)?;
    call.set_base64(reserved.base64);
    let mut call = call.detach(None, reserved.trace)?;
    let done = move |result: Result<Piece, CopyError>| match result {
        Ok(piece) => {
            call.ready(Spent::default());
            call.ok(|out: &mut Encoder<'_>| schema::Answer::write(&answer(&piece), out));
        }
        Err(error) => call.refuse(&status_of(&error)),
    };
    store.copy(ask, Box::new(done));
    Ok(())
}

fn ask(decoded: &schema::Call<'_>, bytes_max: usize) -> Result<CopyAsk, Status> {
    let bad = |ex: &str| Err(Status::new(Code::BadArgument, ex));
    let wanted = match (decoded.checkpoint, decoded.offset, decoded.behind) {
        (None, None, None) => Wanted::Checkpoint,
        (Some(checkpoint), Some(offset), None) => Wanted::Bytes { checkpoint, offset },
        (Some(checkpoint), None, Some(behind)) => Wanted::Records {
            checkpoint,
            behind,
            partial: decoded.partial,
        },
        (None, ..) => return bad("keys \"offset\" and \"behind\" go with \"checkpoint\""),
        (Some(_), ..) => return bad("key \"checkpoint\" goes with one of \"offset\" and \"behind\""),
    };
    let most = decoded.bytes_max.unwrap_or(u64::MAX);
    Ok(CopyAsk {
        follower: named(&decoded.follower)?,
        position: Position {
            history: history(&decoded.history)?,
            epoch: decoded.epoch,
            sequence: decoded.position,
            mark: None,
            partial: 0,
        },
        wanted,
        bytes_max: usize::try_from(most).unwrap_or(usize::MAX).min(bytes_max),
    })
}

fn answer(piece: &Piece) -> schema::Answer<'_> {
    schema::Answer {
        history: piece.history.as_slice().into(),
        epoch: piece.epoch,
        checkpoint: piece.checkpoint,
        length: piece.length,
        last: piece.last_sequence,
        first: piece.first,
        piece: piece.bytes.as_slice().into(),
        skipped: (piece.skipped > 0).then_some(piece.skipped),
        rest: (piece.rest > 0).then_some(piece.rest),
    }
}

fn status_of(error: &CopyError) -> Status {
    let code = match error {
        CopyError::NotLeader(known) => return not_leader(known),
        CopyError::Refused(_) => Code::Conflict,
        CopyError::Gone(_) => Code::LogGone,
        CopyError::Offset { .. } => Code::BadArgument,
        CopyError::TooMany => Code::Overloaded,
        CopyError::Closed => Code::Stopping,
        // The answer names no file of this machine.
        _ => {
            tracing::error!(%error, "an ordered store cannot give a follower a copy");
            let ex = "the store cannot read or write a checkpoint; see the server's log";
            return Status::new(Code::StorageFailed, ex);
        }
    };
    Status::new(code, error.to_string())
}
