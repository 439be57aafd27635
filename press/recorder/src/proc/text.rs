//! The files of `/proc` about processes and threads, as functions of their text.
//!
//! Its invariant: nothing here reads a file, and text that is not what the kernel writes gives nothing.

/// A tick of `/proc` in nanoseconds: 1/100 s on every Linux that Rust supports.
pub(super) const TICK_NS: u64 = 10_000_000;

/// What `/proc/PID/task/TID/stat` says of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stat<'a> {
    /// Its name, at most 15 bytes.
    pub(super) name: &'a str,
    /// `R`, `S`, `D` and so on.
    pub(super) state: char,
    /// User and system time in nanoseconds, in steps of [`TICK_NS`].
    pub(crate) cpu_ns: u64,
}

/// Reads a line of `stat`. The name may hold spaces and parentheses, so it ends at the last `)`.
pub(crate) fn stat(text: &str) -> Option<Stat<'_>> {
    let (open, close) = (text.find('(')?, text.rfind(')')?);
    let name = text.get(open + 1..close)?;
    let mut fields = text.get(close + 1..)?.split_ascii_whitespace();
    let mut state = fields.next()?.chars();
    let (Some(state), None) = (state.next(), state.next()) else {
        return None;
    };
    let mut times = fields.skip(10);
    let utime: u64 = times.next()?.parse().ok()?;
    let stime: u64 = times.next()?.parse().ok()?;
    Some(Stat {
        name,
        state,
        cpu_ns: utime.checked_add(stime)?.checked_mul(TICK_NS)?,
    })
}

/// Only the state of a line of `stat`, which may be cut off behind it and hold a name in any encoding.
pub(super) fn state(line: &[u8]) -> Option<char> {
    let close = line.iter().rposition(|&byte| byte == b')')?;
    let mut behind = line[close + 1..].iter();
    behind
        .find(|byte| byte.is_ascii_alphabetic())
        .map(|&byte| char::from(byte))
}

/// Nanoseconds on a core and nanoseconds runnable without one, of `schedstat`.
pub(super) fn schedstat(text: &str) -> Option<(u64, u64)> {
    let mut fields = text.split_ascii_whitespace();
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

/// Context switches by blocking and by force, of `status`.
pub(super) fn switches(text: &str) -> Option<(u64, u64)> {
    let field = |name: &str| -> Option<u64> {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().parse().ok()
    };
    Some((
        field("voluntary_ctxt_switches:")?,
        field("nonvoluntary_ctxt_switches:")?,
    ))
}

/// The number of the system call a thread is in; nothing when it runs or waits outside of one.
pub(super) fn syscall(text: &str) -> Option<i64> {
    let number = text.split_ascii_whitespace().next()?.parse().ok()?;
    (number >= 0).then_some(number)
}

/// The bytes of a field in KiB, such as `VmRSS:` of `status` or `Slab:` of `meminfo`.
pub(crate) fn kib(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// The processes of `children`.
pub(super) fn children(text: &str) -> impl Iterator<Item = u32> {
    text.split_ascii_whitespace().filter_map(|pid| pid.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    const STAT: &str =
        "7551 (tokio) x (1)) S 7533 7533 2712 0 -1 4194304 98 0 0 0 25 17 0 0 20 0 1 0 2496973 3133440";

    #[test]
    fn stat_is_read_past_the_name() {
        let expected = Stat {
            name: "tokio) x (1)",
            state: 'S',
            cpu_ns: 420_000_000,
        };
        assert_eq!(stat(STAT), Some(expected));
        assert_eq!(state(STAT.as_bytes()), Some('S'));
        assert_eq!(state(b"77 (\xff) D 1"), Some('D'));
        for garbage in [
            "",
            ")(",
            "1 (a",
            "1 (a) ",
            "1 (a) SS 1",
            "1 (a) S 1 2 3",
            "1 (a) S 1 2 3 4 5 6 7 8 9 0 x y",
        ] {
            assert_eq!(stat(garbage), None, "{garbage}");
        }
        let huge = "1 (a) S 1 2 3 4 5 6 7 8 9 0 18446744073709551615 1";
        assert_eq!(stat(huge), None);
        assert_eq!((state(b""), state(b"1 (a)")), (None, None));
    }

    #[test]
    fn the_other_files_of_a_thread_are_read() {
        assert_eq!(schedstat("152963 2099085 2\n"), Some((152_963, 2_099_085)));
        assert_eq!(schedstat("152963"), None);
        assert_eq!(schedstat("a b c"), None);
        let status =
            "Name:\tcat\nVmRSS:\t 1 kB\nvoluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t7\n";
        assert_eq!(switches(status), Some((12, 7)));
        assert_eq!(switches("voluntary_ctxt_switches:\t12\n"), None);
        assert_eq!(
            switches("voluntary_ctxt_switches:\tx\nnonvoluntary_ctxt_switches:\t7\n"),
            None
        );
        assert_eq!(
            syscall("202 0x7ffd 0x80 0x0 0x0 0x0 0x0 0x7ffd 0x7f47\n"),
            Some(202)
        );
        assert_eq!(syscall("-1 0x7ffd 0x7f47\n"), None);
        assert_eq!(syscall("running\n"), None);
        assert_eq!(syscall(""), None);
        assert_eq!(children("12 345 x 6 ").collect::<Vec<_>>(), [12, 345, 6]);
    }
}
