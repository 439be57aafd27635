//! A bare tokio server of FPNN's frames: every request gets an answer of so many bytes, and nobody looks at what it asks.

use anyhow::ensure;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

const BUFFER_BYTES: usize = 16 << 10;
const HEADER_BYTES: usize = 16;

/// Serves answers whose payload is so long.
pub(crate) fn serve(address: &str, payload_bytes: u32) -> anyhow::Result<()> {
    ensure!(
        (5..65_541).contains(&payload_bytes) && payload_bytes != 260,
        "a payload has 5 to 65,540 bytes, and not 260"
    );
    // `{"x": bin}`, with the number of the request still to be set.
    let mut answer = b"FPNN\x01\x80\x02\x00".to_vec();
    answer.extend(payload_bytes.to_le_bytes());
    answer.extend([0; 4]);
    answer.extend([0x81, 0xa1, b'x']);
    match payload_bytes {
        ..260 => answer.extend([0xc4, (payload_bytes - 5) as u8]),
        _ => {
            answer.push(0xc5);
            answer.extend(((payload_bytes - 6) as u16).to_be_bytes());
        }
    }
    answer.resize(HEADER_BYTES + payload_bytes as usize, 0);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(address).await?;
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(answer_all(stream, answer.clone()));
        }
    })
}

/// Answers every whole frame of a read, all of them by one write.
async fn answer_all(mut stream: TcpStream, mut answer: Vec<u8>) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut buffer, mut filled) = (vec![0; BUFFER_BYTES], 0);
    let mut out = Vec::with_capacity(BUFFER_BYTES);
    loop {
        match stream.read(&mut buffer[filled..]).await? {
            0 => return Ok(()),
            count => filled += count,
        }
        let mut at = 0;
        while let Some(frame_bytes) = frame_bytes(&buffer[at..filled]) {
            answer[12..HEADER_BYTES].copy_from_slice(&buffer[at + 12..at + HEADER_BYTES]);
            out.extend_from_slice(&answer);
            at += frame_bytes;
        }
        buffer.copy_within(at..filled, 0);
        filled -= at;
        stream.write_all(&out).await?;
        out.clear();
    }
}

/// How long the frame is that these bytes begin with, where all of it is there.
fn frame_bytes(bytes: &[u8]) -> Option<usize> {
    let (header, rest) = bytes.split_first_chunk::<HEADER_BYTES>()?;
    let [_, _, _, _, _, _, _, method_bytes, a, b, c, d, ..] = *header;
    let body_bytes = usize::from(method_bytes) + u32::from_le_bytes([a, b, c, d]) as usize;
    (rest.len() >= body_bytes).then_some(HEADER_BYTES + body_bytes)
}
