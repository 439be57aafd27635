//! A model on several devices has as many instances on each as are configured.
#![allow(clippy::unwrap_used)]

use millpond_backends_interface::{Error, Instance, Model, Port, Signature};
use millpond_engines_batcher::{Batcher, BatcherOptions};
use millpond_tensor::{ElementType, Tensor};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Spread {
    signature: Signature,
    devices: usize,
    made: AtomicUsize,
}

struct Same;

impl Model for Spread {
    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn instance(&self) -> Result<Box<dyn Instance>, Error> {
        self.made.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(Same))
    }

    fn runs_inline(&self) -> bool {
        false
    }

    fn devices(&self) -> usize {
        self.devices
    }
}

impl Instance for Same {
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
        Ok(inputs)
    }
}

fn check(devices: usize, instances: usize, expected: usize) {
    let [x, y] = ["x", "y"].map(|name| Port {
        name: name.into(),
        element_type: ElementType::F32,
        shape: vec![None],
    });
    let (inputs, outputs) = (vec![x], vec![y]);
    let signature = Signature {
        inputs,
        outputs,
        batched: true,
    };
    let made = AtomicUsize::default();
    let model = Arc::new(Spread {
        signature,
        devices,
        made,
    });
    let options = BatcherOptions {
        instances,
        ..BatcherOptions::default()
    };
    let batcher = Batcher::start("spread", Arc::<Spread>::clone(&model), options).unwrap();
    assert_eq!(batcher.stats().instances, expected);
    assert_eq!(model.made.load(Ordering::Relaxed), expected);
    // Each of them runs every size twice.
    assert_eq!(batcher.warm_up(&[1]).unwrap().len(), expected);
}

#[test]
fn instances_are_so_many_on_each_device() {
    check(1, 1, 1);
    check(1, 3, 3);
    check(3, 2, 6);
}
