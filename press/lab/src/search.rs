//! The highest rate that meets an SLO: doubling until it is missed, bisection, then repeats on both sides of the edge.
//!
//! Its invariant: the answer is an interval, a rate that met the SLO in most of its attempts and one that did not; where one
//! of them was not found, that is said.

use std::collections::BTreeMap;
use std::time::Duration;

use millpond_press_verdict::{Edge, Judgement, Search, Tried, is_doubted, knee, sentence};

use crate::Error;
use crate::scenario::Scenario;
use crate::scenario_run::{At, Run, Up};
use crate::session::Session;
use millpond_press_load::{Amount, Offer};

/// The warm-up of each rate where the scenario does not say.
const WARMUP_MAX: Duration = Duration::from_secs(1);
/// After a rate that was missed, so that its backlog is gone before the next.
const PAUSE: Duration = Duration::from_millis(500);
/// Points of a search.
const STEPS_MAX: usize = 60;
/// How often a rate is offered again whose point missed but cannot be believed.
const DOUBTS_MAX: usize = 2;
/// A rate is offered for no longer than this, however few requests it makes.
const POINT_S_MAX: f64 = 60.0;

/// What must hold before a search is begun.
pub(crate) fn check(scenario: &Scenario) -> Result<(), String> {
    if scenario.slo.is_none() {
        return Err(
            "press search needs an `slo`, such as slo = \"p99 < 5ms, errors < 0.1%\" at the top of the file"
                .into(),
        );
    }
    if scenario.targets.len() > 1 || scenario.load.keys.connections.len() > 1 || scenario.grid.len() > 1 {
        return Err(
            "press search takes one target, one number of connections and no grid; \
                    search each by itself, or compare them with press run"
                .into(),
        );
    }
    if scenario.targets.iter().any(|target| target.antagonists.is_some()) {
        return Err("press search runs nothing beside its target: take target.antagonists out".into());
    }
    let search = &scenario.search;
    if search.rate_start > search.rate_max {
        return Err(format!(
            "search.rate_start is {}, above search.rate_max {}",
            search.rate_start, search.rate_max
        ));
    }
    Ok(())
}

/// The search so far.
struct Walk {
    edge: Edge,
    tried: Vec<Tried>,
}

/// Searches on one target; false if it was interrupted.
pub(crate) async fn walk(
    run: &mut Run,
    combination: &BTreeMap<String, String>,
    up: &mut [Up],
) -> Result<bool, Error> {
    let connections = run.scenario.load.keys.connections[0];
    // A search is an open loop, whatever the scenario's points are.
    run.scenario.load.arrivals.get_or_insert_default();
    let Some(mut session) = run.session(0, connections, &up[0]).await? else {
        return Ok(false);
    };
    let settings = run.scenario.search.clone();
    let mut walk = Walk {
        edge: Edge::new(
            settings.rate_start,
            settings.rate_max,
            settings.resolution,
            settings.repeats,
        ),
        tried: Vec::new(),
    };
    let needed = run.scenario.slo.as_ref().map_or(1.0, |slo| slo.samples_needed());
    let mut whole = true;
    while whole && walk.tried.len() < STEPS_MAX {
        let Some(next) = walk.edge.next() else { break };
        // Below this a point would take longer than anybody waits for its percentiles to be named.
        if next.rate * POINT_S_MAX < needed {
            break;
        }
        let at = At {
            combination,
            target: 0,
            connections,
            rate: Some(next.rate),
            requests: None,
            is_disturbed: false,
            repeat: next.attempt,
        };
        whole = walk.attempt(run, at, &mut session, &mut up[0]).await?;
    }
    run.result.search = Some(walk.result(run));
    Ok(whole)
}

impl Walk {
    async fn attempt(
        &mut self,
        run: &mut Run,
        at: At<'_>,
        session: &mut Session,
        up: &mut Up,
    ) -> Result<bool, Error> {
        let rate = at.rate.unwrap_or_default();
        let mut judged = (false, false);
        for _doubt in 0..=DOUBTS_MAX {
            let offer = self.offer(run, rate);
            if run.point(&at, &offer, session, up).await? {
                return Ok(false);
            }
            let Some(point) = run.last() else { return Ok(false) };
            let met = point.slo.as_ref().is_some_and(|slo| slo.met);
            judged = (met, point.verdict.judgement == Judgement::GeneratorBound);
            let is_doubted = is_doubted(point);
            self.tried.push(Tried {
                rate,
                point: point.number,
                met,
            });
            if met || !is_doubted {
                break;
            }
            // A miss that is not the server's is no miss: the rate is offered again.
            tokio::time::sleep(PAUSE).await;
        }
        let (met, is_generator) = judged;
        self.edge.vote(rate, met, is_generator);
        if !met {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(true)
    }

    fn offer(&self, run: &Run, rate: f64) -> Offer {
        let scenario = &run.scenario;
        let needed = scenario.slo.as_ref().map_or(1.0, |slo| slo.samples_needed());
        // Long enough for the percentiles to be named, with room for what a Poisson process leaves out.
        let seconds = scenario
            .search
            .point_s
            .max((1.2 * needed / rate).min(POINT_S_MAX));
        Offer {
            open: Some((scenario.load.arrivals.clone().unwrap_or_default(), Some(rate))),
            think: Duration::ZERO,
            amount: Amount::For(Duration::from_secs_f64(seconds)),
            warmup_max: scenario.load.warmup_said.unwrap_or(WARMUP_MAX),
            late_max: Duration::ZERO,
            seed: scenario.about.seed.wrapping_add(self.tried.len() as u64),
        }
    }

    fn result(self, run: &Run) -> Search {
        let target = run.scenario.targets[0].name.clone();
        let slo = run.scenario.slo.as_ref().map(|slo| slo.text.clone());
        let slo = slo.unwrap_or_default();
        Search {
            rate_met: self.edge.met(),
            rate_missed: self.edge.missed(),
            rate_knee: knee(&self.tried, &run.result.points),
            sentence: sentence(&self.edge, &target, &slo),
            tried: self.tried,
            target,
            slo,
        }
    }
}
