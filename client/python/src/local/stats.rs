//! What the models and the stages of a pipeline have done, as Python's dicts.
//!
//! It counts nothing. Its invariant: reading stops no call.

use millpond_catalog::Catalog;
use millpond_pipelines::Pipeline;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// What the models have done, by name.
pub(super) fn models<'py>(py: Python<'py>, catalog: &Catalog) -> PyResult<Bound<'py, PyDict>> {
    let models = PyDict::new(py);
    for (name, model) in &catalog.models {
        let stats = model.batcher.stats();
        let counts = PyDict::new(py);
        let numbers = [
            ("requests", stats.accepted),
            ("answered", stats.answered),
            ("failed", stats.failed),
            ("refused", stats.refused),
            ("expired", stats.expired),
            ("abandoned", stats.abandoned),
            ("batches", stats.batches),
            ("rows", stats.rows),
        ];
        for (name, number) in numbers {
            counts.set_item(name, number)?;
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
