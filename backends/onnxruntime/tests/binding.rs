//! Runs whose inputs and outputs are bound give what plain runs give: on the processor, where both can be had.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod installed;

use installed::{is_there, load, scattered};
use millpond_tensor::{Bytes, Tensor};

const BOUND: &str = "io_binding = true";

/// Runs one model plainly and bound, by the same instances, on one batch of inputs after the other.
fn check(test: &str, name: &str, batches: &[Vec<Tensor>]) {
    if !is_there(test) {
        return;
    }
    for keys in ["", "threads = 2", "batched = false"] {
        let instance = |keys: &str| load(name, keys).unwrap().instance().unwrap();
        let (mut plain, mut bound) = (instance(keys), instance(&format!("{keys}\n{BOUND}")));
        for inputs in batches {
            let expected = plain.run(inputs.clone()).unwrap();
            assert_eq!(bound.run(inputs.clone()).unwrap(), expected, "{name}, {keys}");
        }
    }
}

#[test]
fn batches_of_changing_size_come_into_memory_that_is_kept() {
    let batches = [1, 15, 3, 64, 64, 1, 1000, 2].map(|rows| vec![scattered(&[rows, 16])]);
    check(
        "batches_of_changing_size_come_into_memory_that_is_kept",
        "mlp.onnx",
        &batches,
    );
}

#[test]
fn several_inputs_and_outputs_are_bound() {
    let rows = |rows: usize| vec![scattered(&[rows, 8]), scattered(&[rows, 4])];
    check(
        "several_inputs_and_outputs_are_bound",
        "two_by_two.onnx",
        &[3, 1, 40].map(rows),
    );
}

#[test]
fn outputs_of_any_shape_are_bound() {
    let shapes = [[2, 3], [1, 5], [2, 1], [9, 9], [2, 3], [0, 3]];
    let batches = shapes.map(|shape| vec![scattered(&shape)]);
    check("outputs_of_any_shape_are_bound", "two_dynamic.onnx", &batches);
    let sums = [1, 7, 2].map(|rows| vec![scattered(&[rows, 4])]);
    check("outputs_of_any_shape_are_bound", "summed.onnx", &sums);
}

#[test]
fn outputs_may_have_another_shape_than_the_file_says() {
    // It gives as many rows as it gets; the file says one.
    let batches = [1, 4, 2, 4, 1].map(|rows| vec![scattered(&[rows, 3])]);
    check(
        "outputs_may_have_another_shape_than_the_file_says",
        "stale.onnx",
        &batches,
    );
}

#[test]
fn every_type_but_strings_is_bound() {
    let two = |data: millpond_tensor::Data| Tensor::new(vec![1, 2], data).unwrap();
    let rows = vec![
        two(vec![i8::MIN, 1].into()),
        two(vec![i16::MIN, 1].into()),
        two(vec![1, u16::MAX].into()),
        two(vec![1, u32::MAX].into()),
        two(vec![1, u64::MAX].into()),
    ];
    // Every output is its input: what a run gives must not be what the next one is given.
    check("every_type_but_strings_is_bound", "integers.onnx", &[rows]);
    let truths = vec![scattered(&[4, 3])];
    check("every_type_but_strings_is_bound", "truths.onnx", &[truths]);
}

#[test]
fn strings_are_not_bound_and_run_all_the_same() {
    let strings: Bytes = ["text", "", "a", "b"].into_iter().collect();
    let rows = vec![Tensor::new(vec![2, 2], strings).unwrap()];
    check(
        "strings_are_not_bound_and_run_all_the_same",
        "strings.onnx",
        &[rows],
    );
}

#[test]
fn what_is_larger_than_what_is_kept_is_bound_where_it_lies() {
    // 64 MiB and a row more.
    let rows = (64 << 20) / (16 * size_of::<f32>()) + 1;
    let batches = [rows, 2].map(|rows| vec![scattered(&[rows, 16])]);
    check(
        "what_is_larger_than_what_is_kept_is_bound_where_it_lies",
        "mlp.onnx",
        &batches[..],
    );
}

#[test]
fn threads_share_a_session_with_a_binding_each() {
    if !is_there("threads_share_a_session_with_a_binding_each") {
        return;
    }
    let model = load("mlp.onnx", BOUND).unwrap();
    assert!(model.runs_inline());
    let mut plain = load("mlp.onnx", "").unwrap().instance().unwrap();
    let rows = [1, 5, 17].map(|rows| scattered(&[rows, 16]));
    let expected = rows.each_ref().map(|x| plain.run(vec![x.clone()]).unwrap());
    std::thread::scope(|scope| {
        for start in 0..4 {
            let mut instance = model.instance().unwrap();
            let (rows, expected) = (&rows, &expected);
            scope.spawn(move || {
                for turn in start..start + 300 {
                    let (x, expected) = (&rows[turn % 3], &expected[turn % 3]);
                    assert_eq!(instance.run(vec![x.clone()]).unwrap(), *expected);
                }
            });
        }
    });
}

#[test]
fn a_bound_run_that_fails_leaves_the_instance_usable() {
    if !is_there("a_bound_run_that_fails_leaves_the_instance_usable") {
        return;
    }
    let mut instance = load("two_by_two.onnx", BOUND).unwrap().instance().unwrap();
    let good = || vec![scattered(&[2, 8]), scattered(&[2, 4])];
    let whole = instance.run(good()).unwrap();
    let ints = Tensor::new(vec![2, 8], vec![1_i64; 16]).unwrap();
    for wrong in [
        vec![scattered(&[2, 8]), scattered(&[3, 4])],
        vec![scattered(&[2, 8])],
        vec![scattered(&[2, 7]), scattered(&[2, 4])],
        vec![ints, scattered(&[2, 4])],
        vec![],
    ] {
        let error = instance.run(wrong).unwrap_err().to_string();
        assert!(
            error.starts_with("the model failed: ") && !error.contains('\n'),
            "{error}"
        );
        assert_eq!(instance.run(good()).unwrap(), whole);
    }
}

#[test]
fn a_bound_run_that_lasts_too_long_is_ended() {
    if !is_there("a_bound_run_that_lasts_too_long_is_ended") {
        return;
    }
    let keys = format!("{BOUND}\nrun_ms_max = 200\nbatched = false");
    // The model watches its instances as long as it is there.
    let model = load("turns.onnx", &keys).unwrap();
    let mut instance = model.instance().unwrap();
    let turns = |count: f32| vec![Tensor::new(vec![1, 1], vec![count]).unwrap()];
    let error = instance.run(turns(1e12)).unwrap_err().to_string();
    assert!(error.contains("run_ms_max (200 ms)"), "{error}");
    assert_eq!(instance.run(turns(2.0)).unwrap()[0].f32(), Some(&[4.0][..]));
}
