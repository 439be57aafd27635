//! What a model takes and gives, and whether given inputs fit. Not a parser of
//! payloads. Invariant: inputs that [`Signature::check_inputs`] lets through are
//! in signature order, of the right type and shape, finite, and in a batch share their rows.

use crate::Error;
use millpond_tensor::{ElementType, Tensor};
use std::fmt;

/// One input or output of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    /// Its name in the model file.
    pub name: String,
    /// The type of its elements.
    pub element_type: ElementType,
    /// Its dimensions; `None` is free. Dimension 0, when free, is the batch.
    pub shape: Vec<Option<usize>>,
}

impl Port {
    /// Elements of one row: the product of all dimensions but the first, `None` when
    /// one of them is free or the product overflows.
    pub fn row_len(&self) -> Option<usize> {
        self.shape
            .get(1..)
            .unwrap_or_default()
            .iter()
            .try_fold(1usize, |product, dim| product.checked_mul((*dim)?))
    }

    /// Whether tensors that are as `given` says can fit: no size that both know differs.
    pub fn may_fit(&self, given: &Port) -> bool {
        let mut dims = self.shape.iter().zip(&given.shape);
        let agree =
            |(own, given): (&Option<usize>, &Option<usize>)| own.is_none() || given.is_none() || own == given;
        self.element_type == given.element_type && self.shape.len() == given.shape.len() && dims.all(agree)
    }

    /// Whether a tensor of `shape` fits.
    pub fn fits(&self, shape: &[usize]) -> bool {
        self.shape.len() == shape.len()
            && self
                .shape
                .iter()
                .zip(shape)
                .all(|(expected, found)| expected.is_none_or(|dim| dim == *found))
    }

    /// The shape for people: `[N, 80]`; `?` is free as well.
    fn shape_text(&self) -> String {
        let dims = self.shape.iter().enumerate().map(|(at, dim)| match dim {
            Some(size) => size.to_string(),
            None if at == 0 => "N".to_string(),
            None => "?".to_string(),
        });
        format!("[{}]", dims.collect::<Vec<String>>().join(", "))
    }

    /// What a caller may choose of the shape.
    fn free_text(&self, batched: bool) -> &'static str {
        let is_free = |dims: Option<&[Option<usize>]>| dims.is_some_and(|dims| dims.contains(&None));
        match (is_free(self.shape.get(..1)), is_free(self.shape.get(1..))) {
            (true, false) if batched => "N is the number of rows and is free",
            (true, true) if batched => "N is the number of rows, and N and ? are free",
            (false, false) => "every size is fixed",
            _ => "N and ? are free",
        }
    }
}

/// `x: f32[N, 80]`.
impl fmt::Display for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}{}", self.name, self.element_type, self.shape_text())
    }
}

/// All inputs and outputs of a model, in the order runs use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Signature {
    /// What goes in.
    pub inputs: Vec<Port>,
    /// What comes out. Of a model that lists none, and has no batch, any tensors may come.
    pub outputs: Vec<Port>,
    /// Whether dimension 0 of every input and output is the batch, so that several calls can share a run. A model without a batch
    /// runs one call at a time.
    pub batched: bool,
}

impl Signature {
    /// Rows of a call with these inputs, in order; 1 where there is no batch.
    pub fn rows(&self, inputs: &[Tensor]) -> usize {
        match inputs.first() {
            Some(first) if self.batched => first.rows(),
            _ => 1,
        }
    }

    /// Puts named tensors into signature order, checked: every input once, its type
    /// and shape right, no NaN or infinity; in a batch at least one row, and the same rows everywhere.
    ///
    /// # Errors
    /// One of the `Input...` cases of [`Error`], naming the input, what the model
    /// expects and what was found.
    pub fn check_inputs(&self, given: Vec<(String, Tensor)>) -> Result<Vec<Tensor>, Error> {
        let mut slots: Vec<Option<Tensor>> = Vec::new();
        slots.resize_with(self.inputs.len(), || None);
        for (name, tensor) in given {
            let Some(index) = self.inputs.iter().position(|port| port.name == name) else {
                let expected = self.inputs_text();
                return Err(Error::InputUnknown { name, expected });
            };
            if slots[index].replace(tensor).is_some() {
                return Err(Error::InputTwice { name });
            }
        }
        let mut ordered = Vec::with_capacity(self.inputs.len());
        for (port, slot) in self.inputs.iter().zip(slots) {
            ordered.push(slot.ok_or_else(|| Error::InputMissing {
                name: port.name.clone(),
                expected: self.inputs_text(),
            })?);
        }
        self.check_ordered(&ordered)?;
        Ok(ordered)
    }

    /// The checks of [`Signature::check_inputs`] on tensors that are in order already.
    ///
    /// # Errors
    /// As [`Signature::check_inputs`].
    pub fn check_ordered(&self, ordered: &[Tensor]) -> Result<(), Error> {
        if let Some(port) = self.inputs.get(ordered.len()) {
            return Err(Error::InputMissing {
                name: port.name.clone(),
                expected: self.inputs_text(),
            });
        }
        if ordered.len() > self.inputs.len() {
            return Err(Error::InputUnknown {
                name: format!("number {}", self.inputs.len()),
                expected: self.inputs_text(),
            });
        }
        for (port, tensor) in self.inputs.iter().zip(ordered) {
            check_one(port, tensor, self.batched)?;
        }
        let first = self.inputs.first().zip(ordered.first());
        if let Some((first_port, first)) = first.filter(|_| self.batched) {
            for (port, tensor) in self.inputs.iter().zip(ordered).skip(1) {
                if tensor.rows() != first.rows() {
                    return Err(Error::InputRows {
                        name: port.name.clone(),
                        first: first_port.name.clone(),
                        expected: first.rows(),
                        found: tensor.rows(),
                    });
                }
            }
        }
        Ok(())
    }

    /// All inputs for a message: `x: f32[N, 80], ids: i64[N, 4]`.
    fn inputs_text(&self) -> String {
        let ports: Vec<String> = self.inputs.iter().map(Port::to_string).collect();
        ports.join(", ")
    }
}

fn check_one(port: &Port, tensor: &Tensor, batched: bool) -> Result<(), Error> {
    let name = || port.name.clone();
    if port.element_type != tensor.element_type() {
        return Err(Error::InputType {
            name: name(),
            expected: port.element_type,
            found: tensor.element_type(),
        });
    }
    if !port.fits(tensor.shape()) {
        return Err(Error::InputShape {
            name: name(),
            expected: port.shape_text(),
            found: format!("{:?}", tensor.shape()),
            free: port.free_text(batched),
        });
    }
    if batched && tensor.rows() == 0 {
        return Err(Error::InputEmpty { name: name() });
    }
    if let Some((index, value)) = tensor.elements().first_not_finite() {
        return Err(Error::InputNotFinite {
            name: name(),
            index,
            value: value.to_string(),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use millpond_tensor::{bf16, f16};

    fn port(name: &str, element_type: ElementType, shape: &[Option<usize>]) -> Port {
        Port {
            name: name.to_string(),
            element_type,
            shape: shape.to_vec(),
        }
    }

    fn signature() -> Signature {
        Signature {
            inputs: vec![
                port("x", ElementType::F32, &[None, Some(2)]),
                port("ids", ElementType::I64, &[None]),
            ],
            outputs: vec![port("y", ElementType::F32, &[None, Some(1)])],
            batched: true,
        }
    }

    fn floats(shape: &[usize], values: Vec<f32>) -> Tensor {
        Tensor::new(shape.to_vec(), values).unwrap()
    }

    fn ids(values: Vec<i64>) -> Tensor {
        Tensor::new(vec![values.len()], values).unwrap()
    }

    fn check(given: Vec<(&str, Tensor)>, expected: Result<(), &str>) {
        let given = given
            .into_iter()
            .map(|(name, tensor)| (name.to_string(), tensor))
            .collect();
        let found = signature().check_inputs(given);
        match (found, expected) {
            (Ok(ordered), Ok(())) => assert_eq!(ordered.len(), 2),
            (Err(error), Err(text)) => assert_eq!(error.to_string(), text),
            (found, expected) => panic!("expected {expected:?}, found {found:?}"),
        }
    }

    #[test]
    fn fitting_inputs_come_out_in_signature_order() {
        let given = vec![
            ("ids".to_string(), ids(vec![7, 8])),
            ("x".to_string(), floats(&[2, 2], vec![1.0; 4])),
        ];
        let ordered = signature().check_inputs(given).unwrap();
        assert_eq!(ordered[0].shape(), [2, 2]);
        assert_eq!(ordered[1].of::<i64>(), Some(&[7, 8][..]));
    }

    #[test]
    fn what_does_not_fit_is_named() {
        let x = || ("x", floats(&[2, 2], vec![1.0; 4]));
        let both = || vec![x(), ("ids", ids(vec![1, 2]))];
        check(both(), Ok(()));
        check(
            vec![x()],
            Err("input `ids` is missing: the model takes x: f32[N, 2], ids: i64[N]; add it"),
        );
        check(
            vec![x(), ("id", ids(vec![1, 2]))],
            Err("input `id` is unknown: the model takes x: f32[N, 2], ids: i64[N]; remove or rename it"),
        );
        check(
            vec![x(), x(), ("ids", ids(vec![1, 2]))],
            Err("input `x` is given twice; give it once"),
        );
        check(
            vec![x(), ("ids", floats(&[2], vec![1.0; 2]))],
            Err("input `ids` must be i64, found f32; send it as i64"),
        );
        check(
            vec![("x", floats(&[2, 3], vec![1.0; 6])), ("ids", ids(vec![1, 2]))],
            Err("input `x` must have shape [N, 2], found [2, 3]; N is the number of rows and is free"),
        );
        check(
            vec![("x", floats(&[4], vec![1.0; 4])), ("ids", ids(vec![1, 2]))],
            Err("input `x` must have shape [N, 2], found [4]; N is the number of rows and is free"),
        );
        check(
            vec![x(), ("ids", ids(vec![1, 2, 3]))],
            Err("input `ids` has 3 rows, input `x` has 2; all inputs need the same first dimension"),
        );
        check(
            vec![("x", floats(&[0, 2], vec![])), ("ids", ids(vec![]))],
            Err("input `x` has 0 rows; send at least one"),
        );
        check(
            vec![
                ("x", floats(&[2, 2], vec![1.0, 1.0, f32::NAN, 1.0])),
                ("ids", ids(vec![1, 2])),
            ],
            Err("input `x` is NaN at element 2; every value must be finite"),
        );
    }

    /// What a signature of one input says of that tensor.
    fn check_type(element_type: ElementType, given: Tensor, expected: Result<(), &str>) {
        let signature = Signature {
            inputs: vec![port("x", element_type, &[None])],
            outputs: Vec::new(),
            batched: true,
        };
        let found = signature
            .check_ordered(&[given])
            .map_err(|error| error.to_string());
        assert_eq!(found, expected.map_err(str::to_owned));
    }

    #[test]
    fn floats_of_16_bits_are_checked_as_others_are() {
        let halves = |last: f16| Tensor::new(vec![2], vec![f16::ONE, last]).unwrap();
        let brains = |last: bf16| Tensor::new(vec![2], vec![bf16::ONE, last]).unwrap();
        check_type(ElementType::F16, halves(f16::MAX), Ok(()));
        check_type(ElementType::Bf16, brains(bf16::MIN), Ok(()));
        check_type(
            ElementType::F16,
            halves(f16::NEG_INFINITY),
            Err("input `x` is -inf at element 1; every value must be finite"),
        );
        check_type(
            ElementType::Bf16,
            brains(bf16::NAN),
            Err("input `x` is NaN at element 1; every value must be finite"),
        );
        check_type(
            ElementType::F16,
            brains(bf16::ONE),
            Err("input `x` must be f16, found bf16; send it as f16"),
        );
    }

    #[test]
    fn ordered_inputs_of_the_wrong_number_are_refused() {
        let x = floats(&[2, 2], vec![1.0; 4]);
        let missing = signature().check_ordered(std::slice::from_ref(&x));
        assert!(matches!(missing, Err(Error::InputMissing { name, .. }) if name == "ids"));
        let extra = signature().check_ordered(&[x, ids(vec![1, 2]), ids(vec![1, 2])]);
        assert!(matches!(extra, Err(Error::InputUnknown { .. })));
    }

    #[test]
    fn a_row_has_the_product_of_the_other_dimensions() {
        let row_len = |shape: &[Option<usize>]| port("x", ElementType::F32, shape).row_len();
        assert_eq!(row_len(&[None, Some(3), Some(4)]), Some(12));
        assert_eq!(row_len(&[None]), Some(1));
        assert_eq!(row_len(&[None, None]), None);
        assert_eq!(row_len(&[None, Some(usize::MAX), Some(2)]), None);
    }
}
