//! A server that answers as etcd does, until it is told to answer something else.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// What it answers.
#[derive(Clone)]
pub enum Mode {
    Good,
    /// To every call but those that are open already.
    Bytes(Vec<u8>),
    /// Bytes, and then the same again without an end.
    Endless(Vec<u8>, Vec<u8>),
    /// A byte now and then.
    Drip(Vec<u8>),
    /// To a watch, in a chunk of its stream; all else is good.
    InWatch(Vec<u8>),
    /// To a watch, without an end.
    EndlessWatch(Vec<u8>),
}

pub struct Fake {
    port: u16,
    mode: Arc<Mutex<Mode>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Fake {
    /// With a map and a node to read.
    pub fn start(mode: Mode) -> Fake {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (mode, ends) = (Arc::new(Mutex::new(mode)), Arc::new(AtomicBool::new(false)));
        let (its_mode, its_ends) = (Arc::clone(&mode), Arc::clone(&ends));
        let thread = std::thread::spawn(move || {
            let mut calls = Vec::new();
            for stream in listener.incoming().flatten() {
                if its_ends.load(Ordering::Relaxed) {
                    break;
                }
                let (mode, ends) = (Arc::clone(&its_mode), Arc::clone(&its_ends));
                // A client that hangs up is no failure.
                calls.push(std::thread::spawn(move || drop(serve(stream, &mode, &ends))));
            }
            calls.into_iter().for_each(|call| call.join().unwrap());
        });
        Fake {
            port,
            mode,
            ends,
            thread: Some(thread),
        }
    }

    pub fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    pub fn set(&self, mode: Mode) {
        *self.mode.lock().unwrap() = mode;
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(("127.0.0.1", self.port));
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }
}

/// A head and a body that is as long as it says.
pub fn http(body: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

const CHUNKED: &str = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";

fn chunk(body: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", body.len()).as_bytes(), body, b"\r\n"].concat()
}

fn listing() -> String {
    let map = r#"{"version":1,"buckets":4,"nodes":[{"name":"a","addresses":["a:1"]}]}"#;
    let pair = |key: &str, value: &str| {
        format!(
            r#"{{"key":"{}","value":"{}","mod_revision":"2"}}"#,
            STANDARD.encode(key),
            STANDARD.encode(value)
        )
    };
    let pairs = [
        pair("/millpond/test/map", map),
        pair("/millpond/test/nodes/a", r#"{"addresses":["a:1"]}"#),
    ];
    format!(r#"{{"header":{{"revision":"2"}},"kvs":[{}]}}"#, pairs.join(","))
}

fn serve(mut stream: TcpStream, mode: &Mutex<Mode>, ends: &AtomicBool) -> std::io::Result<()> {
    let path = read_request(&stream)?;
    let is_watch = path == "/v3/watch";
    let now = mode.lock().unwrap().clone();
    match now {
        Mode::Bytes(bytes) => stream.write_all(&bytes),
        Mode::Endless(first, again) => {
            stream.write_all(&first)?;
            until(ends, || stream.write_all(&again))
        }
        Mode::Drip(bytes) => {
            let mut bytes = bytes.iter().cycle();
            until(ends, || {
                std::thread::sleep(Duration::from_millis(20));
                bytes.next().map_or(Ok(()), |byte| stream.write_all(&[*byte]))
            })
        }
        _ if is_watch => watch(&mut stream, mode, ends),
        _ => stream.write_all(&http(&listing())),
    }
}

/// Begins a watch, and says what it is told to say in it.
fn watch(stream: &mut TcpStream, mode: &Mutex<Mode>, ends: &AtomicBool) -> std::io::Result<()> {
    stream.write_all(CHUNKED.as_bytes())?;
    stream.write_all(&chunk(b"{\"result\":{\"header\":{},\"created\":true}}\n"))?;
    until(ends, || {
        let now = mode.lock().unwrap().clone();
        match now {
            Mode::InWatch(bytes) => {
                stream.write_all(&chunk(&bytes))?;
                // It was said; the next session is a good one.
                *mode.lock().unwrap() = Mode::Good;
            }
            Mode::EndlessWatch(bytes) => stream.write_all(&chunk(&bytes))?,
            _ => std::thread::sleep(Duration::from_millis(5)),
        }
        // It ends when its client does.
        stream.set_nonblocking(true)?;
        let open = !matches!(stream.peek(&mut [0]), Ok(0));
        stream.set_nonblocking(false)?;
        match open {
            true => Ok(()),
            false => Err(std::io::ErrorKind::ConnectionAborted.into()),
        }
    })
}

fn until(ends: &AtomicBool, mut step: impl FnMut() -> std::io::Result<()>) -> std::io::Result<()> {
    while !ends.load(Ordering::Relaxed) {
        step()?;
    }
    Ok(())
}

/// Reads a request; its path.
fn read_request(stream: &TcpStream) -> std::io::Result<String> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line)?;
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut length = 0;
    while reader.read_line(&mut line)? > 2 {
        let last = line.lines().last().unwrap_or_default().to_ascii_lowercase();
        if let Some(text) = last.strip_prefix("content-length:") {
            length = text.trim().parse().unwrap_or(0);
        }
    }
    reader.read_exact(&mut vec![0; length])?;
    Ok(path)
}
