//! What the models and the stages of a pipeline have done, as Python's dicts.
//!
//! It counts nothing. Its invariant: reading stops no call.

use millpond_catalog::Catalog;
use millpond_engines_batcher::Stats;
use millpond_metrics::Metric;
use millpond_pipelines::Pipeline;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// What the models have done, by name: requests accepted, and the counts of `*infos`.
pub(super) fn models<'py>(py: Python<'py>, catalog: &Catalog) -> PyResult<Bound<'py, PyDict>> {
    let models = PyDict::new(py);
    for (name, model) in &catalog.models {
        let stats = model.batcher.stats();
        let counts = PyDict::new(py);
        counts.set_item("accepted", stats.accepted)?;
        for list in [Stats::METRICS, Stats::SUMS] {
            for (name, number) in Metric::infos(list, &stats) {
                counts.set_item(name, number as u64)?;
            }
        }
        models.set_item(name, counts)?;
    }
    Ok(models)
}

/// What the stages of a pipeline have done, by name; times in seconds, of a stage without a queue no wait.
pub(super) fn stages<'py>(py: Python<'py>, pipeline: &Pipeline) -> PyResult<Bound<'py, PyDict>> {
    let stages = PyDict::new(py);
    for stage in pipeline.stage_stats() {
        let counts = PyDict::new(py);
        counts.set_item("answered", stage.work.count())?;
        counts.set_item("failed", stage.failed)?;
        counts.set_item("skipped", stage.skipped)?;
        counts.set_item("work_s", stage.work.seconds())?;
        if let Some(wait) = &stage.wait {
            counts.set_item("wait_s", wait.seconds())?;
        }
        stages.set_item(stage.name, counts)?;
    }
    Ok(stages)
}
