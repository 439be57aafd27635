//! A loaded model and its instances. Not a batcher: a run takes the rows it is given.
//! Its one invariant: whichever plan runs a batch, the outputs are the same function.
//!
//! There are two kinds of plan. The symbolic one runs any number of rows, and any free sizes. A concrete
//! one is built for exactly one number of rows, which lets tract choose its kernels for it.
//! `make bench AREA=spine` compares them (docs/performance.md). tract packs the weights anew for each
//! plan, so concrete plans are shared by all instances and bounded: at most
//! [`PLANS_MAX`] of them and [`PLANS_BYTES_MAX`] bytes of weights in all. They are built
//! by `Model::prepare`, never during a run; rows without one take the symbolic plan.

use crate::convert;
use millpond_backends_interface::{Error, Instance, Model, Signature};
use millpond_tensor::Tensor;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use tract_onnx::prelude::{Symbol, TDim, TVec, TractResult, TypedModel};
use tract_onnx::tract_core::model::{TypedSimplePlan, TypedSimpleState};
use tract_onnx::tract_core::ops::konst::Const;
use tract_onnx::tract_core::plan::SimplePlan;

/// Concrete plans a model has at most.
const PLANS_MAX: usize = 16;

/// Bytes of weights that a model's concrete plans hold at most, all together.
const PLANS_BYTES_MAX: usize = 256 << 20;

/// What instances share.
struct Shared {
    signature: Signature,
    symbolic: Arc<TypedSimplePlan>,
    /// Concrete plans by number of rows; few, so a list is searched.
    concrete: RwLock<Vec<(usize, Arc<TypedSimplePlan>)>>,
}

pub(crate) struct TractModel {
    shared: Arc<Shared>,
    /// What concrete plans are made from.
    typed: TypedModel,
    /// What stands for the rows of a batch, where the model has one.
    rows: Option<Symbol>,
    /// How many concrete plans there may be, given the size of the weights.
    plans_max: usize,
}

impl TractModel {
    pub(crate) fn new(
        signature: Signature,
        typed: TypedModel,
        rows: Option<Symbol>,
    ) -> TractResult<TractModel> {
        let symbolic = SimplePlan::new(typed.clone().into_optimized()?)?;
        let weights = typed.nodes().iter().filter_map(|node| node.op_as::<Const>());
        let bytes: usize = weights
            .map(|weight| weight.val().len() * weight.val().datum_type().size_of())
            .sum();
        let plans_max = PLANS_MAX.min(PLANS_BYTES_MAX / bytes.max(1));
        let shared = Arc::new(Shared {
            signature,
            symbolic,
            concrete: RwLock::default(),
        });
        Ok(TractModel {
            shared,
            typed,
            rows,
            plans_max,
        })
    }

    fn build(&self, symbol: &Symbol, rows: usize) -> TractResult<Arc<TypedSimplePlan>> {
        let size = TDim::from(i64::try_from(rows)?);
        let concrete = self.typed.set_symbols(&HashMap::from([(symbol.clone(), size)]))?;
        SimplePlan::new(concrete.into_optimized()?)
    }
}

impl Shared {
    fn concrete(&self, rows: usize) -> Option<Arc<TypedSimplePlan>> {
        let plans = self.concrete.read().unwrap_or_else(PoisonError::into_inner);
        plans
            .iter()
            .find(|(size, _)| *size == rows)
            .map(|(_, plan)| Arc::clone(plan))
    }
}

impl Model for TractModel {
    fn signature(&self) -> &Signature {
        &self.shared.signature
    }

    fn instance(&self) -> Result<Box<dyn Instance>, Error> {
        let symbolic = self.shared.symbolic.spawn().map_err(|error| failed(&error))?;
        Ok(Box::new(TractInstance {
            shared: Arc::clone(&self.shared),
            symbolic,
            concrete: Vec::new(),
        }))
    }

    fn prepare(&self, rows: usize) -> Result<(), Error> {
        let Some(symbol) = &self.rows else {
            return Ok(());
        };
        let full =
            |plans: &[(usize, _)]| plans.len() >= self.plans_max || plans.iter().any(|plan| plan.0 == rows);
        if rows == 0
            || full(
                &self
                    .shared
                    .concrete
                    .read()
                    .unwrap_or_else(PoisonError::into_inner),
            )
        {
            return Ok(());
        }
        let plan = self.build(symbol, rows).map_err(|error| failed(&error))?;
        let mut plans = self
            .shared
            .concrete
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        if !full(&plans) {
            plans.push((rows, plan));
        }
        Ok(())
    }
}

struct TractInstance {
    shared: Arc<Shared>,
    /// This thread's scratch for each plan it has used.
    symbolic: TypedSimpleState,
    concrete: Vec<(usize, TypedSimpleState)>,
}

impl TractInstance {
    /// The state to run `rows` rows on: a concrete one when there is a plan for it.
    fn state(&mut self, rows: usize) -> TractResult<&mut TypedSimpleState> {
        let known = self.concrete.iter().position(|(size, _)| *size == rows);
        let index = match known {
            Some(index) => index,
            None => match self.shared.concrete(rows) {
                None => return Ok(&mut self.symbolic),
                Some(plan) => {
                    self.concrete.push((rows, plan.spawn()?));
                    self.concrete.len() - 1
                }
            },
        };
        Ok(&mut self.concrete[index].1)
    }

    /// A failed run leaves half a turn behind in its state; it is made anew.
    fn renew(&mut self, rows: usize) -> TractResult<()> {
        self.concrete.retain(|(size, _)| *size != rows);
        self.symbolic = self.shared.symbolic.spawn()?;
        Ok(())
    }
}

impl Instance for TractInstance {
    fn run(&mut self, inputs: Vec<Tensor>) -> Result<Vec<Tensor>, Error> {
        let rows = inputs.first().map_or(0, Tensor::rows);
        let theirs = inputs
            .iter()
            .map(convert::to_tract)
            .collect::<TractResult<TVec<_>>>();
        let theirs = theirs.map_err(|error| failed(&error))?;
        drop(inputs);
        let state = self.state(rows).map_err(|error| failed(&error))?;
        match state.run(theirs) {
            Ok(outputs) => outputs.iter().map(convert::from_tract).collect(),
            Err(error) => {
                self.renew(rows).map_err(|error| failed(&error))?;
                Err(failed(&error))
            }
        }
    }
}

fn failed(error: &impl std::fmt::Display) -> Error {
    Error::Run {
        problem: format!("{error:#}"),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use std::path::Path;

    /// Prepares `sizes`, then runs every one of them; `expected` concrete plans exist.
    fn check(model: &TractModel, sizes: std::ops::Range<usize>, expected: usize) {
        for rows in sizes.clone() {
            model.prepare(rows).unwrap();
            model.prepare(rows).unwrap();
        }
        assert_eq!(model.shared.concrete.read().unwrap().len(), expected);
        let mut instance = model.instance().unwrap();
        for rows in sizes.filter(|rows| *rows > 0) {
            let x = Tensor::new(vec![rows, 16], vec![0.5_f32; rows * 16]).unwrap();
            assert_eq!(instance.run(vec![x]).unwrap()[0].shape(), [rows, 1]);
        }
    }

    #[test]
    fn concrete_plans_are_bounded_and_the_symbolic_one_runs_the_rest() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../onnxruntime/tests/data/mlp.onnx");
        let mut model = crate::load::load(&file).unwrap();
        check(&model, 0..4, 3);
        check(&model, 0..40, PLANS_MAX);
        model.plans_max = 0; // as for weights above the bound
        check(&model, 40..42, PLANS_MAX);
    }
}
