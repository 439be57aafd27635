//! Every stored model against ONNX Runtime's stored outputs, at several batch sizes,
//! through the symbolic plan and through concrete ones. Not a test of speed.
//! Invariant of the data: row `i` of an output depends on row `i` of the inputs alone.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_possible_truncation)]

use millpond_backends_interface::{Backend, Instance};
use millpond_backends_tract::Tract;
use millpond_tensor::{Data, ElementType, Elements, Tensor};
use serde::Deserialize;
use std::path::PathBuf;

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
        let data = match ElementType::parse(&self.element_type).unwrap() {
            ElementType::F32 => Data::F32(floats().map(|value| value as f32).collect()),
            ElementType::F64 => Data::F64(floats().collect()),
            ElementType::I64 => Data::I64(integers().collect()),
            ElementType::I32 => Data::I32(integers().map(|value| value.try_into().unwrap()).collect()),
            ElementType::U8 => Data::U8(integers().map(|value| value.try_into().unwrap()).collect()),
            ElementType::Bool => Data::Bool(self.data.iter().map(|value| value.as_bool().unwrap()).collect()),
            other => panic!("no model here has a tensor of {other}"),
        };
        Tensor::new(self.shape.clone(), data)
            .unwrap()
            .view(0..rows)
            .unwrap()
    }
}

fn data_folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data")
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
                    "{what}: element {index} is {found}, ONNX Runtime has {expected}"
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

fn check(name: &str, inputs: &str, outputs: &str) {
    let model = Tract::at(data_folder().join(format!("{name}.onnx")))
        .load()
        .unwrap();
    let text = std::fs::read_to_string(data_folder().join(format!("{name}.json"))).unwrap();
    let reference: Reference = serde_json::from_str(&text).unwrap();
    let joined = |ports: &[millpond_backends_interface::Port]| {
        ports
            .iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join("; ")
    };
    assert_eq!(joined(&model.signature().inputs), inputs, "{name}");
    assert_eq!(joined(&model.signature().outputs), outputs, "{name}");

    let named = reference
        .inputs
        .iter()
        .map(|stored| (stored.name.clone(), stored.tensor(3)));
    model.signature().check_inputs(named.collect()).unwrap();

    let mut before = model.instance().unwrap();
    check_batches(name, &reference, &mut *before);
    for rows in BATCHES {
        model.prepare(rows).unwrap();
    }
    // An instance from before the concrete plans finds them, as a new one does.
    check_batches(name, &reference, &mut *before);
    check_batches(name, &reference, &mut *model.instance().unwrap());
}

#[test]
fn a_perceptron() {
    check("mlp", "x: f32[N, 16]", "score: f32[N, 1]");
}

#[test]
fn a_ranker_with_slices_products_and_a_squeeze() {
    check("ranker", "x: f32[N, 80]", "score: f32[N]");
}

#[test]
fn two_inputs_and_two_outputs() {
    check(
        "two_by_two",
        "a: f32[N, 8]; b: f32[N, 4]",
        "sum: f32[N, 8]; score: f32[N, 1]",
    );
}

#[test]
fn ids_gathered_from_a_table() {
    check("gather", "ids: i64[N, 3]", "y: f32[N, 4]");
}

#[test]
fn every_element_type() {
    check(
        "types",
        "f: f32[N, 2]; d: f64[N, 2]; l: i64[N, 2]; i: i32[N, 2]; u: u8[N, 2]; m: bool[N, 2]",
        "sum_m: f32[N, 2]; d2: f64[N, 2]; l2: i64[N, 2]; i2: i32[N, 2]; u2: u8[N, 2]; not_m: bool[N, 2]",
    );
}

#[test]
fn every_stored_model_is_checked_here() {
    let mut names: Vec<String> = std::fs::read_dir(data_folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    names.sort();
    assert_eq!(names, ["gather", "mlp", "ranker", "two_by_two", "types"]);
}

#[test]
fn a_failed_run_leaves_the_instance_usable() {
    let model = Tract::at(data_folder().join("two_by_two.onnx")).load().unwrap();
    let mut instance = model.instance().unwrap();
    let floats = |rows: usize, columns: usize| {
        Tensor::new(vec![rows, columns], vec![0.5_f32; rows * columns]).unwrap()
    };
    for prepared in [false, true] {
        if prepared {
            model.prepare(2).unwrap();
        }
        let whole = instance.run(vec![floats(2, 8), floats(2, 4)]).unwrap();
        for wrong in [
            vec![floats(2, 8), floats(3, 4)],
            vec![floats(2, 8)],
            vec![floats(2, 7), floats(2, 4)],
            vec![],
        ] {
            let error = instance.run(wrong).unwrap_err().to_string();
            assert!(error.starts_with("the model failed: "), "{error}");
        }
        assert_eq!(instance.run(vec![floats(2, 8), floats(2, 4)]).unwrap(), whole);
    }
}

/// Loads a model without a reference, and runs it on these shapes; what it gives for each.
fn check_shapes(name: &str, ports: &str, batched: bool, shapes: &[&[usize]]) -> Vec<Tensor> {
    let model = Tract::at(data_folder().join(format!("{name}.onnx")))
        .load()
        .unwrap();
    let signature = model.signature();
    let found = format!("{} to {}", signature.inputs[0], signature.outputs[0]);
    assert_eq!((found.as_str(), signature.batched), (ports, batched));
    model.prepare(2).unwrap();
    let mut instance = model.instance().unwrap();
    let run = |shape: &&[usize]| {
        let len = shape.iter().product();
        let x: Vec<f32> = (0..len).map(|at: usize| at as f32 - 2.0).collect();
        let x = Tensor::new(shape.to_vec(), x).unwrap();
        signature.check_ordered(std::slice::from_ref(&x)).unwrap();
        instance.run(vec![x]).unwrap().remove(0)
    };
    shapes.iter().map(run).collect()
}

#[test]
fn sizes_besides_the_batch_may_be_free() {
    let found = check_shapes(
        "two_dynamic",
        "x: f32[N, ?] to y: f32[N, ?]",
        true,
        &[&[2, 3], &[1, 5], &[2, 1]],
    );
    let relu = |shape: [usize; 2], values: &[f32]| Tensor::new(shape.to_vec(), values.to_vec()).unwrap();
    assert_eq!(found[0], relu([2, 3], &[0.0, 0.0, 0.0, 1.0, 2.0, 3.0]));
    assert_eq!(found[1], relu([1, 5], &[0.0, 0.0, 0.0, 1.0, 2.0]));
    assert_eq!(found[2], relu([2, 1], &[0.0, 0.0]));
}

#[test]
fn a_model_may_have_no_batch() {
    let found = check_shapes("fixed", "x: f32[2, 4] to y: f32[2, 4]", false, &[&[2, 4]]);
    assert_eq!(found[0].f32().unwrap()[3..], [1.0, 2.0, 3.0, 4.0, 5.0]);
    let found = check_shapes("summed", "x: f32[N, 4] to y: f32[4]", false, &[&[1, 4], &[3, 4]]);
    assert_eq!(found[0].f32().unwrap(), [-2.0, -1.0, 0.0, 1.0]);
    assert_eq!(
        found[1],
        Tensor::new(vec![4], vec![6.0_f32, 9.0, 12.0, 15.0]).unwrap()
    );
}
