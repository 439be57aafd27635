//! What a client does when its server calls it: the protocol lets both sides call on one connection.
//!
//! The work around a handler, its bounds and its answer, is in `link/pushes.rs`. Its invariant: a handler is given what
//! came, byte for byte, and says what goes back.

use millpond_wire_schema::Status;
use millpond_wire_schema::payload::Encoding;
use std::pin::Pin;
use std::sync::Arc;

/// A call of the server's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Push {
    /// The method's name.
    pub method: String,
    /// How the payload is written, and has to be written in the answer.
    pub encoding: Encoding,
    /// One map.
    pub payload: Vec<u8>,
    /// The server wants no answer; whatever the handler returns is dropped.
    pub is_oneway: bool,
}

type Working = Pin<Box<dyn Future<Output = Result<Vec<u8>, Status>> + Send>>;

/// What answers a server's calls: a function from [`Push`] to the answer's map, or to a [`Status`].
///
/// Each call is a task of its own, so that they are answered in any order; [`crate::Options::pushes_max`] bounds them. A
/// handler may call the server through a clone of its client. One that panics answers
/// [`Code::Internal`](crate::Code::Internal) and disturbs nobody else. When the connection closes, handlers run on and
/// their answers are dropped.
///
/// ```
/// use millpond_client_rust::{Code, Options, PushHandler, Status};
///
/// let handler = PushHandler::new(|push| async move {
///     match push.method.as_str() {
///         "echo" => Ok(push.payload),
///         other => Err(Status::new(Code::UnknownMethod, format!("this client has no method {other:?}"))),
///     }
/// });
/// let options = Options { push_handler: Some(handler), ..Options::default() };
/// # drop(options);
/// ```
#[derive(Clone)]
pub struct PushHandler {
    work: Arc<dyn Fn(Push) -> Working + Send + Sync>,
}

impl PushHandler {
    /// A handler that may wait.
    pub fn new<W>(work: impl Fn(Push) -> W + Send + Sync + 'static) -> PushHandler
    where
        W: Future<Output = Result<Vec<u8>, Status>> + Send + 'static,
    {
        PushHandler {
            work: Arc::new(move |push| Box::pin(work(push))),
        }
    }

    /// A handler that returns at once. It runs on the runtime's threads: what takes long belongs in [`PushHandler::new`],
    /// or on a thread.
    pub fn sync(work: impl Fn(Push) -> Result<Vec<u8>, Status> + Send + Sync + 'static) -> PushHandler {
        PushHandler {
            work: Arc::new(move |push| Box::pin(std::future::ready(work(push)))),
        }
    }

    /// Works on one call.
    pub(crate) fn work(&self, push: Push) -> Working {
        (self.work)(push)
    }
}

impl std::fmt::Debug for PushHandler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PushHandler")
    }
}
