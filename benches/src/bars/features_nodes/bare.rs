//! The bare side: ten programs that answer as many bytes as a node does, and a caller that writes to all and reads from all.
//!
//! It splits nothing, merges nothing and repeats nothing. Its invariant: its requests and answers have the lengths of those that a
//! node gets and gives for a tenth of the keys.

use super::servers::{self, DIM, Servers};
use crate::cores;
use crate::setup::Setup;
use anyhow::Context as _;
use millpond_client_rust::frame::{Encoding, FrameKind, write_frame};
use millpond_fleet::Process;
use millpond_wire_schema::Field as _;
use millpond_wire_schema::features_lookup::{Header, Lookup, RowType};
use millpond_wire_schema::payload::Encoder;
use std::future::{Ready, ready};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Bytes of a frame before its payload; an answer names no method.
const HEADER_BYTES: usize = 16;
const READY_MAX: Duration = Duration::from_secs(20);
/// Programs that each call goes to.
const NODES: usize = 10;

/// Ten bare nodes.
pub(super) struct Bare {
    addresses: Vec<SocketAddr>,
    request: Arc<[u8]>,
    answer_bytes: usize,
    _processes: Vec<Process>,
}

/// What asks all of them once, whatever the keys, and says whether all answered.
pub(super) type Caller = Box<dyn Fn(Vec<u64>) -> Pin<Box<dyn Future<Output = bool> + Send>>>;

/// A connection to each of them, for one call at a time.
type Connections = Vec<TcpStream>;

impl Bare {
    pub(super) fn start(setup: &Setup, keys: usize, servers: &Servers) -> anyhow::Result<Bare> {
        let (request, payload_bytes) = lengths(keys / NODES, servers)?;
        let program = std::env::current_exe()?.with_file_name("millpond-bare");
        let (mut addresses, mut processes) = (Vec::new(), Vec::new());
        for _ in 0..NODES {
            let address = TcpListener::bind(("127.0.0.1", 0))?.local_addr()?;
            processes.push(start(&program, address, payload_bytes)?);
            addresses.push(address);
        }
        let until = Instant::now() + READY_MAX;
        for address in &addresses {
            while std::net::TcpStream::connect(address).is_err() {
                anyhow::ensure!(Instant::now() < until, "{} is not ready", program.display());
                setup.pause(Duration::from_millis(10))?;
            }
        }
        Ok(Bare {
            addresses,
            request: request.into(),
            answer_bytes: HEADER_BYTES + payload_bytes,
            _processes: processes,
        })
    }

    /// What calls all of them.
    pub(super) fn caller(&self) -> impl FnOnce() -> Ready<anyhow::Result<Caller>> + Send + use<> {
        let (addresses, request) = (self.addresses.clone(), self.request.clone());
        let answer_bytes = self.answer_bytes;
        move || {
            let idle: Arc<Mutex<Vec<Connections>>> = Arc::default();
            ready(Ok(Box::new(move |_| {
                let (addresses, request, idle) = (addresses.clone(), request.clone(), idle.clone());
                Box::pin(async move {
                    let free = idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
                    let mut connections = match free {
                        Some(connections) => connections,
                        None => match connect(&addresses).await {
                            Ok(connections) => connections,
                            Err(_) => return false,
                        },
                    };
                    let done = exchange(&mut connections, &request, answer_bytes).await;
                    idle.lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .push(connections);
                    done.is_ok()
                })
            })))
        }
    }
}

async fn connect(addresses: &[SocketAddr]) -> std::io::Result<Connections> {
    let mut connections = Vec::new();
    for address in addresses {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        connections.push(stream);
    }
    Ok(connections)
}

async fn exchange(connections: &mut [TcpStream], request: &[u8], answer_bytes: usize) -> std::io::Result<()> {
    for stream in connections.iter_mut() {
        stream.write_all(request).await?;
    }
    let mut answer = vec![0; answer_bytes];
    for stream in connections {
        stream.read_exact(&mut answer).await?;
    }
    Ok(())
}

fn start(program: &Path, address: SocketAddr, payload_bytes: usize) -> anyhow::Result<Process> {
    let mut command = Command::new(program);
    command.args(["answer", &address.to_string(), &payload_bytes.to_string()]);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    cores::on(cores::SERVER, || {
        let started = Process::start(&mut command);
        started.with_context(|| format!("cannot start {}; build it beside the bench", program.display()))
    })
}

/// The request of a node with so many keys, and the length of its answer's payload.
fn lengths(keys: usize, servers: &Servers) -> anyhow::Result<(Vec<u8>, usize)> {
    let keys: Vec<u64> = (0..keys as u64).map(|key| key % servers.rows).collect();
    let header = Header {
        version: 1,
        dim: DIM,
        row_type: RowType::F32,
        keys: keys.len(),
        rows: keys.len(),
        inverse: None,
        overlay_sequence: None,
        active: None,
        missing: &[],
    };
    let mut answer = Vec::new();
    header.write(
        &mut Encoder::new(&mut answer, Encoding::Msgpack, false),
        |_, _| (),
    );
    let lookup = servers::lookup(keys, Some(1), Some(1));
    let mut payload = Vec::new();
    Lookup::write(&lookup, &mut Encoder::new(&mut payload, Encoding::Msgpack, false));
    let kind = FrameKind::Twoway {
        method: "features.lookup",
        seq: 1,
    };
    let mut request = Vec::new();
    write_frame(&mut request, Encoding::Msgpack, kind, &payload)?;
    Ok((request, answer.len()))
}
