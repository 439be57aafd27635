//! Tests of schedules: exact where they are regular, within statistical bounds for fixed seeds where they are not.

#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::*;
use std::io::Write;

const MINUTE: Duration = Duration::from_secs(60);

fn make(arrivals: Arrivals, rate: f64, seed: u64) -> Schedule {
    Schedule::make(&arrivals, Some(rate), MINUTE, seed).unwrap()
}

fn rate(schedule: &Schedule, length_s: u32) -> f64 {
    schedule.times_ns().len() as f64 / f64::from(length_s)
}

fn gaps_s(schedule: &Schedule) -> Vec<f64> {
    let times = schedule.times_ns();
    times
        .windows(2)
        .map(|pair| (pair[1] - pair[0]) as f64 / 1e9)
        .collect()
}

fn mean(numbers: &[f64]) -> f64 {
    numbers.iter().sum::<f64>() / numbers.len() as f64
}

#[test]
fn descriptions_are_names_or_tables() {
    let read = |text: &str| serde_json::from_str::<Arrivals>(text);
    assert_eq!(read(r#""constant""#).unwrap(), Arrivals::Constant);
    assert_eq!(read(r#""poisson""#).unwrap(), Arrivals::default());
    assert_eq!(
        read(r#"{"pareto":{"shape":1.5}}"#).unwrap(),
        Arrivals::Pareto { shape: 1.5 }
    );
    assert_eq!(
        read(r#"{"bursts":{"size":50}}"#).unwrap(),
        Arrivals::Bursts { size: 50 }
    );
    assert_eq!(
        read(r#"{"recorded":{"file":"a.txt"}}"#).unwrap(),
        Arrivals::Recorded { file: "a.txt".into() }
    );
    assert!(read(r#"{"bursts":{"size":50,"width":1}}"#).is_err());
    assert!(read(r#""sometimes""#).is_err());
}

#[test]
fn constant_arrivals_are_exact() {
    let schedule = make(Arrivals::Constant, 3.0, 1);
    assert_eq!(schedule.times_ns().len(), 180);
    assert_eq!(
        &schedule.times_ns()[..4],
        [0, 333_333_333, 666_666_666, 1_000_000_000]
    );
    assert_eq!(schedule.times_ns()[177], 59_000_000_000);
    assert_eq!(rate(&schedule, 60), 3.0);
    let half = make(Arrivals::Constant, 0.5, 1);
    assert_eq!(half.times_ns().len(), 30);
    assert_eq!(half.times_ns()[29], 58_000_000_000);
}

#[test]
fn poisson_gaps_have_the_mean_and_variance_of_exponentials() {
    let schedule = make(Arrivals::Poisson, 5_000.0, 7);
    // 300,000 arrivals: the standard deviation of their number is 548.
    assert!(
        schedule.times_ns().len().abs_diff(300_000) < 2_200,
        "{}",
        schedule.times_ns().len()
    );
    let gaps = gaps_s(&schedule);
    let mean = mean(&gaps) * 5_000.0;
    assert!((mean - 1.0).abs() < 0.01, "{mean}");
    let squares: f64 = gaps.iter().map(|gap| (gap * 5_000.0 - mean).powi(2)).sum();
    let variance = squares / gaps.len() as f64;
    assert!((variance - 1.0).abs() < 0.03, "{variance}");
}

#[test]
fn pareto_gaps_keep_the_mean_and_have_a_heavy_tail() {
    let schedule = make(Arrivals::Pareto { shape: 1.5 }, 5_000.0, 7);
    let gaps = gaps_s(&schedule);
    let mean = mean(&gaps) * 5_000.0;
    assert!((mean - 1.0).abs() < 0.1, "{mean}");
    let longest = gaps.iter().copied().fold(0.0, f64::max) * 5_000.0;
    // Of 300,000 exponential gaps the longest is about 12.6 means.
    assert!(longest > 100.0, "{longest}");
    assert!(gaps.iter().all(|&gap| gap * 5_000.0 > 0.33));
}

#[test]
fn pareto_gaps_near_the_limit_of_the_shape_stay_bounded() {
    let schedule = make(Arrivals::Pareto { shape: 1.05 }, 1_000.0, 3);
    assert!(
        schedule.times_ns().len() < 600_000,
        "{}",
        schedule.times_ns().len()
    );
    // A mean gap above the length: there may be no arrival, and there is no end of them neither.
    let sparse = make(Arrivals::Pareto { shape: 1.5 }, 0.001, 3);
    assert!(sparse.times_ns().len() < 100);
}

#[test]
fn bursts_share_a_moment() {
    let schedule = make(Arrivals::Bursts { size: 50 }, 100.0, 1);
    assert_eq!(schedule.times_ns().len(), 6_000);
    for (index, burst) in schedule.times_ns().chunks(50).enumerate() {
        assert!(burst.iter().all(|&time| time == index as u64 * 500_000_000));
    }
}

#[test]
fn random_arrivals_depend_on_the_seed_and_ascend() {
    for arrivals in [Arrivals::Poisson, Arrivals::Pareto { shape: 2.0 }] {
        let one = make(arrivals.clone(), 500.0, 1);
        assert_eq!(one, make(arrivals.clone(), 500.0, 1));
        assert_ne!(one, make(arrivals, 500.0, 2));
        assert!(one.times_ns().is_sorted());
        assert!(one.times_ns().last().is_some_and(|&last| last < 60_000_000_000));
    }
}

#[test]
fn parts_together_are_the_whole() {
    let schedule = make(Arrivals::Poisson, 100.0, 5);
    for of in [1, 2, 7] {
        let parts: Vec<Vec<u64>> = (0..of).map(|index| schedule.part(index, of)).collect();
        assert_eq!(parts[0][0], schedule.times_ns()[0]);
        let mut whole = parts.concat();
        whole.sort_unstable();
        assert_eq!(whole, schedule.times_ns());
    }
    assert!(schedule.part(7, 7).is_empty());
    assert!(schedule.part(0, 0).is_empty());
}

#[test]
fn recorded_arrivals_are_scaled_and_repeated() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(b"# gaps of 1 and 3 s\n5\n6\n9\n").unwrap();
    let arrivals = Arrivals::Recorded {
        file: file.path().to_owned(),
    };
    let at = |rate, length_s| {
        let length = Duration::from_secs(length_s);
        Schedule::make(&arrivals, rate, length, 1).unwrap()
    };
    // Its own rate is one in 2 s, and a round takes 6 s.
    let own = at(None, 7);
    assert_eq!(own.times_ns(), [0, 1_000_000_000, 4_000_000_000, 6_000_000_000]);
    assert_eq!(rate(&at(None, 600), 600), 0.5);
    let faster = at(Some(5.0), 60);
    assert_eq!(rate(&faster, 60), 5.0);
    assert_eq!(
        &faster.times_ns()[..4],
        [0, 100_000_000, 400_000_000, 600_000_000]
    );
}

#[test]
fn impossible_schedules_say_what_to_change() {
    let said = |arrivals: Arrivals, rate, length| {
        Schedule::make(&arrivals, rate, length, 1)
            .expect_err("refused")
            .to_string()
    };
    let rate = |rate| said(Arrivals::Poisson, Some(rate), MINUTE);
    for bad in [0.0, -1.0, f64::NAN, f64::INFINITY, 2e8] {
        assert!(rate(bad).starts_with("rate is "), "{}", rate(bad));
    }
    assert!(said(Arrivals::Constant, None, MINUTE).contains("rate is absent"));
    assert!(said(Arrivals::Constant, Some(1.0), Duration::ZERO).contains("length is 0"));
    assert!(said(Arrivals::Constant, Some(1.0), Duration::MAX).contains("584 years"));
    assert!(said(Arrivals::Pareto { shape: 1.0 }, Some(1.0), MINUTE).contains("arrivals.pareto.shape is 1"));
    assert!(said(Arrivals::Bursts { size: 0 }, Some(1.0), MINUTE).contains("arrivals.bursts.size is 0"));
    let many = rate(1e6);
    assert!(
        many.contains("1000000 a second over 60 s") && many.contains("lower the rate"),
        "{many}"
    );
    // One burst alone is too many whatever the rate.
    let burst = Arrivals::Bursts { size: u32::MAX };
    assert!(said(burst, Some(1.0), MINUTE).contains("more than 50000000 arrivals"));
}

#[test]
fn a_number_of_requests_has_its_length() {
    for (arrivals, rate) in [
        (Arrivals::Poisson, 730.5),
        (Arrivals::Constant, 1_000.0),
        (Arrivals::Constant, 0.7),
    ] {
        for count in [1, 2, 700] {
            let length = Schedule::length_of(&arrivals, rate, count, 9).unwrap();
            let made = Schedule::make(&arrivals, Some(rate), length, 9).unwrap();
            assert_eq!(made.times_ns().len() as u64, count, "{arrivals:?}");
            assert_eq!(
                made.times_ns().last().map(|last| last + 1),
                Some(length.as_nanos() as u64)
            );
        }
    }
    let said = |arrivals: &Arrivals, rate: f64, count: u64| {
        Schedule::length_of(arrivals, rate, count, 9)
            .unwrap_err()
            .to_string()
    };
    assert!(said(&Arrivals::Bursts { size: 2 }, 1.0, 4).contains("\"poisson\" or \"constant\""));
    assert!(said(&Arrivals::Poisson, 1.0, 0).contains("1 to 50000000"));
    assert!(said(&Arrivals::Poisson, 1.0, u64::MAX).contains("1 to 50000000"));
    assert!(said(&Arrivals::Poisson, -1.0, 5).contains("length"));
}
