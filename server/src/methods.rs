//! The table of methods: those that are built in, then those of the configuration.
//!
//! It answers nothing. Its invariant: a [`Method`] is a place in the table that gave it, and looking a name up allocates
//! nothing.

use crate::config::{self, Config, Kind};
use crate::handlers::duplex::Duplex;
use crate::handlers::own::{self, Constant};
use crate::handlers::{
    features_lookup, infer, infos, ordered_get, ordered_put, ordered_scan, ping, rank, status, tune,
};
use crate::router::Call;
use millpond_calls::Reply;
use millpond_catalog::Catalog;
use millpond_wire_payload::Payload;
use millpond_wire_schema::{
    FeaturesLookup, Infer, Infos, METHODS, Method as Schema, OrderedGet, OrderedPut, OrderedScan, Ping, Rank,
    Serving, Tune,
};
use std::borrow::Cow;

use Callers::{Admin, Any, Private};
use Cost::{Detached, Short, Unbounded};
use Serve::{Always, Configured, Engines as ByEngines, UntilStop};

/// A method's place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Method(u16);

impl Method {
    /// Its place, from 0.
    pub(crate) fn index(self) -> usize {
        usize::from(self.0)
    }

    /// What the transport gives back when an answer of it has left.
    pub(crate) fn mark(self) -> u16 {
        self.0
    }
}

/// Who may call a method, where the configuration restricts it no further.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Callers {
    Any,
    /// This machine, and networks that are not routed on the internet.
    Private,
    /// Of these, who has the admin's token.
    Admin,
}

/// What a call costs the net thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cost {
    /// Little, and with its turn.
    Short,
    /// There is no bound: the clock is read behind it.
    Unbounded,
    /// Another thread may answer it: what it takes is measured call by call.
    Detached,
}

type Handler = fn(&Call<'_>, &Payload<'_>, Reply<'_>);
type OwnHandler = dyn Fn(&Call<'_>, &Payload<'_>, Reply<'_>) + Send + Sync;

/// What serves the calls of a method.
pub(crate) enum Serve {
    /// The server itself, while it warms up and stops too.
    Always(Handler),
    /// The server itself, until it stops.
    UntilStop(Handler),
    /// Engines.
    Engines(fn(&Catalog, &Call<'_>, &Payload<'_>, Reply<'_>)),
    /// What `[methods."NAME"]` says.
    Configured(Box<OwnHandler>),
}

/// One method of the table.
pub(crate) struct MethodSpec {
    pub(crate) name: Cow<'static, str>,
    pub(crate) callers: Callers,
    pub(crate) cost: Cost,
    pub(crate) serve: Serve,
}

const fn spec<M: Schema>(callers: Callers, cost: Cost, serve: Serve) -> MethodSpec {
    MethodSpec {
        name: Cow::Borrowed(M::NAME),
        callers,
        cost,
        serve,
    }
}

/// Every method that a server has whatever its configuration, in the order of the documentation.
const BUILT_IN: [MethodSpec; METHODS.len()] = [
    spec::<Ping>(Any, Short, Always(ping::answer)),
    spec::<Serving>(Private, Short, Always(status::answer)),
    spec::<Infos>(Private, Short, UntilStop(infos::answer)),
    spec::<Tune>(Admin, Detached, UntilStop(tune::answer)),
    spec::<FeaturesLookup>(Any, Short, ByEngines(features_lookup::answer)),
    spec::<OrderedGet>(Any, Short, ByEngines(ordered_get::answer)),
    spec::<OrderedPut>(Any, Detached, ByEngines(ordered_put::answer)),
    spec::<OrderedScan>(Any, Unbounded, ByEngines(ordered_scan::answer)),
    spec::<Infer>(Any, Detached, ByEngines(infer::answer)),
    spec::<Rank>(Any, Detached, ByEngines(rank::answer)),
];

/// What a configuration's method costs, and what serves it.
fn configured(method: &config::Method) -> (Cost, Box<OwnHandler>) {
    match (method.kind, &method.answer) {
        (Some(Kind::Duplex), _) => {
            let duplex = Duplex::new(method);
            (
                Detached,
                Box::new(move |call, payload, reply| duplex.answer(call, payload, reply)),
            )
        }
        (_, Some(answer)) => {
            let constant = Constant::new(answer);
            (
                Short,
                Box::new(move |call, payload, reply| constant.answer(call, payload, reply)),
            )
        }
        (_, None) => (Short, Box::new(own::echo)),
    }
}

/// The names of the methods that every server has.
pub(crate) fn built_in_names() -> impl Iterator<Item = &'static str> {
    METHODS.iter().map(|method| method.name)
}

/// Whether a method of that name is built in.
pub(crate) fn is_built_in(name: &str) -> bool {
    built_in_names().any(|built_in| built_in == name)
}

/// All methods of a server.
pub(crate) struct Methods {
    entries: Vec<MethodSpec>,
    /// In the order of their names.
    by_name: Vec<Method>,
}

impl Methods {
    /// The methods of a configuration, which were checked to be few.
    pub(crate) fn new(config: &Config) -> Methods {
        let mut entries = Vec::from(BUILT_IN);
        for (name, method) in &config.methods {
            let (cost, serve) = configured(method);
            entries.push(MethodSpec {
                name: Cow::Owned(name.clone()),
                callers: Any,
                cost,
                serve: Configured(serve),
            });
        }
        let mut by_name: Vec<Method> = (0..).map(Method).take(entries.len()).collect();
        by_name.sort_unstable_by_key(|method| &entries[method.index()].name);
        Methods { by_name, entries }
    }

    /// The method of that name.
    pub(crate) fn named(&self, name: &str) -> Option<Method> {
        let at = self
            .by_name
            .binary_search_by(|method| self.name(*method).cmp(name));
        at.ok().map(|at| self.by_name[at])
    }

    /// The method of a mark that this table gave.
    pub(crate) fn marked(&self, mark: u16) -> Option<Method> {
        (usize::from(mark) < self.entries.len()).then_some(Method(mark))
    }

    /// A method's name.
    pub(crate) fn name(&self, method: Method) -> &str {
        &self.entries[method.index()].name
    }

    /// Its place's entry.
    #[inline]
    pub(crate) fn entry(&self, method: Method) -> &MethodSpec {
        &self.entries[method.index()]
    }

    /// Whether it may change something that outlasts its answer. Such a call comes by HTTP's POST alone: any page can have a
    /// browser send a GET, and not every browser says whose page it was. None of the configuration does: over HTTP a duplex
    /// method cannot call its caller.
    pub(crate) fn changes(&self, method: Method) -> bool {
        METHODS.get(method.index()).is_some_and(|method| method.changes)
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// All of them with their names, in the order of the table.
    pub(crate) fn all(&self) -> impl Iterator<Item = (Method, &str)> {
        let places = (0..).map(Method);
        places.zip(self.entries.iter().map(|entry| entry.name.as_ref()))
    }

    /// All names, for messages.
    pub(crate) fn names(&self) -> String {
        let names: Vec<&str> = self.all().map(|(_, name)| name).collect();
        names.join(", ")
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used)]
    use super::*;
    use millpond_wire_payload::Encoding;

    #[test]
    fn built_in_and_configured_methods_are_found_by_name() {
        let text = "[methods.\"two way demo\"]\nanswer = { Simple = \"one\", Simple2 = 2 }\n[methods.e]\nkind = \"echo\"";
        let methods = Methods::new(&toml::from_str(text).unwrap());
        for (method, name) in methods.all() {
            assert_eq!(methods.named(name), Some(method));
            assert_eq!(methods.name(method), name);
            assert_eq!(methods.marked(method.mark()), Some(method));
        }
        assert_eq!(methods.len(), BUILT_IN.len() + 2);
        assert_eq!(methods.marked(methods.len() as u16), None);
        assert_eq!(methods.named("two way"), None);
        assert_eq!(methods.named(""), None);
        let built_in = methods.all().zip(METHODS);
        assert!(
            built_in
                .into_iter()
                .all(|((_, name), schema)| name == schema.name)
        );
        let config: Config = toml::from_str(text).unwrap();
        let constant = Constant::new(config.methods["two way demo"].answer.as_ref().unwrap());
        // FPNN's own answer, byte for byte: the order of the file is kept.
        assert_eq!(
            constant.bytes(Encoding::Msgpack),
            b"\x82\xa6Simple\xa3one\xa7Simple2\x02"
        );
        assert_eq!(constant.bytes(Encoding::Json), br#"{"Simple":"one","Simple2":2}"#);
    }
}
