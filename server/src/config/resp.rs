//! `[server.resp]`: the port where clients of Redis read feature tables.
//! It opens nothing. Its invariant: a section that passes [`check`] serves at least one table, each under a number of its own.

use super::{Config, Listen, address};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// `[server.resp]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Resp {
    /// RESP2 and RESP3, and nothing else.
    #[serde(default = "listen", deserialize_with = "address")]
    pub listen: SocketAddr,
    /// Further addresses, and paths of Unix sockets.
    #[serde(default)]
    pub listen_also: Vec<Listen>,
    /// The same by TLS, with the certificate of `server.tls`; none when left out.
    #[serde(default, deserialize_with = "some_address")]
    pub tls_listen: Option<SocketAddr>,
}

fn listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 13502))
}

fn some_address<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<SocketAddr>, D::Error> {
    address(deserializer).map(Some)
}

impl Resp {
    /// The addresses without TLS, each with its key.
    pub(crate) fn plain(&self) -> impl Iterator<Item = (String, Listen)> {
        let also = self.listen_also.iter().enumerate();
        let also = also.map(|(at, listen)| (format!("server.resp.listen_also[{at}]"), listen.clone()));
        std::iter::once(("server.resp.listen".to_owned(), Listen::Inet(self.listen))).chain(also)
    }

    /// All addresses, each with its key.
    pub(super) fn listens(&self) -> impl Iterator<Item = (String, Listen)> {
        let tls = self.tls_listen.map(Listen::Inet);
        self.plain()
            .chain(tls.map(|tls| ("server.resp.tls_listen".to_owned(), tls)))
    }
}

pub(super) fn check(config: &Config) -> Result<(), String> {
    let mut numbered: BTreeMap<u32, &str> = BTreeMap::new();
    for (name, section) in &config.features {
        let Some(number) = section.resp_database else {
            continue;
        };
        if let Some(other) = numbered.insert(number, name) {
            return Err(format!(
                "features.{other}.resp_database and features.{name}.resp_database are both {number}; give each a number of its own"
            ));
        }
        if config.server.resp.is_none() {
            return Err(format!(
                "features.{name}.resp_database says nothing without a RESP port; write a section [server.resp]"
            ));
        }
    }
    let Some(resp) = &config.server.resp else {
        return Ok(());
    };
    if numbered.is_empty() {
        return Err(
            "server.resp serves nothing: no table has a number for SELECT; give one features.NAME.resp_database = 0".into(),
        );
    }
    if resp.tls_listen.is_some() && config.server.tls.is_none() {
        return Err(
            "server.resp.tls_listen has no certificate; write a section [server.tls], or leave it out".into(),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use crate::config::made;

    fn check(text: &str, expected: Result<Option<&str>, &str>) {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("t")).unwrap();
        let config = toml::from_str(text).unwrap();
        let found = made(config, folder.path(), "here");
        match (found, expected) {
            (Ok(config), Ok(listen)) => {
                let found = config.server.resp.map(|resp| resp.listen.to_string());
                assert_eq!(found.as_deref(), listen);
            }
            (Err(error), Err(words)) => assert!(error.to_string().contains(words), "{error}"),
            (found, _) => panic!("{text}: {found:?}"),
        }
    }

    #[test]
    fn a_port_serves_tables_each_under_a_number_of_its_own() {
        const ONE: &str = "[features.a]\npath = \"t\"\nresp_database = 3\n";
        let with = |more: &str| format!("{ONE}{more}");
        check("", Ok(None));
        check(&with("[server.resp]\n"), Ok(Some("127.0.0.1:13502")));
        check(&with("[server.resp]\nlisten = \"[::1]:7\""), Ok(Some("[::1]:7")));
        check(
            ONE,
            Err("features.a.resp_database says nothing without a RESP port"),
        );
        check("[server.resp]\n", Err("server.resp serves nothing"));
        check(
            &with("[features.b]\npath = \"t\"\nresp_database = 3\n[server.resp]\n"),
            Err("features.a.resp_database and features.b.resp_database are both 3"),
        );
        check(
            &with("[features.b]\npath = \"t\"\nresp_keys = \"raw\"\n[server.resp]\n"),
            Err("features.b.resp_keys says nothing without features.b.resp_database"),
        );
        check(
            &with("[server.resp]\ntls_listen = \"127.0.0.1:7\""),
            Err("server.resp.tls_listen has no certificate"),
        );
        check(
            &with("[server.resp]\nlisten = \"127.0.0.1:13500\""),
            Err("server.listen and server.resp.listen are both 127.0.0.1:13500"),
        );
        check(
            &with("[server.resp]\nlisten = \"127.0.0.1:0\"\n[server]\nprocesses = 2"),
            Err("server.resp.listen is 127.0.0.1:0: with port 0"),
        );
    }
}
