//! What a scan asks for, brought to one half-open range of keys.
//!
//! Not the walk itself (`index`). Invariant: a key lies in the range exactly if it has the prefix,
//! is not below `start` and is below `end`.

use crate::list::Kind;

/// A scan in order, or from the end. An absent bound does not limit; all bounds given hold together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scan {
    /// The first key that may be visited. The cursor of a scan in order goes here.
    pub start: Option<Vec<u8>>,
    /// The first key that may no longer be visited.
    pub end: Option<Vec<u8>>,
    /// Only keys that begin with these bytes.
    pub prefix: Option<Vec<u8>>,
    /// The most entries visited. 0 visits none, and the cursor is the first key that matches.
    pub limit: usize,
    /// From the last key to the first. A cursor goes on by `end`: [`Scan::end_behind`].
    pub reverse: bool,
    /// The most bytes of keys and values visited, beside one entry that may have more.
    pub bytes_max: usize,
    /// Whether values are left out: they are empty then.
    pub keys_only: bool,
}

/// All keys, and none of them visited: set a limit.
impl Default for Scan {
    fn default() -> Scan {
        Scan {
            start: None,
            end: None,
            prefix: None,
            limit: 0,
            reverse: false,
            bytes_max: usize::MAX,
            keys_only: false,
        }
    }
}

impl Scan {
    /// The `end` of a scan from the end that goes on at a cursor.
    pub fn end_behind(cursor: &[u8]) -> Vec<u8> {
        [cursor, &[0]].concat()
    }
}

/// What a scan visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry<'a> {
    /// The key.
    pub key: &'a [u8],
    /// Its value; empty with `keys_only`, and of a list.
    pub value: &'a [u8],
    /// What the key holds.
    pub kind: Kind,
}

/// Keys from `start` up to, not including, `end`; never start > end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Range {
    pub start: Vec<u8>,
    pub end: Option<Vec<u8>>,
}

impl Range {
    /// The range a scan covers; `None` where no key can match.
    pub fn of(scan: &Scan) -> Option<Range> {
        let prefix = scan.prefix.as_deref().unwrap_or_default();
        let start = scan.start.as_deref().unwrap_or_default().max(prefix);
        let end = match (scan.end.clone(), prefix_end(prefix)) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        if end.as_deref().is_some_and(|end| start >= end) {
            return None;
        }
        Some(Range {
            start: start.to_vec(),
            end,
        })
    }
}

/// The lowest key above every key with this prefix; `None` where there is none.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != u8::MAX)?;
    let mut end = prefix.get(..=last)?.to_vec();
    *end.last_mut()? += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    /// `start end prefix`, `-` for none, against `start..end`.
    fn check(input: [&[u8]; 3], expected: Option<(&[u8], Option<&[u8]>)>) {
        let [start, end, prefix] = input.map(|bytes| (bytes != b"-").then(|| bytes.to_vec()));
        let found = Range::of(&Scan {
            start,
            end,
            prefix,
            limit: 1,
            ..Scan::default()
        });
        let expected = expected.map(|(start, end)| Range {
            start: start.to_vec(),
            end: end.map(<[u8]>::to_vec),
        });
        assert_eq!(found, expected, "{input:?}");
    }

    #[test]
    fn bounds_hold_together() {
        check([b"-", b"-", b"-"], Some((b"", None)));
        check([b"b", b"d", b"-"], Some((b"b", Some(b"d"))));
        check([b"-", b"-", b"u/"], Some((b"u/", Some(b"u0"))));
        check([b"u/5", b"-", b"u/"], Some((b"u/5", Some(b"u0"))));
        check([b"a", b"z", b"u/"], Some((b"u/", Some(b"u0"))));
        check([b"a", b"u/7", b"u/"], Some((b"u/", Some(b"u/7"))));
        check([b"-", b"-", b"a\xff\xff"], Some((b"a\xff\xff", Some(b"b"))));
        check([b"-", b"-", b"\xff\xff"], Some((b"\xff\xff", None)));
        check([b"-", b"-", b""], Some((b"", None)));
    }

    #[test]
    fn bounds_that_exclude_each_other_match_nothing() {
        check([b"d", b"b", b"-"], None);
        check([b"b", b"b", b"-"], None);
        check([b"-", b"", b"-"], None);
        check([b"v", b"-", b"u/"], None);
        check([b"-", b"a", b"u/"], None);
    }
}
