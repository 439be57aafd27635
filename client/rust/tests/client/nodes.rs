//! Lookups over nodes that answer, fail, refuse, stay silent, lie and serve different versions.

mod node;

use crate::peer::hold;
use millpond_client_rust::schema::features_lookup::{Lookup, Pool, RowType, Rows};
use millpond_client_rust::schema::infer::Data;
use millpond_client_rust::{BucketMap, CallError, Code, HedgeOptions, NodesClient, NodesOptions, Status};
use millpond_nodes::text_key;
use node::{Does, Node, slot};
use std::time::Duration;

fn map(version: u64, replicas: u64, addresses: &[&str]) -> BucketMap {
    let nodes = addresses.iter().enumerate();
    let nodes: Vec<_> = nodes
        .map(|(n, addr)| format!("{{ name = \"n{n}\", addresses = [{addr:?}] }}"))
        .collect();
    let nodes = nodes.join(",");
    let text = format!("version = {version}\nbuckets = 64\nreplicas = {replicas}\nnodes = [{nodes}]");
    BucketMap::from_toml(&text).unwrap()
}

async fn nodes(replicas: u64) -> ([Node; 3], NodesClient) {
    let nodes = [Node::start().await, Node::start().await, Node::start().await];
    let addresses: Vec<&str> = nodes.iter().map(|node| node.addr.as_str()).collect();
    let client = NodesClient::new(map(5, replicas, &addresses), options()).unwrap();
    (nodes, client)
}

fn options() -> NodesOptions {
    NodesOptions {
        // Only silent nodes are waited for.
        node_timeout: Duration::from_secs(1),
        ..NodesOptions::default()
    }
}

fn lookup(keys: impl IntoIterator<Item = u64>) -> Lookup<'static> {
    Lookup {
        table: "films".into(),
        keys: Some(keys.into_iter().collect()),
        texts: None,
        at_version: None,
        pool: Pool::None,
        offsets: Vec::new(),
        columns: vec!["a".into()],
        row_type: RowType::F32,
        unique: false,
        map: None,
    }
}

/// Rows as a single server answers them, but for keys that are missing.
fn expected(keys: impl IntoIterator<Item = u64>, version: u64, missing: &[u64]) -> (Vec<u8>, Data) {
    let keys: Vec<u64> = keys.into_iter().collect();
    let mut found = vec![0; keys.len().div_ceil(8)];
    let mut values = Vec::new();
    for (at, key) in keys.iter().enumerate() {
        let is_found = key % 2 == 1 && !missing.contains(key);
        found[at / 8] |= u8::from(is_found) << (at % 8);
        values.extend(if is_found {
            [*key as f32, version as f32]
        } else {
            [0.0; 2]
        });
    }
    (found, Data::F32(values))
}

fn check(rows: &Rows<'_>, keys: impl IntoIterator<Item = u64>, version: u64) {
    assert_eq!(rows.missing, []);
    assert_eq!((rows.version, rows.dim), (version, 2));
    assert_eq!(
        (rows.found.to_vec(), rows.values.clone()),
        expected(keys, version, &[])
    );
}

#[tokio::test]
async fn rows_come_in_the_order_of_the_keys_and_only_nodes_with_keys_are_asked() {
    let (nodes, client) = nodes(1).await;
    let keys = || (0..200).rev();
    let rows = client.lookup(&lookup(keys()), None).await.unwrap();
    check(&rows, keys(), 1);
    let map = client.map();
    for (index, node) in map.nodes().iter().zip(&nodes) {
        let asked = node.asked.lock().unwrap();
        assert_eq!(asked.len(), 1);
        assert_eq!(
            (asked[0].map, asked[0].columns.as_slice()),
            (Some(5), &["a".into()][..])
        );
        let of_this = |key: &u64| map.replicas(map.bucket(*key)) == [map.find(&index.name).unwrap()];
        assert!(asked[0].keys.as_ref().unwrap().iter().all(of_this));
    }
    // One key is one node's.
    client.lookup(&lookup([1]), None).await.unwrap();
    let asked: usize = nodes.iter().map(|node| node.asked.lock().unwrap().len()).sum();
    assert_eq!(asked, 4);
    // No key is asked of some node: the answer says how wide rows are.
    let rows = client.lookup(&lookup([]), None).await.unwrap();
    check(&rows, [], 1);
    assert_eq!(client.counts().sent, 4);
}

#[tokio::test]
async fn different_keys_are_asked_for_once_where_that_is_said() {
    let (nodes, client) = nodes(2).await;
    let mut call = lookup([5, 9, 5, 5, 9]);
    call.unique = true;
    let rows = client.lookup(&call, None).await.unwrap();
    check(&rows, [5, 9], 1);
    assert_eq!(rows.inverse, Some(vec![0, 1, 0, 0, 1]));
    let asked: usize = nodes.iter().map(|node| node.keys_asked().len()).sum();
    assert_eq!(asked, 2);
}

#[tokio::test]
async fn replicas_make_up_for_a_node_that_fails() {
    for does in [
        Does::Close,
        Does::Silent,
        Does::Lie,
        Does::Refuse(Code::Overloaded),
        Does::Refuse(Code::NotFound),
    ] {
        let (nodes, client) = nodes(2).await;
        nodes[1].does(does);
        for _ in 0..3 {
            let rows = client.lookup(&lookup(0..200), None).await.unwrap();
            check(&rows, 0..200, 1);
        }
        assert!(!nodes[1].keys_asked().is_empty(), "{does:?}");
        let counts = client.counts();
        assert!(counts.failed > 0 && counts.missing == 0, "{does:?}: {counts:?}");
    }
}

#[tokio::test]
async fn a_node_that_cannot_be_reached_is_made_up_for_or_its_keys_are_missing() {
    let (a, b) = (Node::start().await, Node::start().await);
    let (_held, nobody) = hold("127.0.0.1:0");
    let of = |replicas| {
        let map = map(1, replicas, &[&a.addr, &nobody, &b.addr]);
        NodesClient::new(map, options()).unwrap()
    };
    let rows = of(2).lookup(&lookup(0..200), None).await.unwrap();
    check(&rows, 0..200, 1);
    let client = of(1);
    let rows = client.lookup(&lookup(0..200), None).await.unwrap();
    let [missing] = &rows.missing[..] else {
        panic!("{:?}", rows.missing)
    };
    assert_eq!((missing.node.as_ref(), missing.code), ("n1", 30116));
    assert!(missing.ex.contains(&nobody), "{}", missing.ex);
    assert!(missing.keys.len() > 20);
    assert_eq!(
        (rows.found.to_vec(), rows.values.clone()),
        expected(0..200, 1, &missing.keys)
    );
    // Where no key has an answer, there is none.
    let keys = lookup(missing.keys.iter().copied());
    let error = client.lookup(&keys, None).await.unwrap_err();
    assert!(matches!(error, CallError::Connect { .. }), "{error}");
}

#[tokio::test]
async fn no_call_mixes_versions() {
    let (nodes, client) = nodes(2).await;
    let ask = async |expected| {
        let rows = client.lookup(&lookup(0..200), None).await.unwrap();
        check(&rows, 0..200, expected);
    };
    // Also the first one, which knows of none.
    nodes[0].does(Does::Serve(2, Some(1)));
    ask(1).await;
    nodes[1].does(Does::Serve(2, Some(1)));
    ask(1).await;
    nodes[2].does(Does::Serve(2, Some(1)));
    ask(1).await;
    // Now all have said that they serve it.
    ask(2).await;
    // What nobody holds any more is not asked for again.
    for node in &nodes {
        node.does(Does::Serve(9, None));
    }
    ask(9).await;
    let mut call = lookup(0..200);
    call.at_version = Some(3);
    let error = client.lookup(&call, None).await.unwrap_err();
    let CallError::Status(status) = error else {
        panic!("{error}")
    };
    assert_eq!(status.code, Code::VersionGone);
}

#[tokio::test]
async fn texts_are_looked_up_by_the_hashes_of_the_version_that_answers() {
    let texts = || (0..60).map(|at| format!("text {at}"));
    let call = Lookup {
        keys: None,
        texts: Some(texts().map(|text| text.into_bytes().into()).collect()),
        ..lookup([])
    };
    let keys = |version| texts().map(move |text| text_key(&slot(version), text.as_bytes()));
    // Nodes that are ahead hash otherwise; one of the others says how the version does that answers.
    for _ in 0..10 {
        let (nodes, client) = nodes(1).await;
        nodes[0].does(Does::Serve(2, Some(1)));
        nodes[2].does(Does::Serve(2, Some(1)));
        check(&client.lookup(&call, None).await.unwrap(), keys(1), 1);
        nodes[1].does(Does::Serve(2, Some(1)));
        // Its answer says that it has switched, with the next version or the one before.
        let rows = client.lookup(&call, None).await.unwrap();
        check(&rows, keys(rows.version), rows.version);
        check(&client.lookup(&call, None).await.unwrap(), keys(2), 2);
    }
    // Nobody says how a version hashes that is only held.
    let (nodes, client) = nodes(1).await;
    nodes.iter().for_each(|node| node.does(Does::Serve(2, Some(1))));
    let held = Lookup {
        at_version: Some(1),
        ..call
    };
    let error = client.lookup(&held, None).await.unwrap_err();
    let CallError::Status(status) = &error else {
        panic!("{error}")
    };
    assert!(
        status.code == Code::NodeUnavailable && status.ex.contains("in which slot"),
        "{error}"
    );
}

#[tokio::test]
async fn a_call_that_is_wrong_ends_with_the_nodes_error_and_is_not_repeated() {
    let (nodes, client) = nodes(2).await;
    for node in &nodes {
        node.does(Does::Refuse(Code::BadArgument));
    }
    let error = client.lookup(&lookup([7]), None).await.unwrap_err();
    assert_eq!(
        error,
        CallError::Status(Status::new(Code::BadArgument, "of a test"))
    );
    let asked: usize = nodes.iter().map(|node| node.keys_asked().len()).sum();
    assert_eq!(asked, 1);
    // The nodes have answered: they are not left out.
    nodes.iter().for_each(|node| node.does(Does::Serve(1, None)));
    check(&client.lookup(&lookup([7]), None).await.unwrap(), [7], 1);
    let call = Lookup {
        pool: Pool::Sum,
        offsets: vec![0, 2],
        ..lookup([7])
    };
    let error = client.lookup(&call, None).await.unwrap_err();
    assert!(error.to_string().contains("key \"offsets\""), "{error}");
    assert!(!error.may_have_run());
}

#[tokio::test]
async fn an_answer_that_would_be_too_large_is_an_error_of_the_call() {
    let (_nodes, client) = nodes(2).await;
    let small = NodesOptions {
        answer_bytes_max: 200 * 8 - 1,
        ..options()
    };
    let client = NodesClient::new((*client.map()).clone(), small).unwrap();
    let error = client.lookup(&lookup(0..200), None).await.unwrap_err();
    let CallError::Status(status) = &error else {
        panic!("{error}")
    };
    assert!(
        status.code == Code::TooLarge && status.ex.contains("1600 bytes"),
        "{error}"
    );
    // So is one of many bags, however few keys they have.
    let call = Lookup {
        pool: Pool::Sum,
        offsets: [vec![0; 200], vec![1]].concat(),
        ..lookup([1])
    };
    let error = client.lookup(&call, None).await.unwrap_err();
    assert!(error.to_string().contains("1600 bytes"), "{error}");
    // No node is to blame.
    assert_eq!(client.counts().failed, 0);
    check(&client.lookup(&lookup(0..199), None).await.unwrap(), 0..199, 1);
}

#[tokio::test]
async fn bags_are_pooled_over_all_nodes() {
    let (_nodes, client) = nodes(1).await;
    let keys = [1, 3, 5, 2, 7, 9];
    let check = async |pool, row_type, expected: Data| {
        let call = Lookup {
            pool,
            row_type,
            offsets: vec![0, 3, 3, 4, 6],
            ..lookup(keys)
        };
        let rows = client.lookup(&call, None).await.unwrap();
        assert_eq!((rows.dim, rows.row_type, rows.values), (2, row_type, expected));
        assert_eq!(rows.found.to_vec(), [0b11_0111]);
    };
    // A bag of keys that are not there is the row of such a key.
    let sums = vec![9.0, 3.0, 0.0, 0.0, 0.0, 0.0, 16.0, 2.0];
    check(Pool::Sum, RowType::F32, Data::F32(sums)).await;
    let means = vec![3.0, 1.0, 0.0, 0.0, 0.0, 0.0, 8.0, 1.0];
    check(Pool::Mean, RowType::F64, Data::F64(means)).await;
    let largest = vec![5.0, 1.0, 0.0, 0.0, 0.0, 0.0, 9.0, 1.0];
    check(Pool::Max, RowType::F32, Data::F32(largest)).await;
    // Where no key says what an empty bag is answered, a node does.
    let call = Lookup {
        pool: Pool::Sum,
        row_type: RowType::F64,
        offsets: vec![0, 0, 2],
        ..lookup([1, 3])
    };
    let rows = client.lookup(&call, None).await.unwrap();
    assert_eq!(rows.values, Data::F64(vec![-1.0, -2.0, 4.0, 2.0]));
}

#[tokio::test]
async fn keys_that_are_late_are_missing_and_their_node_keeps_its_work() {
    let (nodes, client) = nodes(1).await;
    let patient = NodesOptions {
        node_timeout: Duration::from_secs(600),
        ..NodesOptions::default()
    };
    let client = NodesClient::new((*client.map()).clone(), patient).unwrap();
    check(&client.lookup(&lookup(0..200), None).await.unwrap(), 0..200, 1);
    nodes[2].does(Does::Silent);
    let deadline = Some(Duration::from_secs(1));
    let rows = client.lookup(&lookup(0..200), deadline).await.unwrap();
    let late: Vec<_> = rows.missing.iter().map(|missing| missing.node.as_ref()).collect();
    assert_eq!(late, ["n2"]);
    assert!(rows.missing[0].ex.contains("within 1s"), "{}", rows.missing[0].ex);
    let keys = lookup(rows.missing[0].keys.iter().copied());
    let error = client
        .lookup(&keys, Some(Duration::from_millis(1)))
        .await
        .unwrap_err();
    assert!(matches!(error, CallError::Timeout { .. }), "{error}");
}

#[tokio::test]
async fn a_node_that_stopped_is_hedged_and_then_left_alone() {
    let (nodes, client) = nodes(2).await;
    let patient = NodesOptions {
        node_timeout: Duration::from_secs(600),
        // Later than a busy machine answers, and for every call: a node that is only slow is no matter here.
        hedge: HedgeOptions {
            share_permille: 1000,
            saved_max: 1000,
            delay_fixed: Some(Duration::from_secs(1)),
            ..HedgeOptions::default()
        },
        ..NodesOptions::default()
    };
    let client = NodesClient::new((*client.map()).clone(), patient).unwrap();
    check(&client.lookup(&lookup(0..200), None).await.unwrap(), 0..200, 1);
    nodes[1].does(Does::Silent);
    let before = nodes[1].asked.lock().unwrap().len();
    for _ in 0..50 {
        check(&client.lookup(&lookup(0..200), None).await.unwrap(), 0..200, 1);
    }
    let stuck = nodes[1].asked.lock().unwrap().len() - before;
    let counts = client.counts();
    assert!((1..25).contains(&stuck), "{stuck} copies went to it");
    assert!(counts.hedged > 0 && counts.missing == 0, "{counts:?}");
}

#[tokio::test]
async fn calls_keep_the_map_that_they_began_with() {
    let (nodes, client) = nodes(1).await;
    check(&client.lookup(&lookup(0..200), None).await.unwrap(), 0..200, 1);
    nodes[0].does(Does::Silent);
    let asked_before = nodes[0].asked.lock().unwrap().len();
    let call = tokio::spawn({
        let client = client.clone();
        async move { client.lookup(&lookup(0..200), None).await }
    });
    while nodes[0].asked.lock().unwrap().len() == asked_before {
        tokio::task::yield_now().await;
    }
    let rest = [nodes[1].addr.as_str(), nodes[2].addr.as_str()];
    assert!(client.offer(map(6, 1, &rest)).unwrap());
    assert!(!client.offer(map(6, 1, &rest)).unwrap());
    let error = client.offer(map(5, 1, &rest)).unwrap_err();
    assert!(error.to_string().contains("older"), "{error}");
    check(&client.lookup(&lookup(0..200), None).await.unwrap(), 0..200, 1);
    assert_eq!(client.map().version(), 6);
    let last = nodes[1].asked.lock().unwrap().last().cloned();
    assert_eq!(last.unwrap().map, Some(6));
    // The old call has nobody else to ask for what that node holds.
    let rows = call.await.unwrap().unwrap();
    assert_eq!(rows.missing[0].node, "n0");
}

#[tokio::test]
async fn maps_are_read_from_files() {
    let node = Node::start().await;
    let folder = tempfile::tempdir().unwrap();
    let json = map(3, 1, &[&node.addr]).to_json().unwrap();
    let toml = format!(
        "version = 3\nbuckets = 8\nnodes = [{{ name = \"n\", addresses = [{:?}] }}]",
        node.addr
    );
    for (name, text) in [("map.json", &json), ("map.toml", &toml)] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let client = NodesClient::from_file(&path, options()).unwrap();
        check(&client.lookup(&lookup(0..9), None).await.unwrap(), 0..9, 1);
    }
    for (name, text, expected) in [
        ("cut.json", Some("{"), "cut.json: the bucket map cannot be read"),
        ("none.toml", None, "none.toml: No such file"),
    ] {
        let path = folder.path().join(name);
        if let Some(text) = text {
            std::fs::write(&path, text).unwrap();
        }
        let error = NodesClient::from_file(&path, options()).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}
