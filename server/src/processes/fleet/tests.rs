//! The parent's side alone: the processes are shells that write down what they are told.
#![allow(clippy::unwrap_used)]
use super::*;
use crate::config::Level;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;

/// Waits end here only so that a hang fails.
const WAIT_MAX: Duration = Duration::from_secs(60);

fn told(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("told-{number}"))
}

/// A parent of two processes that are warm, and so told to serve.
fn fleet(folder: &Path) -> Fleet {
    let (events, heard) = sync_channel(64);
    let (first, _) = sync_channel(1);
    let place = folder.to_owned();
    let mut fleet = Fleet::new(Beginning {
        processes: 2,
        drain_max: Duration::ZERO,
        launch: Box::new(move |number| {
            let mut shell = Command::new("sh");
            shell.args(["-c", "exec cat > \"$0\""]).arg(told(&place, number));
            shell
        }),
        events,
        heard,
        state: Arc::new(State::new()),
        admin: Pulses::default(),
        configured: AllowList::of(&["10.0.0.1".to_owned(), "10.0.0.2".to_owned()]),
        first,
        log: None,
    });
    // The second one is started when the first is ready.
    fleet.start(0);
    for number in 0..2 {
        fleet.on(said(number, Said::Warm));
        fleet.on(said(number, Said::Ready));
    }
    fleet
}

fn said(number: usize, said: Said) -> Event {
    Event::Said {
        who: Who { number, life: 1 },
        said,
    }
}

fn asks(number: usize, asked: u64, key: &str, value: &str) -> Event {
    let (key, value) = (key.to_owned(), value.to_owned());
    let keeps = "192.0.2.1".parse().ok();
    said(
        number,
        Said::Tune {
            asked,
            key,
            value,
            keeps,
        },
    )
}

/// What a process was told, when it is so much.
fn orders(folder: &Path, number: usize, count: usize) -> Vec<Order> {
    let until = Instant::now() + WAIT_MAX;
    loop {
        let bytes = std::fs::read(told(folder, number)).unwrap_or_default();
        if bytes.iter().filter(|byte| **byte == b'\n').count() >= count {
            let mut from = bytes.as_slice();
            return std::iter::from_fn(|| super::super::message::hear(&mut from)).collect();
        }
        assert!(Instant::now() < until, "process {number} was told {bytes:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn calls_that_cross_have_one_order_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let mut fleet = fleet(folder.path());
    fleet.on(asks(0, 7, "server.log.level", "debug"));
    fleet.on(asks(1, 9, "server.log.level", "error"));
    let set = |level, asked| set(&Setting::LogLevel(level), asked);
    assert_eq!(
        orders(folder.path(), 0, 3),
        [Order::Serve, set(Level::Debug, Some(7)), set(Level::Error, None)]
    );
    assert_eq!(
        orders(folder.path(), 1, 3),
        [Order::Serve, set(Level::Debug, None), set(Level::Error, Some(9))]
    );
    // One that starts again hears what holds before it may accept, once.
    fleet.on(Event::Gone(Who { number: 1, life: 1 }));
    std::fs::remove_file(told(folder.path(), 1)).unwrap();
    fleet.start(1);
    let who = Who { number: 1, life: 2 };
    let said = Said::Warm;
    fleet.on(Event::Said { who, said });
    assert_eq!(
        orders(folder.path(), 1, 2),
        [set(Level::Error, None), Order::Serve]
    );
}

#[test]
fn changes_of_the_list_that_cross_are_both_made_or_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut fleet = fleet(folder.path());
    let remove = "server.security.ip.whiteList.removeIP";
    fleet.on(asks(0, 1, remove, "10.0.0.1"));
    fleet.on(asks(1, 2, remove, "10.0.0.2"));
    let left = Setting::AllowList(AllowList::of(&["10.0.0.2".to_owned()]));
    assert_eq!(orders(folder.path(), 0, 2)[1..], [set(&left, Some(1))]);
    let told = orders(folder.path(), 1, 3);
    assert_eq!(told[1], set(&left, None));
    let Order::Refuse { asked: 2, problem } = &told[2] else {
        panic!("{told:?}")
    };
    assert!(
        problem.contains(remove) && problem.contains("the last of the list"),
        "{problem}"
    );
}

/// Says how the first process is, and has the parent ask again.
fn says(fleet: &mut Fleet, why_not_ready: Option<&str>) {
    let why_not_ready = why_not_ready.map(str::to_owned);
    fleet.on(said(0, Said::Beats { why_not_ready }));
    fleet.beat();
}

#[test]
fn a_process_that_says_it_is_stuck_is_not_ready_and_killed_if_it_stays_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut fleet = fleet(folder.path());
    assert!(fleet.beginning.state.is_ready());
    fleet.on(said(
        0,
        Said::Beats {
            why_not_ready: Some("net-0 does not turn".into()),
        },
    ));
    assert!(!fleet.beginning.state.is_ready(), "at once");
    says(&mut fleet, None);
    assert!(fleet.beginning.state.is_ready());
    let gone = |fleet: &Fleet| {
        matches!(
            fleet.beginning.heard.try_recv(),
            Ok(Event::Gone(Who { number: 0, life: 1 }))
        )
    };
    let until = Instant::now() + WAIT_MAX;
    while !gone(&fleet) {
        // Two that come together count twice, and step over the limit.
        fleet.on(said(
            0,
            Said::Beats {
                why_not_ready: Some("net-0 does not turn".into()),
            },
        ));
        says(&mut fleet, Some("net-0 does not turn"));
        fleet.on(said(1, Said::Beats { why_not_ready: None }));
        assert!(Instant::now() < until, "it is not killed");
    }
    assert!(fleet.members[1].is_ready());
}

#[test]
fn the_parent_turns_all_the_while_that_processes_drain() {
    let folder = tempfile::tempdir().unwrap();
    let mut fleet = fleet(folder.path());
    fleet.beginning.drain_max = Duration::from_secs(600);
    fleet.stop();
    assert!(fleet.wait() <= BEAT);
}

/// One that hears nothing is killed. One that not even that ends, which here leaves a child that has its output, is left behind.
#[test]
fn a_process_that_does_not_obey_holds_up_no_stop() {
    let folder = tempfile::tempdir().unwrap();
    let mut fleet = fleet(folder.path());
    fleet.beginning.launch = Box::new(|number| {
        let mut shell = Command::new("sh");
        let deaf = ["trap '' TERM; exec sleep 100", "sleep 100 & wait"];
        shell.args(["-c", deaf[number]]);
        shell
    });
    for number in 0..2 {
        fleet.on(Event::Gone(Who { number, life: 1 }));
        fleet.start(number);
    }
    let children = fleet.members.iter().filter_map(|member| member.running.as_ref());
    let groups: Vec<String> = children.map(|running| format!("-{}", running.pid())).collect();
    fleet.beginning.events.send(Event::Stop).unwrap();
    let (done, ended) = sync_channel(1);
    std::thread::spawn(move || done.send(fleet.run()));
    let left = ended.recv_timeout(WAIT_MAX).expect("the stop ends");
    // What the second one left.
    let _ = Command::new("kill").args(["-KILL", "--", &groups[1]]).status();
    let [killed, left] = left.as_slice() else {
        panic!("{left:?}")
    };
    assert!(
        killed.starts_with("process 0 ") && killed.contains("SIGKILL"),
        "{killed}"
    );
    assert!(
        left.starts_with("process 1 (pid ") && left.ends_with(')'),
        "{left}"
    );
}
