//! Callers of one net thread that runs the model itself while nobody is worth waiting for.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;

const US: Duration = Duration::from_micros(1);
const RUN: Duration = Duration::from_micros(100);

/// Callers in closed loops, a net thread that sees no request while it runs the model, and an instance.
struct Turns {
    bench: Bench,
    /// When each caller's next request comes; `None` while it waits for an answer.
    comes: Vec<Option<Instant>>,
    back_after: Duration,
    /// When the instance has to look again: its run is over, or it has waited long enough.
    looks: Option<Instant>,
    /// What it runs.
    runs: Vec<u64>,
    ran: Option<Instant>,
    answered: usize,
    inline: usize,
}

impl Turns {
    fn new(callers: usize, back_after: Duration) -> Turns {
        let bench = Bench::new(1, 4, 64);
        let at = |caller: usize| Some(bench.now + 7 * caller as u32 * US);
        Turns {
            comes: (0..callers).map(at).collect(),
            back_after,
            looks: None,
            runs: Vec::new(),
            ran: None,
            answered: 0,
            inline: 0,
            bench,
        }
    }

    fn answer(&mut self, sources: &[u64]) {
        self.answered += sources.len();
        for (nth, source) in sources.iter().enumerate() {
            // One answer is written after the other.
            self.comes[*source as usize] = Some(self.bench.now + self.back_after + 3 * nth as u32 * US);
        }
    }

    fn act(&mut self) {
        let ran = std::mem::take(&mut self.runs);
        self.answer(&ran);
        self.looks = match self.bench.act(0) {
            Act::Serve { .. } => {
                let batch = self.bench.cut.batch.iter();
                self.runs = batch.map(|waiting| waiting.request.source).collect();
                Some(self.bench.now + RUN)
            }
            Act::Hold(until) => Some(until),
            _ => None,
        };
    }

    fn accepted(&mut self, accepted: &Accepted) {
        if accepted.call {
            self.bench.state.called -= 1; // it wakes at once
            self.bench.state.take_place();
        }
        if accepted.call || accepted.ends_hold {
            self.act();
        }
    }

    /// The net thread reads what has come, and runs or hands over what it took.
    fn turn(&mut self) {
        let now = self.bench.now;
        let noticed = Noticed {
            at: now,
            away_since: self.ran.take(),
        };
        let mut gathered = Vec::new();
        for source in 0..self.comes.len() {
            if self.comes[source].take_if(|at| *at <= now).is_none() {
                continue;
            }
            let request = self.bench.request(source as u64, None);
            let taken = self
                .bench
                .state
                .takes_inline(&request, gathered.len(), 0.0, noticed);
            match taken {
                Some(_) => gathered.push((source as u64, 1)),
                None => {
                    let accepted = self.bench.state.submit(request, now).ok().unwrap();
                    self.accepted(&accepted);
                }
            }
        }
        let asked = (gathered.len(), gathered.len());
        if gathered.is_empty() {
            return;
        }
        if self.bench.state.would_wait_with(asked, None, now) {
            for (source, _) in gathered {
                let request = self.bench.request(source, None);
                let accepted = self.bench.state.hand_over(request, now).ok().unwrap();
                self.accepted(&accepted);
            }
            return;
        }
        self.inline += 1;
        self.ran = Some(now);
        self.bench.now += RUN;
        let swept = Swept {
            rows: gathered.len(),
            used: RUN,
            lasted: RUN,
            ended: self.bench.now,
            answered: &gathered,
        };
        self.bench.state.swept(0, Some(swept));
        let sources: Vec<u64> = gathered.iter().map(|(source, _)| *source).collect();
        self.answer(&sources);
    }

    /// Answers a second, once it has gone on for a while; and turns in which the net thread ran the model.
    fn per_s(&mut self) -> (f64, usize) {
        let mut from = (0, self.bench.now);
        for step in 0..20_000 {
            if step == 10_000 {
                (from, self.inline) = ((self.answered, self.bench.now), 0);
            }
            let comes = self.comes.iter().flatten().min().copied();
            let next = [comes, self.looks].into_iter().flatten().min().unwrap();
            self.bench.now = self.bench.now.max(next);
            match self.looks.filter(|looks| *looks <= self.bench.now) {
                Some(_) => self.act(),
                None => self.turn(),
            }
        }
        let lasted = self.bench.now - from.1;
        (
            (self.answered - from.0) as f64 / lasted.as_secs_f64(),
            self.inline,
        )
    }
}

/// A lone caller is answered by the thread that reads its request, every time.
#[test]
fn a_lone_caller_costs_no_hop() {
    let (per_s, inline) = Turns::new(1, 50 * US).per_s();
    assert!((per_s - 1e6 / 150.0).abs() < 10.0, "{per_s}");
    assert!(inline >= 9_990, "{inline}");
}

/// Others would be answered one after the other, each while the rest waits unread.
#[test]
fn callers_that_return_together_share_runs() {
    for callers in [2, 3, 4] {
        let (per_s, _) = Turns::new(callers, 50 * US).per_s();
        let ideal = callers as f64 * 1e6 / (150.0 + 3.0 * (callers - 1) as f64);
        assert!(per_s >= 0.9 * ideal, "{callers} callers: {per_s} of {ideal}");
    }
}

/// Nobody waits for callers that stay away for longer than a run saves, and no answer is lost by having tried.
#[test]
fn callers_that_stay_away_are_not_waited_for() {
    let mut turns = Turns::new(2, 400 * US);
    let (per_s, inline) = turns.per_s();
    assert!(per_s >= 0.97 * 2e6 / 600.0, "{per_s}");
    assert!(inline > 0, "{inline}");
}
