//! The socket between a server and its worker: messages whole, and descriptors beside them.
//!
//! It waits no longer than it is told to. Its invariant: the end of the other side is seen as an end, whatever that side did before.

use crate::inherited::Listed;
use crate::message::{MESSAGE_BYTES_MAX, Message};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recv, recvmsg, send, sendmsg, socketpair,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// One end.
pub(crate) struct Channel {
    /// Goes before the socket does.
    _listed: Listed,
    socket: OwnedFd,
    /// What a message is read into.
    buffer: Vec<u8>,
}

/// What there was to hear.
#[derive(Debug)]
pub(crate) enum Heard {
    /// This.
    Message(Message),
    /// Bytes that are no message, and why.
    Nonsense(String),
    /// The other side is gone.
    End,
    /// The other side is gone, and has not read what was sent last.
    Unread,
    /// Nothing, until then.
    Nothing,
}

/// Two ends; the second is for the other process.
pub(crate) fn pair() -> io::Result<(Channel, OwnedFd)> {
    let flags = SocketFlags::CLOEXEC;
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
    Ok((Channel::of(ours), theirs))
}

impl Channel {
    pub(crate) fn of(socket: OwnedFd) -> Channel {
        Channel {
            _listed: Listed::new(socket.as_raw_fd()),
            socket,
            buffer: vec![0; MESSAGE_BYTES_MAX],
        }
    }

    /// Sends a message, without waiting for a reader; there is space for several.
    pub(crate) fn send(&self, message: &Message) -> io::Result<()> {
        let bytes = fitting(message)?;
        send(&self.socket, &bytes, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)?;
        Ok(())
    }

    /// Sends a message with a descriptor.
    pub(crate) fn send_with(&self, message: &Message, file: BorrowedFd<'_>) -> io::Result<()> {
        let bytes = fitting(message)?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = SendAncillaryBuffer::new(&mut space);
        let files = [file];
        if !beside.push(SendAncillaryMessage::ScmRights(&files)) {
            return Err(io::Error::other("no space for a descriptor"));
        }
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(&self.socket, &[IoSlice::new(&bytes)], &mut beside, flags)?;
        Ok(())
    }

    /// What there is to hear, waiting until then for it. Descriptors beside it are closed.
    pub(crate) fn hear(&mut self, until: Instant) -> io::Result<Heard> {
        loop {
            if !is_readable(self.socket.as_fd(), until)? {
                return Ok(Heard::Nothing);
            }
            let flags = RecvFlags::TRUNC | RecvFlags::DONTWAIT;
            match recv(&self.socket, self.buffer.as_mut_slice(), flags) {
                Ok((_, bytes)) => return Ok(self.heard(bytes)),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Ok(Heard::Unread),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// What there is to hear, and a descriptor beside it, waiting for ever.
    pub(crate) fn hear_with(&mut self) -> io::Result<(Heard, Option<OwnedFd>)> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            let mut into = [IoSliceMut::new(&mut self.buffer)];
            let flags = RecvFlags::TRUNC | RecvFlags::CMSG_CLOEXEC;
            match recvmsg(&self.socket, &mut into, &mut beside, flags) {
                Ok(received) => break received,
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Ok((Heard::Unread, None)),
                Err(error) => return Err(error.into()),
            }
        };
        let file = beside.drain().find_map(|beside| match beside {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        Ok((self.heard(received.bytes), file))
    }

    /// What so many bytes mean; there are none at the end.
    fn heard(&self, bytes: usize) -> Heard {
        match self.buffer.get(..bytes) {
            Some([]) => Heard::End,
            Some(bytes) => Message::decode(bytes).map_or_else(Heard::Nonsense, Heard::Message),
            None => Heard::Nonsense(format!(
                "a message of {bytes} bytes, where {MESSAGE_BYTES_MAX} are the most"
            )),
        }
    }
}

fn fitting(message: &Message) -> io::Result<Vec<u8>> {
    let bytes = message.encode();
    if bytes.len() > MESSAGE_BYTES_MAX {
        return Err(io::Error::other(format!(
            "a message of {} bytes, where {MESSAGE_BYTES_MAX} are the most",
            bytes.len()
        )));
    }
    Ok(bytes)
}

fn is_readable(socket: BorrowedFd<'_>, until: Instant) -> io::Result<bool> {
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let timeout = timespec(left);
        let mut socket = [PollFd::new(&socket, PollFlags::IN)];
        match poll(&mut socket, Some(&timeout)) {
            Ok(0) if left.is_zero() => return Ok(false),
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
}

/// A wait for `poll`; one that is too long for it is a year.
pub(crate) fn timespec(wait: Duration) -> Timespec {
    const YEAR: Duration = Duration::from_secs(365 * 24 * 3600);
    let wait = wait.min(YEAR);
    Timespec {
        tv_sec: i64::try_from(wait.as_secs()).unwrap_or_default(),
        tv_nsec: i64::from(wait.subsec_nanos()),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::message::Way;

    #[test]
    fn messages_arrive_whole_and_with_their_descriptor() {
        let (mut ours, theirs) = pair().unwrap();
        let mut theirs = Channel::of(theirs);
        let memory = Message::Memory {
            way: Way::Inputs,
            bytes: 7,
        };
        let needs = Message::Needs { number: 1, bytes: 2 };
        ours.send_with(&memory, ours.socket.as_fd()).unwrap();
        ours.send(&needs).unwrap();
        let (heard, file) = theirs.hear_with().unwrap();
        assert!(matches!(heard, Heard::Message(heard) if heard == memory) && file.is_some());
        let (heard, file) = theirs.hear_with().unwrap();
        assert!(matches!(heard, Heard::Message(heard) if heard == needs) && file.is_none());
        assert!(matches!(ours.hear(Instant::now()).unwrap(), Heard::Nothing));
        send(&theirs.socket, b"nonsense", SendFlags::empty()).unwrap();
        let until = Instant::now() + Duration::from_secs(60);
        assert!(matches!(ours.hear(until).unwrap(), Heard::Nonsense(_)));
        drop(theirs);
        assert!(matches!(ours.hear(until).unwrap(), Heard::End));
        assert!(ours.send(&needs).is_err());
        // What was not read is told from what was.
        let (mut ours, theirs) = pair().unwrap();
        ours.send(&needs).unwrap();
        drop(theirs);
        assert!(matches!(ours.hear(until).unwrap(), Heard::Unread));
    }

    #[test]
    fn a_message_that_is_too_long_is_nonsense() {
        let (mut ours, theirs) = pair().unwrap();
        send(&theirs, &vec![1; MESSAGE_BYTES_MAX + 1], SendFlags::empty()).unwrap();
        let heard = ours.hear(Instant::now() + Duration::from_secs(60)).unwrap();
        assert!(matches!(heard, Heard::Nonsense(why) if why.contains("65537 bytes")));
    }
}
