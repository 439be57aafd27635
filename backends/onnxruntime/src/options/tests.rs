//! Names that are known, refused or near, without a library.
#![allow(clippy::unwrap_used)]
use super::*;

fn check_one(name: &str, value: &str, expected: Result<(), &str>) {
    let options = BTreeMap::from([(name.to_owned(), Scalar::Text(value.to_owned()))]);
    let found = check("models.a.options", &options);
    assert_eq!(found, expected.map_err(str::to_owned), "{name}");
}

#[test]
fn options_are_known_by_name() {
    check_one("session.disable_prepacking", "1", Ok(()));
    check_one(
        "session.set_denormal_as_zero",
        "1",
        Err(
            "models.a.options: \"session.set_denormal_as_zero\" is not allowed: the first session sets it for all models of the process; leave it out",
        ),
    );
    check_one("session.inter_op_num_threads", "2", Ok(()));
    check_one(
        "session.set_denormals_as_zero",
        "1",
        Err(
            "models.a.options: ONNX Runtime has no session option \"session.set_denormals_as_zero\"; the nearest is \"session.set_denormal_as_zero\"",
        ),
    );
    check_one(
        "session.optimized_model_filepath",
        "/etc/x",
        Err(
            "models.a.options: \"session.optimized_model_filepath\" is not allowed: it writes files beside what is served; do it by a program of your own",
        ),
    );
    check_one(
        "session.intra_op_num_threads",
        "2",
        Err("models.a.options: \"session.intra_op_num_threads\" is not allowed: set threads instead"),
    );
    check_one(
        "session.execution_mode",
        "parallel",
        Err("models.a.options: \"session.execution_mode\" is parallel; expected 0 or 1"),
    );
}

#[test]
fn each_option_is_listed_once() {
    let mut all: Vec<&str> = SPECIAL.iter().map(|(known, _)| *known).chain(entries()).collect();
    let count = all.len();
    all.sort_unstable();
    all.dedup();
    assert_eq!((all.len(), count), (134, 134));
    assert!(all.iter().all(|name| nearest(name) == *name));
}
