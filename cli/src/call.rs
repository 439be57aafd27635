//! `millpond call METHOD JSON`: one call over the native protocol, its answer printed as JSON.
//! Its invariant: an error answer is printed with its code, and the exit code is 1.

mod nodes;

use crate::connect::{TlsFiles, connect, runtime};
use anyhow::Context as _;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use clap::Args;
use millpond_client_rust::Encoding;
use millpond_client_rust::schema::{METHODS, Method as _, OrderedGet, OrderedScan};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::time::Duration;

const EXAMPLES: &str = "\
Examples:
  millpond call '*ping'
  millpond call rank '{\"user\": {\"id\": \"246\", \"age\": \"18-24\", \"gender\": \"M\", \"occupation\": \"student\"}, \"items\": [\"50\", \"181\"]}'
  millpond call run @request.json
  millpond call '*infos' --addr unix:/run/millpond.sock
  millpond call '*ping' --addr tls://millpond.example:13503 --tls-ca ca.pem
  millpond call features.lookup '{\"table\": \"films\", \"keys\": [1, 2]}' --map nodes.toml
  millpond call features.lookup @request.json --etcd http://10.0.0.9:2379 --cluster ranking";

/// Calls one method of a running server.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Call {
    #[arg(help = methods())]
    method: String,
    /// The payload, a JSON object; @FILE reads it from a file, and - from standard input. Options of a call are keys of it:
    /// _priority, _token.
    #[arg(default_value = "{}")]
    json: String,
    /// The server: HOST:PORT, unix:PATH or tls://HOST:PORT. Of several, with commas between, one that can be reached.
    #[arg(
        long,
        visible_alias = "server",
        default_value = "127.0.0.1:13500",
        value_name = "ADDRESS"
    )]
    addr: String,
    /// Give up after this long; the server is told.
    #[arg(long, default_value_t = 5000, value_name = "MS", value_parser = clap::value_parser!(u64).range(1..))]
    deadline_ms: u64,
    /// Send without waiting for an answer; success means only that it was written.
    #[arg(long, conflicts_with = "raw")]
    oneway: bool,
    /// Print the answer as it came, on one line.
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    nodes: nodes::Nodes,
    #[command(flatten)]
    tls: TlsFiles,
}

pub(crate) fn run(arguments: &Call) -> anyhow::Result<()> {
    let json = payload(&arguments.json)?;
    let payload = serde_json::from_str(&json).context("the payload is not JSON")?;
    let Value::Object(mut payload) = payload else {
        anyhow::bail!("the payload is no JSON object; write a map such as '{{\"keys\": [1]}}'");
    };
    // The client sends the deadline itself, and gives up when it is over.
    let deadline_ms = match payload.remove("_deadline_ms") {
        None => arguments.deadline_ms,
        Some(said) => said.as_u64().with_context(|| {
            format!("key \"_deadline_ms\" is {said}; expected milliseconds, a whole number")
        })?,
    };
    let deadline = Duration::from_millis(deadline_ms);
    let payload = Value::Object(payload).to_string();
    let runtime = runtime()?;
    if arguments.oneway {
        return runtime.block_on(send(arguments, &payload, deadline));
    }
    let answer = runtime.block_on(async {
        if arguments.nodes.are_named() {
            let nodes = &arguments.nodes;
            return nodes
                .call(&arguments.method, &payload, deadline, &arguments.tls)
                .await;
        }
        let client = connect(&arguments.addr, &arguments.tls).await?;
        let payload = payload.as_bytes();
        let answer = client.call_raw(&arguments.method, Encoding::Json, payload, Some(deadline));
        anyhow::Ok(answer.await?)
    })?;
    if arguments.raw {
        crate::print(&String::from_utf8_lossy(&answer));
        return Ok(());
    }
    let mut answer: Value = serde_json::from_slice(&answer).context("the answer is not JSON")?;
    show_bytes(&arguments.method, &mut answer);
    crate::print(&serde_json::to_string_pretty(&answer)?);
    Ok(())
}

/// The methods, for the help.
fn methods() -> String {
    let names: Vec<&str> = METHODS.iter().map(|method| method.name).collect();
    format!("The method: {}", names.join(", "))
}

/// Turns the byte strings of an ordered store's answer into text, or into base64 where they are not UTF-8.
fn show_bytes(method: &str, answer: &mut Value) {
    let places: &[(&str, usize)] = match method {
        OrderedGet::NAME => &[("values", 1)],
        OrderedScan::NAME => &[("entries", 2), ("cursor", 0)],
        _ => return,
    };
    for (key, depth) in places {
        if let Some(value) = answer.get_mut(key) {
            show_bytes_within(value, *depth);
        }
    }
}

/// The same, of lists of byte strings that are nested so deep.
fn show_bytes_within(value: &mut Value, depth: usize) {
    let Value::Array(parts) = value else { return };
    if depth > 0 {
        return parts
            .iter_mut()
            .for_each(|part| show_bytes_within(part, depth - 1));
    }
    let byte = |part: &Value| part.as_u64().and_then(|byte| u8::try_from(byte).ok());
    let Some(bytes) = parts.iter().map(byte).collect::<Option<Vec<u8>>>() else {
        return;
    };
    *value = match String::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(error) => json!({"base64": BASE64_STANDARD.encode(error.as_bytes())}),
    };
}

/// The payload's text: as it was given, or that of a file or of standard input.
fn payload(given: &str) -> anyhow::Result<Cow<'_, str>> {
    if given == "-" {
        let read = std::io::read_to_string(std::io::stdin());
        return Ok(Cow::Owned(read.context("cannot read standard input")?));
    }
    let Some(file) = given.strip_prefix('@') else {
        return Ok(Cow::Borrowed(given));
    };
    let read = std::fs::read_to_string(file).with_context(|| format!("cannot read {file}"))?;
    Ok(Cow::Owned(read))
}

/// Sends the call and returns once it is written.
async fn send(arguments: &Call, payload: &str, deadline: Duration) -> anyhow::Result<()> {
    let sent = async {
        let client = connect(&arguments.addr, &arguments.tls).await?;
        client
            .oneway_raw(&arguments.method, Encoding::Json, payload.as_bytes())
            .await?;
        client.close().await;
        Ok(())
    };
    let late = || {
        format!(
            "the call could not be written to {} within {deadline:?}",
            arguments.addr
        )
    };
    tokio::time::timeout(deadline, sent).await.with_context(late)?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_and_values_of_ordered_stores_are_printed_as_text() {
        let check = |method: &str, mut answer: Value, expected: &Value| {
            show_bytes(method, &mut answer);
            assert_eq!(answer, *expected, "{method}");
        };
        check(
            "ordered.scan",
            json!({"entries": [[[117, 47, 50], [195, 169]], [[], [255, 254]]], "cursor": [117]}),
            &json!({"entries": [["u/2", "é"], ["", {"base64": "//4="}]], "cursor": "u"}),
        );
        check("ordered.scan", json!({"entries": []}), &json!({"entries": []}));
        check(
            "ordered.get",
            json!({"values": [[49], null, "MQ=="], "versions": [1, 0, 2]}),
            &json!({"values": ["1", null, "MQ=="], "versions": [1, 0, 2]}),
        );
        check("infer", json!({"values": [[49]]}), &json!({"values": [[49]]}));
    }
}
