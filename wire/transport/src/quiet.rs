//! Lines of the log that anybody can cause by a connection: of each kind one a second is written, the others are counted.
//!
//! Its invariant: a line that is left out is told of by a number, in the next line of its kind or in one of its own.

pub(crate) use millpond_threads::LeftOut;
use millpond_threads::LineLimit;

/// Each cause stands in one place: its name, and what its lines are about.
macro_rules! causes {
    ($($name:ident: $words:literal,)*) => {
        /// What such a line says.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(crate) enum Cause {
            $($name,)*
        }

        impl Cause {
            /// In the order of their numbers.
            const ALL: &[Cause] = &[$(Cause::$name,)*];

            fn words(self) -> &'static str {
                match self {
                    $(Cause::$name => $words,)*
                }
            }
        }
    };
}

causes! {
    NotHttp: "bad HTTP requests",
    NotFrame: "bytes that are no frame",
    NotWebSocket: "bad WebSocket frames",
    NotTls: "TLS that failed",
    NotSecure: "encryption that was not agreed on, or not kept to",
    NotAsked: "answers to what was never asked",
    CutShort: "peers that closed in the middle of a request",
    Unfinished: "too much held of requests that are not whole",
    SlowReader: "peers that do not read their answers",
    WriteBuffers: "too much waiting for all peers",
    Dropped: "connections that could not begin",
    NotAccepted: "connections that could not be accepted",
    OverLimit: "connections over the limit",
    Panicked: "panics in serving a connection",
    ReceiverPanicked: "panics of receivers of a peer's answer",
}

/// The lines of each cause, by its number.
#[derive(Debug, Default)]
pub(crate) struct Quiet([LineLimit; Cause::ALL.len()]);

impl Quiet {
    /// Whether a line of that cause may be written now; with how many before it were left out.
    pub(crate) fn admits(&self, cause: Cause) -> Option<LeftOut> {
        self.0[cause as usize].admits()
    }

    /// Tells of lines that were left out, where no further one has.
    pub(crate) fn tell(&self) {
        for (cause, limit) in Cause::ALL.iter().zip(&self.0) {
            if let Some(left_out) = limit.untold() {
                let of = cause.words();
                tracing::info!(left_out, of, "lines about connections were left out");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_cause_has_lines_of_its_own() {
        let quiet = Quiet::default();
        for cause in Cause::ALL {
            assert_eq!(quiet.admits(*cause), Some(LeftOut(None)), "{cause:?}");
        }
    }
}
