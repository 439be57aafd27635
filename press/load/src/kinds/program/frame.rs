//! A frame that a client program writes, as docs/formats/press-program.md draws it.
//!
//! Its invariant: every byte is accounted for, whatever the program wrote.

/// What a frame begins with: its mark, and its version.
const MARK: [u8; 4] = *b"mpp1";
const HEADER_BYTES: usize = 16;
/// The longest body.
pub(super) const BODY_BYTES_MAX: usize = 65_536;

/// What a program says.
#[derive(Debug, PartialEq)]
pub(super) enum Frame<'b> {
    Ready,
    /// Calls one after the other that were answered rightly: the begin of the first, then the end of each.
    Calls {
        caller: usize,
        times: Times<'b>,
    },
    /// One call that failed, or whose answer was wrong.
    Failed {
        caller: usize,
        times: Times<'b>,
        is_wrong: bool,
        why: String,
    },
    Done,
    Broken(String),
}

/// Moments in nanoseconds of the system's monotonic clock; at least two.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Times<'b>(&'b [[u8; 8]]);

impl Times<'_> {
    pub(super) fn iter(&self) -> impl Iterator<Item = u64> {
        self.0.iter().map(|bytes| u64::from_le_bytes(*bytes))
    }
}

impl Frame<'_> {
    pub(super) fn name(&self) -> &'static str {
        match self {
            Frame::Ready => "ready",
            Frame::Calls { .. } => "calls",
            Frame::Failed { is_wrong: false, .. } => "failed",
            Frame::Failed { .. } => "wrong",
            Frame::Done => "done",
            Frame::Broken(_) => "broken",
        }
    }
}

/// The frame at the front of `bytes` and its length; nothing where it is not complete.
pub(super) fn read(bytes: &[u8]) -> Result<Option<(Frame<'_>, usize)>, String> {
    let begin = &bytes[..bytes.len().min(MARK.len())];
    if !MARK.starts_with(begin) {
        let printed = &bytes[..bytes.len().min(32)];
        let printed = String::from_utf8_lossy(printed);
        return Err(format!(
            "wrote {printed:?} to standard output, expected a frame; what it prints belongs on standard error"
        ));
    }
    let Some((header, rest)) = bytes.split_at_checked(HEADER_BYTES) else {
        return Ok(None);
    };
    let (words, _) = header.as_chunks::<4>();
    let word = |at: usize| words.get(at).map_or(0, |bytes| u32::from_le_bytes(*bytes));
    let (kind, caller, length) = (word(1), word(2) as usize, word(3) as usize);
    if length > BODY_BYTES_MAX {
        return Err(format!(
            "wrote a frame of {length} bytes, expected at most {BODY_BYTES_MAX}"
        ));
    }
    let Some(body) = rest.get(..length) else {
        return Ok(None);
    };
    let misshapen =
        || format!("wrote a frame of kind {kind} with {length} bytes, which is none of protocol 1");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let frame = match kind {
        1 if body.is_empty() => Frame::Ready,
        2 => {
            let (times, rest) = body.as_chunks::<8>();
            if times.len() < 2 || !rest.is_empty() {
                return Err(misshapen());
            }
            Frame::Calls {
                caller,
                times: Times(times),
            }
        }
        3 | 4 => {
            let (times, why) = body.split_at_checked(16).ok_or_else(misshapen)?;
            Frame::Failed {
                caller,
                times: Times(times.as_chunks::<8>().0),
                is_wrong: kind == 4,
                why: text(why),
            }
        }
        5 if body.is_empty() => Frame::Done,
        6 => Frame::Broken(text(body)),
        _ => return Err(misshapen()),
    };
    Ok(Some((frame, HEADER_BYTES + length)))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use proptest::prelude::*;

    fn written(kind: u32, caller: u32, body: &[u8]) -> Vec<u8> {
        let words = [kind, caller, body.len() as u32];
        let words = words.iter().flat_map(|word| word.to_le_bytes());
        MARK.into_iter()
            .chain(words)
            .chain(body.iter().copied())
            .collect()
    }

    #[test]
    fn frames_are_read_wherever_they_are_cut() {
        let times: Vec<u8> = [5u64, 7, 11].iter().flat_map(|time| time.to_le_bytes()).collect();
        let bytes = written(2, 3, &times);
        for end in 0..bytes.len() {
            assert_eq!(read(&bytes[..end]), Ok(None), "{end}");
        }
        let more = [&bytes[..], b"mpp1"].concat();
        let (frame, length) = read(&more).unwrap().unwrap();
        let Frame::Calls { caller: 3, times } = frame else {
            panic!("{frame:?}");
        };
        assert_eq!(
            (times.iter().collect::<Vec<_>>(), length),
            (vec![5, 7, 11], bytes.len())
        );
        let why = [&times_of_one()[..], b"no \xffroute"].concat();
        let failed = written(4, 0, &why);
        let (frame, _) = read(&failed).unwrap().unwrap();
        assert!(
            matches!(&frame, Frame::Failed { is_wrong: true, why, .. } if why == "no \u{fffd}route"),
            "{frame:?}"
        );
        assert_eq!(frame.name(), "wrong");
    }

    fn times_of_one() -> [u8; 16] {
        [1; 16]
    }

    #[test]
    fn what_is_no_frame_is_told() {
        let check = |bytes: &[u8], words: &str| {
            let said = read(bytes).unwrap_err();
            assert!(said.contains(words), "{said}");
        };
        check(b"Hello, world\n", "\"Hello, world\\n\" to standard output");
        check(b"mpx", "standard error");
        check(&written(9, 0, b""), "kind 9");
        check(&written(1, 0, b"x"), "kind 1");
        check(&written(2, 0, &[0; 8]), "kind 2");
        check(&written(2, 0, &[0; 17]), "kind 2");
        check(&written(3, 0, &[0; 15]), "kind 3");
        let mut long = written(6, 0, b"");
        long[12..16].copy_from_slice(&u32::MAX.to_le_bytes());
        check(&long, "4294967295 bytes, expected at most 65536");
    }

    proptest! {
        #[test]
        fn garbage_makes_nothing_panic(garbage in prop::collection::vec(any::<u8>(), 0..200), kind in 0u32..9) {
            let _ = read(&garbage);
            let _ = read(&written(kind, 1, &garbage));
        }
    }
}
