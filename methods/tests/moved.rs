//! A bucket that moves to another node while an upsert by the map before waits for the log of the node that had it.
#![allow(clippy::unwrap_used)]

use millpond_calls::access::{Access, Secret};
use millpond_calls::{
    Admission, Answer, Call, Caller, Calls, Clock, Later, Meta, MethodService, NoHost, Nodes, NodesOptions,
    Peer, Reply, Service as _, Sink,
};
use millpond_catalog::{Catalog, Handle, Resources, Sections};
use millpond_engines_features::{Column, Numbers, Schema, Upsert, write::Writer};
use millpond_methods::{Engines, table};
use millpond_nodes::BucketMap;
use millpond_wire_payload::Encoding;
use millpond_wire_schema::Status;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// Takes one answer.
struct Taker {
    bytes: Vec<u8>,
    to: SyncSender<String>,
}

impl Answer for Taker {
    fn begin(&mut self) -> Option<(&mut Vec<u8>, Encoding)> {
        Some((&mut self.bytes, Encoding::Json))
    }

    fn finish(&mut self) {
        let text = String::from_utf8(std::mem::take(&mut self.bytes)).unwrap();
        self.to.send(text).unwrap();
    }

    fn error(&mut self, status: &Status) {
        self.to.send(format!("error: {status}")).unwrap();
    }

    fn body(&mut self, _: u16, _: &str, _: &[u8]) {}
}

impl Sink for Taker {
    fn later(&mut self) -> Box<dyn Later> {
        let (bytes, to) = (Vec::new(), self.to.clone());
        Box::new(Taker { bytes, to })
    }
}

impl Later for Taker {
    fn gone(&self) -> Arc<AtomicBool> {
        Arc::default()
    }
}

/// Node "a", which has bucket 0 by map 1 and node "b" by map 2.
struct NodeA {
    catalog: Handle,
    service: MethodService<Engines>,
    nodes: Arc<Nodes>,
    clock: Clock,
}

fn map(version: u64, [a, b]: [&str; 2]) -> Arc<BucketMap> {
    let node =
        |name, buckets| format!("{{ name = {name:?}, addresses = [\"{name}:1\"], buckets = {buckets:?} }}");
    let nodes = [node("a", a), node("b", b)].join(", ");
    let text = format!("version = {version}\nbuckets = 2\nnodes = [{nodes}]");
    Arc::new(BucketMap::from_toml(&text).unwrap())
}

impl NodeA {
    fn start(folder: &Path) -> NodeA {
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
            ..NodesOptions::default()
        }));
        nodes.offer(map(1, ["0", "1"])).unwrap();
        calls.spread(Arc::clone(&nodes));
        calls.open(catalog.current());
        NodeA {
            catalog,
            service: MethodService::new(Arc::new(calls), Arc::new(NoHost)),
            nodes,
            clock: Clock::start(),
        }
    }

    fn call(&self, method: &str, payload: &str) -> Receiver<String> {
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
        let bytes = Vec::new();
        self.service.call(&call, Reply::to(&mut Taker { bytes, to }));
        answer
    }

    /// Has the table's log stand until the answer is dropped.
    fn hold_the_log(&self) -> SyncSender<()> {
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

const FRESH: &str = r#"{"table": "films", "node": "b", "map": 2}"#;

#[test]
fn a_node_gives_no_rows_by_a_map_as_long_as_upserts_by_one_before_wait_for_its_log() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("moved");
    let node = NodeA::start(&folder);
    let first = map(1, ["0", "1"]);
    let key = (1..).find(|key| first.bucket(*key) == 0).unwrap();
    let log = node.hold_the_log();
    let time = 1_u64 << 40;
    let copy = format!(
        r#"{{"table": "films", "keys": [{key}], "values": [7], "copy": {{"map": 1, "time": {time}, "origin": 5}}}}"#
    );
    let copied = node.call("features.upsert", &copy);
    node.nodes.offer(map(2, ["1", "0"])).unwrap();
    let answer = node.call("features.fresh", FRESH).recv().unwrap();
    assert!(
        answer.contains("30116") && answer.contains("by an older map"),
        "{answer}"
    );
    // By the new map nothing more is taken that was split by the one before.
    let refused = node.call("features.upsert", &copy).recv().unwrap();
    assert!(
        refused.contains("30116") && refused.contains("version 1"),
        "{refused}"
    );
    drop(log);
    let answer = copied.recv().unwrap();
    assert!(answer.contains("\"sequence\":2"), "{answer}");
    let page = node.call("features.fresh", FRESH).recv().unwrap();
    assert!(page.contains(&format!("\"times\":[{time}]")), "{page}");
}
