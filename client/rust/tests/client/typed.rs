//! The typed methods, against a peer that answers with wire/schema's own encoders.

use crate::peer::{answer, pair};
use millpond_client_rust::schema::frame::{Encoder, Encoding, Map, Value, decode_map};
use millpond_client_rust::schema::{
    features_lookup, infer, ordered_get, ordered_put, ordered_scan, ping, rank,
};
use millpond_client_rust::{CallError, Client};
use std::borrow::Cow;
use std::time::Duration;

/// Runs one typed call; the peer checks its payload and writes its answer.
async fn check<T, F: Future<Output = Result<T, CallError>>>(
    method: &str,
    call: impl FnOnce(Client) -> F,
    decode: impl FnOnce(Map<'_>),
    encode: impl FnOnce(&mut Encoder<'_>),
) -> T {
    let (client, mut peer, _listener) = pair().await;
    let server = async {
        let quest = peer.next().await.unwrap();
        assert_eq!(
            (quest.method.as_str(), quest.encoding),
            (method, Encoding::Msgpack)
        );
        decode(decode_map(quest.encoding, &quest.payload).unwrap());
        let mut payload = Vec::new();
        encode(&mut Encoder::new(&mut payload, Encoding::Msgpack, false));
        peer.send(&answer(quest.seq.unwrap(), 0, &payload)).await;
    };
    tokio::join!(call(client), server).0.unwrap()
}

#[tokio::test]
async fn ping_reads_the_clock() {
    let ts = check(
        "*ping",
        async |client: Client| client.ping(None).await,
        |map| assert_eq!(map, Map::default()),
        |out| ping::encode_answer(out, 1_700_000_000_000),
    );
    assert_eq!(ts.await, 1_700_000_000_000);
}

#[tokio::test]
async fn lookups_read_rows() {
    let lookup = features_lookup::Lookup {
        table: "films".into(),
        keys: vec![1, 2],
        at_version: None,
        pool: features_lookup::Pool::None,
        offsets: Vec::new(),
    };
    let call = features_lookup::Call {
        lookups: vec![lookup.clone(), lookup],
        many: true,
        base64: false,
    };
    let rows = features_lookup::Rows {
        version: 1,
        dim: 1,
        found: vec![1],
        values: vec![0.5, 0.0],
    };
    let rows = [rows.clone(), rows];
    let found = check(
        "features.lookup",
        async |client: Client| client.features_lookup(&call, Some(Duration::from_secs(60))).await,
        |map| {
            let (found, reserved) = features_lookup::Call::decode(map).unwrap();
            assert_eq!(found, call);
            assert!(reserved.deadline_ms.is_some());
        },
        |out| features_lookup::encode_answer(out, &rows, true),
    );
    assert_eq!(found.await, rows);
}

#[tokio::test]
async fn ordered_methods_read_put_and_scan() {
    let get = ordered_get::Call {
        table: None,
        keys: vec![Cow::Borrowed(b"k"), Cow::Borrowed(b"l")],
        base64: false,
    };
    let found = check(
        "ordered.get",
        async |client: Client| client.ordered_get(&get, None).await,
        |map| assert_eq!(ordered_get::Call::decode(map).unwrap().0, get),
        |out| ordered_get::encode_answer(out, &[Some((b"v", 3)), None]),
    );
    assert_eq!(found.await, [Some((b"v".to_vec(), 3)), None]);

    let entry: ordered_put::Entry<'_> = (Cow::Borrowed(b"k"), Cow::Borrowed(b"v"));
    let put = ordered_put::Call {
        table: None,
        entries: vec![entry.clone()],
        if_version: Some(2),
        if_absent: false,
    };
    let found = check(
        "ordered.put",
        async |client: Client| client.ordered_put(&put, None).await,
        |map| assert_eq!(ordered_put::Call::decode(map).unwrap().0, put),
        |out| ordered_put::encode_answer(out, &[3], "synced"),
    );
    assert_eq!(
        found.await,
        ordered_put::Answer {
            versions: vec![3],
            durability: "synced".to_owned()
        }
    );

    let scan = ordered_scan::Call {
        limit: 1,
        ..ordered_scan::Call::default()
    };
    let found = check(
        "ordered.scan",
        async |client: Client| client.ordered_scan(&scan, None).await,
        |map| assert_eq!(ordered_scan::Call::decode(map).unwrap().0, scan),
        |out| ordered_scan::encode_answer(out, &[(b"k", b"v")], Some(b"l")),
    );
    assert_eq!(
        found.await,
        ordered_scan::Answer {
            entries: vec![entry],
            cursor: Some(Cow::Borrowed(b"l"))
        }
    );
}

#[tokio::test]
async fn inference_reads_scores_and_outputs() {
    let inputs = infer::Inputs::Samples(vec![vec!["u".into(), "f".into()]]);
    let samples = infer::Call {
        model: None,
        version: None,
        inputs,
        outputs: Vec::new(),
        base64: false,
    };
    let found = check(
        "infer",
        async |client: Client| client.infer_scores(&samples, None).await,
        |map| assert_eq!(infer::Call::decode(map).unwrap().0, samples),
        |out| infer::encode_scores(out, &[0.1]),
    );
    assert_eq!(found.await, [0.1]);

    let tensor = infer::Tensor::new(vec![1, 2], vec![0.5_f32, 1.5]).unwrap();
    let inputs = infer::Inputs::Tensors(vec![("x".into(), tensor.clone())]);
    let tensors = infer::Call { inputs, ..samples };
    let found = check(
        "infer",
        async |client: Client| client.infer(&tensors, None).await,
        |map| assert_eq!(infer::Call::decode(map).unwrap().0, tensors),
        |out| infer::encode_answer(out, "ranker", 2, [("y", &tensor)].into_iter()),
    );
    let outputs = vec![("y".to_owned(), tensor.clone())];
    assert_eq!(
        found.await,
        infer::Answer {
            model: "ranker".to_owned(),
            version: 2,
            outputs
        }
    );
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
        versions: vec![("t".to_owned(), 1)],
    };
    let found = check(
        "rank",
        async |client: Client| client.rank(&call, None).await,
        |map| assert_eq!(rank::Call::decode(map).unwrap().0, call),
        |out| ranked.encode(out),
    );
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
