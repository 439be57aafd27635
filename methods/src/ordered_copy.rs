//! `ordered.copy`, answered by the thread that reads the store's checkpoint for followers.
//! Its invariant: no more is read for an answer than it may have; a net thread waits for no disk.

use crate::Served;
use crate::ordered_follow::{Question, answering, history, named};
use crate::ordered_write::not_leader;
use millpond_catalog::Catalog;
use millpond_engines_ordered::{CopyAsk, CopyError, Piece, Position, Wanted};
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Code, Field as _, Status, ordered_copy as schema};

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, reserved) = schema::Call::decode(payload)?;
    let question = Question::of(
        catalog,
        call,
        (decoded.table.as_deref(), decoded.bytes_max),
        &reserved,
    )?;
    let ask = ask(&decoded, question.bytes_max)?;
    let write = |piece: &Piece, out: &mut Encoder<'_>| schema::Answer::write(&answer(piece), out);
    let done = answering(call, &reserved, (write, status_of))?;
    question.store.copy(ask, Box::new(done));
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
        bytes_max,
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
        epoch_last: (piece.epoch_last > 0).then_some(piece.epoch_last),
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
