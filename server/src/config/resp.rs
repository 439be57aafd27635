//! `[server.resp]`: the port where clients of Redis read feature tables, and read and write ordered stores.
//! It opens nothing. Its invariant: a section that passes [`check`] serves at least one of them, each under a number of its own.

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

/// The number of the default store, where its section says none and nothing else has it.
const DEFAULT_STORES: u32 = 0;

/// A table or a store that has a number.
pub(crate) struct Numbered<'c> {
    /// The section that gives it the number: "features" or "ordered".
    pub(crate) section: &'static str,
    pub(crate) name: &'c str,
    pub(crate) number: u32,
}

/// What has a number for SELECT.
pub(crate) fn numbered(config: &Config) -> Vec<Numbered<'_>> {
    let tables = config.features.iter().filter_map(|(name, table)| {
        Some(Numbered {
            section: "features",
            name,
            number: table.resp_database?,
        })
    });
    let stores = config.ordered.iter().filter_map(|(name, store)| {
        Some(Numbered {
            section: "ordered",
            name,
            number: store.resp_database?,
        })
    });
    let mut numbered: Vec<Numbered<'_>> = tables.chain(stores).collect();
    let only = || config.ordered.keys().next().filter(|_| config.ordered.len() == 1);
    let default = config.default_store.as_ref().or_else(only).map(String::as_str);
    let has_none = |name: &&str| {
        let store = config.ordered.get(*name);
        store.is_none_or(|store| store.resp_database.is_none())
    };
    let default = default.filter(has_none);
    if let Some(name) = default
        && numbered.iter().all(|other| other.number != DEFAULT_STORES)
    {
        numbered.push(Numbered {
            section: "ordered",
            name,
            number: DEFAULT_STORES,
        });
    }
    numbered
}

pub(super) fn check(config: &Config) -> Result<(), String> {
    let mut found: BTreeMap<u32, Numbered<'_>> = BTreeMap::new();
    for one in numbered(config) {
        let Numbered {
            section,
            name,
            number,
        } = one;
        let is_said = section == "features"
            || config
                .ordered
                .get(name)
                .is_some_and(|store| store.resp_database.is_some());
        if config.server.resp.is_none() && is_said {
            return Err(format!(
                "{section}.{name}.resp_database says nothing without a RESP port; write a section [server.resp]"
            ));
        }
        if let Some(other) = found.insert(number, one) {
            return Err(format!(
                "{}.{}.resp_database and {section}.{name}.resp_database are both {number}; give each a number of its own",
                other.section, other.name
            ));
        }
    }
    let Some(resp) = &config.server.resp else {
        return Ok(());
    };
    if found.is_empty() {
        return Err(
            "server.resp serves nothing: no table and no store has a number for SELECT; give one features.NAME.resp_database = 0 or \
             ordered.NAME.resp_database = 0"
                .into(),
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
    fn number_0_is_the_default_stores_where_nothing_else_has_it() {
        let check = |text: &str, expected: &[(u32, &str)]| {
            let config = toml::from_str(text).unwrap();
            let found = super::numbered(&config);
            let found: Vec<_> = found.iter().map(|one| (one.number, one.name)).collect();
            assert_eq!(found, expected, "{text}");
        };
        const STORE: &str = "[ordered.s]\ndurability = \"memory\"\n";
        check(STORE, &[(0, "s")]);
        check(&format!("{STORE}[ordered.t]\ndurability = \"memory\""), &[]);
        check(&format!("{STORE}resp_database = 4"), &[(4, "s")]);
        check(&format!("default_store = \"s\"\n{STORE}"), &[(0, "s")]);
        check(
            &format!("default_store = \"s\"\n{STORE}resp_database = 4"),
            &[(4, "s")],
        );
        let table = "[features.t]\npath = \"t\"\nresp_database = 0";
        check(&format!("default_store = \"s\"\n{STORE}{table}"), &[(0, "t")]);
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
            "[ordered.s]\npath = \"s\"\n[server.resp]\n",
            Ok(Some("127.0.0.1:13502")),
        );
        check(
            &with("[features.b]\npath = \"t\"\nresp_database = 3\n[server.resp]\n"),
            Err("features.a.resp_database and features.b.resp_database are both 3"),
        );
        check(
            &with("[ordered.s]\npath = \"s\"\nresp_database = 3\n[server.resp]\n"),
            Err("features.a.resp_database and ordered.s.resp_database are both 3"),
        );
        check(
            "[ordered.s]\npath = \"s\"\nresp_database = 3\n",
            Err("ordered.s.resp_database says nothing without a RESP port"),
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
