//! HTTP/1.1 for the object store's client: one request at a time over a connection that is kept for the next one.
//!
//! It knows no store. Its invariant: no wait is without an end; a request that fails is an error, and repeating it is for
//! whoever asked.

use crate::tls;
use http_body_util::BodyExt as _;
use hyper::Uri;
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{HOST, HeaderValue};
use hyper_util::rt::TokioIo;
use object_store::ClientOptions;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpRequestBody, HttpResponse,
    HttpResponseBody, HttpService,
};
use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a connection may take, its handshakes included.
const CONNECT_MAX: Duration = Duration::from_secs(5);
/// How long the head of an answer may take.
const HEAD_MAX: Duration = Duration::from_secs(30);
/// How long a connection that was kept may take to be free: it is, or never will be.
const FREE_MAX: Duration = Duration::from_millis(100);

/// Makes the clients of a store.
#[derive(Debug, Clone)]
pub(crate) struct Connector(pub(crate) tls::Roots);

impl HttpConnector for Connector {
    fn connect(&self, _: &ClientOptions) -> object_store::Result<HttpClient> {
        Ok(HttpClient::new(Client {
            roots: self.0.clone(),
            kept: Mutex::default(),
        }))
    }
}

struct Client {
    roots: tls::Roots,
    /// The last connection, and what it leads to.
    kept: Mutex<Option<(Place, Sender)>>,
}

type Sender = SendRequest<HttpRequestBody>;

impl fmt::Debug for Client {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("Client")
    }
}

/// Where a connection leads.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    is_tls: bool,
    host: String,
    port: u16,
}

impl Place {
    fn of(uri: &Uri) -> Result<Place, HttpError> {
        let is_tls = uri.scheme_str() == Some("https");
        let host = uri
            .host()
            .ok_or_else(|| failed(HttpErrorKind::Unknown, "a URL has no host"))?;
        Ok(Place {
            is_tls,
            host: host.trim_matches(['[', ']']).to_owned(),
            port: uri.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
        })
    }
}

type Called<'a> = Pin<Box<dyn Future<Output = Result<HttpResponse, HttpError>> + Send + 'a>>;

impl HttpService for Client {
    fn call<'s, 'a>(&'s self, request: HttpRequest) -> Called<'a>
    where
        's: 'a,
        Self: 'a,
    {
        Box::pin(self.send(request))
    }
}

impl Client {
    async fn send(&self, mut request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let place = Place::of(request.uri())?;
        let mut sender = match self.kept(&place).await {
            Some(sender) => sender,
            None => self.connect(&place).await?,
        };
        let authority = request
            .uri()
            .authority()
            .map_or("", |authority| authority.as_str());
        let host = HeaderValue::from_str(authority);
        let host = host.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        request.headers_mut().insert(HOST, host);
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let path = path.parse::<Uri>();
        *request.uri_mut() = path.map_err(|error| HttpError::new(HttpErrorKind::Unknown, error))?;
        let answer = timeout(HEAD_MAX, sender.send_request(request)).await;
        let late = |_| failed(HttpErrorKind::Timeout, "no answer in time");
        let answer = answer.map_err(late)?.map_err(broken)?;
        *self.kept.lock().unwrap_or_else(PoisonError::into_inner) = Some((place, sender));
        let (parts, body) = answer.into_parts();
        let body = HttpResponseBody::new(body.map_err(broken));
        Ok(HttpResponse::from_parts(parts, body))
    }

    /// The connection of the last request, where it leads there and its answer was read to the end.
    async fn kept(&self, place: &Place) -> Option<Sender> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner).take();
        let (led, mut sender) = kept?;
        let is_free = led == *place && matches!(timeout(FREE_MAX, sender.ready()).await, Ok(Ok(())));
        is_free.then_some(sender)
    }

    async fn connect(&self, place: &Place) -> Result<Sender, HttpError> {
        let connecting = async {
            let stream = TcpStream::connect((place.host.as_str(), place.port)).await?;
            stream.set_nodelay(true)?;
            match place.is_tls {
                true => shake_hands(self.roots.connect(&place.host, stream).await?).await,
                false => shake_hands(stream).await,
            }
        };
        let late = |_| failed(HttpErrorKind::Connect, "no connection in time");
        let connected = timeout(CONNECT_MAX, connecting).await.map_err(late)?;
        connected.map_err(|error| HttpError::new(HttpErrorKind::Connect, error))
    }
}

async fn shake_hands<S>(stream: S) -> io::Result<Sender>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let shaken = http1::handshake(TokioIo::new(stream)).await;
    let (sender, connection) = shaken.map_err(io::Error::other)?;
    // It ends when the sender and the answer are dropped; its error is theirs too.
    tokio::spawn(async move {
        let _ = connection.await;
    });
    Ok(sender)
}

fn failed(kind: HttpErrorKind, what: &'static str) -> HttpError {
    HttpError::new(kind, io::Error::other(what))
}

/// A connection that ended is worth another try, since every request here only reads.
fn broken(error: hyper::Error) -> HttpError {
    HttpError::new(HttpErrorKind::Interrupted, error)
}
