//! The key of FPNN's encrypted channel, `server.fpnn_encryption`.
//! Its invariant: a build that cannot encrypt refuses a configuration that asks for it.

use crate::Error;
use crate::config::Server;
use millpond_fronts_native::Encryption;
use std::sync::Arc;

/// The key of `server.fpnn_encryption`, where the build can use one.
#[cfg(feature = "fpnn-encryption")]
pub(crate) fn key(server: &Server) -> Result<Option<Arc<Encryption>>, Error> {
    let Some(asked) = &server.fpnn_encryption else {
        return Ok(None);
    };
    let read = Encryption::read(&asked.curve, &asked.private_key);
    let key = read.map_err(|problem| Error::Unfit(format!("server.fpnn_encryption: {problem}")))?;
    tracing::warn!(
        public_key = hex(&key.public_key()),
        "old clients may encrypt; nobody is authenticated by that"
    );
    Ok(Some(Arc::new(key)))
}

#[cfg(feature = "fpnn-encryption")]
fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(not(feature = "fpnn-encryption"))]
pub(crate) fn key(server: &Server) -> Result<Option<Arc<Encryption>>, Error> {
    match server.fpnn_encryption {
        None => Ok(None),
        Some(_) => Err(Error::Unfit(
            "server.fpnn_encryption: this build has no encryption for FPNN's old clients; leave the section out, or build with \
             `cargo build --features fpnn-encryption`"
                .into(),
        )),
    }
}
