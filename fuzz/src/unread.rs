//! Bytes that were sent and that the other end has not read yet.
//! Its invariant: 0 means that the other end has taken all of them, so that what is sent next is read by itself.
#![allow(unsafe_code)]

use std::os::fd::AsRawFd as _;
use std::os::unix::net::UnixStream;

/// How much memory of the kernel they take (`SIOCOUTQ` of unix(7)); 0 where it does not say.
pub(crate) fn unread(stream: &UnixStream) -> usize {
    let mut bytes: libc::c_int = 0;
    // SAFETY: the file is open for as long as `stream` is borrowed, and the request writes one int to the pointer given.
    let asked = unsafe { libc::ioctl(stream.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if asked == 0 {
        usize::try_from(bytes).unwrap_or(0)
    } else {
        0
    }
}
