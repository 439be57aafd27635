//! The parent's side alone: the processes are shells that write down what they are told.
#![allow(clippy::unwrap_used)]
use super::*;
use crate::config::Level;
use crate::processes::Supervisor;
use crate::switch::{Plan, Step, busy};
use millpond_catalog::Serving;
use millpond_engines_features::{Schema, write::Writer};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;

/// Waits end here only so that a hang fails.
const WAIT_MAX: Duration = Duration::from_secs(60);

fn told(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("told-{number}"))
}

/// A parent of two processes that are warm, and so told to serve.
fn parent(folder: &Path) -> Parent {
    let (events, heard) = sync_channel(64);
    let (first, _) = sync_channel(1);
    let place = folder.to_owned();
    let mut parent = Parent::new(
        2,
        Beginning {
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
            first: Some(first),
            log: None,
            stores: None,
        },
    );
    // The second one is started when the first is ready.
    parent.start(0);
    for number in 0..2 {
        parent.on(said(number, warm()));
        parent.on(said(number, Report::Ready));
    }
    parent
}

fn said(number: usize, said: Report) -> Event {
    Event::Heard(Who { number, life: 1 }, Heard::Said(said))
}

fn asks(number: usize, asked: u64, key: &str, value: &str) -> Event {
    let (key, value) = (key.to_owned(), value.to_owned());
    let keeps = "192.0.2.1".parse().ok();
    said(
        number,
        Report::Tune {
            asked,
            key,
            value,
            keeps,
        },
    )
}

/// The table `films` with that version.
fn serving(version: u64, before: Option<u64>) -> BTreeMap<String, Serving> {
    let serving = Serving {
        version,
        before,
        highest: version,
    };
    [("films".to_owned(), serving)].into()
}

fn warm() -> Report {
    let serving = serving(1, None);
    Report::Warm { serving }
}

fn serve(version: u64) -> Order {
    let serving = serving(version, None);
    Order::Serve { serving }
}

/// What a process was told after what it is to open, when it is so much.
fn orders(folder: &Path, number: usize, count: usize) -> Vec<Order> {
    let mut orders = all_orders(folder, number, count + 1);
    let first = orders.remove(0);
    assert!(matches!(first, Order::Begin { .. }), "{first:?}");
    orders
}

fn all_orders(folder: &Path, number: usize, count: usize) -> Vec<Order> {
    let until = Instant::now() + WAIT_MAX;
    loop {
        let bytes = std::fs::read(told(folder, number)).unwrap_or_default();
        if bytes.iter().filter(|byte| **byte == b'\n').count() >= count {
            let mut from = bytes.as_slice();
            return std::iter::from_fn(|| millpond_fleet::hear(&mut from)?.ok()).collect();
        }
        assert!(Instant::now() < until, "process {number} was told {bytes:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn calls_that_cross_have_one_order_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let mut parent = parent(folder.path());
    parent.on(asks(0, 7, "server.log.level", "debug"));
    parent.on(asks(1, 9, "server.log.level", "error"));
    let set = |level, asked| set(&Setting::LogLevel(level), asked);
    assert_eq!(
        orders(folder.path(), 0, 3),
        [serve(1), set(Level::Debug, Some(7)), set(Level::Error, None)]
    );
    assert_eq!(
        orders(folder.path(), 1, 3),
        [serve(1), set(Level::Debug, None), set(Level::Error, Some(9))]
    );
    // One that starts again hears what holds before it may accept, once.
    parent.on(Event::Heard(Who { number: 1, life: 1 }, Heard::Gone(None)));
    std::fs::remove_file(told(folder.path(), 1)).unwrap();
    parent.start(1);
    parent.on(Event::Heard(Who { number: 1, life: 2 }, Heard::Said(warm())));
    assert_eq!(orders(folder.path(), 1, 2), [set(Level::Error, None), serve(1)]);
}

/// The folder may have newer versions by then, and what the first process opened it need not be.
#[test]
fn a_process_that_starts_later_opens_what_the_first_opened() {
    let folder = tempfile::tempdir().unwrap();
    let mut parent = parent(folder.path());
    let nothing = Order::Begin {
        serving: BTreeMap::new(),
        stores: None,
    };
    assert_eq!(
        all_orders(folder.path(), 0, 2),
        [nothing, serve(1)],
        "the first decides"
    );
    parent.on(Event::Heard(Who { number: 0, life: 1 }, Heard::Gone(None)));
    std::fs::remove_file(told(folder.path(), 0)).unwrap();
    parent.start(0);
    let again = Order::Begin {
        serving: serving(1, None),
        stores: None,
    };
    assert_eq!(all_orders(folder.path(), 0, 1), [again]);
}

#[test]
fn changes_of_the_list_that_cross_are_both_made_or_one_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut parent = parent(folder.path());
    let remove = "server.security.ip.whiteList.removeIP";
    parent.on(asks(0, 1, remove, "10.0.0.1"));
    parent.on(asks(1, 2, remove, "10.0.0.2"));
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
fn says(parent: &mut Parent, why_not_ready: Option<&str>) {
    let why_not_ready = why_not_ready.map(str::to_owned);
    parent.on(said(0, Report::Beats { why_not_ready }));
    parent.beat();
}

#[test]
fn a_process_that_says_it_is_stuck_is_not_ready_and_killed_if_it_stays_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut parent = parent(folder.path());
    assert!(parent.beginning.state.is_ready());
    parent.on(said(
        0,
        Report::Beats {
            why_not_ready: Some("net-0 does not turn".into()),
        },
    ));
    assert!(!parent.beginning.state.is_ready(), "at once");
    says(&mut parent, None);
    assert!(parent.beginning.state.is_ready());
    let gone = |parent: &Parent| {
        matches!(
            parent.beginning.heard.try_recv(),
            Ok(Event::Heard(Who { number: 0, life: 1 }, Heard::Gone(None)))
        )
    };
    let until = Instant::now() + WAIT_MAX;
    while !gone(&parent) {
        // Two that come together count twice, and step over the limit.
        parent.on(said(
            0,
            Report::Beats {
                why_not_ready: Some("net-0 does not turn".into()),
            },
        ));
        says(&mut parent, Some("net-0 does not turn"));
        parent.on(said(1, Report::Beats { why_not_ready: None }));
        assert!(Instant::now() < until, "it is not killed");
    }
    assert!(parent.members[1].life.is_ready());
}

#[test]
fn the_parent_turns_all_the_while_that_processes_drain() {
    let folder = tempfile::tempdir().unwrap();
    let mut parent = parent(folder.path());
    parent.beginning.drain_max = Duration::from_secs(600);
    parent.stop();
    assert!(parent.wait() <= BEAT);
}

/// Shells in the place of the processes; once they run.
fn run_shells(parent: &mut Parent, scripts: [String; 2]) {
    parent.beginning.launch = Box::new(move |number| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &scripts[number]]);
        shell
    });
    for number in 0..2 {
        parent.on(Event::Heard(Who { number, life: 1 }, Heard::Gone(None)));
        parent.start(number);
    }
}

fn read_by(path: &Path, what: &str) -> String {
    let until = Instant::now() + WAIT_MAX;
    loop {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        if text.ends_with('\n') {
            return text.trim().to_owned();
        }
        assert!(Instant::now() < until, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// One that hears nothing is killed. One that not even that ends, which here leaves a child that has its output, is left behind.
#[test]
fn a_process_that_does_not_obey_holds_up_no_stop() {
    let folder = tempfile::tempdir().unwrap();
    let mut parent = parent(folder.path());
    let (deafened, child) = (folder.path().join("deafened"), folder.path().join("child"));
    let deaf = "trap '' TERM;";
    run_shells(
        &mut parent,
        [
            format!("{deaf} echo so > {}; exec sleep 100", deafened.display()),
            format!(
                "{deaf} setsid sh -c 'echo $$ > {}; exec sleep 100'",
                child.display()
            ),
        ],
    );
    read_by(&deafened, "the first one hears no SIGTERM");
    let child = read_by(&child, "the second one has a child");
    // A parent begins with a start of the first one.
    std::fs::remove_file(&deafened).unwrap();
    let events = parent.beginning.events.clone();
    let (done, ended) = sync_channel(1);
    std::thread::spawn(move || done.send(parent.run()));
    read_by(&deafened, "the first one hears no SIGTERM again");
    events.send(Event::Stop).unwrap();
    let left = ended.recv_timeout(WAIT_MAX).expect("the stop ends");
    // What the second one left.
    let _ = Command::new("kill").args(["-KILL", &child]).status();
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

/// The parent's thread stands in the start of a process. The other one is asked to end all the same, and is not left to hear
/// of the parent's end and drain once more.
#[test]
fn a_parent_that_stands_still_holds_up_no_stop() {
    let folder = tempfile::tempdir().unwrap();
    let (asked, pid) = (folder.path().join("asked"), folder.path().join("pid"));
    let drains = format!(
        "trap 'echo asked > {}' TERM; echo $$ > {}; echo '{{\"warm\":{{\"serving\":{{}}}}}}'; echo '\"ready\"'; while :; do sleep 0.01; done",
        asked.display(),
        pid.display()
    );
    let (hangs, hung) = sync_channel(1);
    let (end, ends) = sync_channel::<()>(1);
    let config = "[server]\nlisten = \"127.0.0.1:0\"\nprocesses = 2\ndrain_ms_max = 0\n[admin]\nlisten = \"127.0.0.1:0\"";
    let supervisor = Supervisor::start(&toml::from_str(config).unwrap(), None, move |number| {
        if number == 1 {
            let _ = (hangs.send(()), ends.recv());
        }
        let mut shell = Command::new("sh");
        shell.args(["-c", &drains]);
        shell
    });
    let supervisor = supervisor.unwrap();
    hung.recv_timeout(WAIT_MAX).expect("it starts the second one");
    let pid = read_by(&pid, "the first one runs");
    let stopped = supervisor.shutdown();
    assert!(stopped.left[0].contains("the parent's thread"), "{stopped:?}");
    assert_eq!(read_by(&asked, "it is asked to end"), "asked");
    let stat = || std::fs::read_to_string(format!("/proc/{pid}/stat"));
    let until = Instant::now() + WAIT_MAX;
    while stat().is_ok_and(|stat| !stat.contains(") Z ")) {
        assert!(Instant::now() < until, "it is not killed");
        std::thread::sleep(Duration::from_millis(5));
    }
    drop(end);
}

fn plan(folder: &Path) -> Plan {
    Plan {
        table: "films".to_owned(),
        version: 2,
        folder: folder.to_owned(),
        step: Step::Activate {
            before: Some(1),
            held: Vec::new(),
            is_fixed: false,
        },
        is_arrival: false,
    }
}

/// The version that is switched to: its files are looked at before `ACTIVE` names it.
fn write_version(table: &Path) {
    let mut writer = Writer::create(table, "films", 2, Schema::floats(2), 1).unwrap();
    writer.push(1, &[1.0, 2.0]).unwrap();
    writer.finish().unwrap();
}

fn asks_to_switch(number: usize, folder: &Path) -> Event {
    let plan = plan(folder);
    said(number, Report::Switch { asked: 5, plan })
}

fn opened(number: usize, refusal: Option<Refusal>) -> Event {
    said(number, Report::Opened { switch: 1, refusal })
}

fn damaged() -> Refusal {
    Refusal::new(millpond_wire_schema::Code::StorageFailed, "it is damaged")
}

#[test]
fn a_switch_is_made_when_all_have_opened_and_answered_when_all_have_closed() {
    let folder = tempfile::tempdir().unwrap();
    write_version(folder.path());
    let mut parent = parent(folder.path());
    parent.on(asks_to_switch(0, folder.path()));
    let open = Order::Open {
        switch: 1,
        plan: plan(folder.path()),
    };
    for number in 0..2 {
        assert_eq!(orders(folder.path(), number, 2), [serve(1), open.clone()]);
    }
    // There is one at a time.
    parent.on(asks_to_switch(1, folder.path()));
    let busy = Order::Switched {
        asked: 5,
        outcome: Err(busy()),
    };
    assert_eq!(orders(folder.path(), 1, 3)[2], busy);
    parent.on(opened(0, None));
    assert!(!folder.path().join("ACTIVE").exists());
    parent.on(opened(1, None));
    // The shells close their outputs, which is heard first and means nothing here.
    let decided = loop {
        match parent.beginning.heard.recv_timeout(WAIT_MAX).unwrap() {
            Event::Heard(..) => {}
            decided => break decided,
        }
    };
    assert!(
        folder.path().join("ACTIVE").exists(),
        "before anything is swapped"
    );
    // One that gets warm while the others swap waits.
    parent.on(Event::Heard(Who { number: 1, life: 1 }, Heard::Gone(None)));
    std::fs::remove_file(told(folder.path(), 1)).unwrap();
    parent.start(1);
    parent.on(decided);
    parent.on(Event::Heard(Who { number: 1, life: 2 }, Heard::Said(warm())));
    let close = Order::Close {
        switch: 1,
        is_made: true,
    };
    assert_eq!(orders(folder.path(), 0, 3)[2], close);
    parent.on(said(0, Report::Closed { switch: 1 }));
    let switched = Order::Switched {
        asked: 5,
        outcome: Ok(None),
    };
    assert_eq!(orders(folder.path(), 0, 4)[3], switched);
    let serving = serving(2, Some(1));
    assert_eq!(orders(folder.path(), 1, 1), [Order::Serve { serving }]);
}

#[test]
fn a_process_that_cannot_open_or_ends_has_the_others_drop_what_they_opened() {
    let check = |fails: Event, words: &str| {
        let folder = tempfile::tempdir().unwrap();
        write_version(folder.path());
        let mut parent = parent(folder.path());
        parent.on(asks_to_switch(0, folder.path()));
        parent.on(opened(0, None));
        parent.on(fails);
        let told = orders(folder.path(), 0, 4);
        let close = Order::Close {
            switch: 1,
            is_made: false,
        };
        assert_eq!(told[2], close);
        let Order::Switched {
            asked: 5,
            outcome: Err(refusal),
        } = &told[3]
        else {
            panic!("{told:?}")
        };
        assert!(refusal.ex.contains(words), "{refusal:?}");
        assert!(!folder.path().join("ACTIVE").exists());
        // What comes late belongs to nothing.
        parent.on(opened(1, None));
        parent.on(said(0, Report::Closed { switch: 1 }));
        assert_eq!(parent.switches.serving(), &serving(1, None));
    };
    check(opened(1, Some(damaged())), "process 1: it is damaged");
    let gone = Event::Heard(Who { number: 1, life: 1 }, Heard::Gone(None));
    check(gone, "process 1 ended while it opened the version");
}

#[test]
fn a_process_that_never_opens_a_version_ends_that_switch_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut parent = parent(folder.path());
    parent.on(asks_to_switch(0, folder.path()));
    parent.on(opened(0, None));
    parent.end_late_switch(Instant::now());
    assert_eq!(orders(folder.path(), 0, 2).len(), 2, "it has time");
    parent.end_late_switch(Instant::now() + Duration::from_secs(3600));
    let Order::Switched {
        outcome: Err(refusal),
        ..
    } = &orders(folder.path(), 0, 4)[3]
    else {
        panic!("it is refused")
    };
    assert!(refusal.ex.contains("processes 1 have not opened"), "{refusal:?}");
    parent.on(opened(1, None));
    parent.on(asks_to_switch(0, folder.path()));
    let told = orders(folder.path(), 1, 4);
    assert!(matches!(told[3], Order::Open { switch: 2, .. }), "{told:?}");
}

mod arrivals;
