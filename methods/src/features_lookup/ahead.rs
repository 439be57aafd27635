//! What lookups of few keys will read, fetched while the call before them is served; and the form that clients send.
//!
//! Calls of one key that stand behind each other would each wait for memory; a call of many keys overlaps its own waits. Only a
//! hint: the payload is read as far as it has the form that clients send, and checked when its turn comes. Its invariant: nothing is
//! written, and no memory is read but the payload's and that of tables that are resident.

use millpond_catalog::Catalog;

/// Keys of a call that are fetched, more of which overlap by themselves; and of all calls.
const KEYS_MAX: usize = 4;
const ALL_KEYS_MAX: usize = 32;
/// The first byte of a text shorter than 32 bytes is this and its length; of a map of fewer than 16 entries likewise.
const TEXT: u8 = 0xa0;
const MAP: u8 = 0x80;
/// The byte before the length of a block shorter than 256 bytes; of one shorter than 65,536.
const BLOCK: u8 = 0xc4;
const BLOCK16: u8 = 0xc5;

/// Begins to fetch the rows of the payloads' first keys, in the table of the first of them.
pub(crate) fn ahead(catalog: &Catalog, payloads: &[&[u8]]) {
    let mut asked = payloads.iter().map_while(|payload| asked(payload)).peekable();
    let Some((name, _)) = asked.peek().copied() else {
        return;
    };
    let table = str::from_utf8(name).ok();
    let Some(table) = table.and_then(|name| catalog.tables.get(name)) else {
        return;
    };
    let (mut places, mut count) = ([0; ALL_KEYS_MAX], 0);
    for (_, keys) in asked.filter(|(other, _)| *other == name) {
        let keys = keys.as_chunks().0.iter().take(KEYS_MAX);
        for (place, key) in places.iter_mut().skip(count).zip(keys) {
            *place = u64::from_le_bytes(*key);
            count += 1;
        }
    }
    table.prefetch(&places[..count]);
}

/// The table and the block of keys, where the map's entries up to both are of short texts and blocks.
pub(super) fn asked(payload: &[u8]) -> Option<(&[u8], &[u8])> {
    let (&map, mut rest) = payload.split_first()?;
    let (mut table, mut keys) = (None, None);
    for _ in 0..map.checked_sub(MAP).filter(|entries| *entries < 16)? {
        let (name, value);
        (name, rest) = short(rest)?;
        (value, rest) = short(rest)?;
        match name {
            b"table" => table = Some(value),
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
        [BLOCK16, high, low, rest @ ..] => rest.split_at_checked(u16::from_be_bytes([*high, *low]).into()),
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
            let expected = expected.map(|(table, keys)| (table.as_bytes(), keys));
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
