//! What a lookup of few keys will read, fetched while the call before it is served.
//!
//! Calls of one key that stand behind each other would each wait for memory; a call of many keys overlaps its own waits. Only a
//! hint: the payload is read as far as it has the form that clients send, and checked when its turn comes. Its invariant: nothing is
//! written, and no memory is read but the payload's and that of tables that are resident.

use millpond_catalog::Catalog;

/// Keys of a call that are fetched; more of them overlap by themselves.
const KEYS_MAX: usize = 4;
/// The first byte of a text shorter than 32 bytes is this and its length; of a map of fewer than 16 entries likewise.
const TEXT: u8 = 0xa0;
const MAP: u8 = 0x80;
/// The byte before the length of a block shorter than 256 bytes.
const BLOCK: u8 = 0xc4;

/// Begins to fetch the rows of the payload's first keys.
pub(crate) fn ahead(catalog: &Catalog, payload: &[u8]) {
    if let Some((name, keys)) = asked(payload)
        && let Some(table) = catalog.tables.get(name)
    {
        let (keys, _) = keys.as_chunks();
        for key in keys.iter().take(KEYS_MAX) {
            table.prefetch(u64::from_le_bytes(*key));
        }
    }
}

/// The table and the block of keys, where the map's entries up to both are of short texts and blocks.
fn asked(payload: &[u8]) -> Option<(&str, &[u8])> {
    let (&map, mut rest) = payload.split_first()?;
    let (mut table, mut keys) = (None, None);
    for _ in 0..map.checked_sub(MAP).filter(|entries| *entries < 16)? {
        let (name, value);
        (name, rest) = short(rest)?;
        (value, rest) = short(rest)?;
        match name {
            b"table" => table = str::from_utf8(value).ok(),
            b"keys" => keys = Some(value),
            _ => {}
        }
        if let (Some(table), Some(keys)) = (table, keys) {
            return Some((table, keys));
        }
    }
    None
}

/// A text or a block at the front, and what follows it.
#[inline]
fn short(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    match bytes {
        [BLOCK, len, rest @ ..] => rest.split_at_checked(usize::from(*len)),
        [first, rest @ ..] if first & 0xe0 == TEXT => rest.split_at_checked(usize::from(first & 0x1f)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millpond_wire_payload::{Encoder, Encoding};

    #[test]
    fn the_table_and_the_keys_are_found_in_what_clients_send() {
        let check = |write: &dyn Fn(&mut Encoder<'_>), expected: Option<(&str, &[u8])>| {
            let mut bytes = Vec::new();
            write(&mut Encoder::new(&mut bytes, Encoding::Msgpack, false));
            assert_eq!(asked(&bytes), expected);
            for len in 0..bytes.len() {
                // A payload that is cut has no keys, or all of them.
                let found = asked(bytes.get(..len).unwrap_or_default());
                assert!(found.is_none() || found == expected);
            }
        };
        let keys = [1, 0, 0, 0, 0, 0, 0, 0];
        let expected = Some(("items", &keys[..]));
        check(
            &|out| {
                out.map(|map| {
                    map.key("table");
                    map.text("items");
                    map.key("keys");
                    map.block(&[1_u64]);
                });
            },
            expected,
        );
        check(
            &|out| {
                out.map(|map| {
                    map.key("keys");
                    map.block(&[1_u64]);
                    map.key("type");
                    map.text("f16");
                    map.key("table");
                    map.text("items");
                    map.key("unique");
                    map.bool(true);
                });
            },
            expected,
        );
        check(
            &|out| {
                out.map(|map| {
                    map.key("unique");
                    map.bool(true);
                    map.key("table");
                    map.text("items");
                    map.key("keys");
                    map.block(&[1_u64]);
                });
            },
            None,
        );
    }
}
