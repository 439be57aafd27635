//! A result made to do harm.
//!
//! Its invariant: every text a stranger can choose is markup somewhere, and figures stand at the ends of their ranges.

use millpond_press_recorder::{ErrorKind, ResourceSecond, Resources};

use crate::{Held, OperationResult, Point, RunResult, SloOutcome, Stage, State};

/// Text that is markup somewhere.
fn bad() -> String {
    "</title><script>alert(\"1\")</script>&amp;' | ``` \n# x\r\u{0}\u{202e}[a](b) *c* _d_".to_owned()
}

/// Text that is markup somewhere, and figures at the ends of their ranges, wherever a result has room for them.
pub(crate) fn hostile() -> RunResult {
    let mut run = super::run();
    run.points.truncate(3);
    run.state = State::Failed;
    for text in [&mut run.name, &mut run.title, &mut run.started_at] {
        *text = bad();
    }
    run.failure = Some(bad());
    run.command = vec![bad()];
    run.set = vec![bad()];
    run.pinning = vec![bad()];
    run.press.version = Some(bad());
    run.machine.cpu_model = Some(bad());
    run.requests[0].source = bad();
    run.requests[0].target = bad();
    run.search = Some(crate::Search {
        target: bad(),
        slo: bad(),
        sentence: bad(),
        rate_knee: Some(f64::NAN),
        ..crate::Search::default()
    });
    for (index, point) in run.points.iter_mut().enumerate() {
        spoil(point, index);
    }
    run
}

/// The same for a point; each third has its own impossible figures.
fn spoil(point: &mut Point, index: usize) {
    point.grid.insert(bad(), bad());
    point.target.name = bad();
    point.target.path = bad();
    point.offered.arrivals = Some(bad());
    point.verdict.sentence = bad();
    point.verdict.evidence = vec![bad()];
    point.counters.first.insert("timeout".into(), bad());
    point.counters.refused.insert(1, u64::MAX);
    point.counters.refused.insert(2, u64::MAX);
    point.counters.wrong = u64::MAX;
    point.counters.errors.insert(ErrorKind::Timeout, u64::MAX);
    point.warm_up.answers = u64::MAX;
    point.stages.push(Stage {
        name: bad(),
        count: 1,
        us_mean: f64::INFINITY,
    });
    point.operations.push(OperationResult {
        name: bad(),
        ..OperationResult::default()
    });
    point.slo = Some(SloOutcome {
        slo: bad(),
        met: false,
        failures: vec![bad()],
    });
    point.curve = vec![
        (f64::NAN, 1.0),
        (100.0, 1e300),
        (50.0, -1.0),
        (-3.0, f64::INFINITY),
        (1e9, 0.0),
    ];
    point.qps = [f64::NAN, 1e300, -5.0][index % 3];
    point.started_unix_s = [f64::NAN, 1e300, -1.0][index % 3];
    point.held = Some(Held {
        opened: u64::MAX,
        opening_s: [f64::NAN, 0.0, -1.0][index % 3],
        server_bytes: Some(u64::MAX),
        connect_us_min: Some(f64::INFINITY),
        ..Held::default()
    });
    point.counters.not_sent = u64::MAX;
    point.latency.us_p99 = Some([f64::INFINITY, 1e-300, 1e300][index % 3]);
    point.series[0].s = f64::NAN;
    point.series[1].s = 1e300;
    point.series[2].answers = u64::MAX;
    point.resources = Resources {
        seconds: vec![ResourceSecond {
            s: -1e300,
            machine_percent: Some(f64::NAN),
            ..ResourceSecond::default()
        }],
        ..point.resources.clone()
    };
    if let Some(thread) = point.resources.threads.first_mut() {
        thread.name = bad();
        thread.states.insert(bad(), 2.0);
    }
}
