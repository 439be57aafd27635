//! What leaves a connection, and what is told of it.

#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::*;
use crate::connection::rig::Rig;
use crate::layer::Opened;
use crate::mailbox::{Delivery, What};
use std::io::Read as _;

fn numbered(number: u16) -> Option<(Instant, Mark)> {
    Some((Instant::now(), u32::from(number)))
}

/// The numbers of the answers that have left.
fn numbers(buffers: &Buffers) -> Vec<usize> {
    buffers.written.iter().map(|(mark, _)| *mark as usize).collect()
}

#[test]
fn an_answer_is_told_written_when_it_has_left_whatever_waits_behind_it() {
    const BYTES: usize = 50_000;
    const ANSWERS: u16 = 40;
    let Rig {
        mut connection,
        mut theirs,
        mut buffers,
        ..
    } = Rig::connected();
    for number in 0..ANSWERS {
        connection.link.take(&[7; BYTES], numbered(number));
    }
    let mut chunk = vec![0; 32 << 10];
    loop {
        connection.link.is_writable = true;
        connection.link.send(&mut buffers);
        let left = ANSWERS as usize * BYTES - connection.link.unsent();
        assert!(left > 0);
        let expected: Vec<usize> = (0..left / BYTES).collect();
        assert_eq!(numbers(&buffers), expected, "{left} bytes have left");
        if connection.link.unsent() == 0 {
            return;
        }
        theirs.read_exact(&mut chunk).unwrap();
    }
}

#[test]
fn answers_that_left_to_make_place_for_another_are_told_written_then() {
    let Rig {
        mut connection,
        mut theirs,
        net,
        mut buffers,
    } = Rig::connected();
    const PIECE: usize = 10_000;
    let (mut answers, mut sent) = (0, 0);
    while connection.link.unsent() == 0 {
        connection.link.take(&[7; PIECE], numbered(answers));
        connection.link.send(&mut buffers);
        answers += 1;
        sent = usize::from(answers) * PIECE - connection.link.unsent();
    }
    let told: Vec<usize> = (0..usize::from(answers - 1)).collect();
    assert_eq!(numbers(&buffers), told, "one waits");
    theirs.read_exact(&mut vec![0; sent]).unwrap();
    connection.link.is_writable = true;
    // More than fits beside what waits, and more than the kernel takes at a time.
    let next = Delivery {
        key: connection.link.key,
        bytes: vec![8; net.options.write_buffer_bytes_max],
        what: What::Answer {
            close: false,
            ready: numbered(answers),
        },
    };
    connection.deliver(next, &net, &mut buffers);
    let told: Vec<usize> = (0..usize::from(answers)).collect();
    assert_eq!(numbers(&buffers), told);
    connection.link.send(&mut buffers);
    assert!(connection.link.unsent() > 0 && connection.link.phase == Phase::Open);
    assert_eq!(numbers(&buffers), told, "the last one waits");
}

#[test]
fn a_peer_that_is_always_behind_gets_all_and_nothing_is_kept_that_was_sent() {
    let byte = |at: usize| (at % 251) as u8;
    let Rig {
        mut connection,
        mut theirs,
        mut buffers,
        ..
    } = Rig::connected();
    let (mut written, mut read, mut chunk) = (0, 0, vec![0; 32 << 10]);
    while read < 30 << 20 {
        // Always more than the kernel takes at a time.
        let more = 4 * OUT_BYTES_HIGH - connection.link.unsent();
        connection.link.out.extend((written..written + more).map(byte));
        written += more;
        connection.link.is_writable = true;
        connection.link.send(&mut buffers);
        assert!(connection.link.unsent() > 0, "the peer has caught up");
        let kept = connection.link.out.len();
        assert!(kept <= 9 * OUT_BYTES_HIGH, "{kept} bytes are kept");
        let count = theirs.read(&mut chunk).unwrap();
        let wrong = (chunk[..count].iter().zip(read..)).find(|(found, at)| **found != byte(*at));
        assert_eq!(wrong, None);
        read += count;
    }
}

/// Lets bytes leave that were there at the end of a turn.
#[derive(Default)]
struct AtTheEnd {
    sealed: usize,
}

impl Layer for AtTheEnd {
    fn open(&mut self, _: &mut [u8], _: &mut Vec<u8>, _: &mut Vec<u8>) -> Opened {
        Opened::Open
    }

    fn seal(&mut self, out: &mut Vec<u8>, _: &mut Vec<u8>) -> bool {
        self.sealed = out.len();
        true
    }

    fn sealed(&self, _: usize) -> usize {
        self.sealed
    }

    fn forget_sealed(&mut self, bytes: usize) {
        self.sealed = self.sealed.saturating_sub(bytes);
    }

    fn held_bytes(&self) -> usize {
        0
    }

    fn forget_held(&mut self) {}
}

#[test]
fn answers_of_one_turn_that_fill_the_bound_are_sealed_and_leave() {
    let mut rig = Rig::connected();
    rig.net.options.write_buffer_bytes_max = 64 << 10;
    rig.connection.link.layer = Some(Box::<AtTheEnd>::default());
    rig.connection.link.is_writable = true;
    for round in 0..4 {
        let what = What::Answer {
            close: false,
            ready: None,
        };
        let delivery = Delivery {
            key: rig.connection.link.key,
            bytes: vec![round; 32 << 10],
            what,
        };
        rig.connection.deliver(delivery, &rig.net, &mut rig.buffers);
        assert_eq!(rig.connection.link.phase, Phase::Open, "round {round}");
        rig.read_answers();
    }
}
