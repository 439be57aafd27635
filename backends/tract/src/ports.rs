//! Reads a model's inputs and outputs: from the file, where their names and free
//! dimensions are written, and from tract's analysis, which knows the outputs' shapes.
//! It loads nothing. Invariant: a size that the file leaves open is free in the port.

use crate::convert;
use millpond_backends_interface::Port;
use millpond_tensor::ElementType;
use tract_onnx::pb::{GraphProto, ValueInfoProto, tensor_proto, tensor_shape_proto, type_proto};
use tract_onnx::prelude::{Symbol, TDim, TypedModel};

/// What is wrong, and a hint.
pub(crate) type Refusal = (String, String);

/// An input, and a name for each of its dimensions: sizes that the file calls the same are the same.
pub(crate) struct Input {
    pub(crate) port: Port,
    pub(crate) names: Vec<String>,
}

/// The inputs of `graph` in its order, without those that are weights.
pub(crate) fn inputs(graph: &GraphProto) -> Result<Vec<Input>, Refusal> {
    let is_weight =
        |input: &&ValueInfoProto| graph.initializer.iter().any(|weight| weight.name == input.name);
    let inputs = graph.input.iter().filter(|input| !is_weight(input));
    inputs.map(input_of).collect()
}

fn input_of(input: &ValueInfoProto) -> Result<Input, Refusal> {
    let name = &input.name;
    let value = input.r#type.as_ref().and_then(|given| given.value.as_ref());
    let Some(type_proto::Value::TensorType(tensor)) = value else {
        let hint = "export it with a tensor as that input".to_string();
        return Err((format!("input `{name}` is not a tensor"), hint));
    };
    let element_type = element_type(tensor.elem_type).ok_or_else(|| {
        let found = tensor_proto::DataType::try_from(tensor.elem_type).map_or_else(
            |_| tensor.elem_type.to_string(),
            |known| known.as_str_name().to_lowercase(),
        );
        let problem = format!("input `{name}` has element type {found}");
        (
            problem,
            "export it with f32, f64, i64, i32, u8 or bool inputs".to_string(),
        )
    })?;
    let Some(shape) = &tensor.shape else {
        let hint = "export it with the number of its dimensions".to_string();
        return Err((format!("input `{name}` has no shape"), hint));
    };
    let named = |(at, dim): (usize, &tensor_shape_proto::Dimension)| match &dim.value {
        Some(tensor_shape_proto::dimension::Value::DimParam(size)) => format!("size.{size}"),
        _ => format!("{name}.{at}"),
    };
    Ok(Input {
        names: shape.dim.iter().enumerate().map(named).collect(),
        port: Port {
            name: name.clone(),
            element_type,
            shape: shape.dim.iter().map(|dim| fixed(dim.value.as_ref())).collect(),
        },
    })
}

/// The size of a dimension; a name, a number below 1 and nothing at all mean that it is free.
fn fixed(dim: Option<&tensor_shape_proto::dimension::Value>) -> Option<usize> {
    match dim {
        Some(tensor_shape_proto::dimension::Value::DimValue(size)) if *size > 0 => {
            usize::try_from(*size).ok()
        }
        _ => None,
    }
}

fn element_type(onnx: i32) -> Option<ElementType> {
    use tensor_proto::DataType;
    match DataType::try_from(onnx).ok()? {
        DataType::Float => Some(ElementType::F32),
        DataType::Double => Some(ElementType::F64),
        DataType::Int64 => Some(ElementType::I64),
        DataType::Int32 => Some(ElementType::I32),
        DataType::Uint8 => Some(ElementType::U8),
        DataType::Bool => Some(ElementType::Bool),
        _ => None,
    }
}

/// The outputs of `graph`, typed and shaped as tract found them.
pub(crate) fn outputs(graph: &GraphProto, typed: &TypedModel) -> Result<Vec<Port>, Refusal> {
    let ports = graph.output.iter().enumerate().map(|(index, output)| {
        let name = &output.name;
        let fact = typed.output_fact(index).map_err(|error| {
            (
                format!("output `{name}` cannot be analysed: {error:#}"),
                "export the model again".to_string(),
            )
        })?;
        let element_type = convert::element_type(fact.datum_type).ok_or_else(|| {
            let problem = format!("output `{name}` has element type {:?}", fact.datum_type);
            (
                problem,
                "cast it to f32, f64, i64, i32, u8 or bool before exporting".to_string(),
            )
        })?;
        let shape = fact
            .shape
            .iter()
            .map(|dim| usize::try_from(dim.to_i64().ok()?).ok());
        Ok(Port {
            name: name.clone(),
            element_type,
            shape: shape.collect(),
        })
    });
    ports.collect()
}

/// Whether dimension 0 of every output is `rows`.
pub(crate) fn give_rows(typed: &TypedModel, rows: &Symbol) -> bool {
    let rows = TDim::from(rows.clone());
    let mut facts = (0..typed.outputs.len()).map(|index| typed.output_fact(index));
    facts.all(|fact| fact.is_ok_and(|fact| fact.shape.first() == Some(&rows)))
}
