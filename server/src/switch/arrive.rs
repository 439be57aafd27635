//! Switches that nobody called for: to versions that were found.
//!
//! It looks for none. Its invariant: such a switch leads only to a version above all that served, whatever else is switched at
//! the same time.

use super::{Plan, Refusal, make};
use crate::Shared;
use millpond_calls::{VersionChange, VersionsCall};
use millpond_catalog::Handle;
use millpond_wire_schema::Code;

/// Serves a version that nobody called for, on the caller's thread; as one that was called for it serves everywhere or
/// nowhere. Returns why a restart will not serve it, if it will not.
pub(crate) fn arrive(
    shared: &Shared,
    handle: &Handle,
    table: &str,
    version: u64,
) -> Result<Option<String>, Refusal> {
    let turn = shared.switching.begin()?;
    let call = VersionsCall {
        table: table.to_owned(),
        change: VersionChange::Activate(Some(version)),
    };
    let mut ended = None;
    make(shared, handle, &call, (turn, true), |outcome| {
        ended = Some(outcome.map(|(_, why_not)| why_not));
    });
    let unended = || Err(Refusal::new(Code::Internal, "the switch has not ended"));
    ended.unwrap_or_else(unended)
}

impl Plan {
    /// Whether it may be made where this is the highest version that ever served: of two switches at the same time the other
    /// one may have been made meanwhile.
    pub(crate) fn check_is_above(&self, highest: u64) -> Result<(), Refusal> {
        let version = self.version;
        match self.is_arrival && version <= highest {
            false => Ok(()),
            true => {
                let ex = format!("version {version} is not above {highest}, which served meanwhile");
                Err(Refusal::passing(Code::Conflict, ex))
            }
        }
    }
}
