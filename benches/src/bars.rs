//! The bars of each area, in the order in which they are measured: scenarios, and one module below for each group of code.
//!
//! Its invariant: every bar stands in exactly one group.

mod first_request;
mod hardening;
mod press;
mod rpc;

use crate::bar::Group;
use crate::scenario;

/// The first whole path. What loads the machine with other things stands last, so that the others find it idle.
pub(crate) const SPINE: &[Group] = &[
    Group::of("one-core", scenario::of_r1),
    first_request::GROUP,
    Group::of("levels", scenario::of_r1),
    Group::of("refusal", scenario::of_refusals),
    Group::of("grid", scenario::of_r1),
    Group::plain("auc"),
    Group::of("demo", scenario::of_demo),
];

/// The load lab itself.
pub(crate) const PRESS: &[Group] = &[
    Group::plain("open-loop"),
    Group::plain("client-cost"),
    press::truth::GROUP,
    press::verdicts::GROUP,
    press::search::GROUP,
];

/// The network front.
pub(crate) const RPC: &[Group] = &[
    Group::plain("echo-d1"),
    Group::plain("echo-d16"),
    Group::plain("connections"),
    Group::plain("fpnn"),
    rpc::massive::GROUP,
    Group::of("tls", scenario::of_tls),
    rpc::overload::WAITING,
    rpc::overload::COMPUTING,
    rpc::overload::OF_R1,
    Group::plain("log-levels"),
];

/// Hostile callers, stops, and what the defences cost. What moves no figure stands first; the chaos campaign is `make chaos`.
pub(crate) const HARDENING: &[Group] = &[
    hardening::instructions::GROUP,
    Group::of("builds", scenario::of_builds),
    Group::of("builds-r1", scenario::of_builds_of_r1),
    hardening::crowd::GROUP,
    hardening::stops::GROUP,
];

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_every_scenario_has_bars() {
        std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/..")).unwrap();
        let groups = SPINE.iter().chain(PRESS).chain(RPC).chain(HARDENING);
        let mut names = Vec::new();
        for group in groups {
            let (title, bars) = group.about().unwrap();
            assert!(!title.is_empty() && !bars.is_empty(), "{}", group.name);
            names.extend(bars.into_iter().map(|bar| bar.name));
        }
        let distinct: BTreeSet<&String> = names.iter().collect();
        assert_eq!(names.len(), distinct.len());
        assert!(names.iter().all(|name| !name.contains(' ')));
    }
}
