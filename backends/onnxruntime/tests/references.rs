//! Every stored model against the stored outputs of one ONNX Runtime, at several batch sizes, by instances that share a session and
//! by instances of their own. Not a test of speed.
//! Invariant of the data: row `i` of an output depends on row `i` of the inputs alone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_possible_truncation)]

mod installed;

use installed::{data, is_there, load};
use millpond_backends_interface::{Instance, Port};
use millpond_tensor::{Bytes, Data, ElementType, Elements, Tensor, bf16, f16};
use serde::Deserialize;

const BATCHES: [usize; 4] = [1, 3, 15, 64];
const TOLERANCE: f64 = 1e-4;

#[derive(Deserialize)]
struct Reference {
    inputs: Vec<Stored>,
    outputs: Vec<Stored>,
}

#[derive(Deserialize)]
struct Stored {
    name: String,
    #[serde(rename = "type")]
    element_type: String,
    shape: Vec<usize>,
    data: Vec<serde_json::Value>,
}

impl Stored {
    /// The first `rows` rows.
    fn tensor(&self, rows: usize) -> Tensor {
        let floats = || self.data.iter().map(|value| value.as_f64().unwrap());
        let integers = || self.data.iter().map(|value| value.as_i64().unwrap());
        let element_type = ElementType::parse(&self.element_type).unwrap();
        let data = match element_type {
            ElementType::F32 => Data::F32(floats().map(|value| value as f32).collect()),
            ElementType::F64 => Data::F64(floats().collect()),
            ElementType::I64 => Data::I64(integers().collect()),
            ElementType::I32 => Data::I32(integers().map(|value| value.try_into().unwrap()).collect()),
            ElementType::U8 => Data::U8(integers().map(|value| value.try_into().unwrap()).collect()),
            ElementType::Bool => Data::Bool(self.data.iter().map(|value| value.as_bool().unwrap()).collect()),
            _ => panic!("no stored model has {element_type}"),
        };
        Tensor::new(self.shape.clone(), data)
            .unwrap()
            .view(0..rows)
            .unwrap()
    }
}

fn check_close(what: &str, found: &Tensor, expected: &Tensor) {
    assert_eq!(found.shape(), expected.shape(), "{what}");
    let wide = |tensor: &Tensor| -> Option<Vec<f64>> {
        match tensor.elements() {
            Elements::F32(values) => Some(values.iter().map(|value| f64::from(*value)).collect()),
            Elements::F64(values) => Some(values.to_vec()),
            _ => None,
        }
    };
    match (wide(found), wide(expected)) {
        (Some(found), Some(expected)) => {
            for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
                let distance = (found - expected).abs();
                assert!(
                    distance <= TOLERANCE,
                    "{what}: element {index} is {found}, the reference has {expected}"
                );
            }
        }
        _ => assert_eq!(found, expected, "{what}"),
    }
}

fn check_batches(name: &str, reference: &Reference, instance: &mut dyn Instance) {
    for rows in BATCHES {
        let inputs = reference
            .inputs
            .iter()
            .map(|stored| stored.tensor(rows))
            .collect();
        let outputs = instance.run(inputs).unwrap();
        assert_eq!(outputs.len(), reference.outputs.len(), "{name}");
        for (found, stored) in outputs.iter().zip(&reference.outputs) {
            check_close(
                &format!("{name}, {rows} rows, output {}", stored.name),
                found,
                &stored.tensor(rows),
            );
        }
    }
}

fn check(test: &str, name: &str, inputs: &str, outputs: &str) {
    if !is_there(test) {
        return;
    }
    let text = std::fs::read_to_string(data(&format!("{name}.json"))).unwrap();
    let reference: Reference = serde_json::from_str(&text).unwrap();
    let joined = |ports: &[Port]| {
        let ports: Vec<String> = ports.iter().map(ToString::to_string).collect();
        ports.join("; ")
    };
    for keys in ["", "threads = 2", "optimization = \"none\"", "batched = true"] {
        let model = load(&format!("{name}.onnx"), keys).unwrap();
        assert!(model.signature().batched, "{name}, {keys}");
        assert_eq!(joined(&model.signature().inputs), inputs, "{name}");
        assert_eq!(joined(&model.signature().outputs), outputs, "{name}");
        assert_eq!(model.runs_inline(), keys != "threads = 2", "{name}, {keys}");

        let named = reference
            .inputs
            .iter()
            .map(|stored| (stored.name.clone(), stored.tensor(3)));
        model.signature().check_inputs(named.collect()).unwrap();

        let (mut first, mut second) = (model.instance().unwrap(), model.instance().unwrap());
        check_batches(name, &reference, &mut *first);
        check_batches(name, &reference, &mut *second);
    }
}

#[test]
fn a_perceptron() {
    check("a_perceptron", "mlp", "x: f32[N, 16]", "score: f32[N, 1]");
}

#[test]
fn a_ranker_with_slices_products_and_a_squeeze() {
    check(
        "a_ranker_with_slices_products_and_a_squeeze",
        "ranker",
        "x: f32[N, 80]",
        "score: f32[N]",
    );
}

#[test]
fn two_inputs_and_two_outputs() {
    check(
        "two_inputs_and_two_outputs",
        "two_by_two",
        "a: f32[N, 8]; b: f32[N, 4]",
        "sum: f32[N, 8]; score: f32[N, 1]",
    );
}

#[test]
fn ids_gathered_from_a_table() {
    check(
        "ids_gathered_from_a_table",
        "gather",
        "ids: i64[N, 3]",
        "y: f32[N, 4]",
    );
}

#[test]
fn every_element_type() {
    check(
        "every_element_type",
        "types",
        "f: f32[N, 2]; d: f64[N, 2]; l: i64[N, 2]; i: i32[N, 2]; u: u8[N, 2]; m: bool[N, 2]",
        "sum_m: f32[N, 2]; d2: f64[N, 2]; l2: i64[N, 2]; i2: i32[N, 2]; u2: u8[N, 2]; not_m: bool[N, 2]",
    );
}

#[test]
fn every_stored_model_is_checked_here() {
    let mut names: Vec<String> = std::fs::read_dir(data(""))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["gather", "mlp", "ranker", "two_by_two", "types"]);
}

fn floats(shape: &[usize]) -> Tensor {
    Tensor::new(shape.to_vec(), vec![0.5_f32; shape.iter().product()]).unwrap()
}

#[test]
fn a_failed_run_leaves_the_instance_usable() {
    if !is_there("a_failed_run_leaves_the_instance_usable") {
        return;
    }
    for keys in ["", "threads = 2"] {
        let model = load("two_by_two.onnx", keys).unwrap();
        let mut instance = model.instance().unwrap();
        let whole = instance.run(vec![floats(&[2, 8]), floats(&[2, 4])]).unwrap();
        let ints = Tensor::new(vec![2, 8], vec![1_i64; 16]).unwrap();
        for wrong in [
            vec![floats(&[2, 8]), floats(&[3, 4])],
            vec![floats(&[2, 8])],
            vec![floats(&[2, 7]), floats(&[2, 4])],
            vec![ints, floats(&[2, 4])],
            vec![floats(&[2, 8]), floats(&[2, 4]), floats(&[1])],
            vec![],
        ] {
            let error = instance.run(wrong).unwrap_err().to_string();
            assert!(error.starts_with("the model failed: "), "{error}");
            assert!(error.len() < 700 && !error.contains('\n'), "{error}");
        }
        assert_eq!(
            instance.run(vec![floats(&[2, 8]), floats(&[2, 4])]).unwrap(),
            whole
        );
    }
}

#[test]
fn threads_share_one_session() {
    if !is_there("threads_share_one_session") {
        return;
    }
    let model = load("mlp.onnx", "").unwrap();
    let input = |seed: usize| {
        let x: Vec<f32> = (0..16 * (seed + 1))
            .map(|at| ((at * (seed + 3)) % 17) as f32 / 17.0)
            .collect();
        Tensor::new(vec![seed + 1, 16], x).unwrap()
    };
    let expected = |seed| model.instance().unwrap().run(vec![input(seed)]).unwrap();
    let expected: Vec<Vec<Tensor>> = (0..4).map(expected).collect();
    std::thread::scope(|scope| {
        for (seed, expected) in expected.iter().enumerate() {
            let mut instance = model.instance().unwrap();
            scope.spawn(move || {
                for _ in 0..500 {
                    assert_eq!(instance.run(vec![input(seed)]).unwrap(), *expected);
                }
            });
        }
    });
}

/// Loads a model without a reference; its ports and whether it is batched.
fn check_ports(name: &str, keys: &str, inputs: &str, outputs: &str, batched: bool) -> Box<dyn Instance> {
    let model = load(name, keys).unwrap();
    let joined = |ports: &[Port]| {
        ports
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ")
    };
    let signature = model.signature();
    let found = (
        joined(&signature.inputs),
        joined(&signature.outputs),
        signature.batched,
    );
    assert_eq!(found, (inputs.to_owned(), outputs.to_owned(), batched), "{name}");
    model.instance().unwrap()
}

/// Runs a model of one input on these shapes; what it gives for each.
fn run_shapes(instance: &mut dyn Instance, shapes: &[&[usize]]) -> Vec<Tensor> {
    let run = |shape: &&[usize]| {
        let len = shape.iter().product();
        let x: Vec<f32> = (0..len).map(|at: usize| at as f32 - 2.0).collect();
        instance
            .run(vec![Tensor::new(shape.to_vec(), x).unwrap()])
            .unwrap()
            .remove(0)
    };
    shapes.iter().map(run).collect()
}

#[test]
fn sizes_besides_the_batch_may_be_free() {
    if !is_there("sizes_besides_the_batch_may_be_free") {
        return;
    }
    let mut instance = check_ports("two_dynamic.onnx", "", "x: f32[N, ?]", "y: f32[N, ?]", true);
    let found = run_shapes(&mut *instance, &[&[2, 3], &[1, 5], &[2, 1]]);
    let relu = |shape: [usize; 2], values: &[f32]| Tensor::new(shape.to_vec(), values.to_vec()).unwrap();
    assert_eq!(found[0], relu([2, 3], &[0.0, 0.0, 0.0, 1.0, 2.0, 3.0]));
    assert_eq!(found[1], relu([1, 5], &[0.0, 0.0, 0.0, 1.0, 2.0]));
    assert_eq!(found[2], relu([2, 1], &[0.0, 0.0]));
}

#[test]
fn a_model_may_have_no_batch() {
    if !is_there("a_model_may_have_no_batch") {
        return;
    }
    let mut fixed = check_ports("fixed.onnx", "", "x: f32[2, 4]", "y: f32[2, 4]", false);
    assert_eq!(
        run_shapes(&mut *fixed, &[&[2, 4]])[0].f32().unwrap()[3..],
        [1.0, 2.0, 3.0, 4.0, 5.0]
    );
    let mut summed = check_ports("summed.onnx", "", "x: f32[N, 4]", "y: f32[4]", false);
    let found = run_shapes(&mut *summed, &[&[1, 4], &[3, 4]]);
    assert_eq!(found[0].f32().unwrap(), [-2.0, -1.0, 0.0, 1.0]);
    assert_eq!(
        found[1],
        Tensor::new(vec![4], vec![6.0_f32, 9.0, 12.0, 15.0]).unwrap()
    );
    // A free first size alone does not make a batch: zeros of two rows gave eight.
    check_ports("flattened.onnx", "", "x: f32[N, 4]", "y: f32[N]", false);
}

#[test]
fn the_section_may_say_whether_there_is_a_batch() {
    if !is_there("the_section_may_say_whether_there_is_a_batch") {
        return;
    }
    check_ports(
        "mlp.onnx",
        "batched = false",
        "x: f32[N, 16]",
        "score: f32[N, 1]",
        false,
    );
    check_ports(
        "flattened.onnx",
        "batched = true",
        "x: f32[N, 4]",
        "y: f32[N]",
        true,
    );
    let refused = load("summed.onnx", "batched = true")
        .map(|_| ())
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("batched is true, and `y: f32[4]` has no free dimension 0; leave batched out"),
        "{refused}"
    );
}

#[test]
fn scalars_states_and_outputs_without_a_shape_are_served() {
    if !is_there("scalars_states_and_outputs_without_a_shape_are_served") {
        return;
    }
    let (inputs, outputs) = (
        "x: f32[N, ?]; state: f32[2, ?, 3]; rate: i64[]",
        "y: f32[N, ?]; state_next: f32[2, ?, 3]",
    );
    let mut stateful = check_ports("stateful.onnx", "", inputs, outputs, false);
    let rate = Tensor::new(vec![], vec![4_i64]).unwrap();
    let given = vec![floats(&[1, 5]), floats(&[2, 1, 3]), rate];
    let found = stateful.run(given).unwrap();
    assert_eq!(
        (found[0].shape(), found[0].f32().unwrap()),
        (&[1, 5][..], &[2.0; 5][..])
    );
    assert_eq!(
        (found[1].shape(), found[1].f32().unwrap()),
        (&[2, 1, 3][..], &[4.5; 6][..])
    );
    // What the file does not say of `y`, a run of zeros did.
    check_ports(
        "unshaped.onnx",
        "",
        "x: f32[N, 4]; axes: i64[N]",
        "y: f32[N]",
        false,
    );
}

#[test]
fn weights_beside_the_model_and_odd_truths_are_read() {
    if !is_there("weights_beside_the_model_and_odd_truths_are_read") {
        return;
    }
    let mut external = check_ports("external.onnx", "", "x: f32[N, 4]", "y: f32[N, 4]", true);
    assert_eq!(
        external.run(vec![floats(&[1, 4])]).unwrap()[0].f32().unwrap(),
        [0.5, 1.5, 2.5, 3.5]
    );
    let mut truths = check_ports("truths.onnx", "", "x: f32[N, 3]", "y: bool[N, 3]", true);
    let found = truths.run(vec![floats(&[2, 3])]).unwrap();
    let expected = [false, true, true, false, true, true];
    assert_eq!(found[0].of::<bool>().unwrap(), expected);
}

#[test]
fn options_of_the_session_are_set() {
    if !is_there("options_of_the_session_are_set") {
        return;
    }
    for option in [
        "\"session.intra_op.allow_spinning\" = 1",
        "\"session.disable_prepacking\" = true",
        "\"session.use_deterministic_compute\" = true",
        "\"session.execution_mode\" = 1, \"session.inter_op_num_threads\" = 2",
    ] {
        let mut model = load("mlp.onnx", &format!("options = {{ {option} }}"))
            .unwrap()
            .instance()
            .unwrap();
        assert_eq!(
            model.run(vec![floats(&[2, 16])]).unwrap()[0].shape(),
            [2, 1],
            "{option}"
        );
    }
}

/// Gives a model that answers its input these rows of two elements.
fn check_identity(name: &str, data: impl Into<Data>) {
    let tensor = Tensor::new(vec![2, 2], data).unwrap();
    for keys in ["", "threads = 2"] {
        let model = load(&format!("{name}.onnx"), keys).unwrap();
        assert!(model.signature().batched, "{name}");
        assert_eq!(model.signature().inputs[0].element_type, tensor.element_type());
        let found = model.instance().unwrap().run(vec![tensor.clone()]).unwrap();
        assert_eq!(found, std::slice::from_ref(&tensor), "{name}, {keys}");
    }
}

#[test]
fn half_floats_and_strings_come_back() {
    if !is_there("half_floats_and_strings_come_back") {
        return;
    }
    check_identity("half", [0.0, 1.5, -2.25, 65504.0].map(f16::from_f32).to_vec());
    check_identity("brain", [0.0, 1.5, -2.25, 1e30].map(bf16::from_f32).to_vec());
    let mut strings = Bytes::default();
    for string in [&b"text"[..], b"", b"zero\0inside", &[0xff, 0xfe]] {
        strings.push(string);
    }
    check_identity("strings", strings);
}

#[test]
fn integers_of_every_width_come_back() {
    if !is_there("integers_of_every_width_come_back") {
        return;
    }
    let two = |data: Data| Tensor::new(vec![1, 2], data).unwrap();
    let rows = vec![
        two(vec![i8::MIN, i8::MAX].into()),
        two(vec![i16::MIN, i16::MAX].into()),
        two(vec![0, u16::MAX].into()),
        two(vec![0, u32::MAX].into()),
        two(vec![(1 << 53) + 1, u64::MAX].into()),
    ];
    for keys in ["", "threads = 2"] {
        let model = load("integers.onnx", keys).unwrap();
        assert!(model.signature().batched);
        assert_eq!(
            model.instance().unwrap().run(rows.clone()).unwrap(),
            rows,
            "{keys}"
        );
    }
}

#[test]
fn no_strings_are_no_rows() {
    if !is_there("no_strings_are_no_rows") {
        return;
    }
    let mut instance = load("strings.onnx", "").unwrap().instance().unwrap();
    let none = Tensor::new(vec![0, 2], Bytes::default()).unwrap();
    assert_eq!(instance.run(vec![none.clone()]).unwrap(), [none]);
}
