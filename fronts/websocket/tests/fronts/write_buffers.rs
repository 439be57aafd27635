//! Peers that do not read: all of them together hold no more than they may, and those who read are served as ever.

use crate::hostile::Large;
use crate::probe::{Probe, Transport, answers, connect, find, loopback, name, options, quest, started};
use millpond_calls::{Call, MethodId, Reply, Service, Ticket};
use millpond_net::Counters;
use millpond_net::Timeouts;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const BOUND: usize = 4 << 20;
/// Answers that a net thread makes in one turn before it looks: those that one connection may keep, and one more.
const TURN_BYTES: u64 = 2 * ((256 << 10) + 20_000);

fn start(service: impl Service, write_buffers_total_bytes_max: usize) -> Transport {
    let mut options = options(2, Timeouts::default());
    options.write_buffers_total_bytes_max = write_buffers_total_bytes_max;
    options.native.in_flight_max = 64;
    started(vec![loopback()], options, service)
}

fn counted(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

/// Waits until nothing is kept any more.
fn wait_until_nothing_is_kept(counters: &Counters) {
    while counted(&counters.write_buffer_bytes) > 0 {
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn peers_that_read_nothing_keep_no_more_than_all_may() {
    let service = Large::default();
    let transport = start(service, BOUND);
    let counters = transport.counters();
    let mut reader = connect(&transport);
    // What the kernel takes for a peer is megabytes; the calls of each are for more than that.
    let calls: Vec<u8> = (0..2000).flat_map(|seq| quest("large", seq, &[0x80])).collect();
    let silent: Vec<TcpStream> = (0..60)
        .map(|seq| {
            let stream = connect(&transport);
            socket2::SockRef::from(&stream)
                .set_recv_buffer_size(4096)
                .unwrap();
            let mut writer = stream.try_clone().unwrap();
            let calls = calls.clone();
            // It may be closed meanwhile.
            std::thread::spawn(move || drop(writer.write_all(&calls)));
            reader.write_all(&quest("large", seq, &[0x80])).unwrap();
            assert_eq!(answers(&mut reader, 1), [(0, seq)]);
            let kept = counted(&counters.write_buffer_bytes);
            assert!(kept <= BOUND as u64 + TURN_BYTES, "{kept} bytes are kept");
            stream
        })
        .collect();
    while counted(&counters.write_buffers_cut) == 0 {
        let kept = counted(&counters.write_buffer_bytes);
        assert!(kept <= BOUND as u64 + TURN_BYTES, "{kept} bytes are kept");
        std::thread::sleep(Duration::from_millis(1));
    }
    reader.write_all(&quest("large", 1, &[0x80])).unwrap();
    assert_eq!(answers(&mut reader, 1), [(0, 1)]);
    assert_eq!(counted(&counters.overfull_readers), 0);
    drop(silent);
    wait_until_nothing_is_kept(&counters);
    transport.close(Duration::from_secs(5));
}

/// Answers with so many bytes.
fn answer(ticket: Ticket, bytes: usize) {
    ticket.ok(|out| {
        out.map(|out| {
            out.key("bytes");
            out.bytes(&vec![7; bytes]);
        });
    });
}

#[test]
fn the_connection_that_keeps_most_gives_way_on_whichever_thread_it_is() {
    const LARGE: usize = 22 << 20;
    let (service, tickets) = Probe::new();
    let transport = start(service, 32 << 20);
    let counters = transport.counters();
    let ask = || {
        let mut stream = connect(&transport);
        stream.write_all(&quest("later", 1, &[0x80])).unwrap();
        (stream, tickets.recv_timeout(Duration::from_secs(20)).unwrap())
    };
    for round in 1..=4 {
        // More than the kernel takes for a peer that does not read.
        let (silent, ticket) = ask();
        let gone = ticket.gone();
        answer(ticket, LARGE);
        silent.peek(&mut [0]).unwrap();
        while counted(&counters.write_buffer_bytes) < LARGE as u64 {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(Duration::from_millis(50));
        // With this one more is kept than leaves room for others. Connections go to the net threads in turn, so that those two
        // are on different ones in some rounds and, after an idle one, on the same in others.
        let idle = (round % 2 == 0).then(|| connect(&transport));
        let (mut reader, ticket) = ask();
        answer(ticket, 7 << 20);
        while counted(&counters.write_buffers_cut) < round {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(answers(&mut reader, 1), [(0, 1)], "round {round}");
        assert!(gone.load(Ordering::Relaxed), "round {round}");
        let ended = (&silent)
            .read_to_end(&mut Vec::new())
            .map_err(|error| error.kind());
        assert_eq!(
            ended,
            Err(ErrorKind::ConnectionReset),
            "the kernel keeps nothing of it either"
        );
        drop((silent, reader, idle));
        wait_until_nothing_is_kept(&counters);
        while counted(&counters.live) > 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    transport.close(Duration::from_secs(5));
}

#[test]
fn an_answer_that_finds_no_place_takes_its_connection_with_it() {
    let (service, tickets) = Probe::new();
    let transport = start(service, BOUND);
    let counters = transport.counters();
    let mut stream = connect(&transport);
    stream.write_all(&quest("later", 1, &[0x80])).unwrap();
    let ticket = tickets.recv_timeout(Duration::from_secs(20)).unwrap();
    let gone = ticket.gone();
    answer(ticket, BOUND + 1);
    let mut rest = Vec::new();
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.is_empty() && gone.load(Ordering::Relaxed));
    assert_eq!(counted(&counters.write_buffers_cut), 1);
    wait_until_nothing_is_kept(&counters);
    transport.close(Duration::from_secs(5));
}

/// "block" keeps its net thread until the test lets go, "later" gives its ticket to the test; everything else is answered.
#[derive(Clone)]
struct Blocking {
    entered: SyncSender<()>,
    gate: Arc<Mutex<Receiver<()>>>,
    tickets: SyncSender<Ticket>,
}

impl Service for Blocking {
    fn find(&self, name: &str) -> Option<MethodId> {
        find(name)
    }

    fn call(&self, call: &Call<'_>, reply: Reply<'_>) {
        match name(call.method.unwrap()) {
            "block" => {
                self.entered.send(()).unwrap();
                let _ = self.gate.lock().unwrap().recv();
                reply.ok(|out| out.map(|_| ()));
            }
            "later" => self.tickets.send(reply.later()).unwrap(),
            _ => reply.ok(|out| out.map(|_| ())),
        }
    }
}

/// What is on its way to peers that read is counted for a moment, and is nobody's fault who is a little behind.
#[test]
fn who_is_a_little_behind_stays_whatever_is_on_its_way_to_others() {
    const ANSWER: usize = 512 << 10;
    let ((entered, inside), (go, gate), (tickets, asked)) =
        (sync_channel(8), sync_channel(8), sync_channel(64));
    let gate = Arc::new(Mutex::new(gate));
    let mut options = options(1, Timeouts::default());
    options.write_buffers_total_bytes_max = 32 << 20;
    options.native.in_flight_max = 64;
    let service = Blocking {
        entered,
        gate,
        tickets,
    };
    let transport = started(vec![loopback()], options, service);
    let counters = transport.counters();
    let ask = |stream: &mut TcpStream| {
        stream.write_all(&quest("later", 1, &[0x80])).unwrap();
        asked.recv_timeout(Duration::from_secs(20)).unwrap()
    };
    let mut other = connect(&transport);
    let mut behind = connect(&transport);
    socket2::SockRef::from(&behind)
        .set_recv_buffer_size(4096)
        .unwrap();
    let gone = loop {
        let ticket = ask(&mut behind);
        let gone = ticket.gone();
        answer(ticket, 50_000);
        // By the second of them it had its turn.
        for seq in 0..2 {
            other.write_all(&quest("echo", seq, &[0x80])).unwrap();
            assert_eq!(answers(&mut other, 1), [(0, seq)]);
        }
        if counted(&counters.write_buffer_bytes) > 0 {
            break gone;
        }
    };
    let mut readers: Vec<TcpStream> = (0..58).map(|_| connect(&transport)).collect();
    let tickets: Vec<Ticket> = readers.iter_mut().map(ask).collect();
    other.write_all(&quest("block", 3, &[0x80])).unwrap();
    inside.recv_timeout(Duration::from_secs(20)).unwrap();
    tickets.into_iter().for_each(|ticket| answer(ticket, ANSWER));
    let bytes = counted(&counters.write_buffer_bytes);
    assert!(
        bytes > 28 << 20,
        "{bytes} bytes would not have made anybody give way"
    );
    go.send(()).unwrap();
    for reader in &mut readers {
        assert_eq!(answers(reader, 1), [(0, 1)]);
    }
    assert_eq!(answers(&mut other, 1), [(0, 3)]);
    assert_eq!(counted(&counters.write_buffers_cut), 0);
    assert!(!gone.load(Ordering::Relaxed));
    transport.close(Duration::ZERO);
}
