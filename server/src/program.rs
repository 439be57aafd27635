//! What a server cannot know of the program that runs it: its log, and its allocator.
//!
//! Nothing here decides anything. Its invariant: it is said once, before the server is ready.

use crate::Shared;
use crate::log::LogHandle;

/// The program that a server is a part of.
#[derive(Clone)]
pub struct Program {
    /// Whose dropped lines `/metrics` counts, and whose level `*tune` sets; nothing where there is none.
    pub log: Option<LogHandle>,
    /// The allocator's name, for the log and `*infos`.
    pub allocator: &'static str,
}

/// One without a log of this crate, on the system's allocator.
impl Default for Program {
    fn default() -> Program {
        Program {
            log: None,
            allocator: "system",
        }
    }
}

impl Shared {
    pub(crate) fn log(&self) -> Option<&LogHandle> {
        self.program.get()?.log.as_ref()
    }

    /// Empty before it was said.
    pub(crate) fn allocator(&self) -> &'static str {
        self.program.get().map_or("", |program| program.allocator)
    }
}
