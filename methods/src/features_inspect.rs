//! `features.inspect`, answered on the net thread: it reads no file.
//! Its invariant: all figures of a table are of one version.

use crate::{Served, at_once, find};
use millpond_catalog::Catalog;
use millpond_engines_features::{Keys, Table};
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Field as _, Status, features_inspect as schema};
use std::borrow::Cow;

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    at_once::<schema::Call<'static>, _>(call, payload, |call, decoded, _| {
        let tables = match decoded.table {
            Some(name) => {
                find("feature table", &catalog.tables, &name)?;
                vec![inspected(catalog, &name)]
            }
            None => catalog
                .tables
                .keys()
                .map(|name| inspected(catalog, name))
                .collect(),
        };
        let tables = tables.into_iter().flatten().collect();
        let node = call.calls.nodes().and_then(|nodes| nodes.options.name.clone());
        let node = node.map(Cow::Owned);
        Ok(move |out: &mut Encoder<'_>| schema::Answer::write(&schema::Answer { node, tables }, out))
    })
}

fn inspected(catalog: &Catalog, name: &str) -> Option<schema::Table<'static>> {
    let mut versions = catalog.versions(name);
    let table: &Table = versions.next()?;
    let columns = table.schema().columns.iter();
    let columns = columns.map(|column| schema::Column {
        name: column.name.clone().into(),
        numbers: column.numbers.as_str().into(),
        dim: column.dim as u64,
    });
    let source = Some(table.source()).filter(|source| !source.is_empty());
    Some(schema::Table {
        table: name.to_owned().into(),
        version: table.version(),
        held: versions.map(|table| table.version()).collect(),
        slot: match table.keys() {
            Keys::U64 => None,
            Keys::Text { slot } => Some(slot.clone().into()),
        },
        columns: columns.collect(),
        dim: table.dim() as u64,
        rows: table.rows(),
        bytes: table.bytes(),
        resident_bytes: table.resident_bytes(),
        created: table.created_unix_s(),
        age_s: table.age_s(),
        source: source.map(|source| source.to_owned().into()),
        cut: table.check_whole().is_err(),
        overlay: table.overlay().map(|overlay| schema::Overlay {
            entries: overlay.len(),
            bytes: overlay.bytes(),
            bytes_max: overlay.section().bytes_max,
            sequence: overlay.sequence(),
            folded: overlay.folded_in(table).sequence,
            folded_ms: Some(overlay.folded_in(table).before_ms).filter(|ms| *ms > 0),
            foldable_ms: Some(overlay.settled().foldable_ms).filter(|ms| *ms > 0),
            durability: overlay.durability().as_str().into(),
            ttl_ms: overlay.section().ttl_ms,
            read_only: overlay.read_only().is_some(),
        }),
    })
}
