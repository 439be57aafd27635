//! `server.numa_node`: one memory node, whose processors and memory all threads of the server use.
//!
//! What a thread is bound to goes to the threads that it starts, so one thread is bound before anything is opened, and starts
//! the rest. Its invariant: a thread is bound to the node's processors and takes its memory from there first, or an error says
//! why not. Memory is taken elsewhere only when the node has none left.
//! Sources: set_mempolicy(2), and Linux' Documentation/ABI/stable/sysfs-devices-node.
#![allow(unsafe_code)]

use crate::Error;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;
use std::path::Path;

/// Where the kernel says what nodes there are.
const NODES: &str = "/sys/devices/system/node";
/// Nodes that a mask has a bit for: as many as any kernel has.
const NODES_MAX: usize = 1024;
const WORD_BITS: usize = libc::c_ulong::BITS as usize;

/// Starts a server, on a thread that is bound to the node where there is one, and so are all that it starts; the caller's stays
/// as it was. Processors that are counted by `start` are those of the node.
///
/// # Errors
/// What `start` says, or why it cannot be bound.
pub(crate) fn start<T: Send>(
    node: Option<&MemoryNode>,
    start: impl FnOnce() -> Result<T, Error> + Send,
) -> Result<T, Error> {
    let Some(node) = node else {
        return start();
    };
    std::thread::scope(|scope| {
        let bound = scope.spawn(|| {
            node.bind()?;
            tracing::info!(number = node.number, "bound to a memory node");
            start()
        });
        bound
            .join()
            .unwrap_or_else(|_| Err(Error::Unfit("the start of the server panicked".into())))
    })
}

/// A node that is there, and which of its processors this process may use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MemoryNode {
    number: usize,
    cpus: Vec<usize>,
}

impl MemoryNode {
    /// A node of one of this machine's processors.
    #[cfg(test)]
    #[allow(clippy::unwrap_used)]
    pub(crate) fn of_one_processor() -> MemoryNode {
        let allowed = sched_getaffinity(None).unwrap();
        let first = (0..CpuSet::MAX_CPU).find(|cpu| allowed.is_set(*cpu));
        MemoryNode {
            number: 0,
            cpus: vec![first.unwrap()],
        }
    }

    /// Looks for the node, and holds `server.cpus` against it.
    ///
    /// # Errors
    /// [`Error::Unfit`] when it is not there, has no processors that this process may use, or lacks one of `cpus`.
    pub(crate) fn find(number: usize, cpus: &[usize]) -> Result<MemoryNode, Error> {
        let allowed = sched_getaffinity(None).map_err(|error| unfit(number, &error.to_string()))?;
        let node = read(Path::new(NODES), number, |cpu| {
            cpu < CpuSet::MAX_CPU && allowed.is_set(cpu)
        })?;
        match cpus.iter().find(|cpu| !node.cpus.contains(cpu)) {
            None => Ok(node),
            Some(cpu) => {
                let own = &node.cpus;
                Err(Error::Unfit(format!(
                    "server.cpus names {cpu}, which is none of memory node {number}'s processors that may be used ({own:?}); name \
                     some of those, or leave out one of server.cpus and server.numa_node"
                )))
            }
        }
    }

    /// Binds the calling thread, and so those that it will start.
    ///
    /// # Errors
    /// [`Error::Unfit`] with the kernel's words.
    pub(crate) fn bind(&self) -> Result<(), Error> {
        let mut set = CpuSet::new();
        self.cpus.iter().for_each(|cpu| set.set(*cpu));
        sched_setaffinity(None, &set)
            .map_err(|error| unfit(self.number, &format!("its processors are refused: {error}")))?;
        prefer_memory_of(self.number).map_err(|error| {
            let hint = match error.raw_os_error() {
                Some(libc::EPERM) => "; a container may need the capability SYS_NICE",
                _ => "",
            };
            unfit(self.number, &format!("its memory is refused: {error}{hint}"))
        })
    }
}

fn unfit(number: usize, problem: &str) -> Error {
    Error::Unfit(format!(
        "server.numa_node is {number}: {problem}; `lscpu` lists the nodes, and without the key threads and memory are anywhere"
    ))
}

/// The node as the files below `nodes` describe it.
fn read(nodes: &Path, number: usize, is_allowed: impl Fn(usize) -> bool) -> Result<MemoryNode, Error> {
    let there = std::fs::read_to_string(nodes.join("online")).map_err(|error| {
        unfit(
            number,
            &format!(
                "this kernel tells of no memory nodes ({}: {error})",
                nodes.display()
            ),
        )
    })?;
    if number >= NODES_MAX || !parse_list(&there).is_some_and(|there| there.contains(&number)) {
        let there = there.trim();
        return Err(unfit(
            number,
            &format!("this machine has no such memory node, but {there}"),
        ));
    }
    let file = nodes.join(format!("node{number}/cpulist"));
    let list = std::fs::read_to_string(&file)
        .map_err(|error| unfit(number, &format!("{} cannot be read: {error}", file.display())))?;
    let all = parse_list(&list).ok_or_else(|| {
        unfit(
            number,
            &format!("{} holds {list:?}, no list of processors", file.display()),
        )
    })?;
    let cpus: Vec<usize> = all.iter().copied().filter(|cpu| is_allowed(*cpu)).collect();
    match (all.is_empty(), cpus.is_empty()) {
        (true, _) => Err(unfit(number, "it has memory and no processors")),
        (false, true) => Err(unfit(
            number,
            &format!("this process may use none of its processors ({})", list.trim()),
        )),
        _ => Ok(MemoryNode { number, cpus }),
    }
}

/// The kernel's lists: "0-3,8,10-11"; empty for none.
pub(crate) fn parse_list(text: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for part in text.trim().split(',').filter(|part| !part.is_empty()) {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (first.parse::<usize>().ok()?, last.parse::<usize>().ok()?);
        // No machine has more; a longer list is none.
        if last < first || last > 1 << 16 {
            return None;
        }
        numbers.extend(first..=last);
    }
    Some(numbers)
}

/// Takes the calling thread's new memory from that node as long as it has any.
fn prefer_memory_of(number: usize) -> io::Result<()> {
    let mut mask: [libc::c_ulong; NODES_MAX / WORD_BITS] = [0; NODES_MAX / WORD_BITS];
    let word = mask
        .get_mut(number / WORD_BITS)
        .ok_or(io::ErrorKind::InvalidInput)?;
    *word |= 1 << (number % WORD_BITS);
    // SAFETY: the kernel reads `NODES_MAX` bits of the mask, which lives until the call is over, and keeps none of it; the
    // policy changes where new pages come from and touches no memory that is there. It takes one bit off the number it is told.
    let done = unsafe {
        libc::syscall(
            libc::SYS_set_mempolicy,
            libc::MPOL_PREFERRED,
            mask.as_ptr(),
            NODES_MAX + 1,
        )
    };
    match done {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn the_kernels_lists_are_understood() {
        let check = |text: &str, expected: Option<&[usize]>| {
            assert_eq!(parse_list(text).as_deref(), expected, "{text:?}");
        };
        check("0-3,8,10-11\n", Some(&[0, 1, 2, 3, 8, 10, 11]));
        check("0\n", Some(&[0]));
        check("\n", Some(&[]));
        check("3-1", None);
        check("0-99999999999", None);
        check("a", None);
    }

    /// A machine of two nodes with two processors each and one without any, of which 0, 1 and 2 may be used.
    #[test]
    fn what_does_not_fit_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let nodes = folder.path();
        let check = |number, expected: Result<&[usize], &str>| {
            let found = read(nodes, number, |cpu| cpu < 3).map_err(|error| error.to_string());
            match (found, expected) {
                (Ok(node), Ok(cpus)) => assert_eq!(node.cpus, cpus),
                (Err(error), Err(words)) => assert!(error.contains(words), "{error}"),
                (found, _) => panic!("{number}: {found:?}"),
            }
        };
        check(0, Err("tells of no memory nodes"));
        std::fs::write(nodes.join("online"), "0-2,4\n").unwrap();
        for (number, list) in [(0, "0-1\n"), (1, "2-3\n"), (2, "\n"), (4, "4-5\n")] {
            std::fs::create_dir(nodes.join(format!("node{number}"))).unwrap();
            std::fs::write(nodes.join(format!("node{number}/cpulist")), list).unwrap();
        }
        check(0, Ok(&[0, 1]));
        check(1, Ok(&[2]));
        check(2, Err("no processors"));
        check(3, Err("no such memory node, but 0-2,4"));
        check(4, Err("none of its processors (4-5)"));
        check(usize::MAX, Err("no such memory node"));
    }
}
