//! `features.fresh`: fresh rows of a table for another node that may miss some, answered on the net thread: a page looks at no more
//! than some ten thousand places.
//! Its invariants: keys are of the node that asks, by the map that both go by; and no row comes later that was split by a map before,
//! which the node that asks would not be sent.

use crate::features_missed::nodes_with;
use crate::features_upsert::{check_map, overlay};
use crate::{Served, at_once};
use millpond_catalog::Catalog;
use millpond_engines_features::UPSERT_BYTES_MAX;
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::{Code, Field as _, Status, features_fresh as schema};

/// What a key takes in an answer beside its row.
const KEY_BYTES: usize = 24;
/// Rows of a page at most.
const ROWS_MAX: usize = 8192;

pub(crate) fn serve(catalog: &Catalog, call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    at_once::<schema::Call<'static>, _>(call, payload, |call, decoded, _| {
        let nodes = nodes_with(call, &decoded.node, payload)?;
        check_map(nodes, decoded.map)?;
        let (table, overlay) = overlay(catalog, &decoded.table)?;
        let map = nodes.map().filter(|map| map.version() == decoded.map);
        let node = map.as_ref().and_then(|map| map.find(&decoded.node));
        let (Some(map), Some(node)) = (map, node) else {
            let ex = "the map of nodes changes; try again";
            return Err(Status::new(Code::NodeUnavailable, ex));
        };
        if nodes.copies.has_older(map.version()) {
            let ex = "upserts by an older map of nodes are still under way here; try again";
            return Err(Status::new(Code::NodeUnavailable, ex));
        }
        let bytes_max = (call.calls.answer_bytes_max / 2).min(UPSERT_BYTES_MAX / 2);
        // Of rows that vary in length half of it is for what each takes beside its bytes.
        let (row_bytes, rows_bytes_max) = match table.is_varying() {
            true => (KEY_BYTES, bytes_max / 2),
            false => (table.schema().row_bytes(), bytes_max),
        };
        let rows_max = (bytes_max / (row_bytes + KEY_BYTES)).clamp(1, ROWS_MAX);
        let (since, position) = (
            decoded.since.unwrap_or_default(),
            decoded.position.unwrap_or_default(),
        );
        let most = (rows_max, rows_bytes_max);
        let page = overlay.fresh_page(since, position, most, |key| map.holds(node, key));
        let (rows, removed): (Vec<_>, Vec<_>) = page.rows.iter().partition(|row| row.row.is_some());
        let all = || rows.iter().chain(&removed);
        let answer = schema::Answer {
            run: nodes.fresh.run(),
            sequence: page.sequence,
            folded_ms: Some(overlay.folded_before_ms()).filter(|ms| *ms > 0),
            layout: overlay.layout(),
            keys: all().map(|row| row.key).collect(),
            times: all().map(|row| row.stamp.time).collect(),
            origins: all().map(|row| row.stamp.origin).collect(),
            rows: page.stored(table.schema()).into(),
            position: page.next,
        };
        Ok(move |out: &mut Encoder<'_>| schema::Answer::write(&answer, out))
    })
}
