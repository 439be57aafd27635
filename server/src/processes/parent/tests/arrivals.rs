//! Switches that nobody called for.
use super::*;

/// A process may have found a new version before it heard of a switch that another one asked for.
#[test]
fn a_version_that_nobody_called_for_is_above_all_that_served() {
    let folder = tempfile::tempdir().unwrap();
    let mut parent = parent(folder.path());
    let plan = Plan {
        version: 1,
        is_arrival: true,
        ..plan(folder.path())
    };
    let called_for = Plan {
        is_arrival: false,
        ..plan.clone()
    };
    parent.on(said(0, Report::Switch { asked: 5, plan }));
    let Order::Switched {
        outcome: Err(refusal),
        ..
    } = &orders(folder.path(), 0, 2)[1]
    else {
        panic!("it is refused")
    };
    assert!(
        refusal.is_passing && refusal.ex.contains("not above 1"),
        "{refusal:?}"
    );
    parent.on(said(
        0,
        Report::Switch {
            asked: 6,
            plan: called_for,
        },
    ));
    assert!(
        matches!(orders(folder.path(), 0, 3)[2], Order::Open { .. }),
        "a call may"
    );
}
