//! A network namespace with a pair of virtual interfaces: a server in it is reached over a network of this machine's own.
//!
//! Its invariant: what was made is taken away when press ends, on an error or a signal too, and nothing is touched that was there before.
//! What kills press outright (SIGKILL) leaves both; the next run then says how to take them away.

use std::io::ErrorKind;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::Error;
use crate::scenario::NamespaceKeys;

/// Where `ip` keeps the names of namespaces.
const NAMES: &str = "/run/netns";

/// A namespace, for as long as it is needed.
pub(crate) struct Namespace {
    name: String,
    /// This side's end of the pair, once it was made.
    outer: Option<String>,
}

impl Namespace {
    /// Makes it, with an interface at each end of a network of two addresses.
    pub(crate) fn make(keys: &NamespaceKeys) -> Result<Namespace, Error> {
        let name = &keys.name;
        if !rustix::process::geteuid().is_root() {
            return Err(Error::Unprepared(format!(
                "the network namespace {name} needs root: run press as root"
            )));
        }
        if Path::new(NAMES).join(name).exists() {
            return Err(Error::Unprepared(format!(
                "the network namespace {name} is there already: another run uses it, or one was killed. See by `ip netns pids {name}` what runs in it and end that, then take \
                 it away by `ip link delete {name}-c` and `ip netns delete {name}`"
            )));
        }
        ip(name, &["netns", "add", name])?;
        let mut namespace = Namespace {
            name: name.clone(),
            outer: None,
        };
        let (outer, inner) = (format!("{name}-c"), format!("{name}-s"));
        let (client, server) = (format!("{}/30", keys.client), format!("{}/30", keys.server));
        let pair = [
            "link", "add", &outer, "type", "veth", "peer", "name", &inner, "netns", name,
        ];
        ip(name, &pair)?;
        namespace.outer = Some(outer.clone());
        for words in [
            &["-n", name, "address", "add", &server, "dev", &inner][..],
            &["-n", name, "link", "set", "dev", &inner, "up"],
            &["-n", name, "link", "set", "dev", "lo", "up"],
            &["address", "add", &client, "dev", &outer],
            &["link", "set", "dev", &outer, "up"],
        ] {
            ip(name, words)?;
        }
        Ok(namespace)
    }

    /// What stands before a command that is to run in it.
    pub(crate) fn prefix(&self) -> [String; 4] {
        ["ip", "netns", "exec", &self.name].map(str::to_owned)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // With the namespace the kernel would take the interfaces away later, and a next one of the same name could not be made.
        let link = self.outer.iter().map(|outer| ["link", "delete", outer.as_str()]);
        for words in link.chain([["netns", "delete", &self.name]]) {
            if let Err(error) = ip(&self.name, &words) {
                eprintln!("press: {error}");
            }
        }
    }
}

/// Runs `ip` with these words.
fn ip(name: &str, words: &[&str]) -> Result<(), Error> {
    let failed = |why: &str| {
        Error::Unprepared(format!(
            "the network namespace {name}: `ip {}`: {why}",
            words.join(" ")
        ))
    };
    let output = Command::new("ip").args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| match error.kind() {
        ErrorKind::NotFound => failed("the program is not here: install it by `apt install iproute2`"),
        _ => failed(&error.to_string()),
    })?;
    match output.status.success() {
        true => Ok(()),
        false => Err(failed(String::from_utf8_lossy(&output.stderr).trim())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Where this system lets nobody make one, the error says so.
    #[test]
    fn it_is_there_until_it_is_dropped_or_says_why_it_is_not() {
        let keys = NamespaceKeys {
            name: format!("mp{}", std::process::id() % 1_000_000),
            server: [10, 203, 113, 2].into(),
            client: [10, 203, 113, 1].into(),
        };
        let there = || Path::new(NAMES).join(&keys.name).exists();
        match Namespace::make(&keys) {
            Ok(namespace) => {
                assert!(there());
                let twice = Namespace::make(&keys).err().map(|error| error.to_string());
                let twice = twice.unwrap_or_default();
                let link = format!("`ip link delete {}-c`", keys.name);
                let pids = format!("`ip netns pids {}`", keys.name);
                assert!(
                    twice.contains("is there already") && twice.contains(&link) && twice.contains(&pids),
                    "{twice}"
                );
                assert!(there(), "the second one took nothing away");
                let run = namespace.prefix();
                let seen = Command::new(&run[0])
                    .args(&run[1..])
                    .args(["ip", "-o", "address"])
                    .output();
                let seen = seen
                    .map(|seen| String::from_utf8_lossy(&seen.stdout).into_owned())
                    .unwrap_or_default();
                assert!(seen.contains("10.203.113.2/30"), "{seen}");
                drop(namespace);
                // The interfaces are gone when the namespace is: it can be made again at once.
                for _ in 0..3 {
                    let again = Namespace::make(&keys).err().map(|error| error.to_string());
                    assert_eq!(again, None);
                }
                let outer = format!("/sys/class/net/{}-c", keys.name);
                assert!(!Path::new(&outer).exists());
            }
            Err(error) => {
                let said = error.to_string();
                let reasons = ["needs root", "is not here", "Operation not permitted"];
                assert!(reasons.iter().any(|reason| said.contains(reason)), "{said}");
            }
        }
        assert!(!there());
    }
}
