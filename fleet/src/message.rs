//! What a parent and its processes say to each other: a JSON object a line, over pipes.
//!
//! Both ends are the same program, so nothing here has versions. The invariant: a line that is too long, or is no message,
//! ends the talk; it is never skipped.

use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{BufRead, Read as _, Write};

/// Bytes of a line: the counts of thousands of methods have a few MiB.
const LINE_BYTES_MAX: u64 = 64 << 20;
/// Characters of a line that an error repeats.
const SHOWN_MAX: usize = 80;

/// The next message, or why the line is none; nothing at the end.
pub fn hear<T: DeserializeOwned>(from: &mut impl BufRead) -> Option<Result<T, String>> {
    let mut line = Vec::new();
    from.by_ref()
        .take(LINE_BYTES_MAX)
        .read_until(b'\n', &mut line)
        .ok()?;
    // A line that was cut off has no end.
    let line = line.strip_suffix(b"\n")?;
    Some(serde_json::from_slice(line).map_err(|error| {
        let shown: String = String::from_utf8_lossy(line).chars().take(SHOWN_MAX).collect();
        format!("it said {shown:?}, which is no message: {error}")
    }))
}

/// Says a message.
///
/// # Errors
/// Nobody reads any more.
pub fn say<T: Serialize>(to: &mut impl Write, message: &T) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn what_is_no_message_ends_the_talk() {
        let heard = |line: &str| hear::<Vec<u32>>(&mut line.as_bytes());
        assert_eq!(heard("[1, 2]\n"), Some(Ok(vec![1, 2])));
        for cut_off in ["[1, 2]", ""] {
            assert_eq!(heard(cut_off), None);
        }
        for line in ["no json\n", "\"stop\"\n"] {
            let why = heard(line).unwrap().unwrap_err();
            assert!(why.contains(&format!("{:?}", line.trim())), "{why}");
        }
    }
}
