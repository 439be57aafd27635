//! A server that answers as a test tells it to, on a real socket.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// A request as it came, and its place.
pub(crate) struct Seen {
    /// The connection, counted from 0 in the order they were accepted.
    pub(crate) connection: usize,
    /// The request on it, counted from 0.
    pub(crate) request: usize,
    /// All requests so far, counted from 0.
    pub(crate) number: usize,
    pub(crate) line: String,
    pub(crate) body: Vec<u8>,
}

/// What to do, one after the other; after the last the connection waits for its next request.
#[derive(Clone)]
pub(crate) enum Act {
    Write(Vec<u8>),
    Wait(Duration),
    Close,
    /// Close with unread or unsent bytes, so that the peer sees a reset.
    Reset,
    /// Never answer.
    Hang,
}

pub(crate) struct Fake {
    pub(crate) address: String,
    pub(crate) connections: Arc<AtomicUsize>,
    pub(crate) requests: Arc<AtomicUsize>,
    _thread: Ends,
}

/// Ends the server's thread when the test is over.
struct Ends(Option<tokio::sync::oneshot::Sender<()>>);

impl Drop for Ends {
    fn drop(&mut self) {
        let _ = self.0.take().map(|end| end.send(()));
    }
}

impl Fake {
    pub(crate) fn start(behave: impl Fn(&Seen) -> Vec<Act> + Send + Sync + 'static) -> Fake {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        Fake::start_on(listener, behave)
    }

    pub(crate) fn start_on(
        listener: std::net::TcpListener,
        behave: impl Fn(&Seen) -> Vec<Act> + Send + Sync + 'static,
    ) -> Fake {
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (connections, requests) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (counted, numbered) = (connections.clone(), requests.clone());
        let (end, ended) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            let behave = Arc::new(behave);
            runtime.block_on(async {
                let listener = TcpListener::from_std(listener).unwrap();
                let accept = async {
                    loop {
                        let (stream, _) = listener.accept().await.unwrap();
                        let connection = counted.fetch_add(1, SeqCst);
                        tokio::spawn(serve(stream, connection, numbered.clone(), behave.clone()));
                    }
                };
                tokio::select! { _ = accept => {}, _ = ended => {} }
            });
        });
        Fake {
            address,
            connections,
            requests,
            _thread: Ends(Some(end)),
        }
    }
}

async fn serve<F: Fn(&Seen) -> Vec<Act>>(
    mut stream: TcpStream,
    connection: usize,
    numbered: Arc<AtomicUsize>,
    behave: Arc<F>,
) -> std::io::Result<()> {
    let mut buffer = Vec::new();
    for request in 0.. {
        let Some((line, body)) = read_request(&mut stream, &mut buffer).await? else {
            return Ok(());
        };
        let number = numbered.fetch_add(1, SeqCst);
        for act in behave(&Seen {
            connection,
            request,
            number,
            line,
            body,
        }) {
            match act {
                Act::Write(bytes) => stream.write_all(&bytes).await?,
                Act::Wait(time) => tokio::time::sleep(time).await,
                Act::Close => return Ok(()),
                Act::Reset => {
                    #[allow(deprecated)] // Zero makes the close a reset, at once.
                    stream.set_linger(Some(Duration::ZERO))?;
                    return Ok(());
                }
                Act::Hang => std::future::pending::<()>().await,
            }
        }
    }
    Ok(())
}

async fn read_request(
    stream: &mut TcpStream,
    buffer: &mut Vec<u8>,
) -> std::io::Result<Option<(String, Vec<u8>)>> {
    loop {
        if let Some(head) = buffer.windows(4).position(|window| window == b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&buffer[..head]).into_owned();
            let length = text
                .lines()
                .find_map(|line| line.strip_prefix("Content-Length: "))
                .map_or(0, |length| length.parse::<usize>().unwrap());
            if buffer.len() >= head + 4 + length {
                let body = buffer[head + 4..head + 4 + length].to_vec();
                buffer.drain(..head + 4 + length);
                let line = text.lines().next().unwrap_or_default().to_owned();
                return Ok(Some((line, body)));
            }
        }
        if stream.read_buf(buffer).await? == 0 {
            return Ok(None);
        }
    }
}

/// An answer with a Content-Length.
pub(crate) fn answer(status: u16, more: &str, body: &str) -> Act {
    let length = body.len();
    Act::Write(format!("HTTP/1.1 {status} X\r\n{more}Content-Length: {length}\r\n\r\n{body}").into_bytes())
}

/// The right answer to a request of three samples.
pub(crate) fn right() -> Act {
    answer(200, "", r#"{"scores":[0.25,0.5,0.75]}"#)
}

pub(crate) fn refusal(more: &str) -> Act {
    answer(429, more, r#"{"code":30101,"ex":"full","retryable":true}"#)
}
