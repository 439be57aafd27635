//! The number of one of several processes, as the lines of its log show it.
//!
//! Its invariant: a line stays one line, and what it said it still says.

use crate::config::Format;

/// What each line of a process says of it.
#[derive(Debug)]
pub(super) struct Mark {
    format: Format,
    text: String,
}

impl Mark {
    pub(super) fn new(process: usize, format: Format) -> Mark {
        let text = match format {
            Format::Text => format!(" process={process}"),
            Format::Json => format!("\"process\":{process},"),
        };
        Mark { format, text }
    }

    /// The line with its mark.
    pub(super) fn put(&self, line: &[u8]) -> Vec<u8> {
        let at = match self.format {
            // Behind the other fields, before the end of the line.
            Format::Text => line.len() - usize::from(line.ends_with(b"\n")),
            // The first of the object.
            Format::Json => usize::from(line.starts_with(b"{")),
        };
        let (before, behind) = line.split_at(at);
        [before, self.text.as_bytes(), behind].concat()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn lines_of_one_of_several_processes_say_its_number() {
        let check = |format, line: &str, expected: &str| {
            let marked = Mark::new(3, format).put(line.as_bytes());
            assert_eq!(String::from_utf8(marked).unwrap(), expected);
        };
        check(Format::Text, "INFO ready ms=4\n", "INFO ready ms=4 process=3\n");
        check(
            Format::Json,
            "{\"level\":\"INFO\"}\n",
            "{\"process\":3,\"level\":\"INFO\"}\n",
        );
        check(Format::Text, "cut off", "cut off process=3");
    }
}
