//! From a file to a model that can run: read, decode, check, analyse. It runs nothing.
//! Its one invariant: whatever the file holds, it ends in a model or in an error that
//! names the file, what is wrong, and a hint; never in a panic.

use crate::convert;
use crate::model::TractModel;
use crate::ports::{self, Input, Refusal};
use millpond_backends_interface::{Error, Signature};
use millpond_threads::contain;
use std::collections::{BTreeSet, HashSet};
use std::path::Path;
use std::{fs, io};
use tract_onnx::Onnx;
use tract_onnx::pb::{GraphProto, ModelProto};
use tract_onnx::prelude::{
    Framework, InferenceFact, InferenceModelExt, Symbol, TDim, TractResult, TypedModel,
};

/// Domains whose operators are the standard ones; in another domain a name may mean anything.
const DOMAINS: [&str; 4] = ["", "ai.onnx", "ai.onnx.ml", "com.microsoft"];

pub(crate) fn load(path: &Path) -> Result<TractModel, Error> {
    let refuse = |(problem, hint)| Error::Load {
        path: path.to_path_buf(),
        problem,
        hint,
    };
    let bytes = fs::read(path).map_err(|error| refuse(unreadable(&error)))?;
    let onnx = tract_onnx::onnx();
    let proto = decode(&onnx, &bytes).map_err(refuse)?;
    let graph = check(&onnx, &proto).map_err(refuse)?;
    let inputs = ports::inputs(graph).map_err(refuse)?;
    let analysed = analyse(path, &proto, &inputs);
    let (typed, rows) = analysed.map_err(|problem| refuse(not_analysed(&problem)))?;
    let signature = Signature {
        outputs: ports::outputs(graph, &typed).map_err(refuse)?,
        inputs: inputs.into_iter().map(|input| input.port).collect(),
        batched: rows.is_some(),
    };
    let built = no_panic(|| TractModel::new(signature, typed, rows));
    built.map_err(|problem| refuse(not_analysed(&problem)))
}

/// tract trusts files more than we do: what it still panics on is a bad file as well.
fn no_panic<T>(work: impl FnOnce() -> TractResult<T>) -> Result<T, String> {
    match contain(work) {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(error)) => Err(format!("{error:#}")),
        Err(panic) => Err(panic.message),
    }
}

fn unreadable(error: &io::Error) -> Refusal {
    let hint = match error.kind() {
        io::ErrorKind::NotFound => "check the path in the configuration",
        io::ErrorKind::PermissionDenied => "let the server's user read it",
        _ => "check the path and the disk",
    };
    (format!("it cannot be read: {error}"), hint.to_string())
}

fn decode(onnx: &Onnx, mut bytes: &[u8]) -> Result<ModelProto, Refusal> {
    let whole = "copy or export the file again".to_string();
    if bytes.is_empty() {
        return Err(("it is empty".to_string(), whole));
    }
    onnx.proto_model_for_read(&mut bytes).map_err(|error| {
        (
            format!("it is damaged, cut short, or no ONNX file: {error:#}"),
            whole,
        )
    })
}

/// Checks that need the decoded file alone.
fn check<'a>(onnx: &Onnx, proto: &'a ModelProto) -> Result<&'a GraphProto, Refusal> {
    let again = || "copy or export the file again".to_string();
    let Some(graph) = &proto.graph else {
        return Err((
            "it holds no graph: it is cut short or no ONNX file".to_string(),
            again(),
        ));
    };
    if proto.opset_import.is_empty() {
        return Err((
            "it does not say which operator set it uses: it is cut short".to_string(),
            again(),
        ));
    }
    let mut unsupported = BTreeSet::new();
    find_unsupported(onnx, graph, &mut unsupported);
    if !unsupported.is_empty() {
        let names: Vec<String> = unsupported.into_iter().collect();
        let hint = "export it with standard operators, or serve it through another backend".to_string();
        return Err((
            format!("tract does not have the operator {}", names.join(", ")),
            hint,
        ));
    }
    if graph.output.is_empty() {
        return Err((
            "it has no outputs".to_string(),
            "export it with at least one".to_string(),
        ));
    }
    let made: HashSet<&str> = (graph.node.iter().flat_map(|node| node.output.iter()))
        .chain(graph.input.iter().map(|input| &input.name))
        .chain(graph.initializer.iter().map(|weight| &weight.name))
        .map(String::as_str)
        .collect();
    match graph
        .output
        .iter()
        .find(|output| !made.contains(output.name.as_str()))
    {
        Some(output) => Err((format!("no operator makes its output `{}`", output.name), again())),
        None => Ok(graph),
    }
}

/// Operators that tract lacks, in `graph` and the graphs inside its operators.
fn find_unsupported(onnx: &Onnx, graph: &GraphProto, found: &mut BTreeSet<String>) {
    for node in &graph.node {
        if !DOMAINS.contains(&node.domain.as_str()) {
            found.insert(format!("`{}` of domain `{}`", node.op_type, node.domain));
        } else if !onnx.op_register.0.contains_key(&node.op_type) {
            found.insert(format!("`{}`", node.op_type));
        }
        for inner in node
            .attribute
            .iter()
            .flat_map(|attribute| attribute.g.iter().chain(&attribute.graphs))
        {
            find_unsupported(onnx, inner, found);
        }
    }
}

/// The typed graph, and what stands for the rows of a batch, if it has one: a model whose inputs and outputs all have a free
/// dimension 0 that can be the same, whatever the file calls it.
fn analyse(
    path: &Path,
    proto: &ModelProto,
    inputs: &[Input],
) -> Result<(TypedModel, Option<Symbol>), String> {
    let takes_rows = |input: &Input| input.port.shape.first() == Some(&None);
    if !inputs.is_empty() && inputs.iter().all(takes_rows) {
        let batched = no_panic(|| typed(path, proto, inputs, true));
        if let Ok((typed, rows)) = batched
            && ports::give_rows(&typed, &rows)
        {
            return Ok((typed, Some(rows)));
        }
    }
    let (typed, _) = no_panic(|| typed(path, proto, inputs, false))?;
    Ok((typed, None))
}

/// The typed graph, with a symbol for each free size. With `batched` one symbol is dimension 0 of every input.
fn typed(
    path: &Path,
    proto: &ModelProto,
    inputs: &[Input],
    batched: bool,
) -> TractResult<(TypedModel, Symbol)> {
    let folder = path.parent().and_then(Path::to_str);
    // Shapes noted inside the file use the file's own names for the batch, so they are left aside.
    let onnx = tract_onnx::onnx().with_ignore_value_info(true);
    let mut model = onnx.parse(proto, folder)?.model;
    let rows = model.symbols.sym("rows");
    for (index, input) in inputs.iter().enumerate() {
        let sizes = input.port.shape.iter().zip(&input.names).enumerate();
        let size = |(at, (size, name)): (usize, (&Option<usize>, &String))| match size {
            Some(size) => TDim::from(*size),
            None if batched && at == 0 => TDim::from(rows.clone()),
            None => TDim::from(model.symbols.sym(name)),
        };
        let shape: Vec<TDim> = sizes.map(size).collect();
        let element_type = convert::datum_type(input.port.element_type)?;
        model.set_input_fact(index, InferenceFact::dt_shape(element_type, shape))?;
    }
    Ok((model.into_typed()?.into_decluttered()?, rows))
}

fn not_analysed(problem: &str) -> Refusal {
    let hint = "check it with onnx.checker, export it again, or serve it through another backend";
    (format!("tract cannot prepare it: {problem}"), hint.to_string())
}
