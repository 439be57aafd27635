//! What a thread does, from its state and the system call it is in.
//!
//! Its invariant: every look at a thread gives exactly one activity.

/// What a thread in `state` (as `stat` has it) does within a system call, if it is in one that may be read; in the words of
/// [`crate::ThreadUse::states`].
pub(super) fn activity(state: char, syscall: Option<i64>) -> &'static str {
    let call = syscall.map_or("other", of_syscall);
    match state {
        'R' => "running",
        'D' if call == "fsync" => call,
        'D' => "disk",
        'S' => call,
        _ => "other",
    }
}

fn of_syscall(number: i64) -> &'static str {
    match number {
        libc::SYS_futex | libc::SYS_futex_waitv => "futex",
        libc::SYS_nanosleep | libc::SYS_clock_nanosleep => "sleep",
        libc::SYS_epoll_pwait
        | libc::SYS_epoll_pwait2
        | libc::SYS_ppoll
        | libc::SYS_pselect6
        | libc::SYS_io_getevents
        | libc::SYS_io_uring_enter => "poll",
        libc::SYS_fsync | libc::SYS_fdatasync | libc::SYS_sync_file_range => "fsync",
        libc::SYS_accept | libc::SYS_accept4 => "accept",
        libc::SYS_recvfrom | libc::SYS_recvmsg | libc::SYS_recvmmsg | libc::SYS_read | libc::SYS_readv => {
            "receive"
        }
        libc::SYS_sendto | libc::SYS_sendmsg | libc::SYS_sendmmsg | libc::SYS_write | libc::SYS_writev => {
            "send"
        }
        other => of_older_syscall(other),
    }
}

/// Calls that only the older architecture still has.
#[cfg(target_arch = "x86_64")]
fn of_older_syscall(number: i64) -> &'static str {
    match number {
        libc::SYS_epoll_wait | libc::SYS_poll | libc::SYS_select => "poll",
        _ => "other",
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn of_older_syscall(_number: i64) -> &'static str {
    "other"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn states_and_calls_make_activities() {
        let check = |state: char, call: Option<i64>, expected: &str| {
            assert_eq!(activity(state, call), expected, "{state} {call:?}");
        };
        check('R', Some(202), "running");
        check('S', Some(202), "futex");
        check('S', Some(35), "sleep");
        check('S', Some(230), "sleep");
        for poll in [232, 281, 441, 7, 271, 23, 270] {
            check('S', Some(poll), "poll");
        }
        for accept in [43, 288] {
            check('S', Some(accept), "accept");
        }
        for receive in [45, 47, 299, 0] {
            check('S', Some(receive), "receive");
        }
        for send in [44, 46, 307, 1] {
            check('S', Some(send), "send");
        }
        check('D', Some(1), "disk");
        check('D', None, "disk");
        for fsync in [74, 75, 277] {
            check('D', Some(fsync), "fsync");
            check('S', Some(fsync), "fsync");
        }
        check('S', None, "other");
        check('S', Some(100_000), "other");
        check('t', Some(202), "other");
    }
}
