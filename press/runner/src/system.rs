//! The few calls of the system that std does not offer: open files, cores, signals, its clock as a number.
//!
//! Its invariant: nothing here touches memory but local variables of its own.
#![allow(unsafe_code)] // Each is one call of the C library on plain values.

use std::io;

/// Raises the soft limit of open files to `needed` if the hard limit allows; gives the limit that now holds.
pub(crate) fn raise_open_files(needed: u64) -> io::Result<u64> {
    let mut limit = libc::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    // SAFETY: `limit` is a valid place for one rlimit.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } != 0 {
        return Err(io::Error::last_os_error());
    }
    if limit.rlim_cur < needed && limit.rlim_cur < limit.rlim_max {
        let raised = libc::rlimit {
            rlim_cur: limit.rlim_max.min(needed),
            rlim_max: limit.rlim_max,
        };
        // SAFETY: `raised` is a whole rlimit that outlives the call.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raised) } == 0 {
            return Ok(raised.rlim_cur);
        }
    }
    Ok(limit.rlim_cur)
}

/// A set of cores, as the kernel keeps it.
#[derive(Clone, Copy)]
pub(crate) struct Cores(libc::cpu_set_t);

impl Cores {
    /// The cores the calling thread may use.
    pub(crate) fn current() -> io::Result<Cores> {
        let mut cores = Cores::none();
        // SAFETY: the set is a valid place of the size that is given; 0 is the calling thread.
        let rc = unsafe { libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut cores.0) };
        if rc == 0 {
            Ok(cores)
        } else {
            Err(io::Error::last_os_error())
        }
    }

    /// These cores, or an error that names the one that does not exist.
    pub(crate) fn of(numbers: &[usize]) -> io::Result<Cores> {
        let mut cores = Cores::none();
        for &number in numbers {
            if number >= libc::CPU_SETSIZE as usize {
                return Err(io::Error::other(format!("there is no core {number}")));
            }
            // SAFETY: the number lies inside the set, as just checked.
            unsafe { libc::CPU_SET(number, &mut cores.0) };
        }
        Ok(cores)
    }

    fn none() -> Cores {
        // SAFETY: a cpu_set_t is a plain array of bits, for which zero is the empty set.
        Cores(unsafe { std::mem::zeroed() })
    }

    /// Binds the calling thread, and what it starts, to these cores.
    pub(crate) fn bind(&self) -> io::Result<()> {
        // SAFETY: the set is whole and of the size that is given; 0 is the calling thread.
        let rc = unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &self.0) };
        if rc == 0 {
            Ok(())
        } else {
            Err(io::Error::last_os_error())
        }
    }
}

/// The system's own clock, the one behind `Instant`, in nanoseconds: a number that means the same in every process.
pub(crate) fn monotonic_ns() -> io::Result<u64> {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid place for one timespec.
    if unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let part = |number| u64::try_from(number).map_err(io::Error::other);
    Ok(part(time.tv_sec)? * 1_000_000_000 + part(time.tv_nsec)?)
}

/// Lets the calling thread run only when others leave a core free (nice 19). A system that refuses leaves it as it is.
pub(crate) fn step_back() {
    // SAFETY: plain values; on Linux 0 is the calling thread alone.
    unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
}

/// Asks the processes of the group that `pid` leads to end (SIGTERM).
pub(crate) fn terminate(pid: u32) -> io::Result<()> {
    signal_group(pid, libc::SIGTERM)
}

/// Ends whatever is left of the group that a process led.
pub(crate) fn kill_group(pid: u32) {
    // Mostly nobody is left, which is an error to the kernel.
    let _ = signal_group(pid, libc::SIGKILL);
}

fn signal_group(pid: u32, signal: libc::c_int) -> io::Result<()> {
    let pid = libc::pid_t::try_from(pid).map_err(io::Error::other)?;
    // SAFETY: plain values; an absent group is an error return.
    if unsafe { libc::kill(-pid, signal) } == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn a_thread_is_bound_and_its_children_with_it() {
        std::thread::spawn(|| {
            let before = Cores::current().unwrap();
            before.bind().unwrap();
            assert!(Cores::of(&[1 << 40]).is_err());
            // Core 1023 exists on no machine this runs on; the kernel refuses an empty choice.
            assert!(Cores::of(&[1023]).unwrap().bind().is_err());
        })
        .join()
        .unwrap();
    }

    #[test]
    fn the_limit_of_open_files_is_known() {
        assert!(raise_open_files(16).unwrap() >= 16);
    }
}
