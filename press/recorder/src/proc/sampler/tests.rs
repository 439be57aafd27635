//! The sampler on processes and threads of its own.

#![allow(clippy::unwrap_used)]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::sync_channel;

use super::*;
use crate::proc::machine::MachineTicks;

fn burn() {
    let mut sum = 0u64;
    for i in 0..30_000_000u64 {
        sum = sum.wrapping_mul(31).wrapping_add(std::hint::black_box(i));
    }
    std::hint::black_box(sum);
}

#[test]
fn threads_are_measured_and_looked_at_and_kept_when_they_end() {
    let pid = std::process::id();
    let stop = Arc::new(AtomicBool::new(false));
    let (wake, waits) = sync_channel::<()>(1);
    let mut sampler = Sampler::new(vec![], vec![pid], None);
    let burner = std::thread::Builder::new().name("burner".into()).spawn({
        let stop = Arc::clone(&stop);
        move || {
            while !stop.load(Relaxed) {
                burn();
            }
        }
    });
    let waiter = std::thread::Builder::new()
        .name("waiter".into())
        .spawn(move || waits.recv());
    burn();
    sampler.second(1.0);
    let was_seen = |sampler: &Sampler, name: &str, state: &str| {
        let threads = sampler.threads.uses(1.0, usize::MAX);
        let mut of_name = threads.iter().filter(|thread| thread.name == name);
        of_name.any(|thread| thread.states.contains_key(state))
    };
    for _ in 0..100_000 {
        sampler.tick_states();
        std::thread::yield_now();
        if was_seen(&sampler, "burner", "running") && was_seen(&sampler, "waiter", "futex") {
            break;
        }
    }
    burn();
    let second = sampler.second(2.0);
    let client = second.client.unwrap();
    assert!(client.cpu_percent > 0.0 && client.cpu_percent_thread_max > 0.0);
    assert!(client.memory_bytes > 100_000);
    assert_eq!(second.server, None);
    stop.store(true, Relaxed);
    wake.send(()).unwrap();
    burner.unwrap().join().unwrap();
    waiter.unwrap().join().unwrap().unwrap();
    sampler.second(3.0);

    let resources = sampler.finish();
    let marks: Vec<f64> = resources.seconds.iter().map(|second| second.s).collect();
    assert_eq!(marks, [1.0, 2.0, 3.0]);
    let thread = |name: &str| resources.threads.iter().find(|thread| thread.name == name);
    let burner = thread("burner").unwrap();
    assert_eq!((burner.side, burner.pid), (Side::Client, pid));
    assert!(burner.cpu_percent > 0.0);
    assert!(burner.states.contains_key("running"), "{:?}", burner.states);
    let waiter = thread("waiter").unwrap();
    let sum: f64 = waiter.states.values().sum();
    assert!((sum - 1.0).abs() < 1e-9, "{:?}", waiter.states);
    assert!(waiter.states.contains_key("futex"), "{:?}", waiter.states);
}

#[test]
fn the_servers_children_are_the_servers() {
    let pid = std::process::id();
    let mut sampler = Sampler::new(vec![pid], vec![pid], None);
    let mut child = std::process::Command::new("sh")
        .args(["-c", "echo up; exec sleep 600"])
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // It has run: a thread that has not is in no result.
    let mut up = [0; 3];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut up).unwrap();
    let second = sampler.second(1.0);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(second.server.is_some());
    assert_eq!(second.client, None, "a process is of one side");
    sampler.second(2.0);
    let resources = sampler.finish();
    let is_child = |thread: &&crate::ThreadUse| thread.pid == child.id();
    let child = resources.threads.iter().find(is_child).unwrap();
    assert_eq!(child.side, Side::Server);
}

#[test]
fn an_absent_process_gives_nothing() {
    let mut sampler = Sampler::new(vec![1 << 30], vec![], Some(1));
    let second = sampler.second(1.0);
    assert_eq!((second.server, second.client), (None, None));
    assert_eq!(second.accept_queue, None);
    assert_eq!(second.accelerator_percent, None);
    sampler.start();
    let resources = sampler.finish();
    assert_eq!((resources.seconds.len(), resources.threads.len()), (0, 0));
}

#[test]
fn the_foreign_part_is_what_nobody_else_used() {
    let of = |busy, interrupts, steal| Counted {
        ticks: Some(MachineTicks {
            busy,
            interrupts,
            steal,
        }),
        rx_bytes: Some(10 * busy),
        ..Counted::default()
    };
    let check = |server: f64, foreign: f64| {
        let mut second = ResourceSecond {
            server: Some(Used {
                cpu_percent: server,
                ..Used::default()
            }),
            ..ResourceSecond::default()
        };
        fill_machine(&mut second, &of(1_000, 10, 5), &of(1_300, 30, 15), 2.0);
        assert_eq!(second.machine_percent, Some(150.0));
        assert_eq!(second.steal_percent, Some(5.0));
        assert_eq!(second.foreign_percent, Some(foreign));
        assert_eq!(second.rx_bytes, Some(1_500.0));
        assert_eq!(second.tx_bytes, None);
    };
    check(100.0, 40.0);
    check(160.0, 0.0);
    let mut second = ResourceSecond::default();
    fill_machine(&mut second, &Counted::default(), &of(1, 1, 1), 1.0);
    assert_eq!(second, ResourceSecond::default());
}
