//! `features.upsert` of a table whose keys are on several servers: every replica of a key is sent the rows that it holds.
//!
//! It splits the call and writes the copies; `sending` sends them. Its invariants: all copies of an upsert have one stamp, so that
//! replicas end with the same rows in whatever order upserts reach them; and what was sent on is sent on no further.

mod content;
mod context;
mod sending;
mod shares;

use super::Way;
use super::beside::Beside;
use crate::Served;
use crate::features_upsert::waiting_bytes;
use content::Content;
use context::UpsertContext;
use millpond_calls::Nodes;
use millpond_catalog::Catalog;
use millpond_wire_payload::Reserved;
use millpond_wire_schema::{Status, features_upsert as schema};
use sending::Sending;
use std::sync::Arc;
use std::time::Instant;

/// Begins an upsert; its answer comes when the nodes have answered.
pub(crate) fn upsert(
    catalog: &Catalog,
    call: &mut Served<'_>,
    nodes: &Arc<Nodes>,
    (decoded, reserved): (schema::Call<'_>, &Reserved<'_>),
    deadline: Instant,
) -> Result<(), Status> {
    let way = Way::of(call, nodes)?;
    let waiting = waiting_bytes(&decoded);
    let content = Content::new(catalog, decoded)?;
    let permit = call.calls.admission.enter_holding(waiting)?;
    let begun = UpsertContext {
        shares: shares::split(&way.route, &content),
        content,
        route: way.route,
        nodes: Arc::clone(nodes),
        beside: Beside::of(call, reserved, deadline),
    };
    let detached = call.detach(Some(permit), reserved.trace)?;
    let kept = Arc::clone(way.kept);
    Sending::begin(begun, kept, detached, way.outbound, call.asked.clock.read());
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use millpond_wire_payload::{Encoding, Payload};
    use millpond_wire_schema::Field as _;
    use std::time::Duration;

    #[test]
    fn what_is_sent_is_what_a_node_reads() {
        let now = Instant::now();
        let beside = Beside {
            deadline: now + Duration::from_millis(7),
            token: Some("secret".to_owned()),
            trace: None,
        };
        let note = schema::Missed {
            nodes: vec!["b".into()],
            sequence: 9,
            time: 3,
            lease_ms: 5,
        };
        let call = schema::Call {
            missed: Some(note.clone()),
            node_token: Some("of the nodes".into()),
            ..schema::Call::new("films".into())
        };
        let bytes = beside.payload(now, |out| call.write_entries(out));
        let payload = Payload::new(Encoding::Msgpack, &bytes).unwrap();
        let (read, reserved) = schema::Call::decode(&payload).unwrap();
        assert_eq!(read, call);
        assert_eq!(
            (reserved.deadline_ms, reserved.token.unwrap().0),
            (Some(7), "secret")
        );
    }
}
