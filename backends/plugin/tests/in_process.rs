//! Plugins in this process: what good ones give, and what wrong ones are told. What crashes is `isolated.rs`'s.
#![allow(clippy::unwrap_used, missing_docs)]

mod built;

use built::{build, faulty, inputs, outputs};
use millpond_backends_interface::Backend as _;
use millpond_backends_plugin::Plugin;
use millpond_tensor::Tensor;

#[test]
fn a_plugin_runs_and_its_outputs_are_copied() {
    let built = faulty();
    let model = built.section("").load().unwrap();
    let ports = |ports: &[millpond_backends_interface::Port]| {
        ports
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    let signature = model.signature();
    assert!(signature.batched && !model.runs_inline());
    assert_eq!(ports(&signature.inputs), "text: bytes[N], x: f32[N, ?]");
    assert_eq!(ports(&signature.outputs), "y: f32[N, 1], echo: bytes[N]");
    let mut instance = model.instance().unwrap();
    let first = instance.run(inputs(&["a", "", "bcd"])).unwrap();
    let second = instance.run(inputs(&["other"])).unwrap();
    assert_eq!(first, outputs(&["a", "", "bcd"]));
    assert_eq!(second, outputs(&["other"]));
    // Rows of a larger tensor: strings that do not begin where their buffer does.
    let whole = inputs(&["skipped", "x", "yz"]);
    let last: Vec<Tensor> = whole.iter().map(|tensor| tensor.view(1..3).unwrap()).collect();
    let cut = instance.run(last).unwrap();
    assert_eq!(cut[1], outputs(&["x", "yz"])[1]);
    assert_eq!(cut[0].f32(), Some(&[5.0, 9.0][..]));
    // The model lives as long as its last instance.
    drop(model);
    assert!(instance.run(inputs(&["a"])).is_ok());
}

#[test]
fn a_plugin_that_does_not_load_says_why() {
    let built = faulty();
    let check = |fault: &str, words: &str| {
        let refused = built.refused(fault);
        assert!(refused.contains(words), "{fault}: {refused}");
        let names = refused.contains("plugin.so") || fault.starts_with("create");
        assert!(names && !refused.contains('\n'), "{fault}: {refused}");
    };
    check("init", "it was told to fail in /");
    check("init-silent", "init returned 7, and last_error nothing");
    check("init-null", "init succeeded and made no model");
    check("signature", "signature returned 3");
    check("no-inputs", "it has 0 inputs; expected 1 to 64");
    check("many-inputs", "no list of 4294967295 inputs");
    check("null-inputs", "no list of 2 inputs");
    check("null-port", "input 0 is a null pointer");
    check(
        "small-port",
        "input 0 has a struct_bytes below sizeof(millpond_port)",
    );
    check("no-name", "input 0 has no name");
    check("name-latin1", "input 0 has a name that is not UTF-8");
    check("name-long", "input 0 has no usable name");
    check("name-twice", "two inputs are called `x`");
    check("type", "output 0 `y` has the unknown type 77");
    check("rank", "output 0 `y` has 1000000 dimensions; expected at most 16");
    check("null-shape", "output 0 `y` has 2 dimensions and no shape");
    check("negative", "output 0 `y` has the size -7");
    check("huge", "output `y` is larger than any memory");
    check("unbatched-output", "first dimension of output `echo` is not free");
    check("create", "create returned 4");
    check("create-null", "create succeeded and made no instance");
}

#[test]
fn a_library_that_is_no_plugin_of_this_version_says_why() {
    let check = |flags: &[&str], words: &str| {
        let refused = build("tests/faulty.c", flags).refused("");
        assert!(
            refused.contains(words) && refused.contains("plugin.so"),
            "{refused}"
        );
    };
    check(&["-DGET=another"], "it has no function millpond_plugin_get");
    check(
        &["-DABI=2u"],
        "it was built for version 2 of millpond_plugin.h, and this server speaks version 1",
    );
    check(
        &["-DTABLE_BYTES=16"],
        "its table has 16 bytes, and version 1 of millpond_plugin.h has",
    );
    check(
        &["-DRUN=NULL", "-Wno-unused-function"],
        "its table has no function run",
    );
    check(&["-DTABLE=NULL"], "millpond_plugin_get returned no table");
    check(
        &["-DTABLE=(const millpond_plugin *)((const char *)&plugin + 1)"],
        "millpond_plugin_get returned no table",
    );
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(faulty().path()).unwrap();
    for (name, bytes, words) in [
        ("text.so", &b"no library"[..], "it is no shared library of this"),
        ("empty.so", b"", "it is no shared library of this"),
        ("cut.so", &whole[..whole.len() / 4], "it is cut short: it has"),
        ("header.so", &whole[..64], "it is cut short: it has 64 bytes"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let refused = Plugin::at(&path).load().err().unwrap().to_string();
        assert!(refused.contains(name) && refused.contains(words), "{refused}");
    }
    let gone = Plugin::at(folder.path().join("gone.so")).load().err().unwrap();
    assert!(gone.to_string().contains("gone.so"), "{gone}");
}

#[test]
fn outputs_that_are_not_as_the_signature_says_fail_the_run_alone() {
    let model = faulty().section("").load().unwrap();
    let mut instance = model.instance().unwrap();
    let mut check = |fault: &str, words: &str| {
        let failed = instance.run(inputs(&[fault, "b"])).unwrap_err().to_string();
        assert!(failed.contains(words), "{fault}: {failed}");
        assert_eq!(instance.run(inputs(&["good"])).unwrap(), outputs(&["good"]));
    };
    check("fail", "the model failed: it was told to");
    check("unset", "output `y` was not set");
    check("type", "output `y` has type 2, and its signature says f32 (1)");
    check(
        "rank",
        "output `y` has 7 dimensions, or no shape, and its signature says 2",
    );
    check(
        "shape",
        "output `y` has shape [3, 1], and its signature says y: f32[N, 1] with 2 rows",
    );
    check(
        "huge",
        "output `y` has shape [18446744073709551615, 18446744073709551615]",
    );
    check("no-shape", "output `y` has 2 dimensions");
    check("null", "output `y` has a null pointer for its elements");
    check("short", "output `y` has 7 bytes, which are not 2 elements of f32");
    check(
        "ends-count",
        "output `echo` has 3 ends of strings, or none at all, and its shape 2 elements",
    );
    check(
        "ends-null",
        "output `echo` has 2 ends of strings, or none at all, and its shape 2 elements",
    );
    check(
        "ends-beyond",
        "output `echo` has a string 0 from byte 0 to 18446744073709551615 of 12",
    );
    check(
        "ends-short",
        "output `echo` has 12 bytes of strings, and the last ends at 11",
    );
    check("strings-null", "output `echo` has a null pointer");
}

/// The example, computed again.
fn score(user: &str, item: &str, buckets: u64, dim: usize) -> f32 {
    let weight = |at: u64| ((at.wrapping_mul(2_654_435_761) >> 7) % 1024) as f32 / 1024.0 - 0.5;
    let hash = |column: u64, text: &str| {
        let first = (14_695_981_039_346_656_037u64 ^ column).wrapping_mul(1_099_511_628_211);
        text.bytes().fold(first, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(1_099_511_628_211)
        })
    };
    let embed = |column: u64, text: &str| {
        let bucket = hash(column, text) % buckets;
        (0..dim as u64)
            .map(move |at| weight(bucket * dim as u64 + at))
            .collect::<Vec<f32>>()
    };
    let x = [embed(0, user), embed(1, item)].concat();
    let sum: f32 = (0..16u64)
        .map(|unit| {
            let row = 7_000_000 + unit * x.len() as u64;
            let activation: f32 = x.iter().zip(row..).map(|(x, at)| x * weight(at)).sum();
            activation.max(0.0) * weight(9_000_000 + unit)
        })
        .sum();
    1.0 / (1.0 + (-sum).exp())
}

#[test]
fn the_example_scores_what_it_says() {
    let built = build("../../examples/plugin/dnn.c", &[]);
    let model = built
        .section("options = { buckets = 100, dim = 4 }")
        .load()
        .unwrap();
    assert!(model.runs_inline());
    let users = ["u1", "", "u3"];
    let items = ["i1", "i2", ""];
    let column = |strings: &[&str]| {
        let strings: millpond_tensor::Bytes = strings.iter().collect();
        Tensor::new(vec![3], strings).unwrap()
    };
    let outputs = model
        .instance()
        .unwrap()
        .run(vec![column(&users), column(&items)])
        .unwrap();
    for (row, found) in outputs[0].f32().unwrap().iter().enumerate() {
        let expected = score(users[row], items[row], 100, 4);
        assert!((found - expected).abs() < 1e-5, "row {row}: {found} {expected}");
    }
    for (options, words) in [
        ("{ buckets = 0 }", "not a number in range: option buckets"),
        ("{ dim = \"many\" }", "not a number in range: option dim"),
        ("{ width = 1 }", "unknown option width"),
    ] {
        let refused = built.section(&format!("options = {options}")).load();
        let refused = refused.err().unwrap().to_string();
        assert!(
            refused.contains(words) && refused.contains("plugin.so"),
            "{refused}"
        );
    }
}
