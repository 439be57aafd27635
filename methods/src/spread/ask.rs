//! What nodes are asked: plain rows, by keys, of one version and by one map.
//! Its invariant: what it writes is answered by the node itself, which forwards nothing.

use millpond_wire_payload::Encoder;
use millpond_wire_schema::Field as _;
use millpond_wire_schema::features_lookup::{Lookup, Pool, RowType};
use std::borrow::Cow;

/// One table's part of a call, without its keys.
pub(super) struct Ask {
    pub(super) table: String,
    pub(super) columns: Vec<String>,
    pub(super) row_type: RowType,
    /// The version that the caller wants.
    pub(super) at_version: Option<u64>,
}

impl Ask {
    /// The same for this server itself.
    pub(super) fn lookup<'a>(&'a self, keys: &[u64], at_version: Option<u64>, map: u64) -> Lookup<'a> {
        Lookup {
            table: Cow::Borrowed(&self.table),
            keys: Some(keys.to_vec()),
            texts: None,
            at_version,
            pool: Pool::None,
            offsets: Vec::new(),
            columns: self
                .columns
                .iter()
                .map(|name| Cow::Borrowed(name.as_str()))
                .collect(),
            row_type: self.row_type,
            unique: false,
            map: Some(map),
        }
    }

    /// Writes the entries of a copy.
    pub(super) fn write(&self, keys: &[u64], at_version: Option<u64>, map: u64, out: &mut Encoder<'_>) {
        out.key("table");
        out.text(&self.table);
        out.key("keys");
        out.block(keys);
        if !self.columns.is_empty() {
            out.key("columns");
            out.items(self.columns.iter(), |out, name| out.text(name));
        }
        out.key("type");
        RowType::write(&self.row_type, out);
        if let Some(version) = at_version {
            out.key("at_version");
            out.uint(version);
        }
        out.key("map");
        out.uint(map);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::spread::beside::Beside;
    use millpond_wire_payload::{Encoding, Payload};
    use millpond_wire_schema::features_lookup::Call;
    use std::time::{Duration, Instant};

    #[test]
    fn what_is_sent_is_what_this_server_would_read() {
        let ask = Ask {
            table: "films".to_owned(),
            columns: vec!["a".to_owned(), "b".to_owned()],
            row_type: RowType::F16,
            at_version: None,
        };
        let now = Instant::now();
        let beside = Beside {
            deadline: now + Duration::from_millis(250),
            token: Some("secret".to_owned()),
            trace: Some("00-1".to_owned()),
        };
        let bytes = beside.payload(now, |out| ask.write(&[1, 2, u64::MAX], Some(3), 7, out));
        let payload = Payload::new(Encoding::Msgpack, &bytes).unwrap();
        let (read, reserved) = Call::decode(&payload).unwrap();
        assert_eq!(read, Call::One(ask.lookup(&[1, 2, u64::MAX], Some(3), 7)));
        assert_eq!(reserved.deadline_ms, Some(250));
        assert_eq!(reserved.token.map(|token| token.0), Some("secret"));
        assert_eq!(reserved.trace, Some("00-1"));
    }
}
