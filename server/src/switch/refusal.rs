//! Why a switch is not made: the error of a call, in a form that processes can tell each other.
//!
//! It decides nothing. Its invariant: what the caller can do about an error decides its code.

use millpond_catalog as catalog;
use millpond_engines_features as features;
use millpond_wire_schema::{Code, Status};
use serde::{Deserialize, Serialize};

/// Why a switch was not made, as one process tells another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Refusal {
    code: u32,
    pub(crate) ex: String,
    /// It is nothing of the version: the same switch may be made a moment later.
    pub(crate) is_passing: bool,
}

impl Refusal {
    pub(crate) fn new(code: Code, ex: impl Into<String>) -> Refusal {
        Refusal {
            code: code.number(),
            ex: ex.into(),
            is_passing: false,
        }
    }

    pub(crate) fn passing(code: Code, ex: impl Into<String>) -> Refusal {
        Refusal {
            is_passing: true,
            ..Refusal::new(code, ex)
        }
    }

    /// Whether the caller asked for what cannot be, or at the wrong time, and nothing is wrong with the server or its files.
    pub(super) fn is_mistake(&self) -> bool {
        let mistakes = [Code::NotFound, Code::Conflict, Code::Stopping];
        mistakes.iter().any(|code| code.number() == self.code)
    }
}

impl From<Refusal> for Status {
    fn from(refusal: Refusal) -> Status {
        let code = Code::from_number(u64::from(refusal.code)).unwrap_or(Code::Internal);
        Status::new(code, refusal.ex)
    }
}

/// What the caller can do about an error decides the code.
impl From<&features::Error> for Refusal {
    fn from(error: &features::Error) -> Refusal {
        use features::Error::{IsActive, IsBase, LosesUpserts, NoVersions, VersionNotFound};
        let code = match error {
            VersionNotFound { .. } | NoVersions { .. } => Code::NotFound,
            IsBase { .. } | IsActive { .. } | LosesUpserts(_) => Code::Conflict,
            _ => Code::StorageFailed,
        };
        Refusal {
            is_passing: error.is_out_of_resources(),
            ..Refusal::new(code, error.to_string())
        }
    }
}

impl From<catalog::Error> for Refusal {
    fn from(error: catalog::Error) -> Refusal {
        let code = match &error {
            catalog::Error::Unfit(_) => Code::Conflict,
            catalog::Error::Start { .. } => Code::StorageFailed,
            catalog::Error::Part { source, .. } => match source.downcast_ref::<features::Error>() {
                Some(error) => return Refusal::from(error),
                None => Code::Internal,
            },
        };
        Refusal::new(code, error.to_string())
    }
}
