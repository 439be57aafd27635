//! What a key holds, bytes or a list, as the model and the store say it.

use millpond_engines_ordered::{Kind, Store};

/// What a key holds; of a list the newest first.
#[derive(Debug, Clone, PartialEq)]
pub enum Held {
    Bytes(Vec<u8>),
    List(Vec<Vec<u8>>),
}

impl Held {
    /// What a scan shows of it.
    pub fn scanned(&self) -> Vec<u8> {
        match self {
            Held::Bytes(value) => value.clone(),
            Held::List(_) => vec![],
        }
    }
}

/// The plainest reading of a span of indices, of which both are meant and those below 0 count from the end.
pub fn between(items: &[Vec<u8>], start: i64, stop: i64) -> Vec<Vec<u8>> {
    let count = items.len() as i64;
    let index = |index: i64| if index < 0 { index + count } else { index };
    let meant = (0..count).filter(|at| (index(start)..=index(stop)).contains(at));
    meant.map(|at| items[at as usize].clone()).collect()
}

/// What a key of the store holds, and its version.
pub fn held(store: &Store, key: &[u8]) -> Option<(Held, u64)> {
    let found = store.get(key)?;
    let held = match found.kind {
        Kind::Bytes => Held::Bytes(found.value),
        Kind::List => Held::List(store.items(key, 0, -1, usize::MAX).unwrap()),
    };
    Some((held, found.version))
}
