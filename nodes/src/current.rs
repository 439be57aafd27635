//! The map that new calls begin with. A call loads it once and keeps that `Arc` to its end, so it never sees two maps. The
//! invariant: the version never falls, and a version stands for one map.

use crate::{BucketMap, Error};
use arc_swap::ArcSwap;
use std::sync::{Arc, Mutex, PoisonError};

/// The map in use.
#[derive(Debug)]
pub struct CurrentMap {
    map: ArcSwap<BucketMap>,
    /// One change at a time: each is judged by the map that it would replace.
    changing: Mutex<()>,
}

impl CurrentMap {
    /// Begins with a map.
    pub fn new(map: Arc<BucketMap>) -> CurrentMap {
        CurrentMap {
            map: ArcSwap::new(map),
            changing: Mutex::new(()),
        }
    }

    /// The map for a call that begins now.
    pub fn load(&self) -> Arc<BucketMap> {
        self.map.load_full()
    }

    /// Changes to a map of a higher version, and says whether it did: the same map again changes nothing.
    ///
    /// # Errors
    /// The map is older than the one in use, or differs from it under the same version. The one in use stays.
    pub fn offer(&self, map: Arc<BucketMap>) -> Result<bool, Error> {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let changes = map.follows(&self.map.load())?;
        if changes {
            self.map.store(map);
        }
        Ok(changes)
    }
}

impl BucketMap {
    /// Whether this map may take the place of `current`, and differs from it.
    ///
    /// # Errors
    /// It is older, or it differs under the same version.
    pub fn follows(&self, current: &BucketMap) -> Result<bool, Error> {
        match self.version().cmp(&current.version()) {
            std::cmp::Ordering::Greater => Ok(true),
            std::cmp::Ordering::Equal if self == current => Ok(false),
            std::cmp::Ordering::Equal => Err(Error::SameVersion {
                version: self.version(),
            }),
            std::cmp::Ordering::Less => Err(Error::Older {
                current: current.version(),
                offered: self.version(),
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn map(version: u64, buckets: u32) -> Arc<BucketMap> {
        let text = format!(
            "version = {version}\nbuckets = {buckets}\nnodes = [{{ name = \"a\", addresses = [\"a:1\"] }}]"
        );
        Arc::new(BucketMap::from_toml(&text).unwrap())
    }

    #[test]
    fn only_a_higher_version_changes_the_map_and_calls_keep_theirs() {
        let current = CurrentMap::new(map(2, 4));
        let call = current.load();
        let check = |offered, expected, version| {
            assert_eq!(current.offer(offered), expected);
            assert_eq!(current.load().version(), version);
        };
        check(map(2, 4), Ok(false), 2);
        check(map(2, 8), Err(Error::SameVersion { version: 2 }), 2);
        check(
            map(1, 4),
            Err(Error::Older {
                current: 2,
                offered: 1,
            }),
            2,
        );
        check(map(5, 8), Ok(true), 5);
        assert_eq!((call.version(), call.buckets()), (2, 4));
    }
}
