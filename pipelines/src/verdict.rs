//! Whether a stage of a request runs: by its filters, and by what it takes.
//!
//! It runs nothing. Its invariant: a verdict is given once all that it depends on is settled, so it does not depend on which stage was
//! faster.

use crate::Error;
use crate::condition::Condition;
use crate::pipeline::Ready;
use crate::planner::PlannedFilter;
use crate::run::Run;

/// What the filters of a stage say.
pub(crate) enum Verdict {
    /// What it looks at is not settled; `true` where the stages behind it wait for that too.
    Open(bool),
    Run,
    Skip,
    /// It gives the value that stands there.
    Gives(usize),
}

impl Run {
    /// Whether a stage is to run, by its filters and by what it takes.
    pub(crate) fn verdict(&mut self, at: usize, ready: &Ready) -> Result<Verdict, Error> {
        if self.ends_at.is_some_and(|end| at >= end) {
            return Ok(Verdict::Skip);
        }
        let breaks = ready.filters.iter().filter_map(|(filter, slot)| match filter {
            PlannedFilter::Break(condition, _) => Some((condition, *slot)),
            _ => None,
        });
        for (condition, slot) in breaks {
            if !self.slots[slot].is_settled() {
                return Ok(Verdict::Open(true));
            }
            if self.holds(ready, condition, slot)? == Some(true) {
                self.ends_at = Some(at);
                return Ok(Verdict::Skip);
            }
        }
        let mut reads = ready
            .takes
            .iter()
            .chain(ready.filters.iter().map(|(_, slot)| slot));
        if !reads.all(|at| self.slots[*at].is_settled()) {
            return Ok(Verdict::Open(false));
        }
        for (filter, slot) in &ready.filters {
            match filter {
                PlannedFilter::Or(_) if self.slots[*slot].value().is_some() => {
                    return Ok(Verdict::Gives(*slot));
                }
                PlannedFilter::Or(_) => {}
                PlannedFilter::Break(condition, _) => {
                    if self.holds(ready, condition, *slot)?.is_none() {
                        return Ok(Verdict::Skip);
                    }
                }
                PlannedFilter::Skip(condition, _) => {
                    if self.holds(ready, condition, *slot)? != Some(false) {
                        return Ok(Verdict::Skip);
                    }
                }
            }
        }
        let is_there = |at: &usize| self.slots[*at].value().is_some();
        Ok(match ready.takes.iter().all(is_there) {
            true => Verdict::Run,
            false => Verdict::Skip,
        })
    }

    /// Whether a condition holds; `None` where what it is asked of was skipped.
    fn holds(&self, ready: &Ready, condition: &Condition, slot: usize) -> Result<Option<bool>, Error> {
        let Some(value) = self.slots[slot].value() else {
            return Ok(condition.holds_of_nothing());
        };
        condition
            .holds(value)
            .map(Some)
            .map_err(|problem| Error::Request {
                problem: format!(
                    "stage {:?} of pipeline {:?}, key filter: {problem}",
                    ready.name,
                    self.pipeline.name()
                ),
            })
    }
}
