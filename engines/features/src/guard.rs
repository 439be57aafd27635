//! What lets a mapping outlive its file being cut: what is gone reads as zeros, and the mapping is marked.
//!
//! Without it the system ends the process (SIGBUS) at the first read of such a page. Not for other faults: those go to
//! the handler that was there before. Invariant: only addresses inside a guarded mapping are ever mapped anew.
#![allow(unsafe_code)] // A signal handler, and the mapping it makes.

use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};
use std::sync::{Mutex, Once, OnceLock, PoisonError};
use std::{mem, ptr};

/// The guard of one mapping.
pub(crate) struct Guard(&'static Watch);

/// A place for a guard. They are never freed, so that the handler can walk them at any time; one that no guard has is used again.
struct Watch {
    /// The mapped addresses; `begin` is 0 while no guard has it.
    begin: AtomicUsize,
    end: AtomicUsize,
    was_cut: AtomicBool,
    next: Option<&'static Watch>,
}

/// The watch that was made last.
static WATCHES: AtomicPtr<Watch> = AtomicPtr::new(ptr::null_mut());
/// Held while a guard takes a watch.
static TAKING: Mutex<()> = Mutex::new(());
/// What the system did with SIGBUS before, and the size of a page.
static BEFORE: OnceLock<(libc::sigaction, usize)> = OnceLock::new();

impl Guard {
    /// Guards a mapping until the guard is dropped, which must happen before it is unmapped.
    pub(crate) fn new(mapping: &[u8]) -> Guard {
        install();
        let _taking = TAKING.lock().unwrap_or_else(PoisonError::into_inner);
        let free = all().find(|watch| watch.begin.load(Ordering::Acquire) == 0);
        let watch = free.unwrap_or_else(|| {
            let watch: &'static Watch = Box::leak(Box::new(Watch {
                begin: AtomicUsize::new(0),
                end: AtomicUsize::new(0),
                was_cut: AtomicBool::new(false),
                next: first(),
            }));
            WATCHES.store(ptr::from_ref(watch).cast_mut(), Ordering::Release);
            watch
        });
        let begin = mapping.as_ptr() as usize;
        watch.was_cut.store(false, Ordering::Relaxed);
        watch.end.store(begin + mapping.len(), Ordering::Release);
        watch.begin.store(begin, Ordering::Release);
        Guard(watch)
    }

    /// Whether a page of the mapping was gone when it was read.
    #[inline(always)]
    pub(crate) fn was_cut(&self) -> bool {
        self.0.was_cut.load(Ordering::Acquire)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.begin.store(0, Ordering::Release);
    }
}

fn first() -> Option<&'static Watch> {
    // SAFETY: null, or a watch that was leaked before its address was stored.
    unsafe { WATCHES.load(Ordering::Acquire).as_ref() }
}

fn all() -> impl Iterator<Item = &'static Watch> {
    std::iter::successors(first(), |watch| watch.next)
}

fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        // SAFETY: both structs are valid for the calls, and all zeros is a valid `sigaction`; the handler does nothing
        // but atomic loads and system calls. What was there before is kept before the handler can run.
        unsafe {
            let mut before: libc::sigaction = mem::zeroed();
            libc::sigaction(libc::SIGBUS, ptr::null(), &mut before);
            let page_bytes = libc::sysconf(libc::_SC_PAGESIZE).max(1) as usize;
            let _ = BEFORE.set((before, page_bytes));
            let mut ours: libc::sigaction = mem::zeroed();
            ours.sa_sigaction = on_bus_error as *const () as usize;
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            libc::sigaction(libc::SIGBUS, &ours, ptr::null_mut());
        }
    });
}

extern "C" fn on_bus_error(signal: libc::c_int, info: *mut libc::siginfo_t, context: *mut libc::c_void) {
    let Some((before, page_bytes)) = BEFORE.get() else {
        return;
    };
    // SAFETY: the system passes a valid `siginfo_t` to a handler with SA_SIGINFO; it has an address where the kernel sent it,
    // which a positive code says.
    let fault = unsafe { ((*info).si_code > 0).then(|| (*info).si_addr() as usize) };
    let Some(address) = fault else {
        return pass_on(before, signal, info, context);
    };
    let hit = all().find_map(|watch| watch.end_of(address).map(|end| (watch, end)));
    if let Some((watch, end)) = hit {
        // Before there are zeros to read: another thread may read them as soon as they are there.
        watch.was_cut.store(true, Ordering::Release);
        if replace(address - address % page_bytes, end) {
            return;
        }
    }
    pass_on(before, signal, info, context);
}

impl Watch {
    /// Where the mapping ends that has the address, if it is this one.
    fn end_of(&self, address: usize) -> Option<usize> {
        let begin = self.begin.load(Ordering::Acquire);
        let end = self.end.load(Ordering::Acquire);
        // A watch that another guard took meanwhile has the end of that one.
        let is_one = begin != 0 && self.begin.load(Ordering::Acquire) == begin;
        (is_one && (begin..end).contains(&address)).then_some(end)
    }
}

/// Puts zeros where pages are gone: from the first that was missed to the end of the mapping, because a file is cut there. One
/// mapping does for all of them; one a page could be more than a process may have.
fn replace(page: usize, end: usize) -> bool {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED;
    // SAFETY: the pages lie in a mapping of ours that is read-only and whose guard is held, so nothing else is mapped
    // there; the system call changes `errno`, which the thread that faulted in a plain read does not look at.
    let mapped = unsafe { libc::mmap(page as *mut _, end - page, libc::PROT_READ, flags, -1, 0) };
    mapped != libc::MAP_FAILED
}

/// Does what would have been done without this handler.
fn pass_on(
    before: &libc::sigaction,
    signal: libc::c_int,
    info: *mut libc::siginfo_t,
    context: *mut libc::c_void,
) {
    match before.sa_sigaction {
        // SAFETY: as above, where the pointer was read before.
        libc::SIG_IGN if unsafe { (*info).si_code } <= 0 => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // SAFETY: both may be called in a handler. A signal that was sent ends the process here; a fault is met again
            // after this handler, and ends it then.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                if (*info).si_code <= 0 {
                    libc::raise(signal);
                }
            }
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            type Handler = extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void);
            // SAFETY: the flag says that the handler before has this type.
            let handler: Handler = unsafe { mem::transmute(handler) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: without the flag a handler has this type.
            let handler: extern "C" fn(libc::c_int) = unsafe { mem::transmute(handler) };
            handler(signal);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::fs::{self, File};

    const PAGES: usize = 3;

    #[test]
    fn pages_that_are_gone_read_as_zeros_and_leave_a_mark() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        // A size that every page size divides.
        let page_bytes = 1 << 16;
        fs::write(&path, vec![7_u8; PAGES * page_bytes]).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        // SAFETY: what becomes of the file is what this test is about.
        let map = |file: &File| unsafe { memmap2::Mmap::map(file).unwrap() };
        let (cut, whole) = (map(&file), map(&file));
        let guard = Guard::new(&cut);
        assert_eq!((cut[PAGES * page_bytes - 1], guard.was_cut()), (7, false));

        file.set_len(page_bytes as u64).unwrap();
        assert_eq!((cut[page_bytes - 1], guard.was_cut()), (7, false));
        assert_eq!((cut[page_bytes], guard.was_cut()), (0, true));
        assert!(cut[page_bytes..].iter().all(|&byte| byte == 0));

        // Another guard takes its own mark, or the one that is free.
        let other = Guard::new(&whole);
        assert!(!other.was_cut());
        assert_eq!((whole[2 * page_bytes], other.was_cut()), (0, true));
        drop(guard);
        assert!(!Guard::new(&cut).was_cut());
    }
}
