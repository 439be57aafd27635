//! A method as a row, and the table of all methods of a process.
//!
//! It answers nothing. Its invariant: a [`MethodId`] is a place in the table that gave it, and looking a name up allocates nothing.

use crate::{Backing, Served};
use millpond_wire_payload::Payload;
use millpond_wire_schema::{Method, Status};
use std::borrow::Cow;

/// A method of a service: its place in the service's table, and what a front must know of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MethodId {
    place: u16,
    changes: bool,
}

impl MethodId {
    /// The method at that place, from 0; `changes` as [`MethodSpec::changes`].
    pub fn new(place: u16, changes: bool) -> MethodId {
        MethodId { place, changes }
    }

    /// Its place, from 0.
    pub fn index(self) -> usize {
        usize::from(self.place)
    }

    /// Both as one number, for what carries a method without knowing any.
    pub fn to_bits(self) -> u32 {
        u32::from(self.place) << 1 | u32::from(self.changes)
    }

    /// The method of [`MethodId::to_bits`].
    pub fn from_bits(bits: u32) -> MethodId {
        MethodId {
            place: (bits >> 1) as u16,
            changes: bits & 1 == 1,
        }
    }

    /// Whether it may change something that outlasts its answer.
    pub fn changes(self) -> bool {
        self.changes
    }
}

/// Who may call a method, where the configuration restricts it no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Callers {
    /// Everybody.
    Any,
    /// This machine, and networks that are not routed on the internet.
    Private,
    /// Of these, who has the admin's token.
    Admin,
    /// Who has a token of a group that has the method's whole name, or the admin's. Without either it is off.
    Token,
}

/// What a call costs the net thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// Little, and with its turn.
    Short,
    /// There is no bound: the clock is read behind it.
    Unbounded,
    /// Another thread may answer it: what it takes is measured call by call. Answered on the net thread after all, it is [`Cost::Short`].
    Detached,
    /// The same, in a batch with other calls: those of its turn, at whose end the batch is served, or of other threads.
    Batched,
}

/// Serves one call: answers it, takes it to another thread, or says why it is refused.
pub type Handler<S> = fn(&mut Served<'_, S>, &Payload<'_>) -> Result<(), Status>;
/// A handler of the state that is loaded.
pub type StateHandler<S> = fn(&<S as Backing>::State, &mut Served<'_, S>, &Payload<'_>) -> Result<(), Status>;
/// A handler that holds what its section of the configuration says.
pub type ConfiguredHandler<S> = dyn Fn(&mut Served<'_, S>, &Payload<'_>) -> Result<(), Status> + Send + Sync;

/// Has memory fetched that calls will read, given their payloads in msgpack, while another call is served before them. It is a
/// hint: it reads payloads that nobody has checked yet, and whatever it does changes no answer.
pub type Ahead<S> = fn(&<S as Backing>::State, &[&[u8]]);

/// What serves the calls of a method.
pub enum Serve<S: Backing> {
    /// The process itself, while it warms up and stops too.
    Always(Handler<S>),
    /// The process itself, until it stops.
    UntilStop(Handler<S>),
    /// The state that is loaded, from ready to stop.
    Ready(StateHandler<S>),
    /// The state that is loaded, from ready on and while the process stops too: calls that it drains wait for it.
    Draining(StateHandler<S>),
    /// What the configuration says, from ready to stop.
    Configured(Box<ConfiguredHandler<S>>),
}

/// One method of the table.
pub struct MethodSpec<S: Backing> {
    /// What it is called by.
    pub name: Cow<'static, str>,
    /// Whether it may change something that outlasts its answer. Such a call comes by HTTP's POST alone: any page can have a
    /// browser send a GET, and not every browser says whose page it was.
    pub changes: bool,
    /// Who may call it.
    pub callers: Callers,
    /// What a call costs.
    pub cost: Cost,
    /// What serves it.
    pub serve: Serve<S>,
    /// What is done for a call that waits behind another of the method.
    pub ahead: Option<Ahead<S>>,
}

impl<S: Backing> MethodSpec<S> {
    /// A method of the schema.
    pub const fn of<M: Method>(callers: Callers, cost: Cost, serve: Serve<S>) -> MethodSpec<S> {
        MethodSpec {
            name: Cow::Borrowed(M::NAME),
            changes: M::CHANGES,
            callers,
            cost,
            serve,
            ahead: None,
        }
    }

    /// The same, with what is done for a call that waits behind another.
    pub const fn with_ahead(mut self, ahead: Ahead<S>) -> MethodSpec<S> {
        self.ahead = Some(ahead);
        self
    }
}

/// All methods of a process.
pub struct Methods<S: Backing> {
    entries: Vec<MethodSpec<S>>,
    /// Of each length of a name, the methods with one of that length, in the order of the table: few, so that a name is
    /// compared with one or two others. The names stand here again, so that none of the rows is looked at.
    by_length: Vec<Vec<(Box<[u8]>, MethodId)>>,
}

impl<S: Backing> Methods<S> {
    /// A table of these methods, which are few.
    pub fn new(entries: Vec<MethodSpec<S>>) -> Methods<S> {
        let mut by_length: Vec<Vec<(Box<[u8]>, MethodId)>> = Vec::new();
        for (method, entry) in ids(&entries).zip(&entries) {
            let name = entry.name.as_bytes();
            by_length.resize(by_length.len().max(name.len() + 1), Vec::new());
            by_length[name.len()].push((name.into(), method));
        }
        Methods { by_length, entries }
    }

    /// The method of that name.
    #[inline]
    pub fn named(&self, name: &str) -> Option<MethodId> {
        let mut alike = self.by_length.get(name.len())?.iter();
        let found = alike.find(|(other, _)| **other == *name.as_bytes())?;
        Some(found.1)
    }

    /// A method's name.
    pub fn name(&self, method: MethodId) -> &str {
        &self.entry(method).name
    }

    /// Its row.
    #[inline]
    pub fn entry(&self, method: MethodId) -> &MethodSpec<S> {
        &self.entries[method.index()]
    }

    /// All of them with their names, in the order of the table.
    pub fn all(&self) -> impl Iterator<Item = (MethodId, &str)> {
        ids(&self.entries).zip(self.entries.iter().map(|entry| entry.name.as_ref()))
    }

    /// All names, for messages.
    pub(crate) fn names(&self) -> String {
        let names: Vec<&str> = self.all().map(|(_, name)| name).collect();
        names.join(", ")
    }
}

/// The methods of these rows, in their order.
fn ids<S: Backing>(entries: &[MethodSpec<S>]) -> impl Iterator<Item = MethodId> {
    let places = (0..).zip(entries);
    places.map(|(place, entry)| MethodId::new(place, entry.changes))
}

#[cfg(test)]
pub(crate) mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use millpond_wire_schema::METHODS;

    impl Backing for () {
        type State = ();
        /// So many calls.
        type Batch = u32;
        type Kept = ();

        fn waits(batch: &u32) -> bool {
            *batch > 0
        }

        fn serve(batch: &mut u32) {
            *batch = 0;
        }
    }

    /// The methods of the schema, which nothing serves.
    pub(crate) fn methods() -> Methods<()> {
        let of = |name: &'static str| MethodSpec {
            name: Cow::Borrowed(name),
            changes: false,
            callers: match name {
                "*tune" => Callers::Admin,
                "features.activate" | "features.rollback" | "features.delete" | "ordered.clear"
                | "ordered.checkpoint" | "ordered.copy" | "ordered.follow" | "ordered.promote" => {
                    Callers::Token
                }
                "*status" | "*infos" => Callers::Private,
                _ => Callers::Any,
            },
            cost: match name {
                "infer" | "rank" => Cost::Batched,
                _ => Cost::Short,
            },
            serve: Serve::Always(|_, _| Ok(())),
            ahead: None,
        };
        Methods::new(METHODS.iter().map(|method| of(method.name)).collect())
    }

    #[test]
    fn methods_are_found_by_name() {
        let methods = methods();
        for (method, name) in methods.all() {
            assert_eq!(methods.named(name), Some(method));
            assert_eq!(methods.name(method), name);
        }
        assert_eq!(methods.all().count(), METHODS.len());
        for unknown in [
            "",
            "features",
            "features.lookuP",
            "features.lookup ",
            &"x".repeat(300),
        ] {
            assert_eq!(methods.named(unknown), None, "{unknown}");
        }
    }
}
