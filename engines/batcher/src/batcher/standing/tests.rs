//! A queue's lengths by hand, look by look.
#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::*;

const MS: f64 = 1e-3;
const RUN: f64 = 2.0 * MS;

/// What a look finds: the milliseconds that wait, and whether calls are refused by their deadlines.
type Look = (u32, bool);

/// A queue that is looked at every two milliseconds, a run's time, with ten calls before each look, one of them refused where the look
/// says so or, as while a queue stands, always.
struct Watched {
    standing: Standing,
    now: Instant,
}

impl Watched {
    fn new() -> Watched {
        Watched {
            standing: Standing::default(),
            now: Instant::now(),
        }
    }

    fn stands(&self) -> bool {
        self.standing.limit(RUN, self.now).is_some()
    }

    /// Whether it stood after each look.
    fn look(&mut self, looks: impl IntoIterator<Item = Look>) -> Vec<bool> {
        let look = |(ms, refuses): Look| {
            self.now += Duration::from_millis(2);
            (0..9).for_each(|_| self.standing.accepted());
            if refuses {
                self.standing.refused(RUN, self.now);
            }
            self.standing.look(f64::from(ms) * MS, RUN, self.now);
            self.stands()
        };
        looks.into_iter().map(look).collect()
    }

    /// Runs until it stands, and then until it does not, under this load.
    fn episode(&mut self, load: Look) -> (usize, usize) {
        let before = (0..).take_while(|_| !self.look([load])[0]).count();
        let during = (1..).take_while(|_| self.look([load])[0]).count();
        (before, during + 1)
    }
}

fn stood(looks: impl IntoIterator<Item = Look>) -> Vec<bool> {
    Watched::new().look(looks)
}

#[test]
fn a_long_queue_stands_after_an_interval_and_not_before() {
    let stood = stood([(50, true); 40]);
    assert_eq!(stood.iter().position(|stands| *stands), Some(16));
    assert!(stood[16..].iter().all(|stands| *stands));
}

#[test]
fn a_queue_that_is_short_once_in_a_while_does_not_stand() {
    let lengths = (0..400).map(|turn| (if turn % 16 == 0 { 6 } else { 50 }, true));
    assert!(!stood(lengths).contains(&true));
}

#[test]
fn a_queue_that_refuses_hardly_anybody_does_not_stand() {
    assert!(!stood([(50, false); 400]).contains(&true));
    let now_and_then = |turn: usize| (50, turn.is_multiple_of(5));
    assert!(!stood((0..400).map(now_and_then)).contains(&true));
}

#[test]
fn what_was_long_ago_counts_no_more() {
    let quiet = [(50, false); 4000].into_iter();
    let stood = stood(quiet.chain([(50, true); 100]));
    assert!(!stood[..4000].contains(&true) && stood[4099]);
}

#[test]
fn an_episode_ends_however_many_are_refused_and_the_next_one_is_longer() {
    let mut watched = Watched::new();
    let mut lengths = Vec::new();
    for _ in 0..5 {
        lengths.push(watched.episode((50, true)));
    }
    let runs: Vec<usize> = lengths.iter().map(|(_, during)| *during).collect();
    // Half a minute at most: 15,000 runs.
    assert_eq!(runs, [256, 2048, 15_000, 15_000, 15_000]);
    assert!(lengths.iter().all(|(before, _)| *before <= 17), "{lengths:?}");
    assert_eq!(watched.standing.episodes(), 5);
}

#[test]
fn an_episode_is_short_again_after_a_while_without_one() {
    let mut watched = Watched::new();
    watched.episode((50, true));
    watched.look([(50, false); 300]);
    assert_eq!(watched.episode((50, true)).1, 256);
}

#[test]
fn it_is_over_when_nobody_was_refused_for_an_interval() {
    for ms in [0, 4, 50] {
        let mut watched = Watched::new();
        watched.look([(50, true); 20]);
        assert!(watched.stands());
        let stood = watched.look([(ms, false); 40]);
        assert_eq!(stood.iter().position(|stands| !*stands), Some(15), "{ms} ms");
        // And the next one is a first one.
        assert_eq!(watched.episode((50, true)).1, 256);
    }
}

#[test]
fn nobody_has_to_look_for_it_to_be_over() {
    let mut watched = Watched::new();
    watched.look([(50, true); 20]);
    watched.now += Duration::from_secs(3600);
    assert!(!watched.stands());
}

#[test]
fn slow_models_stand_for_a_number_of_runs_all_the_same() {
    let mut standing = Standing::default();
    let now = Instant::now();
    standing.begin(2.0, now);
    assert_eq!(standing.episode.unwrap().until, now + Duration::from_secs(128));
}

#[test]
fn the_target_is_a_few_runs_and_no_less_than_threads_need() {
    assert_eq!(target(1.8 * MS), TARGET_RUNS * 1.8 * MS);
    assert_eq!(target(0.01 * MS), MS);
}
