//! The addresses that may call.
//! Its invariant: a list that is on is never empty, because an empty one would mean nobody or everybody.

use arc_swap::ArcSwap;
use millpond_wire_transport::Peer;
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An address, or a network of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Net {
    base: IpAddr,
    bits: u32,
}

impl Net {
    /// Reads `10.0.0.0/8`, `127.0.0.1`, `fd00::/8`.
    ///
    /// # Errors
    /// What belongs there.
    pub(crate) fn parse(text: &str) -> Result<Net, String> {
        let expected = || "expected an address or ADDRESS/BITS, as in \"10.0.0.0/8\" or \"::1\"".to_owned();
        let (base, bits) = match text.split_once('/') {
            None => (text, None),
            Some((base, bits)) => (base, Some(bits.parse::<u32>().map_err(|_| expected())?)),
        };
        let base: IpAddr = base.parse().map_err(|_| expected())?;
        let width = if base.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(width);
        if bits > width {
            return Err(format!("expected at most /{width} behind this address"));
        }
        let net = Net { base, bits };
        if net.prefix(base) != net.number(base) {
            return Err(format!(
                "the address has bits behind its first {bits}; they must be 0"
            ));
        }
        Ok(net)
    }

    /// An address's bits, at the top of the number.
    fn number(self, ip: IpAddr) -> u128 {
        match ip {
            IpAddr::V4(ip) => u128::from(ip.to_bits()) << 96,
            IpAddr::V6(ip) => ip.to_bits(),
        }
    }

    fn prefix(self, ip: IpAddr) -> u128 {
        let mask = u128::MAX.checked_shl(128 - self.bits).unwrap_or(0);
        self.number(ip) & mask
    }

    fn holds(self, ip: IpAddr) -> bool {
        ip.is_ipv4() == self.base.is_ipv4() && self.prefix(ip) == self.number(self.base)
    }
}

impl fmt::Display for Net {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.base, self.bits) {
            (IpAddr::V4(ip), 32) => ip.fmt(out),
            (IpAddr::V6(ip), 128) => ip.fmt(out),
            (ip, bits) => write!(out, "{ip}/{bits}"),
        }
    }
}

/// The list, which may change while calls come.
#[derive(Debug)]
pub(crate) struct Addresses {
    on: AtomicBool,
    nets: ArcSwap<Vec<Net>>,
    /// Held by whoever changes either: looking and changing are one step.
    changing: Mutex<()>,
}

impl Addresses {
    /// A list of the configuration, which was checked; on unless it is empty.
    pub(crate) fn new(texts: &[String]) -> Addresses {
        let nets: Vec<Net> = texts.iter().filter_map(|text| Net::parse(text).ok()).collect();
        Addresses {
            on: AtomicBool::new(!texts.is_empty()),
            nets: ArcSwap::from_pointee(nets),
            changing: Mutex::default(),
        }
    }

    /// Whether calls from there are taken.
    pub(crate) fn admits(&self, peer: Peer) -> bool {
        if !self.is_on() {
            return true;
        }
        let holds = |ip| self.nets.load().iter().any(|net| net.holds(ip));
        peer.ip().is_none_or(holds)
    }

    /// Whether the list counts.
    pub(crate) fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Lets the list count, or not.
    ///
    /// # Errors
    /// What to do first where it is empty.
    pub(crate) fn set_on(&self, on: bool) -> Result<(), String> {
        let _changing = self.changing();
        if on && self.nets.load().is_empty() {
            return Err("the list is empty, so nobody could call; add an address first".to_owned());
        }
        self.on.store(on, Ordering::Relaxed);
        Ok(())
    }

    /// Adds to the list.
    pub(crate) fn add(&self, net: Net) {
        let _changing = self.changing();
        let mut nets = self.nets.load().as_ref().clone();
        if !nets.contains(&net) {
            nets.push(net);
            self.nets.store(Arc::new(nets));
        }
    }

    /// Takes from the list.
    ///
    /// # Errors
    /// Why not: it is not there, or it is the last one of a list that is on.
    pub(crate) fn remove(&self, net: Net) -> Result<(), String> {
        let _changing = self.changing();
        let mut nets = self.nets.load().as_ref().clone();
        if !nets.contains(&net) {
            return Err(format!("it is not in the list, which is {}", self.shown()));
        }
        if self.is_on() && nets.len() == 1 {
            return Err(
                "it is the last of the list, so nobody could call; turn the list off first".to_owned(),
            );
        }
        nets.retain(|other| *other != net);
        self.nets.store(Arc::new(nets));
        Ok(())
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The list in one line.
    pub(crate) fn shown(&self) -> String {
        let nets: Vec<String> = self.nets.load().iter().map(Net::to_string).collect();
        format!("[{}]", nets.join(", "))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;

    #[test]
    fn networks_hold_their_addresses() {
        for (net, ip, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("0.0.0.0/0", "8.8.8.8", true),
            ("0.0.0.0/0", "::1", false),
            ("fd00::/8", "fdff::1", true),
            ("fd00::/8", "fe80::1", false),
            ("::/0", "2001::1", true),
        ] {
            let found = Net::parse(net).unwrap().holds(ip.parse().unwrap());
            assert_eq!(found, expected, "{net} {ip}");
            assert_eq!(Net::parse(net).unwrap().to_string(), net);
        }
        for (text, word) in [
            ("localhost", "ADDRESS/BITS"),
            ("10.0.0.0/x", "ADDRESS/BITS"),
            ("10.0.0.0/33", "at most /32"),
            ("10.1.0.0/8", "must be 0"),
        ] {
            assert!(Net::parse(text).unwrap_err().contains(word), "{text}");
        }
    }

    #[test]
    fn a_list_that_is_on_is_never_empty() {
        let peer = |ip: &str| Peer::Inet(format!("{ip}:1").parse().unwrap());
        let list = Addresses::new(&[]);
        assert!(list.admits(peer("8.8.8.8")) && list.set_on(true).is_err());
        list.add(Net::parse("10.0.0.0/8").unwrap());
        assert!(list.admits(peer("8.8.8.8")));
        list.set_on(true).unwrap();
        assert!(!list.admits(peer("8.8.8.8")) && list.admits(peer("10.1.1.1")) && list.admits(Peer::Unix));
        assert!(list.admits(peer("[::ffff:10.0.0.1]")));
        let ten = Net::parse("10.0.0.0/8").unwrap();
        assert!(list.remove(ten).unwrap_err().contains("the last"));
        list.set_on(false).unwrap();
        list.remove(ten).unwrap();
        assert!(list.remove(ten).is_err() && list.shown() == "[]");
    }
}
