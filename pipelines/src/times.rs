//! How long the stages of a pipeline take: of each request, and counted over all of them, waits apart from work.
//!
//! It reads no clock; a run does, between its stages. Its invariants: a stage that gave what it gives is counted once a
//! request, one that failed is counted as failed alone, and counting takes no lock.

use crate::Pipeline;
use crate::pipeline::Ready;
use crate::run::Run;
use crate::stage::{Slot, State};
use millpond_metrics::{Kind, Metric, OctaveHistogram, Octaves, Samples};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What one stage took of one request, in nanoseconds: it lies beside the stage's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct StageTime {
    wait_ns: u64,
    /// At least 1 of a stage that ran.
    work_ns: u64,
}

impl StageTime {
    pub(crate) fn new(wait: Duration, work: Duration) -> StageTime {
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        StageTime {
            wait_ns: ns(wait),
            work_ns: ns(work).max(1),
        }
    }

    /// In the queue of its model or its threads.
    pub fn wait(&self) -> Duration {
        Duration::from_nanos(self.wait_ns)
    }

    /// Working: a model's run with what is done before and behind it, a stage on threads likewise.
    pub fn work(&self) -> Duration {
        Duration::from_nanos(self.work_ns)
    }
}

/// The stages that ran of a request, with what each took.
#[derive(Default)]
pub struct StageTimes {
    /// `None`: no request.
    pipeline: Option<Arc<Pipeline>>,
    /// Without their values.
    slots: Vec<Slot>,
}

impl StageTimes {
    pub(crate) fn new(pipeline: Arc<Pipeline>, mut slots: Vec<Slot>) -> StageTimes {
        slots.iter_mut().for_each(Slot::clear);
        StageTimes {
            pipeline: Some(pipeline),
            slots,
        }
    }

    /// Each with its name, in the order of the plan.
    pub fn iter(&self) -> impl Iterator<Item = (&str, StageTime)> {
        let stages = self.pipeline.iter().flat_map(|pipeline| &pipeline.stages);
        let time = |start: usize| self.slots.get(start).map(|slot| slot.time).unwrap_or_default();
        stages
            .map(move |ready| (&*ready.name, time(ready.gives.start)))
            .filter(|(_, time)| time.work_ns > 0)
    }
}

/// In milliseconds, as a line of a log has it: `decode 1.204, scores 0.350 (waited 5.100)`.
impl fmt::Display for StageTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1e3;
        for (at, (name, time)) in self.iter().enumerate() {
            let before = if at == 0 { "" } else { ", " };
            write!(f, "{before}{name} {:.3}", ms(time.work()))?;
            if time.wait_ns > 0 {
                write!(f, " (waited {:.3})", ms(time.wait()))?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for StageTimes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

/// What is counted of a stage.
#[derive(Debug, Default)]
pub(crate) struct StageCounts {
    work: OctaveHistogram,
    /// Of a stage that waits.
    wait: OctaveHistogram,
    failed: AtomicU64,
    skipped: AtomicU64,
}

impl StageCounts {
    /// It ran for a request; `waits` where it waited for a model or threads.
    pub(crate) fn ran(&self, time: StageTime, waits: bool) {
        self.work.add(time.work_ns);
        if waits {
            self.wait.add(time.wait_ns);
        }
    }

    pub(crate) fn failed(&self) {
        self.failed.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn skipped(&self) {
        self.skipped.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn clear(&self) {
        self.work.clear();
        self.wait.clear();
        self.failed.store(0, Ordering::Relaxed);
        self.skipped.store(0, Ordering::Relaxed);
    }
}

/// What a stage has done since its pipeline was first opened.
#[derive(Debug, Clone, Copy)]
pub struct StageStats<'p> {
    /// The stage's name.
    pub name: &'p str,
    /// What it took of requests for which it gave a value, in nanoseconds.
    pub work: Octaves,
    /// How long these waited, in nanoseconds; `None` of a stage that waits for no model and has no threads.
    pub wait: Option<Octaves>,
    /// Requests that it failed, for whatever reason.
    pub failed: u64,
    /// Requests that it had no value for.
    pub skipped: u64,
}

impl Run {
    /// Counts what a stage took that has ended.
    pub(crate) fn took(&mut self, ready: &Ready, wait: Duration, work: Duration) {
        let slot = &mut self.slots[ready.gives.start];
        if matches!(slot.state, State::Skipped) {
            return ready.counts.skipped();
        }
        slot.time = StageTime::new(wait, work);
        ready.counts.ran(slot.time, ready.waits);
    }
}

impl Pipeline {
    /// What each stage has done, in the order of the plan.
    pub fn stage_stats(&self) -> impl Iterator<Item = StageStats<'_>> {
        self.stages.iter().map(|ready| StageStats {
            name: &ready.name,
            work: ready.counts.work.read(),
            wait: ready.waits.then(|| ready.counts.wait.read()),
            failed: ready.counts.failed.load(Ordering::Relaxed),
            skipped: ready.counts.skipped.load(Ordering::Relaxed),
        })
    }

    /// Goes on counting where `before` is, stage by stage of the same name.
    #[must_use]
    pub fn counting_on(mut self, before: &Pipeline) -> Pipeline {
        for ready in &mut self.stages {
            let same = before.stages.iter().find(|known| known.name == ready.name);
            if let Some(same) = same {
                ready.counts = Arc::clone(&same.counts);
            }
        }
        self
    }

    /// Lets its counts begin at zero; meant for the moment before the first request.
    pub fn forget_counts(&self) {
        self.stages.iter().for_each(|ready| ready.counts.clear());
    }

    /// What a page has of each pipeline.
    pub const METRICS: &'static [Metric<Pipeline>] = &[
        Metric::samples(
            "millpond_pipeline_stage_seconds",
            Kind::Histogram,
            "What a stage took of each request that it gave a value for: its own work, a model's run included, and of stages with a \
             queue the wait in it.",
            |pipeline: &Pipeline, samples: &mut Samples<'_>| {
                for stage in pipeline.stage_stats() {
                    samples.octave_times(&[("stage", stage.name), ("part", "work")], &stage.work);
                    if let Some(wait) = &stage.wait {
                        samples.octave_times(&[("stage", stage.name), ("part", "wait")], wait);
                    }
                }
            },
        ),
        Metric::samples(
            "millpond_pipeline_stage_failed_total",
            Kind::Counter,
            "Requests that a stage failed: its own errors, and those of its model or its threads, refusals included.",
            |pipeline: &Pipeline, samples: &mut Samples<'_>| {
                for stage in pipeline.stage_stats() {
                    samples.add(&[("stage", stage.name)], stage.failed as f64);
                }
            },
        ),
        Metric::samples(
            "millpond_pipeline_stage_skipped_total",
            Kind::Counter,
            "Requests that a stage had no value for.",
            |pipeline: &Pipeline, samples: &mut Samples<'_>| {
                for stage in pipeline.stage_stats() {
                    samples.add(&[("stage", stage.name)], stage.skipped as f64);
                }
            },
        ),
    ];
}
