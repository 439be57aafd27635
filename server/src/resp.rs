//! The listeners of RESP, and what their connections know of the tables and stores.
//! Its invariant: each of them speaks RESP alone.

use crate::config::{Config, Listen, numbered};
use crate::ports::RESP_PORT;
use crate::{Bind, Error};
use millpond_engines_features::{DIM_MAX, RespKeys};
use millpond_fronts_resp::{Database, Databases, Holds, Keys, RespOptions};
use millpond_net::{Listener, Tls};
use millpond_wire_frame::Limits;
use std::net::SocketAddr;
use std::sync::Arc;

/// Commands of one key that one lookup may answer: more gain nothing.
const JOINED_MAX: u32 = 64;

/// Where RESP is, if anywhere.
#[derive(Debug, Clone, Copy, Default)]
pub struct RespAddrs {
    /// In clear.
    pub plain: Option<SocketAddr>,
    /// By TLS.
    pub tls: Option<SocketAddr>,
}

impl RespAddrs {
    /// Where several processes listen, whose ports the configuration names.
    pub fn named(config: &Config) -> RespAddrs {
        let resp = config.server.resp.as_ref();
        RespAddrs {
            plain: resp.map(|resp| resp.listen),
            tls: resp.and_then(|resp| resp.tls_listen),
        }
    }
}

/// Binds the addresses of `server.resp`; `tls` is what `server.tls` begins its connections with.
pub(crate) fn open(
    config: &Config,
    tls: Option<Arc<Tls>>,
    bind: Bind,
) -> Result<(RespAddrs, Vec<Listener>), Error> {
    let (mut addrs, mut listeners) = (RespAddrs::default(), Vec::new());
    let Some(resp) = &config.server.resp else {
        return Ok((addrs, listeners));
    };
    for (key, listen) in resp.plain() {
        let listener = match listen {
            Listen::Inet(addr) => bind(addr, &key)?,
            Listen::Unix(path) => Listener::bind_unix(&path, &key)?,
        };
        addrs.plain = addrs.plain.or(listener.bound().addr());
        listeners.push(listener.speaking(RESP_PORT));
    }
    if let (Some(addr), Some(tls)) = (resp.tls_listen, tls) {
        let listener = bind(addr, "server.resp.tls_listen")?.with_tls(tls);
        addrs.tls = listener.bound().addr();
        listeners.push(listener.speaking(RESP_PORT));
    }
    Ok((addrs, listeners))
}

/// What its connections may use; nothing where it is not served.
pub(crate) fn options(config: &Config, limits: Limits) -> Option<RespOptions> {
    config.server.resp.as_ref()?;
    Some(RespOptions {
        limits,
        // Read once a process, and needed as long as that.
        databases: Box::leak(Box::new(databases(config))),
        joined_max: joined_max(limits),
        version: env!("CARGO_PKG_VERSION"),
    })
}

/// A call whose answer would be over the limit fails as a whole, and no command may fail because of those beside it.
fn joined_max(limits: Limits) -> u32 {
    let rows = limits.frame_bytes_max / (DIM_MAX * size_of::<f32>());
    u32::try_from(rows).unwrap_or(JOINED_MAX).clamp(1, JOINED_MAX)
}

/// What SELECT knows.
fn databases(config: &Config) -> Databases {
    let all = numbered(config).into_iter().map(|numbered| Database {
        number: numbered.number,
        name: numbered.name.to_owned(),
        holds: match config.features.get(numbered.name) {
            Some(table) if numbered.section == "features" => {
                Holds::Table(match table.resp_keys.unwrap_or_default() {
                    RespKeys::Decimal => Keys::Decimal,
                    RespKeys::Raw => Keys::Raw,
                    RespKeys::Text => Keys::Text,
                })
            }
            _ => Holds::Store,
        },
    });
    Databases::new(all.collect())
}
