//! A net thread that stands still: it is found, gets no more connections, and holds up no stop.

use crate::probe::{Transport, answers, connect, find, loopback, name, options, quest, started};
use millpond_calls::{Call, MethodId, Reply, Service};
use millpond_net::Timeouts;
use std::io::Write;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Waits end here only so that a hang fails.
const WAIT_MAX: Duration = Duration::from_secs(60);

/// "block" keeps its net thread until the test lets go; everything else is answered with the thread's name.
#[derive(Clone)]
struct Blocking {
    entered: SyncSender<String>,
    gate: Arc<Mutex<Receiver<()>>>,
}

impl Service for Blocking {
    fn find(&self, name: &str) -> Option<MethodId> {
        find(name)
    }

    fn call(&self, call: &Call<'_>, reply: Reply<'_>) {
        if name(call.method.unwrap()) == "block" {
            let name = std::thread::current().name().unwrap().to_owned();
            self.entered.send(name).unwrap();
            let _ = self.gate.lock().unwrap().recv();
        }
        reply.ok(|out| out.map(|_| ()));
    }
}

/// The transport, the name of the thread that now stands still, and what lets it go.
fn stuck(threads: usize) -> (Transport, String, SyncSender<()>) {
    let ((entered, names), (go, gate)) = (sync_channel(8), sync_channel(8));
    let gate = Arc::new(Mutex::new(gate));
    let service = Blocking { entered, gate };
    let options = options(threads, Timeouts::default());
    let transport = started(vec![loopback()], options, service);
    let mut stream = connect(&transport);
    stream.write_all(&quest("block", 1, &[0x80])).unwrap();
    let name = names.recv().unwrap();
    // The thread counts the connection for as long as it stands, whatever its peer does.
    drop(stream);
    (transport, name, go)
}

/// Asks until the threads that do not turn are these.
fn wait_for(transport: &Transport, expected: &[&str]) {
    let (pulses, until) = (transport.pulses(), Instant::now() + WAIT_MAX);
    loop {
        let stuck: Vec<String> = pulses.ask().into_iter().map(|found| found.thread).collect();
        if stuck == expected {
            return;
        }
        assert!(Instant::now() < until, "{stuck:?} are stuck, not {expected:?}");
        // A machine that is busy gives the others time to answer.
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_thread_that_does_not_turn_is_found_and_gets_no_connection() {
    let (transport, name, go) = stuck(2);
    wait_for(&transport, &[&name]);
    // By their numbers alone the stuck one would get every other of them.
    for seq in 0..10 {
        let mut stream = connect(&transport);
        stream.write_all(&quest("echo", seq, &[0x80])).unwrap();
        assert_eq!(answers(&mut stream, 1), [(0, seq)]);
        std::mem::forget(stream);
    }
    go.send(()).unwrap();
    wait_for(&transport, &[]);
    assert_eq!(transport.close(Duration::ZERO), [""; 0]);
}

#[test]
fn idle_threads_turn_when_they_are_asked() {
    let (transport, _, go) = stuck(3);
    go.send(()).unwrap();
    wait_for(&transport, &[]);
    for _ in 0..10 {
        wait_for(&transport, &[]);
    }
    assert_eq!(transport.close(Duration::ZERO), [""; 0]);
}

#[test]
fn a_stop_does_not_wait_for_a_thread_that_stands_still() {
    let (transport, name, go) = stuck(2);
    let began = Instant::now();
    assert_eq!(transport.close(Duration::from_millis(10)), [name]);
    // Not a measurement: without a limit it would never come back.
    assert!(began.elapsed() < WAIT_MAX);
    drop(go);
}
