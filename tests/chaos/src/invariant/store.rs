//! Everything a store has, read over the wire after a restart.

use crate::front::Socket;
use crate::scene::ANSWER_MAX;
use crate::server::Server;
use anyhow::Context as _;
use millpond_wire_frame::{Encoding, FrameKind, Limits, Parsed, parse_frame, write_frame};
use millpond_wire_payload::{Encoder, Payload};
use millpond_wire_schema::Field as _;
use millpond_wire_schema::ordered_scan::{Answer, Call};
use std::borrow::Cow;
use std::io::{Read as _, Write as _};

const PAGE_ENTRIES: usize = 2000;

/// All keys and values, ascending.
///
/// # Errors
/// A scan that fails.
pub fn read(server: &Server) -> anyhow::Result<Vec<(String, String)>> {
    let mut socket = Socket::plain(server.plain, ANSWER_MAX)?;
    let (mut all, mut cursor) = (Vec::new(), None);
    loop {
        let (entries, next) = page(&mut socket, cursor)?;
        all.extend(entries);
        match next {
            Some(next) => cursor = Some(next),
            None => return Ok(all),
        }
    }
}

type Page = (Vec<(String, String)>, Option<Vec<u8>>);

fn page(socket: &mut Socket, cursor: Option<Vec<u8>>) -> anyhow::Result<Page> {
    let call = Call {
        limit: PAGE_ENTRIES,
        cursor: cursor.map(Cow::Owned),
        ..Call::default()
    };
    let (mut payload, mut frame) = (Vec::new(), Vec::new());
    Call::write(&call, &mut Encoder::new(&mut payload, Encoding::Msgpack, false));
    let kind = FrameKind::Twoway {
        method: "ordered.scan",
        seq: 1,
    };
    write_frame(&mut frame, Encoding::Msgpack, kind, &payload)?;
    socket.write_all(&frame)?;
    let mut came = Vec::new();
    loop {
        if let Parsed::Whole { message, .. } = parse_frame(&came, Limits::default())? {
            let payload = Payload::new(message.encoding, message.payload)?;
            anyhow::ensure!(
                message.kind == FrameKind::Answer { status: 0, seq: 1 },
                "a scan was answered {payload:?}"
            );
            let (answer, _) = Answer::decode(&payload)?;
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            let entries = answer.entries.iter().map(|(key, value)| (text(key), text(value)));
            return Ok((entries.collect(), answer.cursor.map(Cow::into_owned)));
        }
        let mut chunk = vec![0; 64 << 10];
        let read = socket.read(&mut chunk).context("a scan is not answered")?;
        anyhow::ensure!(read > 0, "the connection of a scan was closed");
        came.extend_from_slice(chunk.get(..read).unwrap_or_default());
    }
}
