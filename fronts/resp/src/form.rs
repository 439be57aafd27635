//! Outcomes as replies: an answer's map in the form of its command, an error in Redis's words.
//!
//! Its invariant: a call that stands for several commands has as many replies, whatever becomes of it; or none, and they go again.

use crate::commands::Asked;
use crate::commands::store::{error_text as store_error_text, goes_again, refused};
use crate::databases::{Database, Databases, Holds};
use millpond_calls::access::SEND_TOKEN;
use millpond_fronts_answer as answer;
use millpond_wire_frame::{Encoding, RespReply, RespVersion};
use millpond_wire_payload::Payload;
use millpond_wire_schema::{Code, Status};
use std::borrow::Cow;
use std::cell::Cell;

/// Bytes of an answer's map that a thread keeps space for.
const MAP_BYTES_KEPT: usize = 256 << 10;

thread_local! {
    /// Where an answer's map lies until it is a reply.
    static MAP: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// How the outcome of one call is replied.
#[derive(Clone)]
pub(crate) struct Form {
    pub(crate) version: RespVersion,
    /// What was selected.
    pub(crate) database: Option<&'static Database>,
    pub(crate) databases: &'static Databases,
    pub(crate) server_version: &'static str,
    pub(crate) asked: Asked,
}

impl answer::Form for Form {
    type Open = Vec<u8>;

    fn begin<'o>(self, _: &'o mut Vec<u8>, map: &'o mut Vec<u8>) -> Option<(&'o mut Vec<u8>, Encoding)> {
        *map = MAP.take();
        map.clear();
        Some((map, Encoding::Msgpack))
    }

    fn finish(self, out: &mut Vec<u8>, map: &mut Vec<u8>) {
        if let Some(again) = &self.asked.again {
            again.settle();
        }
        let start = out.len();
        let payload = Payload::new(Encoding::Msgpack, map);
        let mut reply = RespReply::new(out, self.version);
        let written = payload.and_then(|payload| (self.asked.write)(&payload, &self, &mut reply));
        if let Err(error) = written {
            out.truncate(start);
            let ex = format!("the answer cannot be replied: {error}");
            self.error(out, &Status::new(Code::Internal, ex));
        }
        let mut map = std::mem::take(map);
        if map.capacity() <= MAP_BYTES_KEPT {
            map.clear();
            MAP.set(map);
        }
    }

    fn error(self, out: &mut Vec<u8>, status: &Status) {
        if let Some(again) = &self.asked.again {
            if goes_again(status) {
                return again.refuse();
            }
            again.settle();
        }
        let mut reply = RespReply::new(out, self.version);
        let is_store = self
            .database
            .is_some_and(|database| database.holds == Holds::Store);
        if is_store && refused(&self.asked.parts, status, &mut reply) {
            return;
        }
        let known = is_store
            .then(|| store_error_text(status, self.asked.method))
            .flatten();
        let text: Cow<'_, str> = match known {
            Some(known) => known.into(),
            None if is_store && status.code == Code::StorageFailed => {
                format!("READONLY {}", status.ex).into()
            }
            None => error_text(status).into(),
        };
        for _ in 0..self.asked.answers {
            reply.error(&text);
        }
    }
}

/// An error: its first word is what clients of Redis look at.
pub(crate) fn error_text(status: &Status) -> String {
    let kind = match status.code {
        Code::Unauthenticated if lacks_token(status) => return "NOAUTH Authentication required.".to_owned(),
        Code::Unauthenticated | Code::Forbidden => "NOPERM",
        Code::NotReady => "LOADING",
        Code::Overloaded => "OVERLOADED",
        Code::ReadOnly | Code::NotLeader => "READONLY",
        _ => "ERR",
    };
    format!("{kind} {}", status.ex)
}

/// Whether a token would do that was not brought. What is off for all is nothing that a client would log in for.
pub(crate) fn lacks_token(status: &Status) -> bool {
    status.code == Code::Unauthenticated && status.ex.ends_with(SEND_TOKEN)
}
