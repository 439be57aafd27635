//! The addresses that may call.
//! Its invariant: a list that is on is never empty, because an empty one would mean nobody or everybody.

use crate::Peer;
use arc_swap::ArcSwap;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An address, or a network of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct AddressRange {
    base: IpAddr,
    bits: u32,
}

impl AddressRange {
    /// Reads `10.0.0.0/8`, `127.0.0.1`, `fd00::/8`.
    ///
    /// # Errors
    /// What belongs there.
    pub fn parse(text: &str) -> Result<AddressRange, String> {
        let expected = || "expected an address or ADDRESS/BITS, as in \"10.0.0.0/8\" or \"::1\"".to_owned();
        let (base, bits) = match text.split_once('/') {
            None => (text, None),
            Some((base, bits)) => (base, Some(bits.parse::<u32>().map_err(|_| expected())?)),
        };
        let mut base: IpAddr = base.parse().map_err(|_| expected())?;
        let mut bits = bits;
        // Peers of IPv4 are known by their own addresses, however they came.
        if let (IpAddr::V6(mapped), None | Some(96..=128)) = (base, bits)
            && let Some(ip) = mapped.to_ipv4_mapped()
        {
            (base, bits) = (ip.into(), bits.map(|bits| bits - 96));
        }
        let width = if base.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(width);
        if bits > width {
            return Err(format!("expected at most /{width} behind this address"));
        }
        let net = AddressRange { base, bits };
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

impl fmt::Display for AddressRange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.base, self.bits) {
            (IpAddr::V4(ip), 32) => ip.fmt(out),
            (IpAddr::V6(ip), 128) => ip.fmt(out),
            (ip, bits) => write!(out, "{ip}/{bits}"),
        }
    }
}

impl TryFrom<String> for AddressRange {
    type Error = String;

    fn try_from(text: String) -> Result<AddressRange, String> {
        AddressRange::parse(&text)
    }
}

impl From<AddressRange> for String {
    fn from(net: AddressRange) -> String {
        net.to_string()
    }
}

/// A change of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListChange {
    /// Let it count, or not.
    Enable(bool),
    /// Names one more.
    Add(AddressRange),
    /// Names it no more.
    Remove(AddressRange),
}

/// What the list is: whether it counts, and whom it names.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllowList {
    on: bool,
    nets: Vec<AddressRange>,
}

impl AllowList {
    /// A list of the configuration, which was checked; on unless it is empty.
    pub fn of(texts: &[String]) -> AllowList {
        AllowList {
            on: !texts.is_empty(),
            nets: texts
                .iter()
                .filter_map(|text| AddressRange::parse(text).ok())
                .collect(),
        }
    }

    /// The list after a change, in which an address that may call now may still, where one is named.
    ///
    /// # Errors
    /// Why it may not be: an empty list would be on, what is to be removed is not there, or the address that is named could call
    /// no more.
    pub fn changed(&self, change: ListChange, keeps: Option<IpAddr>) -> Result<AllowList, String> {
        let mut list = self.clone();
        match change {
            ListChange::Enable(true) if self.nets.is_empty() => {
                return Err("the list is empty, so nobody could call; add an address first".to_owned());
            }
            ListChange::Enable(on) => list.on = on,
            ListChange::Add(net) if self.nets.contains(&net) => {}
            ListChange::Add(net) => list.nets.push(net),
            ListChange::Remove(net) if !self.nets.contains(&net) => {
                return Err(format!("it is not in the list, which is {}", self.shown()));
            }
            ListChange::Remove(_) if self.on && self.nets.len() == 1 => {
                let why = "it is the last of the list, so nobody could call; turn the list off first";
                return Err(why.to_owned());
            }
            ListChange::Remove(net) => list.nets.retain(|other| *other != net),
        }
        if keeps.is_some_and(|ip| self.admits(ip) && !list.admits(ip)) {
            let why = "the address that this call comes from could call no more; add it to the list first, or say \"force\": true";
            return Err(why.to_owned());
        }
        Ok(list)
    }

    fn admits(&self, ip: IpAddr) -> bool {
        !self.on || self.nets.iter().any(|net| net.holds(ip))
    }

    /// Whom it names, in one line.
    pub fn shown(&self) -> String {
        let nets: Vec<String> = self.nets.iter().map(AddressRange::to_string).collect();
        format!("[{}]", nets.join(", "))
    }
}

/// The list, which may change while calls come.
#[derive(Debug)]
pub struct Addresses {
    /// Whether the list counts, once more: where it does not, a call looks no further.
    on: AtomicBool,
    list: ArcSwap<AllowList>,
    /// Held for a change, so that reading the list and changing it are one step.
    changing: Mutex<()>,
}

impl Addresses {
    /// Begins with that list.
    pub fn new(list: AllowList) -> Addresses {
        Addresses {
            on: AtomicBool::new(list.on),
            list: ArcSwap::from_pointee(list),
            changing: Mutex::default(),
        }
    }

    /// Whether calls from there are taken.
    pub fn admits(&self, peer: Peer) -> bool {
        if !self.is_on() {
            return true;
        }
        peer.ip().is_none_or(|ip| self.list.load().admits(ip))
    }

    /// Whether the list counts.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Changes the list.
    ///
    /// # Errors
    /// As [`AllowList::changed`].
    pub fn change(&self, change: ListChange, keeps: Option<IpAddr>) -> Result<(), String> {
        let _changing = self.changing();
        let changed = self.list.load().changed(change, keeps)?;
        self.put(changed);
        Ok(())
    }

    /// Puts another list, on or off, in the place of this one.
    pub fn replace(&self, list: AllowList) {
        let _changing = self.changing();
        self.put(list);
    }

    /// Whoever finds the list on and then one that is off, lets the call pass: it is one or the other, never half of each.
    fn put(&self, list: AllowList) {
        let on = list.on;
        self.list.store(Arc::new(list));
        self.on.store(on, Ordering::Relaxed);
    }

    fn changing(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whom the list names, in one line.
    pub fn shown(&self) -> String {
        self.list.load().shown()
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
            let found = AddressRange::parse(net).unwrap().holds(ip.parse().unwrap());
            assert_eq!(found, expected, "{net} {ip}");
            assert_eq!(AddressRange::parse(net).unwrap().to_string(), net);
        }
        // A peer of IPv4 that came over IPv6 is known by its own address.
        for (net, known) in [
            ("::ffff:127.0.0.0/104", "127.0.0.0/8"),
            ("::ffff:10.0.0.7", "10.0.0.7"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
        ] {
            assert_eq!(AddressRange::parse(net).unwrap().to_string(), known);
        }
        for (text, word) in [
            ("localhost", "ADDRESS/BITS"),
            ("10.0.0.0/x", "ADDRESS/BITS"),
            ("10.0.0.0/33", "at most /32"),
            ("10.1.0.0/8", "must be 0"),
        ] {
            assert!(AddressRange::parse(text).unwrap_err().contains(word), "{text}");
        }
    }

    #[test]
    fn a_list_that_is_on_is_never_empty() {
        use ListChange::{Add, Enable, Remove};
        let peer = |ip: &str| Peer::Inet(format!("{ip}:1").parse().unwrap());
        let list = Addresses::new(AllowList::of(&[]));
        assert!(list.admits(peer("8.8.8.8")) && list.change(Enable(true), None).is_err());
        let ten = AddressRange::parse("10.0.0.0/8").unwrap();
        list.change(Add(ten), None).unwrap();
        list.change(Add(ten), None).unwrap();
        assert!(list.admits(peer("8.8.8.8")) && list.shown() == "[10.0.0.0/8]");
        list.change(Enable(true), None).unwrap();
        assert!(!list.admits(peer("8.8.8.8")) && list.admits(peer("10.1.1.1")) && list.admits(Peer::Unix));
        assert!(list.admits(peer("[::ffff:10.0.0.1]")));
        assert!(list.change(Remove(ten), None).unwrap_err().contains("the last"));
        list.change(Enable(false), None).unwrap();
        list.change(Remove(ten), None).unwrap();
        assert!(list.change(Remove(ten), None).is_err() && list.shown() == "[]");
    }

    #[test]
    fn a_list_is_replaced_by_one_that_came_as_text() {
        let list = Addresses::new(AllowList::of(&["10.0.0.0/8".to_owned()]));
        let other = AllowList::of(&["127.0.0.1".to_owned(), "fd00::/8".to_owned()]);
        let text = serde_json::to_string(&other).unwrap();
        assert_eq!(text, r#"{"on":true,"nets":["127.0.0.1","fd00::/8"]}"#);
        list.replace(serde_json::from_str(&text).unwrap());
        let peer = |ip: &str| Peer::Inet(format!("{ip}:1").parse().unwrap());
        assert!(list.admits(peer("127.0.0.1")) && !list.admits(peer("10.0.0.1")));
        list.replace(AllowList::default());
        assert!(list.admits(peer("10.0.0.1")) && !list.is_on() && list.shown() == "[]");
    }

    #[test]
    fn who_may_call_does_not_lock_himself_out_unless_he_wants_to() {
        use ListChange::{Add, Enable, Remove};
        let (own, other) = ("10.0.0.1".parse().ok(), "8.8.8.8".parse().ok());
        let (ten, eight) = (
            AddressRange::parse("10.0.0.0/8").unwrap(),
            AddressRange::parse("8.8.8.8").unwrap(),
        );
        let list = Addresses::new(AllowList::of(&[]));
        list.change(Add(eight), own).unwrap();
        assert!(
            list.change(Enable(true), own)
                .unwrap_err()
                .contains("\"force\": true")
        );
        assert!(!list.is_on());
        list.change(Add(ten), own).unwrap();
        list.change(Enable(true), own).unwrap();
        assert!(
            list.change(Remove(ten), own)
                .unwrap_err()
                .contains("call no more")
        );
        list.change(Remove(eight), own).unwrap();
        list.change(Add(eight), other).unwrap();
        list.change(Remove(ten), None).unwrap();
        assert_eq!(list.shown(), "[8.8.8.8]");
        // Who is out already is not kept from anything.
        list.change(Add(ten), own).unwrap();
        list.change(Enable(false), own).unwrap();
    }
}
