//! Models on the providers that the loaded library has, against the processor of the same library. A provider that it lacks is refused by
//! name, and its test is left out by name: `pip install onnxruntime-openvino` brings one that needs no other device than the processor.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod installed;

use installed::{is_there, leave_out, load, scattered};
use millpond_backends_interface::Model;
use millpond_tensor::{Elements, Tensor};
use std::sync::Arc;

/// Providers, and the package that has each.
const PROVIDERS: [(&str, &str); 3] = [
    ("cuda", "onnxruntime-gpu"),
    ("tensorrt", "onnxruntime-gpu"),
    ("openvino", "onnxruntime-openvino"),
];

/// What differs between providers: they add in another order, and some in fewer bits.
const TOLERANCE: f32 = 1e-2;

fn load_on(provider: &str, name: &str, keys: &str) -> Result<Arc<dyn Model>, String> {
    let keys = format!("providers = [{provider:?}, \"cpu\"]\n{keys}");
    load(name, &keys).map_err(|error| error.to_string())
}

/// The inputs of so many rows.
type Inputs<'a> = &'a dyn Fn(usize) -> Vec<Tensor>;

fn assert_near(what: &str, found: &Tensor, expected: &Tensor) {
    assert_eq!(found.shape(), expected.shape(), "{what}");
    match (found.elements(), expected.elements()) {
        (Elements::F32(found), Elements::F32(expected)) => {
            let is_near = |(found, expected): (&f32, &f32)| (found - expected).abs() <= TOLERANCE;
            assert!(
                found.iter().zip(expected).all(is_near),
                "{what}: {found:?} {expected:?}"
            );
        }
        (found, expected) => assert_eq!(found, expected, "{what}"),
    }
}

/// Runs models on the provider, bound and not, in batches of changing size and by several instances.
fn check(provider: &str, test: &str) {
    if !is_there(test) {
        return;
    }
    if let Err(problem) = load_on(provider, "mlp.onnx", "") {
        return leave_out(test, &problem);
    }
    // Nothing of it is left to the processor.
    let alone =
        format!("providers = [{provider:?}]\noptions = {{ \"session.disable_cpu_ep_fallback\" = 1 }}");
    drop(load("mlp.onnx", &alone).unwrap());
    let one = |width: usize| move |rows: usize| vec![scattered(&[rows, width])];
    let ids = |rows: usize| vec![Tensor::new(vec![rows, 3], vec![1_i64; 3 * rows]).unwrap()];
    let models: [(&str, Inputs<'_>); 4] = [
        ("mlp.onnx", &one(16)),
        ("ranker.onnx", &one(80)),
        ("two_by_two.onnx", &|rows| {
            vec![scattered(&[rows, 8]), scattered(&[rows, 4])]
        }),
        ("gather.onnx", &ids),
    ];
    for (name, inputs) in models {
        let mut plain = load(name, "").unwrap().instance().unwrap();
        for keys in ["io_binding = true", "io_binding = false"] {
            let model = load_on(provider, name, keys).unwrap();
            let mut instances = [model.instance().unwrap(), model.instance().unwrap()];
            for rows in [1, 15, 3, 64, 1] {
                let expected = plain.run(inputs(rows)).unwrap();
                for instance in &mut instances {
                    let found = instance.run(inputs(rows)).unwrap();
                    let what = format!("{name} on {provider}, {keys}, {rows} rows");
                    for (found, expected) in found.iter().zip(&expected) {
                        assert_near(&what, found, expected);
                    }
                }
            }
        }
    }
}

#[test]
fn models_run_on_cuda() {
    check("cuda", "models_run_on_cuda");
}

#[test]
fn models_run_on_tensorrt() {
    check("tensorrt", "models_run_on_tensorrt");
}

#[test]
fn models_run_on_openvino() {
    check("openvino", "models_run_on_openvino");
}

/// Each device gets instances: `devices = [0]` is what a machine with one has.
#[test]
fn instances_are_made_on_a_device_by_its_number() {
    let test = "instances_are_made_on_a_device_by_its_number";
    if !is_there(test) {
        return;
    }
    let model = match load_on("cuda", "mlp.onnx", "devices = [0]") {
        Ok(model) => model,
        Err(problem) => return leave_out(test, &problem),
    };
    assert_eq!(model.devices(), 1);
    let rows = model.instance().unwrap().run(vec![scattered(&[2, 16])]).unwrap();
    assert_eq!(rows[0].shape(), [2, 1]);
    let problem = load_on("cuda", "mlp.onnx", "devices = [60000]").err().unwrap();
    assert!(problem.contains("cuda"), "{problem}");
}

#[test]
fn providers_that_the_library_lacks_are_refused() {
    let test = "providers_that_the_library_lacks_are_refused";
    if !is_there(test) {
        return;
    }
    let mut lacking = 0;
    for (provider, package) in PROVIDERS {
        let Err(error) = load_on(provider, "mlp.onnx", "") else {
            continue;
        };
        lacking += 1;
        assert!(
            error.contains(&format!("provider {provider:?} is not to be had from /")),
            "{error}"
        );
        assert!(error.contains(&format!("pip install {package}")), "{error}");
        // Nothing else takes its place, whatever stands behind it.
        let others: Vec<&str> = PROVIDERS.iter().map(|(other, _)| *other).collect();
        let others = others.into_iter().filter(|other| *other != provider);
        for other in others {
            let keys = format!("providers = [{provider:?}, {other:?}, \"cpu\"]");
            assert!(load("mlp.onnx", &keys).is_err(), "{keys}");
        }
    }
    // No package has all of them, and the tests above say which were there.
    assert!(lacking > 0);
}
