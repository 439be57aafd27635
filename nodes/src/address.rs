//! How the address of a node is spelt, as the Rust client takes it. Nothing is looked up and nothing is opened here. Its
//! invariant: what is accepted has everything that connecting needs.

use crate::{ADDRESS_BYTES_MAX, Node};

/// What an address begins with where calls to it are encrypted.
pub const TLS: &str = "tls://";

impl Node {
    /// The addresses that somebody connects to. Where TLS is set up, a node that has an address with it is called by nothing else: a
    /// failure must not have calls sent in clear.
    pub fn usable_addresses(&self, has_tls: bool) -> impl Iterator<Item = &str> {
        let is_tls = |address: &&str| address.starts_with(TLS);
        let addresses = || self.addresses.iter().map(String::as_str);
        let wanted = has_tls && addresses().any(|address| is_tls(&address));
        addresses().filter(move |address| is_tls(address) == wanted)
    }
}

/// The host that a certificate has to name, of HOST:PORT; of an IPv6 address without its brackets.
pub fn host_of(place: &str) -> &str {
    let host = place.rsplit_once(':').map_or(place, |(host, _)| host);
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    bare.unwrap_or(host)
}

/// Whether a node may have this address: "HOST:PORT", "unix:PATH" or "tls://HOST:PORT".
///
/// # Errors
/// What is wrong with it.
pub fn check_address(address: &str) -> Result<(), &'static str> {
    if address.len() > ADDRESS_BYTES_MAX {
        return Err("it has more than 256 bytes");
    }
    if address
        .chars()
        .any(|c| c.is_whitespace() || c.is_control() || c == ',')
    {
        return Err("it has a space, a comma or a control character inside");
    }
    if let Some(path) = address.strip_prefix("unix:") {
        return if path.is_empty() {
            Err("no path follows unix:")
        } else {
            Ok(())
        };
    }
    host_and_port(address.strip_prefix(TLS).unwrap_or(address))
}

fn host_and_port(text: &str) -> Result<(), &'static str> {
    let (host, port) = text.rsplit_once(':').ok_or("it has no port")?;
    let digits = port.bytes().all(|byte| byte.is_ascii_digit());
    if !digits || !matches!(port.parse::<u16>(), Ok(1..)) {
        return Err("what follows its last colon is no port (1 to 65535)");
    }
    if let Some(bracketed) = host.strip_prefix('[') {
        let inner = bracketed.strip_suffix(']').unwrap_or_default();
        return match inner.parse::<std::net::Ipv6Addr>() {
            Ok(_) => Ok(()),
            Err(_) => Err("what stands in brackets is no IPv6 address"),
        };
    }
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    match host {
        "" => Err("it has no host"),
        _ if host.contains("//") => Err("it begins with a scheme that is not known"),
        _ if host.contains(':') => Err("an IPv6 address stands in brackets, as in [::1]:13500"),
        _ if !host.chars().all(is_name) => Err("its host is no name and no address"),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_sent_in_clear_where_tls_is_set_up() {
        let check = |addresses: &[&str], has_tls, expected: &[&str]| {
            let node = Node {
                name: "a".to_owned(),
                addresses: addresses.iter().map(ToString::to_string).collect(),
            };
            let found: Vec<&str> = node.usable_addresses(has_tls).collect();
            assert_eq!(found, expected, "{addresses:?} {has_tls}");
        };
        let both = ["a:1", "tls://a:2", "unix:/a"];
        check(&both, false, &["a:1", "unix:/a"]);
        check(&both, true, &["tls://a:2"]);
        check(&["a:1"], true, &["a:1"]);
        check(&["tls://a:2"], false, &[]);
    }

    #[test]
    fn addresses_are_told_from_what_is_none() {
        let check = |address: &str, expected: Result<(), &str>| {
            let found = check_address(address);
            match expected {
                Ok(()) => assert_eq!(found, Ok(()), "{address}"),
                Err(part) => assert!(found.is_err_and(|why| why.contains(part)), "{address}: {found:?}"),
            }
        };
        check("localhost:13500", Ok(()));
        check("10.0.0.1:1", Ok(()));
        check("tls://a.example:65535", Ok(()));
        check("[::1]:13500", Ok(()));
        check("unix:/run/millpond.sock", Ok(()));
        check("", Err("no port"));
        check("localhost", Err("no port"));
        check("localhost:0", Err("no port (1"));
        check("localhost:65536", Err("no port (1"));
        check("localhost:+1", Err("no port (1"));
        check(":13500", Err("no host"));
        check("::1:13500", Err("brackets"));
        check("[::1:13500", Err("no IPv6"));
        check("[]:13500", Err("no IPv6"));
        check("[a]:13500", Err("no IPv6"));
        check("http://a:80", Err("scheme"));
        check("ä:80", Err("no name"));
        check("unix:", Err("no path"));
        check("a:1,b:2", Err("comma"));
        check("a :1", Err("space"));
        check(&"a".repeat(300), Err("256"));
    }
}
