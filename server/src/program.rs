//! What a server cannot know of the program that runs it: its log, its allocator, and that it is one of several.
//! Nothing here decides anything.

use crate::Member;
use crate::log::LogHandle;

/// The program that a server is a part of.
#[derive(Clone)]
pub struct Program {
    /// Whose dropped lines `/metrics` counts, and whose level `*tune` sets; nothing where there is none.
    pub log: Option<LogHandle>,
    /// The allocator's name, for the log and `*infos`.
    pub allocator: &'static str,
    /// Where the process is one of several: it serves on an address that it shares with the others, without an admin port, and
    /// with its share of the net threads and processors. It accepts when it is warm, and its parent has sent it the settings that were tuned.
    pub member: Option<Member>,
}

/// One without a log of this crate, on the system's allocator.
impl Default for Program {
    fn default() -> Program {
        Program {
            log: None,
            allocator: "system",
            member: None,
        }
    }
}
