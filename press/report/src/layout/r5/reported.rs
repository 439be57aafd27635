//! What report R5 has, by mode and rate: both runs of a point, on an i7-6700 and on an i9-7960X.
//!
//! Its invariant: figures stand as the report writes them.

use super::Mode;

/// One row of the report.
pub(super) struct Reported {
    pub(super) cpu: Option<String>,
    pub(super) p95: Option<String>,
    pub(super) max: Option<String>,
    pub(super) worse: Option<String>,
}

/// A row of the i7: rate, CPU, p95 and max of both runs; with two cache antagonists, CPU, p95 and max of both runs, and by how much
/// p95 was worse.
type I7 = (f64, [&'static str; 3], [&'static str; 4]);

#[rustfmt::skip]
const I7_LOOPBACK: [I7; 5] = [
    (400.0, ["15", "0.804, 0.806", "2.405, 2.354"], ["20", "0.875, 0.876", "2.517, 2.497", "8.8 %"]),
    (800.0, ["30", "1.038, 1.035", "3.416, 3.426"], ["35", "1.138, 1.130", "4.563, 3.564", "9.6 %"]),
    (1_200.0, ["45", "1.364, 1.362", "4.812, 4.799"], ["50", "1.598, 1.630", "6.163, 6.778", "17.2 %"]),
    (1_600.0, ["60", "1.945, 1.954", "7.007, 8.556"], ["65", "2.404, 2.387", "10.306, 11.954", "23.6 %"]),
    (2_000.0, ["75", "3.049, 3.053", "12.641, 20.722"], ["80", "4.299, 4.263", "52.033, 34.213", "41.0 %"]),
];

/// The i7's network: rate, CPU, p95 and max of both runs.
const I7_NETWORK: [(f64, [&str; 3]); 6] = [
    (50.0, ["2", "2.447, 2.442", "4.850, 4.772"]),
    (100.0, ["4", "2.466, 2.528", "8.213, 8.397"]),
    (150.0, ["6", "3.566, 3.580", "14.259, 14.035"]),
    (200.0, ["8", "3.839, 3.752", "17.779, 17.470"]),
    (250.0, ["10", "4.734, 4.736", "21.016, 21.018"]),
    (300.0, ["12", "6.022, 5.961", "22.150, 22.099"]),
];

/// The i9, over loopback and over a network: rate, CPU, p95, max.
const I9_LOOPBACK: [(f64, [&str; 3]); 6] = [
    (40.0, ["0", "4.279", "4.9"]),
    (80.0, ["0", "4.245", "5.3"]),
    (400.0, ["0", "4.563", "6.8–7.1"]),
    (800.0, ["5", "5.361", "10.1–10.3"]),
    (1_200.0, ["20", "6.914", "14.0–19.0"]),
    (1_600.0, ["45", "9.952", "23.4–23.5"]),
];
const I9_NETWORK: [(f64, [&str; 3]); 2] = [
    (40.0, ["2", "0.758", "1.1–1.2"]),
    (80.0, ["4", "0.834", "1.2–1.3"]),
];

/// What the report has of a mode at a rate. In process it has nothing; what antagonists do there is held against its loopback, where
/// they had cores of their own.
pub(super) fn find(mode: Mode, rate: f64, is_disturbed: bool) -> Option<Reported> {
    let is_near = |other: f64| (other - rate).abs() < 0.001 * rate;
    let i7_loopback = I7_LOOPBACK.iter().find(|row| is_near(row.0));
    if is_disturbed {
        let [cpu, p95, max, worse] = i7_loopback?.2;
        let own = |figure: &str| (mode == Mode::Loopback).then(|| format!("{figure} (i7)"));
        return Some(Reported {
            cpu: own(cpu),
            p95: own(p95),
            max: own(max),
            worse: (mode != Mode::Network).then(|| format!("{worse} (i7)")),
        });
    }
    let (i7, i9): (_, &[(f64, [&str; 3])]) = match mode {
        Mode::Integrated => return None,
        Mode::Loopback => (i7_loopback.map(|row| row.1), &I9_LOOPBACK),
        Mode::Network => (
            I7_NETWORK.iter().find(|row| is_near(row.0)).map(|row| row.1),
            &I9_NETWORK,
        ),
    };
    let i9 = i9.iter().find(|row| is_near(row.0)).map(|row| row.1);
    let figure = |at: usize| {
        let of = |row: Option<[&str; 3]>, machine: &str| {
            row.and_then(|row| row.get(at).map(|figure| format!("{figure} ({machine})")))
        };
        let both: Vec<String> = [of(i7, "i7"), of(i9, "i9")].into_iter().flatten().collect();
        (!both.is_empty()).then(|| both.join("; "))
    };
    Some(Reported {
        cpu: figure(0),
        p95: figure(1),
        max: figure(2),
        worse: None,
    })
}
