//! The sizes, instances and waits of a node as keys of a model's section.
//!
//! It knows no backend. Its invariant: a size is a whole number above 0, and what is none is refused with its key.

use super::file::Node;
use super::members::Keys;
use super::{Outcome, Refused};
use std::collections::BTreeSet;
use toml::{Table, Value};

/// A model's section with the sizes of its batches, its instances and its wait.
pub(super) fn sized(mut section: Table, keys: &mut Keys<'_>) -> Result<Table, Refused> {
    let node = keys.node;
    if let Some(max) = node.get("max") {
        let sizes = max
            .split(['&', ';'])
            .map(|shape| shape.split('x').next().unwrap_or_default().trim().parse::<i64>());
        let sizes: Result<BTreeSet<i64>, _> = sizes.collect();
        let sizes = sizes
            .ok()
            .filter(|sizes| sizes.first().is_some_and(|least| *least > 0));
        let sizes = sizes.ok_or_else(|| not_a_size(node, "max", max))?;
        let largest = sizes.last().copied().unwrap_or(1);
        section.insert("batch_size_max".to_owned(), largest.into());
        let (outcome, text) = match max.contains('x') {
            true if sizes.len() > 1 => (Outcome::Changed, "batch_sizes; shapes are the model's own"),
            true => (
                Outcome::Changed,
                "batch_size_max is its largest batch; shapes are the model's own",
            ),
            false if sizes.len() > 1 => (Outcome::Kept, "batch_sizes"),
            false => (Outcome::Kept, "batch_size_max"),
        };
        keys.note("max", outcome, text);
        if sizes.len() > 1 {
            let sizes: Vec<Value> = sizes.into_iter().map(Value::from).collect();
            section.insert("batch_sizes".to_owned(), sizes.into());
        }
    } else {
        section.insert("batch_size_max".to_owned(), 1.into());
    }
    instances(&mut section, keys)?;
    delay(&mut section, keys)?;
    Ok(section)
}

/// The section of a model that runs a registered backend, which says itself how large its batches are.
pub(super) fn of_own(keys: &mut Keys<'_>) -> Result<Table, Refused> {
    let mut section = Table::new();
    if let Some(max) = keys.node.get("max") {
        let max: i64 = max.parse().map_err(|_| not_a_size(keys.node, "max", max))?;
        section.insert("batch_size_max".to_owned(), max.into());
        keys.note(
            "max",
            Outcome::Changed,
            "batch_size_max of a backend without max()",
        );
    }
    instances(&mut section, keys)?;
    delay(&mut section, keys)?;
    Ok(section)
}

fn instances(section: &mut Table, keys: &mut Keys<'_>) -> Result<(), Refused> {
    let node = keys.node;
    if let Some(count) = node.get("instance_num") {
        let count: i64 = count
            .parse()
            .map_err(|_| not_a_size(node, "instance_num", count))?;
        section.insert("instances".to_owned(), count.into());
        keys.note("instance_num", Outcome::Kept, "instances");
    }
    Ok(())
}

/// How long a batch may wait to fill.
fn delay(section: &mut Table, keys: &mut Keys<'_>) -> Result<(), Refused> {
    let node = keys.node;
    if let Some(text) = node.get("batching_timeout") {
        let us = delay_us(text).ok_or_else(|| {
            let problem = format!("`{text}` is no time");
            Refused::new(
                &node.name,
                "batching_timeout",
                problem,
                "write milliseconds, 0 or more",
            )
        })?;
        section.insert("batch_delay_us_max".to_owned(), us.into());
        keys.note(
            "batching_timeout",
            Outcome::Changed,
            "batch_delay_us_max, in microseconds; an instance waits only while measured arrivals say that the batch will fill",
        );
    } else if node.get("max").is_some_and(|max| max.trim() != "1") {
        keys.unset(
            "batching_timeout",
            "4 ms there; without it an instance waits here only for callers that it has just answered (batch_delay_us_max sets a time)",
        );
    }
    Ok(())
}

/// Microseconds of a time in milliseconds, which may have a fraction.
fn delay_us(text: &str) -> Option<i64> {
    let us = text.trim().parse::<f64>().ok()? * 1e3;
    // Sizes that no table can hold are not times.
    (0.0..=1e15).contains(&us).then(|| us.round() as i64)
}

pub(super) fn not_a_size(node: &Node, key: &str, text: &str) -> Refused {
    Refused::new(
        &node.name,
        key,
        format!("`{text}` is no size"),
        "write 4, or \"4x3x224x224\"",
    )
}
