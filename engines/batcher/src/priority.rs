//! How much a request matters beside others that wait for the same model. It orders nothing itself.
//! Its one invariant: it is a level from 0 to 9.

/// The level of a request: 0 is served first, 9 last, and 5 is that of requests that name none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

impl Priority {
    /// The level of requests that name none.
    pub const DEFAULT: Priority = Priority(5);
    /// The last level.
    pub const LOWEST: Priority = Priority(9);

    /// `None` above 9.
    pub const fn new(level: u8) -> Option<Priority> {
        if level <= Priority::LOWEST.0 {
            Some(Priority(level))
        } else {
            None
        }
    }

    /// From 0 to 9.
    pub const fn level(self) -> u8 {
        self.0
    }
}

impl Default for Priority {
    fn default() -> Priority {
        Priority::DEFAULT
    }
}
