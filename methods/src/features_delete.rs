//! `features.delete`: deletes a version that nothing needs, by the process around the methods.
//! Its invariant: it is answered when it is done, in every process.

use crate::{Served, features_versions};
use millpond_calls::VersionChange;
use millpond_catalog::Catalog;
use millpond_wire_payload::Payload;
use millpond_wire_schema::{Field as _, Status, features_delete as schema};

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let (decoded, reserved) = schema::Call::decode(payload)?;
    let change = VersionChange::Delete {
        version: decoded.version,
        lose_upserts: decoded.lose_upserts,
    };
    features_versions::ask(catalog, call, &reserved, &decoded.table, change)
}
