//! What a method's own work takes: its payload is read, its engine asked and its answer written, over and over, and nothing else.
//!
//! A server's instructions less these are what it adds to a call. Its invariant: the payload is the one that the bars send, and each
//! answer is written into the same buffer.

use std::hint::black_box;
use std::path::Path;

use millpond_engines_features::Table;
use millpond_wire_payload::{Encoder, Encoding, Payload, Reserved};
use millpond_wire_schema::{Field as _, features_lookup as schema};

/// One of the keys that the bars ask for.
const KEY: u64 = 7919;
/// What the bars have echoed.
const TEXT: &str = "abcdefghijklmnopqrstuv";

/// Has an echo's payload read and written so often.
pub(crate) fn echo(count: u64) -> anyhow::Result<()> {
    let mut request = Vec::new();
    Encoder::new(&mut request, Encoding::Msgpack, false).map(|out| {
        out.key("payload");
        out.text(TEXT);
    });
    repeat(count, &request, |payload, out| {
        black_box(Reserved::of(payload)?);
        out.raw(&request);
        Ok(())
    })
}

/// Looks up one key of the table in `folder` so often.
pub(crate) fn lookup(folder: &Path, count: u64) -> anyhow::Result<()> {
    let mut table = Table::open_version(folder, None)?;
    table.make_resident()?;
    let mut request = Vec::new();
    Encoder::new(&mut request, Encoding::Msgpack, false).map(|out| {
        out.key("table");
        out.text("items");
        out.key("keys");
        out.block(&[KEY]);
    });
    repeat(count, &request, |payload, out| {
        let (schema::Call::One(asked), _) = schema::Call::decode(payload)? else {
            anyhow::bail!("the request is for one table");
        };
        let keys = asked.keys.unwrap_or_default();
        let header = schema::Header {
            version: table.version(),
            dim: table.dim(),
            row_type: asked.row_type,
            keys: keys.len(),
            rows: keys.len(),
            inverse: None,
            active: None,
            missing: &[],
            overlay_sequence: None,
        };
        header.write(out, |found, values| {
            table.lookup_bytes(&keys, table.floats(), values, found);
        });
        Ok(())
    })
}

fn repeat(
    count: u64,
    request: &[u8],
    serve: impl Fn(&Payload<'_>, &mut Encoder<'_>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let mut answer = Vec::new();
    for _ in 0..count {
        answer.clear();
        let payload = Payload::new(Encoding::Msgpack, black_box(request))?;
        serve(&payload, &mut Encoder::new(&mut answer, Encoding::Msgpack, false))?;
        black_box(&answer);
    }
    anyhow::ensure!(!answer.is_empty(), "nothing was answered");
    Ok(())
}
