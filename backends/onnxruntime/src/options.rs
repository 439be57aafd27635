//! Options of a session, by the names that ONNX Runtime gives them. It takes any name and value without a word, so the names of all
//! releases from 1.24 to 1.32 are known here.
//!
//! Its invariant: an option is handed on, or refused by its name; none reads or writes a file outside the model's folder, and none
//! holds for other models.

use crate::settings::Scalar;
use ort::session::builder::SessionBuilder;
use std::collections::BTreeMap;

/// What becomes of an option.
#[derive(Clone, Copy)]
enum Way {
    /// It is handed on as it is.
    Entry,
    /// ONNX Runtime has a function for it; older libraries know no such name.
    Setter(Setter),
    /// It is refused, and why.
    Refused(&'static str),
}

/// The function that an option stands for.
#[derive(Clone, Copy)]
enum Setter {
    InterThreads,
    Execution,
    MemoryPattern,
    Deterministic,
}

const THREADS: &str = "set threads instead";
const OPTIMIZATION: &str = "set optimization instead";
const WRITES: &str = "it writes files beside what is served; do it by a program of your own";
const ELSEWHERE: &str = "it reads files outside the model's folder; put them beside the model";
const BYTES: &str = "it needs the model's bytes in memory, and models are loaded from files; leave it out";
const NO_RUN: &str = "such a session cannot run; leave it out";
const LOG: &str = "what ONNX Runtime says is in the server's log, from warnings up; leave it out";
const PROCESS: &str = "the first session sets it for all models of the process; leave it out";
const OWN_THREADS: &str = "each session has threads of its own; leave it out";

/// Every option that a release from 1.24 to 1.32 knows and that is more than an entry.
const SPECIAL: &[(&str, Way)] = &[
    ("ep.context_embed_mode", Way::Refused(WRITES)),
    ("ep.context_enable", Way::Refused(WRITES)),
    ("ep.context_file_path", Way::Refused(WRITES)),
    (
        "ep.context_model_external_initializers_file_name",
        Way::Refused(WRITES),
    ),
    ("ep.context_node_name_prefix", Way::Refused(WRITES)),
    ("ep.context_source_model_path", Way::Refused(ELSEWHERE)),
    ("session.collect_node_memory_stats_to_file", Way::Refused(WRITES)),
    ("session.compile_only", Way::Refused(NO_RUN)),
    ("session.debug_layout_transformation", Way::Refused(WRITES)),
    ("session.enable_mem_pattern", Way::Setter(Setter::MemoryPattern)),
    ("session.enable_profiling", Way::Refused(WRITES)),
    ("session.execution_mode", Way::Setter(Setter::Execution)),
    ("session.graph_optimization_level", Way::Refused(OPTIMIZATION)),
    ("session.inter_op_num_threads", Way::Setter(Setter::InterThreads)),
    ("session.intra_op_num_threads", Way::Refused(THREADS)),
    ("session.log_id", Way::Refused(LOG)),
    ("session.log_severity_level", Way::Refused(LOG)),
    ("session.log_verbosity_level", Way::Refused(LOG)),
    (
        "session.model_external_initializers_file_folder_path",
        Way::Refused(ELSEWHERE),
    ),
    ("session.moe.offload.allow_file_backing", Way::Refused(WRITES)),
    ("session.moe.offload.derived_cache_dir", Way::Refused(WRITES)),
    ("session.moe.offload.popularity_file", Way::Refused(ELSEWHERE)),
    ("session.moe.offload.source_root", Way::Refused(ELSEWHERE)),
    ("session.moe_expert_counter_state_file", Way::Refused(WRITES)),
    ("session.node_partition_config_file", Way::Refused(ELSEWHERE)),
    (
        "session.optimized_model_external_initializers_file_name",
        Way::Refused(WRITES),
    ),
    (
        "session.optimized_model_external_initializers_min_size_in_bytes",
        Way::Refused(WRITES),
    ),
    ("session.optimized_model_filepath", Way::Refused(WRITES)),
    (
        "session.resource_cuda_partitioning_settings",
        Way::Refused(ELSEWHERE),
    ),
    (
        "session.save_external_prepacked_constant_initializers",
        Way::Refused(WRITES),
    ),
    ("session.save_model_format", Way::Refused(WRITES)),
    ("session.set_denormal_as_zero", Way::Refused(PROCESS)),
    (
        "session.use_deterministic_compute",
        Way::Setter(Setter::Deterministic),
    ),
    (
        "session.use_external_initializer_file_buffers_directly",
        Way::Refused(BYTES),
    ),
    ("session.use_ort_model_bytes_directly", Way::Refused(BYTES)),
    (
        "session.use_ort_model_bytes_for_initializers",
        Way::Refused(BYTES),
    ),
    ("session.use_per_session_threads", Way::Refused(OWN_THREADS)),
];

/// The others, which are entries.
const ENTRIES: &str = include_str!("options/entries.txt");

fn entries() -> impl Iterator<Item = &'static str> {
    ENTRIES.lines().filter(|line| !line.is_empty())
}

fn way(name: &str) -> Option<Way> {
    let special = SPECIAL.iter().find(|(known, _)| *known == name);
    match special {
        Some((_, way)) => Some(*way),
        None => entries().any(|known| known == name).then_some(Way::Entry),
    }
}

/// What is wrong with options before a library is loaded; `at` is their table, as in `models.ranker.options`.
pub(crate) fn check(at: &str, options: &BTreeMap<String, Scalar>) -> Result<(), String> {
    for (name, value) in options {
        check_text(at, name, value)?;
        match way(name) {
            Some(Way::Entry) => {}
            Some(Way::Setter(setter)) => {
                parse(setter, &value.to_string())
                    .map_err(|expected| format!("{at}: {name:?} is {value}; expected {expected}"))?;
            }
            Some(Way::Refused(why)) => return Err(format!("{at}: {name:?} is not allowed: {why}")),
            None => {
                return Err(format!(
                    "{at}: ONNX Runtime has no session option {name:?}; the nearest is {:?}",
                    nearest(name)
                ));
            }
        }
    }
    Ok(())
}

/// C ends texts by a zero byte.
pub(crate) fn check_text(at: &str, name: &str, value: &Scalar) -> Result<(), String> {
    match name.contains('\0') || value.to_string().contains('\0') {
        true => Err(format!(
            "{at}: {name:?} or its value holds a zero byte; leave it out"
        )),
        false => Ok(()),
    }
}

/// What a setter is called with.
enum Setting {
    Count(usize),
    Truth(bool),
}

fn parse(setter: Setter, value: &str) -> Result<Setting, &'static str> {
    let truth = || match value {
        "0" => Ok(Setting::Truth(false)),
        "1" => Ok(Setting::Truth(true)),
        _ => Err("0 or 1"),
    };
    match setter {
        Setter::InterThreads => match value.parse() {
            Ok(count @ 1..=1024) => Ok(Setting::Count(count)),
            _ => Err("1 to 1024"),
        },
        Setter::Execution | Setter::MemoryPattern | Setter::Deterministic => truth(),
    }
}

/// Sets checked options.
pub(crate) fn apply(
    mut builder: SessionBuilder,
    options: &BTreeMap<String, Scalar>,
) -> Result<SessionBuilder, String> {
    for (name, value) in options {
        let value = value.to_string();
        builder = match way(name) {
            Some(Way::Setter(setter)) => {
                let setting = parse(setter, &value)
                    .map_err(|expected| format!("option {name:?} is {value}; expected {expected}"))?;
                set(builder, setter, setting)
            }
            _ => {
                let set = builder.with_config_entry(name, value);
                set.map_err(|error| error.message().to_owned())
            }
        }
        .map_err(|said| format!("option {name:?}: {said}"))?;
    }
    Ok(builder)
}

fn set(builder: SessionBuilder, setter: Setter, setting: Setting) -> Result<SessionBuilder, String> {
    let set = match setting {
        Setting::Count(count) => builder.with_inter_threads(count),
        Setting::Truth(truth) => match setter {
            Setter::Execution => builder.with_parallel_execution(truth),
            Setter::MemoryPattern => builder.with_memory_pattern(truth),
            _ => builder.with_deterministic_compute(truth),
        },
    };
    set.map_err(|error| error.message().to_owned())
}

/// The known option that takes the fewest changes to become `name`.
fn nearest(name: &str) -> &'static str {
    let all = SPECIAL.iter().map(|(known, _)| *known).chain(entries());
    all.min_by_key(|known| distance(name, known)).unwrap_or_default()
}

/// Letters to insert, remove or replace.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (at, letter) in from.chars().take(200).enumerate() {
        let mut diagonal = row[0];
        row[0] = at + 1;
        for (column, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests;
