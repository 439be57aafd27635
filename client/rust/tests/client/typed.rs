//! The typed methods, against a peer that answers with wire/schema's own writers.

use crate::peer::{answer, pair};
use millpond_client_rust::schema::payload::{Encoder, Encoding, Map, Payload, Value};
use millpond_client_rust::schema::{
    FeaturesLookup, Field as _, Infer, Method, Of, OrderedAppend, OrderedBatch, OrderedConcatenate,
    OrderedExpire, OrderedGet, OrderedIncrement, OrderedInspect, OrderedItems, OrderedPut, OrderedRemove,
    OrderedRemovePrefix, OrderedScan, OrderedTrim, Ping, Rank, features_lookup, infer, ordered_append,
    ordered_batch, ordered_concatenate, ordered_expire, ordered_get, ordered_increment, ordered_inspect,
    ordered_items, ordered_put, ordered_remove, ordered_remove_prefix, ordered_scan, ordered_trim, rank,
    system,
};
use millpond_client_rust::{CallError, Client};
use std::borrow::Cow;
use std::fmt::Debug;
use std::time::Duration;

/// Runs one typed call; the peer gets what is expected, and answers.
async fn check<M: Method, T, F: Future<Output = Result<T, CallError>>>(
    call: impl FnOnce(Client) -> F,
    expected: &Of<'static, M::Call>,
    answered: &Of<'static, M::Answer>,
) -> T
where
    Of<'static, M::Call>: PartialEq + Debug,
{
    let (client, mut peer, _listener) = pair().await;
    let server = async {
        let quest = peer.next().await.unwrap();
        assert_eq!(
            (quest.method.as_str(), quest.encoding),
            (M::NAME, Encoding::Msgpack)
        );
        let payload = Payload::new(quest.encoding, &quest.payload).unwrap();
        let (found, reserved) = M::Call::decode(&payload).unwrap();
        assert_eq!(&M::Call::own(found), expected);
        // The one that is called with a deadline below.
        assert_eq!(reserved.deadline_ms.is_some(), M::NAME == FeaturesLookup::NAME);
        let mut payload = Vec::new();
        M::Answer::write(
            answered,
            &mut Encoder::new(&mut payload, Encoding::Msgpack, false),
        );
        peer.send(&answer(quest.seq.unwrap(), 0, &payload)).await;
    };
    tokio::join!(call(client), server).0.unwrap()
}

#[tokio::test]
async fn ping_reads_the_clock() {
    let ping = async |client: Client| client.ping(None).await;
    let pong = system::Pong {
        ts: 1_700_000_000_000,
    };
    assert_eq!(check::<Ping, _, _>(ping, &(), &pong).await, pong.ts);
}

#[tokio::test]
async fn lookups_read_rows() {
    let lookup = features_lookup::Lookup {
        table: "films".into(),
        keys: Some(vec![1, 2]),
        texts: None,
        at_version: None,
        pool: features_lookup::Pool::None,
        offsets: Vec::new(),
        columns: Vec::new(),
        row_type: features_lookup::RowType::F32,
        unique: false,
        map: None,
    };
    let rows = features_lookup::Rows {
        version: 1,
        dim: 1,
        row_type: features_lookup::RowType::F32,
        found: vec![1].into(),
        values: infer::Data::F32(vec![0.5, 0.0]),
        offsets: None,
        inverse: None,
        active: None,
        missing: Vec::new(),
        overlay_sequence: None,
    };
    let both = [rows.clone(), rows.clone()].to_vec();
    for (call, answer, expected) in [
        (
            features_lookup::Call::One(lookup.clone()),
            features_lookup::Answer::One(rows.clone()),
            vec![rows],
        ),
        (
            features_lookup::Call::Many(features_lookup::Lookups {
                lookups: vec![lookup.clone(), lookup],
            }),
            features_lookup::Answer::Many(features_lookup::ManyRows {
                lookups: both.clone(),
            }),
            both,
        ),
    ] {
        let deadline = Some(Duration::from_secs(60));
        let look_up = async |client: Client| client.features_lookup(&call, deadline).await;
        let found = check::<FeaturesLookup, _, _>(look_up, &call, &answer);
        assert_eq!(found.await, expected);
    }
}

#[tokio::test]
async fn ordered_methods_read_put_and_scan() {
    let bytes = |bytes: &'static [u8]| Cow::Borrowed(bytes);
    let call = ordered_get::Call {
        table: None,
        keys: vec![bytes(b"k"), bytes(b"l")],
    };
    let answer = ordered_get::Answer {
        values: vec![Some(bytes(b"v")), None],
        versions: vec![3, 0],
        ..ordered_get::Answer::default()
    };
    let get = async |client: Client| client.ordered_get(&call, None).await;
    let found = check::<OrderedGet, _, _>(get, &call, &answer);
    assert_eq!(found.await, [Some((b"v".to_vec(), 3)), None]);

    let entry = (bytes(b"k"), bytes(b"v"));
    let call = ordered_put::Call {
        table: None,
        entries: vec![entry.clone()],
        if_version: Some(2),
        if_absent: false,
        if_present: false,
        ttl_ms: None,
        keep_ttl: false,
    };
    let answer = ordered_put::Answer {
        versions: vec![3],
        durability: "synced".into(),
    };
    let put = async |client: Client| client.ordered_put(&call, None).await;
    let found = check::<OrderedPut, _, _>(put, &call, &answer);
    assert_eq!(found.await, answer);

    let call = ordered_scan::Call {
        limit: 1,
        ..ordered_scan::Call::default()
    };
    let answer = ordered_scan::Answer {
        entries: vec![entry],
        lists: vec![],
        cursor: Some(bytes(b"l")),
        ..ordered_scan::Answer::default()
    };
    let scan = async |client: Client| client.ordered_scan(&call, None).await;
    let found = check::<OrderedScan, _, _>(scan, &call, &answer);
    assert_eq!(found.await, answer);
}

#[tokio::test]
async fn ordered_methods_concatenate_and_remove_prefixes() {
    let bytes = |bytes: &'static [u8]| Cow::Borrowed(bytes);
    let call = ordered_concatenate::Call {
        table: None,
        key: bytes(b"k"),
        value: bytes(b"w"),
    };
    let answer = ordered_concatenate::Answer {
        bytes: 2,
        version: 6,
        durability: "logged".into(),
    };
    let concatenate = async |client: Client| client.ordered_concatenate(&call, None).await;
    let found = check::<OrderedConcatenate, _, _>(concatenate, &call, &answer);
    assert_eq!(found.await, answer);

    let call = ordered_remove_prefix::Call {
        table: None,
        prefix: bytes(b"u/"),
        limit: 10,
    };
    let answer = ordered_remove_prefix::Answer {
        removed: 10,
        more: true,
        durability: "logged".into(),
    };
    let remove = async |client: Client| client.ordered_remove_prefix(&call, None).await;
    let found = check::<OrderedRemovePrefix, _, _>(remove, &call, &answer);
    assert_eq!(found.await, answer);
}

#[tokio::test]
async fn ordered_methods_keep_lists() {
    let bytes = |bytes: &'static [u8]| Cow::Borrowed(bytes);
    let call = ordered_append::Call {
        table: None,
        key: bytes(b"l"),
        items: vec![bytes(b"a"), bytes(b"")],
        keep: Some(100),
        ttl_ms: None,
    };
    let answer = ordered_append::Answer {
        count: 2,
        version: 7,
        durability: "synced".into(),
    };
    let append = async |client: Client| client.ordered_append(&call, None).await;
    let found = check::<OrderedAppend, _, _>(append, &call, &answer);
    assert_eq!(found.await, answer);

    let call = ordered_items::Call {
        table: None,
        key: bytes(b"l"),
        start: 0,
        stop: -1,
    };
    let answer = ordered_items::Answer {
        items: vec![bytes(b""), bytes(b"a")],
        ..ordered_items::Answer::default()
    };
    let items = async |client: Client| client.ordered_items(&call, None).await;
    let found = check::<OrderedItems, _, _>(items, &call, &answer);
    assert_eq!(found.await, answer);

    let call = ordered_trim::Call {
        table: None,
        key: bytes(b"l"),
        start: 0,
        stop: 0,
    };
    let answer = ordered_trim::Answer {
        count: 1,
        version: 8,
        durability: "synced".into(),
    };
    let trim = async |client: Client| client.ordered_trim(&call, None).await;
    let found = check::<OrderedTrim, _, _>(trim, &call, &answer);
    assert_eq!(found.await, answer);

    let call = ordered_inspect::Call {
        table: None,
        keys: Some(vec![bytes(b"l")]),
    };
    let answer = ordered_inspect::Answer {
        keys: Some(vec![ordered_inspect::Inspected {
            kind: "list".into(),
            version: 8,
            ttl_ms: Some(5),
            bytes: 0,
            count: Some(1),
        }]),
        store: None,
        ..ordered_inspect::Answer::default()
    };
    let inspect = async |client: Client| client.ordered_inspect(&call, None).await;
    let found = check::<OrderedInspect, _, _>(inspect, &call, &answer);
    assert_eq!(found.await, answer);
}

#[tokio::test]
async fn ordered_methods_remove_increment_and_batch() {
    use ordered_batch::{Effect, Operation, Options};
    let bytes = |bytes: &'static [u8]| Cow::Borrowed(bytes);
    let call = ordered_remove::Call {
        table: None,
        keys: vec![bytes(b"k")],
        if_version: Some(3),
    };
    let answer = ordered_remove::Answer {
        removed: 1,
        durability: "synced".into(),
    };
    let remove = async |client: Client| client.ordered_remove(&call, None).await;
    let found = check::<OrderedRemove, _, _>(remove, &call, &answer);
    assert_eq!(found.await, answer);

    let call = ordered_increment::Call {
        table: None,
        key: bytes(b"n"),
        by: -2,
        ttl_ms: Some(5),
    };
    let answer = ordered_increment::Answer {
        value: -2,
        version: 5,
        durability: "logged".into(),
    };
    let increment = async |client: Client| client.ordered_increment(&call, None).await;
    let found = check::<OrderedIncrement, _, _>(increment, &call, &answer);
    assert_eq!(found.await, answer);

    let call = ordered_expire::Call {
        table: None,
        keys: vec![bytes(b"n")],
        ttl_ms: Some(5),
        persist: false,
    };
    let answer = ordered_expire::Answer {
        changed: 1,
        durability: "logged".into(),
    };
    let expire = async |client: Client| client.ordered_expire(&call, None).await;
    let found = check::<OrderedExpire, _, _>(expire, &call, &answer);
    assert_eq!(found.await, answer);

    let call = ordered_batch::Call {
        table: None,
        operations: vec![
            Operation::Put(bytes(b"k"), bytes(b"v"), Options::default()),
            Operation::Get(bytes(b"k")),
            Operation::Remove(bytes(b"l"), Options::default()),
        ],
    };
    let answer = ordered_batch::Answer {
        results: vec![
            Effect::Number(6),
            Effect::Value(Some(bytes(b"v"))),
            Effect::WasThere(false),
        ],
        durability: "memory".into(),
        ..ordered_batch::Answer::default()
    };
    let batch = async |client: Client| client.ordered_batch(&call, None).await;
    let found = check::<OrderedBatch, _, _>(batch, &call, &answer);
    assert_eq!(found.await, answer);
}

#[tokio::test]
async fn inference_reads_scores_and_outputs() {
    let samples = infer::Call::Samples(infer::Samples {
        model: None,
        samples: infer::TextRows::new(vec![vec!["u".into(), "f".into()]]),
    });
    let scores = infer::Answer::Scores(infer::Scores { scores: vec![0.1] });
    let named = |name: &'static str, data: infer::Data| {
        let tensor = infer::Tensor::new(vec![1, 2], data).unwrap();
        (name.into(), tensor)
    };
    let texts: infer::Bytes = ["a", ""].into_iter().collect();
    let tensors_of_types = vec![
        named("f32", vec![0.5_f32, 1.5].into()),
        named("f16", [0.5_f32, 1.5].map(infer::f16::from_f32).to_vec().into()),
        named("bf16", [0.5_f32, 1.5].map(infer::bf16::from_f32).to_vec().into()),
        named("i16", vec![i16::MIN, i16::MAX].into()),
        named("i8", vec![i8::MIN, i8::MAX].into()),
        named("u64", vec![7, u64::MAX].into()),
        named("u32", vec![7, u32::MAX].into()),
        named("u16", vec![7, u16::MAX].into()),
        named("bytes", texts.into()),
    ];
    let tensors = infer::Call::Tensors(infer::Tensors {
        model: None,
        version: None,
        inputs: tensors_of_types.clone(),
        outputs: Vec::new(),
    });
    let outputs = infer::Answer::Outputs(infer::Outputs {
        model: "ranker".into(),
        version: 2,
        outputs: tensors_of_types,
    });
    for (call, answer) in [(samples, scores), (tensors, outputs)] {
        let infer = async |client: Client| client.infer(&call, None).await;
        let found = check::<Infer, _, _>(infer, &call, &answer);
        assert_eq!(found.await, answer);
    }
}

#[tokio::test]
async fn rank_reads_items_and_scores() {
    let user = Map(vec![("id".into(), Value::UInt(7))]);
    let items = vec![Value::UInt(5), Value::Text("x".into())];
    let call = rank::Call {
        pipeline: None,
        user,
        items: items.clone(),
        top: None,
    };
    let ranked = rank::Answer {
        items,
        scores: vec![0.25, 0.1],
        model: "m".into(),
        versions: vec![("t".into(), 1)],
    };
    let rank = async |client: Client| client.rank(&call, None).await;
    let found = check::<Rank, _, _>(rank, &call, &ranked);
    assert_eq!(found.await, ranked);
}

#[tokio::test]
async fn an_answer_that_does_not_fit_names_method_and_key() {
    let (client, mut peer, _listener) = pair().await;
    // The peer echoes the call: a ping's empty map holds no clock.
    let (found, ()) = tokio::join!(client.ping(None), peer.echo());
    let error = found.unwrap_err();
    assert!(matches!(&error, CallError::Protocol { .. }), "{error:?}");
    assert!(
        error
            .to_string()
            .contains("the answer to *ping: key \"ts\" is missing"),
        "{error}"
    );
}
