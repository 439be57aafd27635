//! What a check has to say: where, what, and whether it refuses the tree or only asks for a thought.

use std::fmt;

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The check fails.
    Refused,
    /// Printed, and the check passes.
    Warned,
}

/// One line of a check's output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether the check fails.
    pub level: Level,
    /// A path, `path:line`, or the name of a crate.
    pub place: String,
    /// What is wrong, and a hint.
    pub message: String,
}

impl Finding {
    /// A finding that fails the check.
    pub fn refused(place: impl Into<String>, message: impl Into<String>) -> Finding {
        Finding {
            level: Level::Refused,
            place: place.into(),
            message: message.into(),
        }
    }

    /// A finding that is printed only.
    pub fn warned(place: impl Into<String>, message: impl Into<String>) -> Finding {
        Finding {
            level: Level::Warned,
            ..Finding::refused(place, message)
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let level = if self.level == Level::Refused {
            "refused"
        } else {
            "warning"
        };
        write!(f, "{level}: {}: {}", self.place, self.message)
    }
}
