//! The bars of each area, in the order in which they are measured: scenarios, and one module below for each group of code.
//!
//! Its invariant: every bar stands in exactly one group; a group may be of several areas.

mod features_nodes;
mod first_request;
mod hardening;
mod ordered_in_process;
mod ordered_recovery;

use crate::bar::Group;
use crate::scenario::{self, nothing};

/// The first whole path. What loads the machine with other things stands last, so that the others find it idle.
pub(crate) const SPINE: &[Group] = &[
    Group::of("one-core", scenario::of_r1),
    first_request::GROUP,
    Group::of("levels", scenario::of_r1),
    Group::of("refusal", scenario::of_r1),
    Group::of("grid", scenario::of_r1),
    Group::of("auc", nothing),
    Group::of("demo", scenario::of_demo),
];

/// The load lab itself.
pub(crate) const PRESS: &[Group] = &[
    Group::of("open-loop", nothing),
    Group::of("client-cost", nothing),
    Group::of("truth", nothing),
    Group::of("verdicts", nothing),
    Group::of("starved", nothing),
    Group::of("wire", nothing),
    Group::of("search", nothing),
];

/// The network front.
pub(crate) const RPC: &[Group] = &[
    Group::of("echo-d1", nothing),
    Group::of("echo-d16", nothing),
    Group::of("connections", nothing),
    Group::of("fpnn", nothing),
    Group::of("massive", scenario::of_massive),
    Group::of("tls", scenario::of_tls),
    Group::of("overload-wait", nothing),
    Group::of("overload-compute", nothing),
    Group::of("overload-r1", scenario::of_r1),
    Group::of("log-levels", nothing),
];

/// Hostile callers, stops, and what the defences cost. What moves no figure stands first; the chaos campaign is `make chaos`.
pub(crate) const HARDENING: &[Group] = &[
    Group::of("instructions", scenario::of_instructions),
    Group::of("builds", scenario::of_builds),
    Group::of("builds-r1", scenario::of_builds_of_r1),
    hardening::crowd::GROUP,
    hardening::stops::GROUP,
];

/// What the shape of the server costs a request, beside the build before and beside programs that do the work alone.
pub(crate) const STRUCTURE: &[Group] = &[
    Group::of("instructions", scenario::of_instructions),
    Group::of("builds", scenario::of_builds),
    Group::of("builds-r1", scenario::of_builds_of_r1),
    Group::of("one-core", scenario::of_r1),
    Group::of("lookup", scenario::of_lookup),
    Group::of("fpnn", nothing),
    Group::of("overload-wait", nothing),
    Group::of("overload-compute", nothing),
    Group::of("overload-r1", scenario::of_r1),
];

/// Models: what batches, waits and refusals cost their callers, beside the build before.
pub(crate) const INFER: &[Group] = &[
    Group::of("returning", scenario::of_models),
    Group::of("returning-open", scenario::of_models),
    Group::of("returning-local", nothing),
    Group::of("standing", scenario::of_models),
    Group::of("bursts", nothing),
    Group::of("quick", nothing),
    Group::of("scheduler", nothing),
    Group::of("local", nothing),
    Group::of("gil", scenario::of_demo_environment),
    Group::of("local-instructions", scenario::of_local_instructions),
    Group::of("ort-load", scenario::of_ort_load),
    Group::of("one-core", scenario::of_r1),
    Group::of("grid", scenario::of_r1),
    Group::of("overload-r1", scenario::of_r1),
];

/// Feature tables: lookups in one process and over the wire, beside Redis, memcached and loops in C.
pub(crate) const FEATURES: &[Group] = &[
    Group::of("features-in-process", scenario::of_many_features),
    Group::of("features-100", scenario::of_features),
    Group::of("features-1", scenario::of_features),
    Group::of("features-many", scenario::of_many_features),
    Group::of("features-switching", scenario::of_switched_features),
    Group::of("features-upserts", scenario::of_features),
    Group::of("features-build", scenario::of_many_features),
    features_nodes::GROUP,
];

/// The ordered store: beside other ordered maps, beside Redis, and beside the disk and itself.
pub(crate) const ORDERED: &[Group] = &[
    ordered_in_process::GROUP,
    ordered_recovery::GROUP,
    Group::of("ordered-resp", nothing),
    Group::of("ordered-wire", nothing),
    Group::of("ordered-tails", nothing),
    Group::of("ordered-syncs", nothing),
    Group::of("ordered-checkpoint", nothing),
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_every_scenario_has_bars() {
        std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).unwrap();
        let areas = [SPINE, PRESS, RPC, HARDENING, STRUCTURE, INFER, FEATURES, ORDERED];
        let mut groups = BTreeSet::new();
        let mut names = Vec::new();
        for group in areas.into_iter().flatten() {
            if !groups.insert(group.name) {
                continue;
            }
            let about = group.about().unwrap();
            assert!(
                !about.scenario.title.is_empty() && !about.bar.is_empty(),
                "{}",
                group.name
            );
            names.extend(about.bar.into_iter().map(|bar| bar.name));
        }
        let distinct: BTreeSet<&String> = names.iter().collect();
        assert_eq!(names.len(), distinct.len());
        assert!(names.iter().all(|name| !name.contains(' ')));
    }
}
