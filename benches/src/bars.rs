//! The bars of each area, in the order in which they are measured. One module below is one group of bars.
//!
//! Its invariant: every bar stands in exactly one group.

mod auc;
mod demo;
mod first_request;
mod grid;
mod hardening;
mod levels;
mod one_core;
mod press;
mod refusal;
mod rpc;

use crate::bar::Group;

/// The first whole path. What loads the machine with other things stands last, so that the others find it idle.
pub(crate) const SPINE: &[Group] = &[
    one_core::GROUP,
    first_request::GROUP,
    levels::GROUP,
    refusal::GROUP,
    grid::GROUP,
    auc::GROUP,
    demo::GROUP,
];

/// The load lab itself.
pub(crate) const PRESS: &[Group] = &[
    press::open_loop::GROUP,
    press::client_cost::GROUP,
    press::truth::GROUP,
    press::verdicts::GROUP,
    press::search::GROUP,
];

/// The network front.
pub(crate) const RPC: &[Group] = &[
    rpc::echo::GROUP,
    rpc::connections::GROUP,
    rpc::fpnn::GROUP,
    rpc::massive::GROUP,
    rpc::tls::GROUP,
    rpc::overload::WAITING,
    rpc::overload::COMPUTING,
    rpc::overload::OF_R1,
    rpc::log_levels::GROUP,
    rpc::allocators::GROUP,
];

/// Hostile callers, stops, and what the defences cost. What moves no figure stands first; the chaos campaign is `make chaos`.
pub(crate) const HARDENING: &[Group] = &[
    hardening::instructions::GROUP,
    hardening::builds::GROUP,
    hardening::crowd::GROUP,
    hardening::stops::GROUP,
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique() {
        let bars: Vec<&str> = SPINE
            .iter()
            .chain(PRESS)
            .chain(RPC)
            .chain(HARDENING)
            .flat_map(|group| group.bars)
            .map(|bar| bar.name)
            .collect();
        let distinct: BTreeSet<&str> = bars.iter().copied().collect();
        assert_eq!(bars.len(), distinct.len());
        assert!(bars.iter().all(|name| !name.contains(' ')));
    }
}
