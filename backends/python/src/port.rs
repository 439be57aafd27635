//! Inputs and outputs as the configuration declares them, `x: f32[N, 80]`: the form in which errors show them.
//!
//! It knows no model. Its invariant: a signature that it gives is one that a worker may have.

use millpond_backends_interface::{Port, Signature};
use millpond_tensor::ElementType;
use serde::Deserialize;

/// What a function gets in one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Batch {
    /// An array for each input, with the rows of all requests.
    #[default]
    Rows,
    /// A list with a dict for each request, whose shapes may differ.
    List,
}

/// The signature of these inputs and outputs. It is batched where each begins with `N`.
///
/// # Errors
/// The problem, behind the key's name.
pub(crate) fn signature(inputs: &[String], outputs: &[String], batch: Batch) -> Result<Signature, String> {
    let mut is_batched = None;
    let mut read = |key: &str, texts: &[String]| {
        let mut ports = Vec::with_capacity(texts.len());
        for text in texts {
            let (port, has_rows) = port(text).map_err(|problem| {
                format!("{key}: {text:?} {problem}; expected the form \"x: f32[N, 80]\"")
            })?;
            if has_rows && batch == Batch::List {
                return Err(format!(
                    "{key}: {text:?} begins with N, the number of rows, and batch = \"list\" joins no rows; write ? for a free size"
                ));
            }
            if *is_batched.get_or_insert(has_rows) != has_rows {
                return Err(format!(
                    "{key}: {text:?} differs from those before it; begin all shapes with N, the number of rows, or none"
                ));
            }
            ports.push(port);
        }
        Ok(ports)
    };
    let (inputs, outputs) = (read("inputs", inputs)?, read("outputs", outputs)?);
    let signature = Signature {
        inputs,
        outputs,
        batched: is_batched.unwrap_or(false),
    };
    let checked = signature.check_foreign();
    checked.map_err(|problem| format!("inputs and outputs cannot be: {problem}"))?;
    Ok(signature)
}

/// One of them, and whether its first size is the number of rows.
fn port(text: &str) -> Result<(Port, bool), String> {
    let (name, rest) = text.rsplit_once(':').ok_or("has no colon")?;
    let (element_type, sizes) = rest.trim().split_once('[').ok_or("has no shape")?;
    let sizes = sizes.strip_suffix(']').ok_or("has no shape")?;
    let element_type = ElementType::parse(element_type.trim()).ok_or_else(|| {
        let known: Vec<&str> = ElementType::ALL.iter().map(|known| known.as_str()).collect();
        format!(
            "has the unknown type {:?}, none of {known:?}",
            element_type.trim()
        )
    })?;
    let sizes: Vec<&str> = match sizes.trim() {
        "" => Vec::new(),
        sizes => sizes.split(',').map(str::trim).collect(),
    };
    let shape = sizes.iter().enumerate().map(|(at, size)| match *size {
        "N" if at == 0 => Ok(None),
        "N" => Err(
            "has an N behind the first size, which alone is the number of rows; write ? for a free one"
                .to_owned(),
        ),
        "?" => Ok(None),
        size => size
            .parse()
            .map(Some)
            .map_err(|_| format!("has the size {size:?}, which is neither a number nor N nor ?")),
    });
    let port = Port {
        name: name.trim().to_owned(),
        element_type,
        shape: shape.collect::<Result<_, String>>()?,
    };
    Ok((port, sizes.first() == Some(&"N")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn check(inputs: &[&str], outputs: &[&str], expected: Result<bool, &str>) {
        check_batch(inputs, outputs, Batch::Rows, expected);
    }

    fn check_batch(inputs: &[&str], outputs: &[&str], batch: Batch, expected: Result<bool, &str>) {
        let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        match (signature(&owned(inputs), &owned(outputs), batch), expected) {
            (Ok(found), Ok(batched)) => assert_eq!(found.batched, batched, "{inputs:?}"),
            (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
            (found, expected) => panic!("expected {expected:?}, found {found:?}"),
        }
    }

    #[test]
    fn declarations_are_read_as_errors_show_them() {
        let texts = ["x: f32[N, 80]", "words: bytes[N, ?]", "n: i64[N]"].map(str::to_owned);
        let found = signature(&texts, &["y: bf16[N, 1]".to_owned()], Batch::Rows).unwrap();
        let shown: Vec<String> = found.inputs.iter().map(ToString::to_string).collect();
        assert_eq!(shown, texts);
        assert_eq!(found.inputs[1].shape, [None, None]);
        assert_eq!(found.outputs[0].shape, [None, Some(1)]);
        check(&["x:u8[?,?,3]"], &["y: f32[]"], Ok(false));
        check(&[" x : f32 [ N , 2 ] "], &["y: f32[N]"], Ok(true));
        check_batch(&["x: f32[?, 2]"], &["y: bytes[]"], Batch::List, Ok(false));
    }

    #[test]
    fn what_is_no_declaration_is_refused_with_its_key() {
        let y = &["y: f32[N]"];
        check(
            &["x"],
            y,
            Err("inputs: \"x\" has no colon; expected the form \"x: f32[N, 80]\""),
        );
        check(&["x: f32"], y, Err("has no shape"));
        check(&["x: f32[N"], y, Err("has no shape"));
        check(
            &["x: float32[N]"],
            y,
            Err("has the unknown type \"float32\", none of [\"f32\""),
        );
        check(&["x: f32[N, M]"], y, Err("has the size \"M\""));
        check(&["x: f32[N, -1]"], y, Err("has the size \"-1\""));
        check(&["x: f32[2, N]"], y, Err("has an N behind the first size"));
        check(
            &["x: f32[N]", "z: f32[3]"],
            y,
            Err("inputs: \"z: f32[3]\" differs from those before it"),
        );
        check(&["x: f32[3]"], y, Err("outputs: \"y: f32[N]\" differs"));
        check(&["x: f32[N]", "x: f32[N]"], y, Err("two inputs are called `x`"));
        check_batch(
            &["x: f32[?]"],
            y,
            Batch::List,
            Err(
                "outputs: \"y: f32[N]\" begins with N, the number of rows, and batch = \"list\" joins no rows",
            ),
        );
        check(&[": f32[N]"], y, Err("input 0 has no usable name"));
        check(&[], y, Err("it has 0 inputs"));
        check(
            &["x: f32[N, 9223372036854775807]"],
            y,
            Err("larger than any memory"),
        );
    }
}
