//! A net thread's view of a server that is node "a", without a socket: what it sends to node "b" lies in its `Outbound`.

use crate::answers::Taker;
use millpond_calls::access::{Access, Secret};
use millpond_calls::{
    Admission, Call, Caller, Calls, Clock, Meta, MethodService, NoHost, Nodes, NodesOptions, Peer, Reply,
    Service as _,
};
use millpond_catalog::{Catalog, Handle, Resources, Sections};
use millpond_engines_features::{Column, Numbers, Schema, Upsert, write::Writer};
use millpond_methods::{Engines, table};
use millpond_nodes::BucketMap;
use millpond_wire_payload::Encoding;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Node "a" of a map.
pub struct NodeA {
    catalog: Handle,
    pub service: MethodService<Engines>,
    pub nodes: Arc<Nodes>,
    clock: Clock,
}

/// A map of two buckets: which of them each node has.
pub fn map(version: u64, [a, b]: [&str; 2]) -> Arc<BucketMap> {
    map_of(version, &[("a", a), ("b", b)])
}

/// The same of other nodes.
pub fn map_of(version: u64, nodes: &[(&str, &str)]) -> Arc<BucketMap> {
    let node = |(name, buckets): &(&str, &str)| {
        format!("{{ name = {name:?}, addresses = [\"{name}:1\"], buckets = {buckets:?} }}")
    };
    let nodes = nodes.iter().map(node).collect::<Vec<_>>().join(", ");
    let text = format!("version = {version}\nbuckets = 2\nnodes = [{nodes}]");
    Arc::new(BucketMap::from_toml(&text).unwrap())
}

impl NodeA {
    /// Starts it in a folder of that name, by that map.
    pub fn start(name: &str, first: Arc<BucketMap>, upsert_acks: Option<usize>) -> NodeA {
        let folder = &Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let schema = Schema {
            columns: vec![Column {
                name: "all".to_owned(),
                numbers: Numbers::F32,
                dim: 1,
            }],
            ..Schema::floats(1)
        };
        let _ = std::fs::remove_dir_all(folder);
        let writer = Writer::create(folder, "films", 1, schema, 1).unwrap();
        writer.finish().unwrap();
        let text = format!(
            "path = {:?}\nspread = true\n[overlay]\ndurability = \"memory\"",
            folder.display()
        );
        let sections = Sections {
            features: BTreeMap::from([("films".to_owned(), toml::from_str(&text).unwrap())]),
            ..Sections::default()
        };
        let catalog = Handle::open(sections, Resources::default()).unwrap();
        let methods = table(&BTreeMap::new());
        let access = Access::new(&Default::default(), Secret::default(), &methods);
        let admission = Admission::new(9, 1 << 20, Duration::from_secs(60));
        let calls = Calls::new(access, admission, methods, 0, 1 << 20);
        let nodes = Arc::new(Nodes::new(NodesOptions {
            name: Some("a".to_owned()),
            tables: vec!["films".to_owned()],
            upsert_acks,
            ..NodesOptions::default()
        }));
        nodes.offer(first).unwrap();
        calls.spread(Arc::clone(&nodes));
        calls.open(catalog.current());
        NodeA {
            catalog,
            service: MethodService::new(Arc::new(calls), Arc::new(NoHost)),
            nodes,
            clock: Clock::start(),
        }
    }

    /// Calls a method; its answer, once it comes.
    pub fn call(&self, method: &str, payload: &str) -> Receiver<String> {
        self.clock.begin();
        let call = Call {
            method: self.service.find(method).ok_or("no such method"),
            encoding: Encoding::Json,
            payload: payload.as_bytes(),
            meta: Meta::default(),
            caller: Caller {
                peer: Peer::Unix,
                connection: 1,
                encrypted: true,
            },
            received: self.clock.began(),
            clock: &self.clock,
        };
        let (to, answer) = sync_channel(1);
        self.service.call(&call, Reply::to(&mut Taker::to(to)));
        answer
    }

    /// Has the table's log stand until the answer is dropped.
    pub fn hold_the_log(&self) -> SyncSender<()> {
        let catalog: &Catalog = &self.catalog.pin();
        let table = &catalog.tables["films"];
        let upsert = Upsert::new(table, vec![u64::MAX], &[] as &[&str], &[0.0], Vec::new()).unwrap();
        let (held, stands) = sync_channel::<()>(1);
        let (began, begins) = sync_channel::<()>(1);
        table.overlay().unwrap().upsert(upsert, move |result| {
            result.unwrap();
            began.send(()).unwrap();
            let _ = stands.recv();
        });
        begins.recv().unwrap();
        held
    }
}
