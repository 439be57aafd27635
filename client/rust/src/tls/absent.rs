//! What stands in TLS's place in a build without the feature `tls`: it refuses to be made.
//!
//! Its invariant: there is no connector, so nothing can go over one.

use super::Tls;
use tokio::net::TcpStream;

/// What a connection over TLS would be.
pub(crate) type TlsStream = TcpStream;

/// Never made.
pub(crate) enum Connector {}

impl Connector {
    /// # Errors
    /// Always.
    pub(crate) fn new(_: &Tls) -> Result<Connector, String> {
        Err("this build has no TLS: build millpond-client-rust with its feature tls".to_owned())
    }

    /// Cannot be called.
    ///
    /// # Errors
    /// None.
    pub(crate) async fn connect(&self, _: &str, _: TcpStream) -> Result<TlsStream, String> {
        match *self {}
    }
}
