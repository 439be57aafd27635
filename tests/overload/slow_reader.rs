//! A peer that reads, and always less than there is: the server keeps what it has not read, and not what it has.

use crate::harness::Millpond;
use millpond_wire_frame::{Encoding, FrameKind, write_frame};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

const CALLS: u32 = 6000;
const TEXT_BYTES: usize = 10_000;
/// What the server may take for it; what it sends is six times as much.
const GROWTH_BYTES_MAX: u64 = 10 << 20;

/// The memory of a process.
fn resident_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    let kib: u64 = line.split_whitespace().next().unwrap().parse().unwrap();
    kib * 1024
}

#[test]
fn who_reads_slowly_holds_no_more_than_who_does_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let text = "x".repeat(TEXT_BYTES);
    let config = format!(
        "[server]\nlisten = \"127.0.0.1:0\"\nthreads = 1\nlisten_also = [\"unix:millpond.sock\"]\n[admin]\nlisten = \"127.0.0.1:0\"\n\
         [log]\nfile = \"millpond.log\"\n[methods.large]\nanswer = {{ text = \"{text}\" }}\n"
    );
    std::fs::write(folder.path().join("millpond.toml"), config).unwrap();
    let server = Millpond::start(folder.path(), &[]);
    // Such a socket takes less at a time than may wait for it, so that something always does.
    let mut stream = UnixStream::connect(folder.path().join("millpond.sock")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut frames = Vec::new();
    for seq in 0..CALLS {
        let kind = FrameKind::Twoway { method: "large", seq };
        write_frame(&mut frames, Encoding::Msgpack, kind, b"\x80").unwrap();
    }
    let before = resident_bytes(server.child.id());
    let mut writer = stream.try_clone().unwrap();
    let writing = std::thread::spawn(move || writer.write_all(&frames).unwrap());
    // Header, map of one, key, and a text with 16 bits of length.
    let expected = CALLS as usize * (16 + 1 + 5 + 3 + TEXT_BYTES);
    let (mut chunk, mut read, mut most) = (vec![0; 64 << 10], 0, 0);
    while read < expected {
        let count = stream.read(&mut chunk).unwrap();
        assert!(count > 0, "closed after {read} of {expected} bytes");
        read += count;
        most = most.max(resident_bytes(server.child.id()));
        std::thread::sleep(Duration::from_millis(1));
    }
    writing.join().unwrap();
    let growth = most.saturating_sub(before);
    assert!(growth < GROWTH_BYTES_MAX, "the server grew by {growth} bytes");
}
