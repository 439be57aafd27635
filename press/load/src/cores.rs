//! The cores that a thread, and what it starts, may use.

use std::io;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// A set of cores, as the kernel keeps it.
#[derive(Debug, Clone, Copy)]
pub struct Cores(CpuSet);

impl Cores {
    /// The cores the calling thread may use.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn current() -> io::Result<Cores> {
        Ok(Cores(sched_getaffinity(None)?))
    }

    /// These cores.
    ///
    /// # Errors
    /// One of them cannot exist; the message names it.
    pub fn of(numbers: &[usize]) -> io::Result<Cores> {
        let mut cores = CpuSet::new();
        for &number in numbers {
            if number >= CpuSet::MAX_CPU {
                return Err(io::Error::other(format!("there is no core {number}")));
            }
            cores.set(number);
        }
        Ok(Cores(cores))
    }

    /// Binds the calling thread, and what it starts, to these cores.
    ///
    /// # Errors
    /// The system refuses, such as for an empty set.
    pub fn bind(&self) -> io::Result<()> {
        Ok(sched_setaffinity(None, &self.0)?)
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
}
