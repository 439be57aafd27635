//! The points of a run in their order: loads one after the other, targets in turn within a load, with antagonists and without.
//!
//! Its invariant: a target that was left out is never visited.

use std::collections::BTreeMap;

use millpond_press_load::Offer;
use millpond_press_verdict::Point;

use super::{At, Run, Up};
use crate::Error;
use crate::scenario::{OwnLoad, TargetPlan};
use crate::session::Session;

/// One repeat of every load on some connections.
struct Turn<'a> {
    combination: &'a BTreeMap<String, String>,
    connections: usize,
    repeat: usize,
}

impl Run {
    /// Every point of one combination: targets take turns within a load, so that a drift of the machine meets all of them.
    pub(super) async fn points(
        &mut self,
        combination: &BTreeMap<String, String>,
        up: &mut [Up],
        round: usize,
    ) -> Result<bool, Error> {
        for connections in self.scenario.load.keys.connections.clone() {
            let mut sessions: Vec<Option<Session>> = up.iter().map(|_| None).collect();
            if !self.scenario.load.keys.reconnect {
                for (number, session) in sessions.iter_mut().enumerate() {
                    if up[number].left_out {
                        continue;
                    }
                    let own = self.scenario.targets[number].own.connections;
                    let connections = own.unwrap_or(connections);
                    match self.session(number, connections, &up[number]).await {
                        Err(error) if self.scenario.targets[number].optional => {
                            self.leave_out(number, combination, &error);
                            up[number] = Up {
                                left_out: true,
                                ..Up::default()
                            };
                        }
                        Ok(None) => return Ok(false),
                        opened => *session = opened?,
                    }
                }
            }
            for repeat in 1..=self.scenario.about.repeats {
                let turn = Turn {
                    combination,
                    connections,
                    repeat: round * self.scenario.about.repeats + repeat,
                };
                if !self.repeat(&turn, &mut sessions, up).await? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Every load once; false if someone stopped it.
    async fn repeat(
        &mut self,
        turn: &Turn<'_>,
        sessions: &mut [Option<Session>],
        up: &mut [Up],
    ) -> Result<bool, Error> {
        let is_even = turn.repeat.is_multiple_of(2);
        let steps = self.scenario.load.steps(turn.connections);
        let own = self.scenario.targets.iter().map(|target| target.own.rates.len());
        for number in 0..own.max().unwrap_or(0).max(steps.len()) {
            let mut order: Vec<usize> = (0..up.len()).filter(|&target| !up[target].left_out).collect();
            let depends = |target: &TargetPlan| target.own.over.is_some();
            if is_even && !self.scenario.targets.iter().any(depends) {
                order.reverse();
            }
            for target in order {
                let own = &self.scenario.targets[target].own;
                // A target with rates of its own may have more of them than others, or fewer.
                let Some(step) = own.step(number, &steps) else {
                    continue;
                };
                let rate = own.rate.or(self.multiple(own, turn.repeat)?).or(step.rate);
                let at = At {
                    combination: turn.combination,
                    target,
                    connections: own.connections.unwrap_or(turn.connections),
                    rate,
                    requests: self.scenario.load.keys.requests(rate),
                    is_disturbed: false,
                    repeat: turn.repeat,
                };
                let offer = self.offer(&at, step.amount(self.scenario.load.amount))?;
                // With antagonists and without take turns, so that a drift of the machine meets both.
                let windows: &[bool] = match (up[target].has_antagonists, is_even) {
                    (false, _) => &[false],
                    (true, false) => &[false, true],
                    (true, true) => &[true, false],
                };
                for &is_disturbed in windows {
                    let at = At {
                        is_disturbed,
                        ..at.clone()
                    };
                    if !self
                        .visit(&at, &offer, &mut sessions[target], &mut up[target])
                        .await?
                    {
                        return Ok(false);
                    }
                }
            }
            let slo = self.last().and_then(|point| point.slo.as_ref());
            if self.scenario.load.until_missed && slo.is_some_and(|slo| !slo.met) {
                break;
            }
        }
        Ok(true)
    }

    /// The rate of a load that is a multiple of what another target answered in the same repeat.
    fn multiple(&self, own: &OwnLoad, repeat: usize) -> Result<Option<f64>, Error> {
        let Some((times, over)) = own.times.zip(own.over.as_ref()) else {
            return Ok(None);
        };
        let is_it = |point: &&Point| point.target.name == *over && point.repeat == repeat;
        let found = self.result.points.iter().rev().find(is_it).map(|point| point.qps);
        let found = found.filter(|qps| *qps > 0.0).ok_or_else(|| Error::Scenario {
            place: self.options.scenario.display().to_string(),
            message: format!("{over} answered nothing, so nothing can be a multiple of its rate"),
        });
        Ok(Some((times * found?).round().max(1.0)))
    }

    /// Runs one point, on connections of its own where the scenario says so; false if someone stopped it.
    async fn visit(
        &mut self,
        at: &At<'_>,
        offer: &Offer,
        held: &mut Option<Session>,
        up: &mut Up,
    ) -> Result<bool, Error> {
        if held.is_none() {
            self.wait_quiet(at.target).await;
            *held = self.session(at.target, at.connections, up).await?;
        }
        let Some(session) = held else {
            return Ok(false);
        };
        let interrupted = self.point(at, offer, session, up).await?;
        if self.scenario.load.keys.reconnect {
            *held = None;
        }
        Ok(!interrupted)
    }
}
