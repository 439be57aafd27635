//! Reads a model's inputs and outputs: from the file, where their names and free
//! dimensions are written, and from tract's analysis, which knows the outputs' shapes.
//! It loads nothing. Invariant: every port it lets through has dimension 0 free and
//! all others fixed.

use crate::convert;
use millpond_backends_interface::Port;
use millpond_tensor::ElementType;
use tract_onnx::pb::{GraphProto, ValueInfoProto, tensor_proto, tensor_shape_proto, type_proto};
use tract_onnx::prelude::{Symbol, TDim, TypedModel};

/// What is wrong, and the mend.
pub(crate) type Refusal = (String, String);

/// The inputs of `graph` in its order, without those that are weights.
pub(crate) fn inputs(graph: &GraphProto) -> Result<Vec<Port>, Refusal> {
    let is_weight =
        |input: &&ValueInfoProto| graph.initializer.iter().any(|weight| weight.name == input.name);
    let ports = graph
        .input
        .iter()
        .filter(|input| !is_weight(input))
        .map(input_port);
    let ports = ports.collect::<Result<Vec<Port>, Refusal>>()?;
    if ports.is_empty() {
        return Err((
            "it has no inputs".to_string(),
            "export a model that takes a batch".to_string(),
        ));
    }
    Ok(ports)
}

fn input_port(input: &ValueInfoProto) -> Result<Port, Refusal> {
    let name = &input.name;
    let value = input.r#type.as_ref().and_then(|given| given.value.as_ref());
    let Some(type_proto::Value::TensorType(tensor)) = value else {
        let mend = "export it with a tensor as that input".to_string();
        return Err((format!("input `{name}` is not a tensor"), mend));
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
    let dims = tensor
        .shape
        .as_ref()
        .map(|shape| shape.dim.as_slice())
        .unwrap_or_default();
    let shape: Vec<Option<usize>> = dims.iter().map(|dim| fixed(dim.value.as_ref())).collect();
    let port = Port {
        name: name.clone(),
        element_type,
        shape,
    };
    check_shape(&port, "input")?;
    Ok(port)
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

/// The outputs of `graph`, typed and shaped as tract found them; `rows` is the batch.
pub(crate) fn outputs(graph: &GraphProto, typed: &TypedModel, rows: &Symbol) -> Result<Vec<Port>, Refusal> {
    let rows = TDim::from(rows.clone());
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
        if fact.shape.first() != Some(&rows) {
            let problem = format!(
                "output `{name}` has shape {:?}, not one row for each row that goes in",
                fact.shape
            );
            return Err((
                problem,
                "export it with the batch as dimension 0 of every output".to_string(),
            ));
        }
        let inner = fact
            .shape
            .iter()
            .skip(1)
            .map(|dim| usize::try_from(dim.to_i64().ok()?).ok());
        let port = Port {
            name: name.clone(),
            element_type,
            shape: std::iter::once(None).chain(inner).collect(),
        };
        check_shape(&port, "output")?;
        Ok(port)
    });
    ports.collect()
}

fn check_shape(port: &Port, kind: &str) -> Result<(), Refusal> {
    let Port { name, shape, .. } = port;
    if shape.is_empty() {
        let mend = format!("export it with the batch as dimension 0 of every {kind}");
        return Err((format!("{kind} `{name}` has no dimensions"), mend));
    }
    if let Some(size) = shape[0] {
        let problem = format!("{kind} `{name}` has its first dimension fixed at {size}");
        return Err((
            problem,
            "export it with a dynamic batch (dynamic_axes={..: {0: \"N\"}} in PyTorch)".to_string(),
        ));
    }
    if let Some(index) = shape.iter().skip(1).position(Option::is_none) {
        let problem = format!(
            "dimension {} of {kind} `{name}` is dynamic besides the batch",
            index + 1
        );
        return Err((
            problem,
            "export it with every dimension but the first fixed".to_string(),
        ));
    }
    Ok(())
}
