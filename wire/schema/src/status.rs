//! The one table of errors: code, HTTP status, whether trying again can help, and how each lower error maps to it.
//!
//! FPNN's numbers where FPNN has the case; Millpond's own from 30100. Its invariant: an error's text never holds a file
//! name of this program, a line number or a peer's address.

use crate::payload::{Encoder, Map, PayloadError, Problem, Value};
use std::fmt;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $http:literal, $retryable:literal;)*) => {
        /// Every code an answer can carry.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code { $($(#[$doc])* $name,)* }

        impl Code {
            /// All of them, in the order of the table.
            pub const ALL: &[Code] = &[$(Code::$name,)*];
            /// The number on the wire.
            pub fn number(self) -> u32 { match self { $(Code::$name => $number,)* } }
            /// The status of an HTTP answer.
            pub fn http_status(self) -> u16 { match self { $(Code::$name => $http,)* } }
            /// Whether the same call may succeed later, here or elsewhere.
            pub fn retryable(self) -> bool { match self { $(Code::$name => $retryable,)* } }
            /// The code of a number, if it is in the table.
            pub fn from_number(number: u64) -> Option<Code> { match number { $($number => Some(Code::$name),)* _ => None } }
        }
    };
}

codes! {
    /// The bytes are no frame this server speaks.
    InvalidPackage = 10003, 400, false;
    /// The JSON does not parse.
    JsonConvert = 10004, 400, false;
    /// The payload is not a map.
    RootNotMap = 10006, 400, false;
    /// A key the method needs is absent.
    KeyNotFound = 10009, 400, false;
    /// Something failed inside the server.
    Internal = 20001, 500, false;
    /// The caller went away before its call was worked on, or answered what it was asked; it is counted, and nobody reads it.
    ConnectionClosed = 20002, 499, true;
    /// The caller was asked something for its call, and did not answer in time.
    Timeout = 20003, 504, true;
    /// No method of that name.
    UnknownMethod = 20004, 404, false;
    /// The msgpack does not parse.
    Decoding = 20006, 400, false;
    /// The request is no HTTP this server reads.
    BadHttp = 20010, 400, false;
    /// The method needs a connection of another kind: over HTTP the server cannot call its caller.
    InvalidConnection = 20012, 400, false;
    /// Not from this address, this network, or this kind of connection.
    Forbidden = 20013, 403, false;
    /// The server is draining.
    Stopping = 20014, 503, true;
    /// Refused at the door: connections, in-flight calls or a queue are at their limit.
    Overloaded = 30101, 429, true;
    /// The call's deadline passed before its work began.
    DeadlinePassed = 30102, 504, true;
    /// The server is still warming up, or the process that runs the model or has the store is.
    NotReady = 30103, 503, true;
    /// A key holds something the method does not take.
    BadArgument = 30104, 400, false;
    /// No table, model, pipeline or store of that name.
    NotFound = 30105, 404, false;
    /// That version of a table or model is not served.
    VersionGone = 30106, 410, false;
    /// The path takes another HTTP verb, or the target cannot be written.
    ReadOnly = 30107, 405, false;
    /// The model failed on this input.
    ModelFailed = 30108, 500, false;
    /// The admin or method token is wrong or absent.
    Unauthenticated = 30109, 401, false;
    /// Larger than the server accepts.
    TooLarge = 30110, 413, false;
    /// The log or its disk failed; nothing was written.
    StorageFailed = 30111, 507, true;
    /// A condition of a put did not hold.
    Conflict = 30112, 409, false;
    /// The log or its disk failed, or no follower is known to have what it must have: whether something was written is unknown. Repeating it
    /// is safe under a condition alone.
    OutcomeUnknown = 30113, 500, false;
    /// A store may hold no more; nothing was written, and nothing will be until there is space.
    Full = 30114, 507, false;
    /// Another server takes the writes of this store; nothing was written. The error names it where it is known.
    NotLeader = 30115, 421, true;
    /// A node that holds keys of the call, or a follower that the store's writes wait for, could not be reached, or did not answer in time.
    NodeUnavailable = 30116, 503, true;
    /// The clock of the server that sends a copy is ahead of the clock of the node that is to take it, which takes it at no time.
    ClockAhead = 30117, 503, true;
    /// What a follower of an ordered store needs next is not in its leader's log any more, or no piece of the copy that it takes.
    LogGone = 30119, 410, false;
}

impl Code {
    /// Whether every server that could answer would say the same of a call: asking another one is of no use.
    pub fn is_of_the_call(self) -> bool {
        matches!(
            self,
            Code::BadArgument
                | Code::KeyNotFound
                | Code::Decoding
                | Code::RootNotMap
                | Code::TooLarge
                | Code::Unauthenticated
                | Code::Forbidden
                | Code::UnknownMethod
        )
    }
}

/// What a code leaves open and another protocol tells apart. It stays within the processes of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// A key of an ordered store holds a list where bytes are wanted, or bytes where a list is.
    WrongKind,
    /// It holds no whole number of 64 bits.
    NotANumber,
    /// The sum has more than 64 bits.
    Overflow,
    /// A key, or what is to be added, is no decimal number.
    NotADecimal,
    /// The sum of decimal numbers is too large.
    DecimalOverflow,
}

impl Reason {
    const ALL: [Reason; 5] = [
        Reason::WrongKind,
        Reason::NotANumber,
        Reason::Overflow,
        Reason::NotADecimal,
        Reason::DecimalOverflow,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Reason::WrongKind => "wrong_kind",
            Reason::NotANumber => "not_a_number",
            Reason::Overflow => "overflow",
            Reason::NotADecimal => "not_a_decimal",
            Reason::DecimalOverflow => "decimal_overflow",
        }
    }
}

/// An error as it goes over the wire: `{code, ex, retryable}`, and `leader` where another server takes a store's writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// What happened.
    pub code: Code,
    /// What, where, and a hint, in words.
    pub ex: String,
    /// More than the code says, for fronts that need it.
    pub reason: Option<Reason>,
    /// Of [`Code::NotLeader`]: where the store's writes are taken, as the server knows it.
    pub leader: Option<String>,
}

impl Status {
    /// An error with its words.
    pub fn new(code: Code, ex: impl Into<String>) -> Status {
        Status {
            code,
            ex: ex.into(),
            reason: None,
            leader: None,
        }
    }

    /// The same with its reason.
    #[must_use]
    pub fn because(self, reason: Option<Reason>) -> Status {
        Status { reason, ..self }
    }

    /// The same with where a store's writes are taken.
    #[must_use]
    pub fn led_by(self, leader: Option<String>) -> Status {
        Status { leader, ..self }
    }

    /// Writes the error map.
    pub fn encode(&self, out: &mut Encoder<'_>) {
        self.write(None, out);
    }

    /// Writes the error map for another process of this server, with the reason.
    pub fn encode_whole(&self, out: &mut Encoder<'_>) {
        self.write(self.reason, out);
    }

    fn write(&self, reason: Option<Reason>, out: &mut Encoder<'_>) {
        out.map(|out| {
            out.key("code");
            out.uint(u64::from(self.code.number()));
            out.key("ex");
            out.text(&self.ex);
            out.key("retryable");
            out.bool(self.code.retryable());
            if let Some(leader) = &self.leader {
                out.key("leader");
                out.text(leader);
            }
            if let Some(reason) = reason {
                out.key("reason");
                out.text(reason.as_str());
            }
        });
    }

    /// Reads an error map; a code outside the table reads as [`Code::Internal`] with the number in its words.
    pub fn decode(map: &Map<'_>) -> Status {
        let ex = match map.get("ex") {
            Some(Value::Text(text)) => text.to_string(),
            _ => String::new(),
        };
        let leader = match map.get("leader") {
            Some(Value::Text(text)) => Some(text.to_string()),
            _ => None,
        };
        let reason = match map.get("reason") {
            Some(Value::Text(text)) => Reason::ALL.into_iter().find(|reason| reason.as_str() == text),
            _ => None,
        };
        let unknown = |what: String| Status::new(Code::Internal, format!("{what}: {ex}"));
        match map.get("code") {
            Some(Value::UInt(number)) => match Code::from_number(*number) {
                Some(code) => Status::new(code, ex).led_by(leader).because(reason),
                None => unknown(format!("code {number}")),
            },
            _ => unknown("an error answer without a code".to_owned()),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} ({}): {}", self.code, self.code.number(), self.ex)
    }
}

impl std::error::Error for Status {}

impl From<PayloadError> for Status {
    fn from(error: PayloadError) -> Status {
        let code = match error.problem() {
            Problem::Malformed { encoding: "JSON", .. } => Code::JsonConvert,
            Problem::Malformed { .. } | Problem::Trailing => Code::Decoding,
            Problem::RootNotMap(_) => Code::RootNotMap,
            Problem::Missing { .. } => Code::KeyNotFound,
            Problem::Invalid { .. } | Problem::Unknown { .. } => Code::BadArgument,
        };
        Status::new(code, error.to_string())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::payload::{Encoding, decode_map};

    #[test]
    fn a_reason_is_told_to_another_process_alone() {
        for reason in Reason::ALL {
            let status = Status::new(Code::BadArgument, "why").because(Some(reason));
            let read = |encode: fn(&Status, &mut Encoder<'_>)| {
                let mut bytes = Vec::new();
                encode(&status, &mut Encoder::new(&mut bytes, Encoding::Msgpack, false));
                Status::decode(&decode_map(Encoding::Msgpack, &bytes).unwrap()).reason
            };
            assert_eq!(
                (read(Status::encode), read(Status::encode_whole)),
                (None, Some(reason))
            );
        }
    }

    #[test]
    fn every_code_round_trips() {
        for code in Code::ALL {
            let leader = (*code == Code::NotLeader).then(|| "b:8090".to_owned());
            let status = Status::new(*code, "what \"and\" why").led_by(leader);
            for encoding in [Encoding::Msgpack, Encoding::Json] {
                let mut bytes = Vec::new();
                status.encode(&mut Encoder::new(&mut bytes, encoding, false));
                assert_eq!(Status::decode(&decode_map(encoding, &bytes).unwrap()), status);
            }
            assert!((400..=599).contains(&code.http_status()));
        }
        let mut numbers: Vec<u32> = Code::ALL.iter().map(|code| code.number()).collect();
        numbers.dedup();
        assert_eq!(numbers.len(), Code::ALL.len());
    }
}
