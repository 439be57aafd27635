//! Who may call what: addresses, private and encrypted connections, tokens.
//!
//! It answers nobody. Its invariant: no text that it makes holds a token or an address, and what is not restricted costs a
//! call two looks at memory that nobody writes.

mod addresses;
mod secret;
mod section;

pub use addresses::{AddressRange, Addresses, AllowList, ListChange};
pub use secret::Secret;
pub use section::{MethodRule, Section, TokenGroup};

use crate::{Backing, Callers, MethodId, Methods, Peer};
use millpond_wire_schema::{Code, Status};

/// How to bring a token, at the end of what a call without one is answered. A front whose calls have neither says its own.
pub const SEND_TOKEN: &str = "send it as _token in the payload, or in the header Authorization: Bearer TOKEN";

/// Whether a pattern of the configuration means a method: its name, or `PREFIX*`. The server's own methods, which begin
/// with `*`, are meant by their names alone.
fn matches(pattern: &str, name: &str) -> bool {
    let prefix = pattern.strip_suffix('*').filter(|_| !name.starts_with('*'));
    pattern == name || prefix.is_some_and(|prefix| name.starts_with(prefix))
}

/// What one method asks of its callers.
#[derive(Debug, Default)]
struct Gate {
    private_only: bool,
    encrypted_only: bool,
    /// Only the admin's token opens it.
    admin: bool,
    /// Nobody opens it without a token: it is off where none is set.
    token: bool,
    /// Tokens that open it, by place; with none it is open, unless it is off.
    groups: Vec<usize>,
    /// It asks none of these.
    is_open: bool,
}

/// The rules of a server.
#[derive(Debug)]
pub struct Access {
    /// Who may call at all.
    pub addresses: Addresses,
    /// By method.
    gates: Vec<Gate>,
    /// Those of groups, with the groups' names.
    tokens: Vec<(String, Secret)>,
    admin: Secret,
}

/// What is known of a token that a connection logs in with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Login {
    /// It is a group's.
    Known,
    /// It is nobody's.
    Unknown,
    /// No group has a token.
    NoTokens,
}

impl Access {
    /// The rules of a section that was checked; `admin` opens what only the admin may call.
    pub fn new<S: Backing>(access: &Section, admin: Secret, methods: &Methods<S>) -> Access {
        let gate = |(method, name): (MethodId, &str)| {
            let callers = methods.entry(method).callers;
            let mut gate = Gate {
                private_only: matches!(callers, Callers::Private | Callers::Admin),
                admin: callers == Callers::Admin,
                token: callers == Callers::Token,
                ..Gate::default()
            };
            for (_, rule) in access
                .methods
                .iter()
                .filter(|(pattern, _)| matches(pattern, name))
            {
                gate.private_only |= rule.private_only;
                gate.encrypted_only |= rule.encrypted_only;
            }
            // A token that was given out for reading is not to change what is read.
            let means = |pattern: &String| match gate.token {
                true => pattern == name,
                false => matches(pattern, name),
            };
            let opens = |patterns: &[String]| patterns.iter().any(means);
            let groups = access.tokens.values().enumerate();
            gate.groups = groups
                .filter(|(_, group)| opens(&group.methods))
                .map(|(at, _)| at)
                .collect();
            gate.is_open = !(gate.private_only || gate.encrypted_only || gate.admin || gate.token)
                && gate.groups.is_empty();
            gate
        };
        Access {
            addresses: Addresses::new(AllowList::of(&access.ip_allow)),
            gates: methods.all().map(gate).collect(),
            tokens: access
                .tokens
                .iter()
                .map(|(name, group)| (name.clone(), group.token.clone()))
                .collect(),
            admin,
        }
    }

    /// Whether anybody may call the method now, with or without a token: all of the others say yes, and need not be asked.
    #[inline]
    pub fn is_open(&self, method: MethodId) -> bool {
        self.gates[method.index()].is_open && !self.addresses.is_on()
    }

    /// Whether the peer may call anything.
    ///
    /// # Errors
    /// [`Code::Forbidden`].
    pub fn admit_peer(&self, peer: Peer) -> Result<(), Status> {
        if self.addresses.admits(peer) {
            return Ok(());
        }
        let ex =
            "this server takes no calls from this address; its operator lists addresses in access.ip_allow";
        Err(Status::new(Code::Forbidden, ex))
    }

    /// Whether the method may be called over this connection.
    ///
    /// # Errors
    /// [`Code::Forbidden`].
    pub fn admit(&self, method: MethodId, name: &str, peer: Peer, encrypted: bool) -> Result<(), Status> {
        let gate = &self.gates[method.index()];
        if gate.private_only && !peer.is_private() {
            let ex = format!(
                "{name} is answered to this machine and to private networks only (loopback, link-local, RFC 1918, RFC 4193)"
            );
            return Err(Status::new(Code::Forbidden, ex));
        }
        if gate.encrypted_only && !encrypted {
            let ex = format!("{name} is answered over encrypted connections and Unix sockets only");
            return Err(Status::new(Code::Forbidden, ex));
        }
        Ok(())
    }

    /// Whether `given` is the token of that group, or of any where none is named.
    pub fn login(&self, group: Option<&str>, given: &str) -> Login {
        if self.tokens.is_empty() {
            return Login::NoTokens;
        }
        // Every token is compared, as when it opens a method.
        let known = self.tokens.iter().filter(|(_, token)| token.is(given));
        match known
            .filter(|(name, _)| group.is_none_or(|group| group == name))
            .count()
        {
            0 => Login::Unknown,
            _ => Login::Known,
        }
    }

    /// Whether `given` opens the method.
    ///
    /// # Errors
    /// [`Code::Unauthenticated`] with how to send, or set, a token.
    pub fn open(&self, method: MethodId, name: &str, given: Option<&str>) -> Result<(), Status> {
        let gate = &self.gates[method.index()];
        if !gate.admin && !gate.token && gate.groups.is_empty() {
            return Ok(());
        }
        let refused = |ex: String| Err(Status::new(Code::Unauthenticated, ex));
        if gate.admin && self.admin.is_empty() {
            return refused(format!(
                "{name} is off, because no token is set for it; set admin.token or admin.token_file in the configuration"
            ));
        }
        if gate.token && gate.groups.is_empty() && self.admin.is_empty() {
            return refused(format!(
                "{name} is off, because no token opens it; name it in access.tokens.GROUP.methods (its whole name: PREFIX* does \
                 not), or set admin.token or admin.token_file in the configuration (AUTH takes a group's token alone)"
            ));
        }
        let Some(given) = given else {
            return refused(format!("{name} needs a token; {SEND_TOKEN}"));
        };
        // Every token is compared, so that the time tells nothing of which one came close.
        let by_group = gate
            .groups
            .iter()
            .filter(|group| self.tokens[**group].1.is(given));
        let opened = by_group.count() > 0;
        let by_admin = (gate.admin || gate.token) & self.admin.is(given);
        if by_admin || (!gate.admin && opened) {
            return Ok(());
        }
        let by_name = match gate.token {
            true => {
                ": of a group whose methods have its whole name (PREFIX* does not mean it), or the admin's, which AUTH does not take"
            }
            false => "",
        };
        refused(format!(
            "the token does not open {name}; send one that does{by_name}"
        ))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use crate::method;

    fn access(text: &str) -> (Methods<()>, Access) {
        let methods = method::tests::methods();
        let access = Access::new(&toml::from_str(text).unwrap(), Secret::new("k-3"), &methods);
        (methods, access)
    }

    #[test]
    fn patterns_mean_names_and_prefixes() {
        for (pattern, name, expected) in [
            ("rank", "rank", true),
            ("rank", "rank2", false),
            ("features.*", "features.lookup", true),
            ("features.*", "infer", false),
            ("*", "infer", true),
            ("*", "*ping", false),
            ("*ping", "*ping", true),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn open_is_what_no_rule_and_no_list_restricts() {
        let (methods, access) = access(
            "[methods.infer]\nprivate_only = true\n[methods.\"ordered.*\"]\nencrypted_only = true\n\
             [tokens.a]\ntoken = \"k-1\"\nmethods = [\"rank\"]",
        );
        let open = || {
            let all = methods.all().filter(|(method, _)| access.is_open(*method));
            all.map(|(_, name)| name).collect::<Vec<_>>()
        };
        assert_eq!(
            open(),
            [
                "*ping",
                "features.lookup",
                "features.scan",
                "features.upsert",
                "features.missed",
                "features.fresh",
                "features.inspect",
                "features.versions",
                "run"
            ]
        );
        let net = AddressRange::parse("10.0.0.0/8").unwrap();
        for (change, expected) in [
            (ListChange::Add(net), 9),
            (ListChange::Enable(true), 0),
            (ListChange::Enable(false), 9),
        ] {
            access.addresses.change(change, None).unwrap();
            assert_eq!(open().len(), expected);
        }
    }

    #[test]
    fn any_group_that_names_a_method_opens_it() {
        let (methods, access) = access(
            "[tokens.a]\ntoken = \"k-1\"\nmethods = [\"features.*\", \"rank\"]\n\
             [tokens.b]\ntoken = \"k-2\"\nmethods = [\"rank\"]",
        );
        let check = |name: &str, given: Option<&str>, expected: Result<(), &str>| {
            let found = access.open(methods.named(name).unwrap(), name, given);
            match (&found, expected) {
                (Ok(()), Ok(())) => {}
                (Err(status), Err(word)) => {
                    assert_eq!(status.code, Code::Unauthenticated);
                    assert!(status.ex.contains(word), "{status}");
                    assert!(
                        !status.ex.contains("k-1") && !status.ex.contains("k-2"),
                        "{status}"
                    );
                }
                _ => panic!("{name} {given:?}: {found:?}"),
            }
        };
        check("infer", None, Ok(()));
        check("infer", Some("whatever"), Ok(()));
        check("rank", None, Err("_token"));
        check("rank", Some("k-"), Err("does not open"));
        check("rank", Some(""), Err("does not open"));
        check("rank", Some("k-2"), Ok(()));
        check("rank", Some("k-1"), Ok(()));
        check("rank", Some("k-3"), Err("does not open"));
        check("features.lookup", Some("k-2"), Err("does not open"));
        check("*tune", Some("k-3"), Ok(()));
        check("*tune", Some("k-1"), Err("does not open"));
        assert!(!format!("{access:?}").contains("k-2"));
    }

    #[test]
    fn what_changes_versions_is_off_until_a_token_names_it() {
        let check = |text: &str, admin: &str, given: Option<&str>, expected: Result<(), &str>| {
            let methods = method::tests::methods();
            let access = Access::new(&toml::from_str(text).unwrap(), Secret::new(admin), &methods);
            let activate = methods.named("features.activate").unwrap();
            assert!(!access.is_open(activate));
            match (access.open(activate, "features.activate", given), expected) {
                (Ok(()), Ok(())) => {}
                (Err(status), Err(word)) => {
                    assert_eq!(status.code, Code::Unauthenticated);
                    assert!(status.ex.contains(word), "{status}");
                }
                (found, _) => panic!("{text} {given:?}: {found:?}"),
            }
        };
        let by_prefix = "[tokens.a]\ntoken = \"k-1\"\nmethods = [\"features.*\"]";
        let by_name = "[tokens.a]\ntoken = \"k-1\"\nmethods = [\"features.activate\"]";
        for given in [None, Some(""), Some("k-1")] {
            check("", "", given, Err("access.tokens.GROUP.methods"));
            check(by_prefix, "", given, Err("its whole name"));
        }
        check(by_name, "", None, Err("needs a token"));
        check(by_name, "", Some("k-"), Err("does not open"));
        check(by_name, "", Some("k-1"), Ok(()));
        check(by_name, "k-9", Some("k-9"), Ok(()));
        check(by_prefix, "k-9", Some("k-1"), Err("PREFIX* does not mean it"));
        check("", "k-9", Some(""), Err("does not open"));
        check("", "k-9", Some("k-9"), Ok(()));
    }

    #[test]
    fn rules_look_at_network_and_encryption() {
        let (methods, access) =
            access("[methods.\"ordered.*\"]\nencrypted_only = true\n[methods.infer]\nprivate_only = true");
        let (public, private) = ("8.8.8.8:1", "192.168.1.1:1");
        for (name, peer, encrypted, expected) in [
            ("rank", public, false, true),
            ("infer", public, true, false),
            ("infer", private, false, true),
            ("ordered.get", private, false, false),
            ("ordered.put", public, true, true),
            ("*ping", public, false, true),
            ("*status", public, true, false),
            ("*infos", public, true, false),
            ("*tune", public, true, false),
            ("*tune", private, false, true),
        ] {
            let peer = Peer::Inet(peer.parse().unwrap());
            let found = access.admit(methods.named(name).unwrap(), name, peer, encrypted);
            let code = found.as_ref().map_err(|status| status.code);
            let expected = if expected { Ok(&()) } else { Err(Code::Forbidden) };
            assert_eq!(code, expected, "{name} {peer} {encrypted}");
            assert!(
                access
                    .admit(methods.named(name).unwrap(), name, Peer::Unix, true)
                    .is_ok()
            );
        }
    }

    #[test]
    fn a_connection_logs_in_with_a_groups_token() {
        let (_, access) = access(
            "[tokens.a]\ntoken = \"k-1\"\nmethods = [\"rank\"]\n[tokens.b]\ntoken = \"k-2\"\nmethods = [\"infer\"]",
        );
        for (group, given, expected) in [
            (None, "k-1", Login::Known),
            (None, "k-2", Login::Known),
            (Some("b"), "k-2", Login::Known),
            (Some("a"), "k-2", Login::Unknown),
            (Some("c"), "k-1", Login::Unknown),
            (None, "k-", Login::Unknown),
            (None, "", Login::Unknown),
            // The admin's.
            (None, "k-3", Login::Unknown),
        ] {
            assert_eq!(access.login(group, given), expected, "{group:?} {given}");
        }
        let methods = method::tests::methods();
        let open = Access::new(&Section::default(), Secret::new("k-3"), &methods);
        assert_eq!(open.login(None, "k-3"), Login::NoTokens);
    }

    #[test]
    fn without_an_admin_token_nothing_tunes() {
        let methods = method::tests::methods();
        let access = Access::new(&Section::default(), Secret::default(), &methods);
        let refused = access.open(methods.named("*tune").unwrap(), "*tune", Some(""));
        assert!(refused.unwrap_err().ex.contains("admin.token_file"));
    }
}
