//! The Rust client: two calls under way, and a server that answers with anything.
//!
//! The first byte is the seed of the cuts, the rest is what the server sends before it closes. What must hold: both calls
//! end, with an answer or an error, and the client holds no more than its limits allow.

use crate::cuts::{pieces, settings};
use crate::memory::within;
use millpond_client_rust::{Client, Options};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;
use tokio::runtime::Builder;
use tokio::time::timeout;

const FRAME_BYTES_MAX: usize = 4 << 10;
/// A call that has not ended by then hangs; the machine may be busy with anything.
const HANG: Duration = Duration::from_secs(20);

/// Feeds a client; see this module.
///
/// # Panics
/// When a promise is broken.
pub fn client_link(data: &[u8]) {
    let ([seed], bytes) = settings(data);
    let seed = if bytes.len() > 64 { seed.min(254) } else { seed };
    within((4 << 20) + 256 * data.len(), || {
        let runtime = match Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => runtime,
            Err(error) => panic!("no runtime: {error}"),
        };
        if let Err(error) = runtime.block_on(converse(&pieces(seed, bytes))) {
            panic!("no server to call: {error}");
        }
    });
}

async fn converse(pieces: &[&[u8]]) -> std::io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?.to_string();
    let options = Options {
        frame_bytes_max: FRAME_BYTES_MAX,
        ..Options::default()
    };
    let calls = async {
        let client = match Client::connect(&address, options).await {
            Ok(client) => client,
            Err(error) => panic!("it cannot connect: {error}"),
        };
        // Whatever comes of them: that they end is what is asked.
        let _ = tokio::join!(
            client.call("one", &[0x80], None),
            client.call("two", &[0x80], None)
        );
    };
    let (served, called) = tokio::join!(serve(&listener, pieces), timeout(HANG, calls));
    assert!(called.is_ok(), "the server has closed, and a call waits on");
    served
}

/// Reads the calls, sends the pieces, closes.
async fn serve(listener: &TcpListener, pieces: &[&[u8]]) -> std::io::Result<()> {
    let (mut stream, _) = listener.accept().await?;
    stream.set_nodelay(true)?;
    // Both calls, of 12 + 4 + 3 + 1 bytes each.
    let mut calls = [0; 40];
    stream.read_exact(&mut calls).await?;
    for piece in pieces {
        // A client that has closed hears no more.
        if stream.write_all(piece).await.is_err() {
            break;
        }
        // The client's turn.
        tokio::task::yield_now().await;
    }
    let _ = stream.shutdown().await;
    // It closes when it has read the end, and only then is its port free again.
    let mut rest = Vec::new();
    let _ = timeout(HANG, stream.read_to_end(&mut rest)).await;
    Ok(())
}
