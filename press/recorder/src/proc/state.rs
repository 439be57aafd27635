//! What a thread does, from its state and the system call it is in.
//!
//! Its invariant: every look at a thread gives exactly one activity.

/// What a thread was doing when looked at; the names are those of [`crate::ThreadUse::states`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Activity {
    /// On a core, or runnable.
    Running,
    /// Waiting for a disk or a page.
    Disk,
    /// Waiting for another thread.
    Futex,
    /// Waiting for time to pass.
    Sleep,
    /// Waiting for events.
    Poll,
    /// Waiting for written data to be safe.
    Fsync,
    /// Waiting for a connection.
    Accept,
    /// Waiting for bytes.
    Receive,
    /// Waiting to be rid of bytes.
    Send,
    /// Anything else, and what may not be looked at.
    Other,
}

impl Activity {
    /// All of them; each at the index of its number.
    pub(super) const ALL: [Activity; 10] = [
        Activity::Running,
        Activity::Disk,
        Activity::Futex,
        Activity::Sleep,
        Activity::Poll,
        Activity::Fsync,
        Activity::Accept,
        Activity::Receive,
        Activity::Send,
        Activity::Other,
    ];

    /// The name used in results.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Activity::Running => "running",
            Activity::Disk => "disk",
            Activity::Futex => "futex",
            Activity::Sleep => "sleep",
            Activity::Poll => "poll",
            Activity::Fsync => "fsync",
            Activity::Accept => "accept",
            Activity::Receive => "receive",
            Activity::Send => "send",
            Activity::Other => "other",
        }
    }

    /// The activity of a thread in `state` (as `stat` has it) within a system call, if it is in one that may be read.
    pub(super) fn of(state: char, syscall: Option<i64>) -> Activity {
        let call = syscall.map_or(Activity::Other, of_syscall);
        match state {
            'R' => Activity::Running,
            'D' if call == Activity::Fsync => Activity::Fsync,
            'D' => Activity::Disk,
            'S' => call,
            _ => Activity::Other,
        }
    }
}

fn of_syscall(number: i64) -> Activity {
    match number {
        libc::SYS_futex | libc::SYS_futex_waitv => Activity::Futex,
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => Activity::Sleep,
        libc::SYS_epoll_pwait
        | libc::SYS_epoll_pwait2
        | libc::SYS_ppoll
        | libc::SYS_pselect6
        | libc::SYS_io_getevents
        | libc::SYS_io_uring_enter => Activity::Poll,
        libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_sync_file_range => Activity::Fsync,
        libc::SYS_accept | libc::SYS_accept4 => Activity::Accept,
        libc::SYS_recvfrom | libc::SYS_recvmsg | libc::SYS_recvmmsg | libc::SYS_read | libc::SYS_readv => {
            Activity::Receive
        }
        libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg | libc::SYS_write | libc::SYS_writev => {
            Activity::Send
        }
        other => of_older_syscall(other),
    }
}

/// Calls that only the older architecture still has.
#[cfg(target_arch = "x86_64")]
fn of_older_syscall(number: i64) -> Activity {
    match number {
        libc::SYS_epoll_wait | libc::SYS_poll | libc::SYS_select => Activity::Poll,
        _ => Activity::Other,
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn of_older_syscall(_number: i64) -> Activity {
    Activity::Other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_indices_and_names_differ() {
        let mut names: Vec<&str> = Activity::ALL.iter().map(|activity| activity.as_str()).collect();
        for (index, activity) in Activity::ALL.into_iter().enumerate() {
            assert_eq!(activity as usize, index);
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), Activity::ALL.len());
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn states_and_calls_make_activities() {
        let check = |state: char, call: Option<i64>, expected: Activity| {
            assert_eq!(Activity::of(state, call), expected, "{state} {call:?}");
        };
        check('R', Some(202), Activity::Running);
        check('S', Some(202), Activity::Futex);
        check('S', Some(35), Activity::Sleep);
        check('S', Some(230), Activity::Sleep);
        for poll in [232, 281, 441, 7, 271, 23, 270] {
            check('S', Some(poll), Activity::Poll);
        }
        for accept in [43, 288] {
            check('S', Some(accept), Activity::Accept);
        }
        for receive in [45, 47, 299, 0] {
            check('S', Some(receive), Activity::Receive);
        }
        for send in [44, 46, 307, 1] {
            check('S', Some(send), Activity::Send);
        }
        check('D', Some(1), Activity::Disk);
        check('D', None, Activity::Disk);
        for fsync in [74, 75, 277] {
            check('D', Some(fsync), Activity::Fsync);
            check('S', Some(fsync), Activity::Fsync);
        }
        check('S', None, Activity::Other);
        check('S', Some(100_000), Activity::Other);
        check('t', Some(202), Activity::Other);
    }
}
