//! What a session takes and gives, as signatures say it. It runs nothing. Its invariant: a port it returns has a type of ours and a
//! known number of dimensions, or is an output whose shape a run will tell.

use crate::c_api::{self, Names, Side};
use crate::{Refusal, convert};
use millpond_backends_interface::Port;
use millpond_tensor::ElementType;
use ort::session::Session;
use ort::value::{Outlet, ValueType};
use std::ffi::CString;

/// The ports of a session.
pub(crate) struct Ports {
    pub(crate) inputs: Vec<Port>,
    pub(crate) outputs: Vec<Port>,
    /// Outputs whose number of dimensions the file does not say; their ports have none yet.
    pub(crate) unshaped: Vec<usize>,
}

pub(crate) fn read(session: &Session) -> Result<Ports, Refusal> {
    let export = |hint: &str| format!("export the model {hint}");
    if session.outputs().is_empty() {
        return Err(("it has no outputs".to_owned(), export("with at least one")));
    }
    let mut inputs = Vec::with_capacity(session.inputs().len());
    for (index, outlet) in session.inputs().iter().enumerate() {
        let (port, has_shape) = port(session, Side::Input, index, outlet)?;
        if !has_shape {
            let problem = format!("input `{}` has no shape", outlet.name());
            return Err((problem, export("with one; its sizes may be free")));
        }
        inputs.push(port);
    }
    let (mut outputs, mut unshaped) = (Vec::new(), Vec::new());
    for (index, outlet) in session.outputs().iter().enumerate() {
        let (port, has_shape) = port(session, Side::Output, index, outlet)?;
        if !has_shape {
            unshaped.push(index);
        }
        outputs.push(port);
    }
    Ok(Ports {
        inputs,
        outputs,
        unshaped,
    })
}

/// A port, and whether it has a shape.
fn port(session: &Session, side: Side, index: usize, outlet: &Outlet) -> Result<(Port, bool), Refusal> {
    let name = outlet.name();
    let which = match side {
        Side::Input => "input",
        Side::Output => "output",
    };
    let ValueType::Tensor { ty, shape, .. } = outlet.dtype() else {
        let problem = format!("{which} `{name}` is no tensor, but {}", outlet.dtype());
        return Err((problem, "export the model with tensors alone".to_owned()));
    };
    let Some(element_type) = convert::element_type(*ty) else {
        let types: Vec<&str> = ElementType::ALL.iter().map(|known| known.as_str()).collect();
        let problem = format!("{which} `{name}` has element type {ty}");
        let hint = format!("cast it to one of {} before exporting", types.join(", "));
        return Err((problem, hint));
    };
    let has_shape = !shape.is_empty()
        || c_api::has_shape(session, side, index).map_err(|error| {
            let problem = format!(
                "the shape of {which} `{name}` cannot be read: {}",
                crate::bounded(error.message())
            );
            (problem, "export the model again".to_owned())
        })?;
    let port = Port {
        name: name.to_owned(),
        element_type,
        // A size below zero is free.
        shape: shape.iter().map(|size| usize::try_from(*size).ok()).collect(),
    };
    Ok((port, has_shape))
}

/// The names of ports, as C writes them.
pub(crate) fn names(ports: &Ports) -> Result<Names, Refusal> {
    let names = |ports: &[Port]| {
        let names = ports.iter().map(|port| CString::new(port.name.as_str()));
        names.collect::<Result<Vec<CString>, _>>().map_err(|_| {
            let problem = "the name of an input or output holds a zero byte".to_owned();
            (problem, "export the model with other names".to_owned())
        })
    };
    Ok(Names {
        inputs: names(&ports.inputs)?,
        outputs: names(&ports.outputs)?,
    })
}
