//! What is sent to a target, before it is encoded: requests read, generated or drawn, and the templates of operations.
//!
//! Nothing is encoded here. Its invariant: the requests depend on the scenario and its seed alone, and there is at least one.

use millpond_press_workload as workload;
use millpond_press_workload::{Mixed, RequestSet, Sizes, Template, value_of};

use millpond_press_load::{Operation, TargetKind};

use super::keys::{File, Target};
use super::targets::Fill;

/// Requests drawn for a mix where the scenario does not say how many.
const COUNT: usize = 10_000;

/// What is sent, before it is encoded.
pub(super) struct Bodies {
    pub(super) set: RequestSet,
    pub(super) source: String,
    /// The keys of each request, for mixes.
    pub(super) mixed: Option<Mixed>,
}

/// What operations are called in results.
pub(super) fn operation_names(target: &Target) -> Vec<String> {
    let name = |(at, operation): (usize, &Operation)| {
        let words = operation.name.clone().or(operation.command.clone());
        words.unwrap_or_else(|| format!("operation {}", at + 1))
    };
    target.operations.iter().enumerate().map(name).collect()
}

/// The requests of a target.
pub(super) fn bodies(file: &File, target: &Target) -> Result<Bodies, String> {
    let requests = &file.requests;
    let plain = |set, source: String| {
        Ok(Bodies {
            set,
            source,
            mixed: None,
        })
    };
    let words = |error: workload::Error| format!("[requests]: {error}");
    let bodies = if target.protocol.takes.program {
        plain(
            RequestSet::from_bodies("the program", [b""]).map_err(words)?,
            "made by the program".into(),
        )
    } else if !target.operations.is_empty() {
        mix(file, target)
    } else if let Some(path) = file.request_files(target).0 {
        plain(RequestSet::load(path).map_err(words)?, path.display().to_string())
    } else if let Some(samples) = &requests.generate {
        let columns = samples.features.len();
        let source = format!(
            "generated, {} samples of {columns} features each",
            samples.samples
        );
        plain(samples.generate(file.scenario.seed).map_err(words)?, source)
    } else if target.protocol.takes.any_bytes {
        let sizes = requests.bytes.clone().unwrap_or(Sizes::Constant(32));
        sizes
            .check()
            .map_err(|error| format!("requests.bytes: {error}"))?;
        let mut body = Vec::new();
        let bodies = (0..requests.count.unwrap_or(1_000)).map(|number| {
            body.clear();
            value_of(file.scenario.seed, number as u64, &sizes, &mut body);
            body.clone()
        });
        plain(
            RequestSet::from_bodies("requests.bytes", bodies).map_err(words)?,
            "random letters".into(),
        )
    } else if target.method.is_some() || target.path.is_some() {
        let body = target.protocol.empty;
        plain(
            RequestSet::from_bodies("the empty request", [body]).map_err(words)?,
            "empty bodies".into(),
        )
    } else {
        Err(
            "[requests] needs `file` or `generate`, or the target `operations`; \
             see press/scenarios/r1-recommand.toml and peer-redis.toml"
                .into(),
        )
    }?;
    if target.protocol.takes.any_bytes && bodies.set.iter().any(<[u8]>::is_empty) {
        return Err(
            "requests.bytes gives a request of 0 bytes, and an echo of nothing has no end; use at least 1"
                .into(),
        );
    }
    let distinct_min = requests.distinct_min.unwrap_or(1);
    if bodies.set.distinct() < distinct_min {
        return Err(format!(
            "requests.distinct_min is {distinct_min}, but {} holds {} distinct requests; add requests or lower it",
            bodies.source,
            bodies.set.distinct()
        ));
    }
    Ok(bodies)
}

/// Draws the requests of a target's operations.
fn mix(file: &File, target: &Target) -> Result<Bodies, String> {
    let operations = target
        .operations
        .iter()
        .zip(operation_names(target))
        .map(|(operation, name)| {
            Ok(workload::Operation {
                parts: parts(target, operation)?,
                weight: operation.weight,
                writes: operation.writes,
                name,
            })
        })
        .collect::<Result<Vec<_>, String>>()?;
    let (count, popularity, sizes) = match &file.keys {
        Some(keys) => (keys.count, keys.popularity.clone(), keys.value_bytes.clone()),
        None if operations
            .iter()
            .flat_map(|one| &one.parts)
            .any(|part| part.keys_each() > 0) =>
        {
            return Err(
                "an operation holds {key}, but there is no [keys] section; add one with count = …".into(),
            );
        }
        None => (1, workload::Popularity::Uniform, Sizes::Constant(40)),
    };
    let mut keys = workload::Keys::new(count, &popularity).map_err(|error| format!("[keys]: {error}"))?;
    let requests = file.requests.count.unwrap_or(COUNT);
    let mixed = workload::mix(file.scenario.seed, requests, &operations, &mut keys, &sizes)
        .map_err(|error| error.to_string())?;
    for operation in &operations {
        check_values(target.protocol, &operation.parts, &sizes)?;
    }
    Ok(Bodies {
        set: mixed.requests.clone(),
        source: format!(
            "{requests} drawn from {} operations over {count} keys",
            operations.len()
        ),
        mixed: Some(mixed),
    })
}

/// The templates of one operation, as its kind wants them: the first line says what, the rest is the body.
fn parts(target: &Target, operation: &Operation) -> Result<Vec<Template>, String> {
    let kind = target.protocol;
    let texts = (kind.texts)(&target.description(), operation);
    let texts = texts.map_err(|key| format!("an operation of protocol \"{}\" needs `{key}`", kind.name()))?;
    texts
        .iter()
        .map(|text| Template::parse(text).map_err(|error| format!("{text:?}: {error}")))
        .collect()
}

/// What loads a target's store.
pub(super) fn fill_of(
    file: &File,
    target: &Target,
    fill: &Operation,
    mixed: Option<&Mixed>,
) -> Result<Fill, String> {
    let keys = file
        .keys
        .as_ref()
        .ok_or("target.fill needs a [keys] section: it writes every key once")?;
    let in_fill = |message| format!("target.fill: {message}");
    let parts = parts(target, fill).map_err(in_fill)?;
    check_values(target.protocol, &parts, &keys.value_bytes).map_err(in_fill)?;
    Ok(Fill {
        parts,
        // With the keys that writes insert: another connection may ask for them before they are written.
        keys: keys.count.max(mixed.map_or(0, Mixed::keys_end)),
        sizes: keys.value_bytes.clone(),
        seed: file.scenario.seed,
        // Its header lines are for the requests that are measured.
        target: Target {
            headers: Default::default(),
            ..target.clone()
        },
    })
}

/// The expected answers, where the scenario has a file of them.
pub(super) fn expected(file: &File, target: &Target, bodies: &Bodies) -> Result<Option<RequestSet>, String> {
    let Some(path) = file.request_files(target).1 else {
        return Ok(None);
    };
    let expected = RequestSet::load(path).map_err(|error| format!("requests.expected: {error}"))?;
    if expected.len() != bodies.set.len() {
        return Err(format!(
            "requests.expected holds {} lines for {} requests; it needs one line a request",
            expected.len(),
            bodies.set.len()
        ));
    }
    Ok(Some(expected))
}

/// Whether every value can be sent and told from none: rows hold any bytes, a command is words, and an empty one is no word.
fn check_values(kind: &TargetKind, parts: &[Template], sizes: &Sizes) -> Result<(), String> {
    if matches!(sizes, Sizes::Rows(_)) && !kind.takes.values && parts.iter().any(Template::has_value) {
        return Err(format!(
            "keys.value_bytes gives rows, whose bytes are no text, and {{value}} is sent over protocol \"{}\"; rows are for \"resp\" \
             and \"memcached\"",
            kind.name()
        ));
    }
    let is_text = !kind.takes.words;
    if is_text || sizes.least() > 0 || !parts.iter().any(Template::has_value) {
        return Ok(());
    }
    Err(format!(
        "keys.value_bytes gives values of 0 bytes, and a command of protocol \"{}\" is words: an empty {{value}} would be no \
         word; use at least 1 byte",
        kind.name()
    ))
}
