//! A copy of the leader's store, for a follower whose next record is not in the leader's log any more.
//!
//! Its invariants: what was copied before a connection was cut is not asked for again; what is damaged or of another checkpoint is begun anew.

use super::{ANSWER_MAX, Asked, Following, SHIPMENT_BYTES};
use crate::fresh::LinkError;
use millpond_engines_ordered::{FollowError, Incoming, Piece, Position, Took, Wanted};
use millpond_wire_schema::{Code, Method as _, OrderedCopy, ordered_copy as schema};
use std::time::{Duration, Instant};

/// How often it says how far it is.
const SAID_EVERY: Duration = Duration::from_secs(5);
/// How long it waits where the leader is still writing its checkpoint, or this store one of its own.
const AGAIN: Duration = Duration::from_millis(500);

/// A copy under way.
pub(super) struct Copying {
    incoming: Incoming,
    began: Instant,
    said: Instant,
    /// Bytes that have come since it began.
    bytes: u64,
}

impl Following {
    /// Goes on with a copy, or begins one: until it is whole and in the store's place.
    pub(super) fn copy(&mut self, asked: &mut Asked) -> Result<(), String> {
        let mut copying = match self.copying.take() {
            Some(copying) => copying,
            None => self.begin_copy()?,
        };
        match self.go_on(&mut copying, asked) {
            Ok(()) => Ok(()),
            Err(Ended::Anew(problem)) => Err(problem),
            Err(Ended::Broken(problem)) => {
                self.copying = Some(copying);
                Err(problem)
            }
        }
    }

    fn begin_copy(&self) -> Result<Copying, String> {
        let incoming = self.store.take_copy().map_err(|error| error.to_string())?;
        tracing::info!(
            store = self.table,
            leader = self.leader,
            "the leader's log begins behind what this ordered store has: it takes a copy of the leader's"
        );
        let now = Instant::now();
        Ok(Copying {
            incoming,
            began: now,
            said: now,
            bytes: 0,
        })
    }

    fn go_on(&self, copying: &mut Copying, asked: &mut Asked) -> Result<(), Ended> {
        loop {
            if self.halt.is_stopped() {
                return Ok(());
            }
            let piece = self.ask_piece(copying.incoming.wanted(), asked)?;
            if self.halt.is_stopped() {
                return Ok(());
            }
            copying.bytes += piece.bytes.len() as u64;
            let took = copying.incoming.take(&piece);
            match took.map_err(|error| Ended::Anew(error.to_string()))? {
                Took::Nothing if self.halt.within(AGAIN) => return Ok(()),
                Took::Nothing | Took::Part => {}
                Took::Whole => return self.install(copying),
            }
            self.say(copying);
        }
    }

    fn ask_piece(&self, wanted: Wanted, (link, node, token): &mut Asked) -> Result<Piece, Ended> {
        let position = self.store.position();
        let position = position.map_err(|error| Ended::Broken(error.to_string()))?;
        let call = self.question(wanted, &position);
        let method = (OrderedCopy::NAME, Some(token.as_str()));
        let answer = link.call::<schema::Call<'_>, schema::Answer<'static>>(node, method, &call, ANSWER_MAX);
        let answer = answer.map_err(|error| match error {
            LinkError::Gone(why) | LinkError::Lost(why) => Ended::Broken(why),
            LinkError::Refused(status) => {
                let hint = match status.code {
                    Code::Unauthenticated => {
                        "; the token has to open \"ordered.copy\" there too, beside \"ordered.follow\""
                    }
                    Code::UnknownMethod => {
                        "; it is older than copies: bring one by hand (docs/operations.md)"
                    }
                    _ => "",
                };
                let problem = format!("asked for a copy of its store it answered {status}{hint}");
                match status.code {
                    // The copy stays as far as it is.
                    Code::Overloaded | Code::Stopping | Code::NotReady => Ended::Broken(problem),
                    _ => Ended::Anew(problem),
                }
            }
        })?;
        piece(answer)
    }

    fn question<'q>(&'q self, wanted: Wanted, position: &'q Position) -> schema::Call<'q> {
        let (checkpoint, offset, behind, partial) = match wanted {
            Wanted::Checkpoint => (None, None, None, 0),
            Wanted::Bytes { checkpoint, offset } => (Some(checkpoint), Some(offset), None, 0),
            Wanted::Records {
                checkpoint,
                behind,
                partial,
            } => (Some(checkpoint), None, Some(behind), partial),
        };
        schema::Call {
            table: Some(self.table.as_str().into()),
            follower: self.name.as_str().into(),
            history: position.history.as_slice().into(),
            epoch: position.epoch,
            position: position.sequence,
            checkpoint,
            offset,
            behind,
            partial,
            bytes_max: Some(self.bytes_max(SHIPMENT_BYTES)),
        }
    }

    fn install(&self, copying: &mut Copying) -> Result<(), Ended> {
        tracing::info!(
            store = self.table,
            leader = self.leader,
            bytes = copying.bytes,
            "the copy of the leader's store is here and sound; it takes the place of what this store has, and no reads are served meanwhile"
        );
        loop {
            match copying.incoming.install() {
                Ok(position) => {
                    tracing::info!(
                        store = self.table,
                        leader = self.leader,
                        record = position.sequence,
                        took_ms = copying.began.elapsed().as_millis() as u64,
                        "this ordered store is a copy of its leader's up to that record, and follows on from there"
                    );
                    return Ok(());
                }
                Err(FollowError::Busy) if self.halt.within(AGAIN) => return Ok(()),
                Err(FollowError::Busy) => {}
                // It was promoted meanwhile.
                Err(FollowError::NotFollowing(_)) => return Ok(()),
                Err(error) => return Err(Ended::Anew(error.to_string())),
            }
        }
    }

    fn say(&self, copying: &mut Copying) {
        if copying.said.elapsed() < SAID_EVERY {
            return;
        }
        copying.said = Instant::now();
        let Some(progress) = self.store.copy_progress() else {
            return;
        };
        const MIB: u64 = 1 << 20;
        tracing::info!(
            store = self.table,
            leader = self.leader,
            copied_mib = progress.bytes / MIB,
            of_mib = progress.of_bytes.div_ceil(MIB),
            mib_a_second = (copying.bytes as f64 / MIB as f64 / copying.began.elapsed().as_secs_f64()) as u64,
            "this ordered store takes a copy of its leader's"
        );
    }
}

/// Why a copy did not come to its end.
enum Ended {
    /// It goes on where it is.
    Broken(String),
    /// Nothing of it is of use any more.
    Anew(String),
}

fn piece(answer: schema::Answer<'static>) -> Result<Piece, Ended> {
    let history = <[u8; 16]>::try_from(&*answer.history);
    Ok(Piece {
        history: history.map_err(|_| Ended::Anew("it answered a history that is none".to_owned()))?,
        epoch: answer.epoch,
        checkpoint: answer.checkpoint,
        length: answer.length,
        last_sequence: answer.last,
        first: answer.first,
        bytes: answer.piece.into_owned(),
        skipped: answer.skipped.unwrap_or_default(),
        rest: answer.rest.unwrap_or_default(),
        epoch_last: answer.epoch_last.unwrap_or_default(),
    })
}
