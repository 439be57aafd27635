//! Callers that send what is no request: random bytes, requests with some bytes changed, requests that never end.
//!
//! Each is to be closed in the end, whatever the server answers before.

use crate::configuration::{IDLE_MAX, OVERDUE_LATE, REQUEST_MAX};
use crate::finding::Broken;
use crate::front::{Front, Socket};
use crate::scene::Scene;
use rand::RngExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use std::io::{Read as _, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The server may stand still for so long meanwhile.
const PAUSE_MAX: Duration = Duration::from_secs(4);

const BEGINNINGS: &[&[u8]] = &[
    b"",
    b"FPNN\x01\x80\x01\x04\x10\x00\x00\x00",
    b"FPNN\x01\x40\x00\x05",
    b"POST /service/echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}",
    b"POST /service/echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\nFFFFFFFFFFFFFFFE\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"GET /service/*ping?fpnn=%7b%7d HTTP/1.1\r\nHost: localhost\r\n",
];

pub(super) fn run(scene: &Scene<'_>, who: u64, count: u32) {
    let mut random = scene.generator(who);
    let mut sent = Vec::new();
    for _ in 0..count * 3 {
        let front = Front::any(&mut random);
        let patience = Duration::from_millis(50);
        let socket = match front.is_tls && random.random() {
            true => Socket::tls(scene.server.tls, Arc::clone(&scene.tls), patience),
            false if front.is_tls => Socket::plain(scene.server.tls, patience),
            false => Socket::plain(scene.server.plain, patience),
        };
        let Ok(mut socket) = socket else { continue };
        let bytes = garbage(&mut random);
        let _ = socket.write_all(&bytes);
        sent.push((socket, bytes));
    }
    // What was a whole request by chance is followed by silence.
    let closed_max = REQUEST_MAX + IDLE_MAX + OVERDUE_LATE * 2 + PAUSE_MAX;
    let until = Instant::now() + closed_max * scene.settings.generosity;
    while !scene.is_over() && !sent.is_empty() {
        sent.retain_mut(|(socket, _)| !is_closed(socket));
        if Instant::now() > until && scene.server.ended().is_none() {
            for (_, bytes) in &sent {
                let shown = String::from_utf8_lossy(bytes.get(..120).unwrap_or(bytes)).into_owned();
                scene.tell(Broken::Answer, format!("garbage was never closed: {shown:?}"));
            }
            return;
        }
        scene.sleep(Duration::from_millis(50));
    }
}

fn garbage(random: &mut StdRng) -> Vec<u8> {
    let mut bytes = BEGINNINGS.choose(random).copied().unwrap_or_default().to_vec();
    if random.random() && !bytes.is_empty() {
        for _ in 0..random.random_range(1..4) {
            let place = random.random_range(0..bytes.len());
            if let Some(byte) = bytes.get_mut(place) {
                *byte = random.random();
            }
        }
    }
    for _ in 0..random.random_range(0..300) {
        bytes.push(random.random());
    }
    bytes
}

/// Whether the server has closed it; what it said before does not matter.
fn is_closed(socket: &mut Socket) -> bool {
    let mut said = [0; 4096];
    match socket.read(&mut said) {
        Ok(0) => true,
        Ok(_) => false,
        Err(error) => !matches!(
            error.kind(),
            std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut | std::io::ErrorKind::Interrupted
        ),
    }
}
