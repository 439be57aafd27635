//! `features.versions`, and what the methods that change versions have in common: the process around them does the work, on
//! a thread of its own.
//! Its invariant: no file is read on the net thread.

use crate::{Served, find};
use millpond_calls::{VersionChange, VersionsCall};
use millpond_catalog::Catalog;
use millpond_wire_payload::{Payload, Reserved};
use millpond_wire_schema::{Field as _, Status, features_versions as schema};
use std::sync::Arc;

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, reserved) = schema::Call::decode(payload)?;
    ask(catalog, call, &reserved, &decoded.table, VersionChange::None)
}

/// Has the process change a table's versions, and answers what there is then.
pub(crate) fn ask(
    catalog: &Catalog,
    call: &mut Served<'_>,
    reserved: &Reserved<'_>,
    table: &str,
    change: VersionChange,
) -> Result<(), Status> {
    find("feature table", &catalog.tables, table)?;
    // One that is too late already changes nothing.
    call.deadline(reserved.deadline_ms)?;
    let permit = match change {
        VersionChange::None => Some(call.calls.admission.enter()?),
        // Where the server is full of calls, another version may be what helps.
        _ => call.calls.admission.enter().ok(),
    };
    let table = table.to_owned();
    let host = Arc::clone(call.host);
    let call = call.detach(permit, reserved.trace)?;
    host.versions(
        VersionsCall { table, change },
        Box::new(move |done| match done {
            Ok(answer) => call.answer(|out| schema::Answer::write(&answer, out)),
            Err(status) => call.refuse(&status),
        }),
    );
    Ok(())
}
