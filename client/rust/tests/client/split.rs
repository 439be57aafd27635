//! Lookups that are larger than an answer: against a peer that answers so many keys at most.

use crate::peer::{answer, pair};
use millpond_client_rust::schema::features_lookup::{Lookup, Pool, RowType, Rows};
use millpond_client_rust::schema::payload::{Encoder, Encoding, Payload};
use millpond_client_rust::schema::{Field as _, infer};
use millpond_client_rust::{CallError, Code, Status};

fn lookup(keys: std::ops::Range<u64>) -> Lookup<'static> {
    Lookup {
        table: "films".into(),
        keys: Some(keys.collect()),
        texts: None,
        at_version: None,
        pool: Pool::None,
        offsets: Vec::new(),
        columns: Vec::new(),
        row_type: RowType::F32,
        unique: false,
        map: None,
    }
}

/// Every third key is there; a row is its key.
fn rows(asked: &Lookup<'_>, version: u64) -> Rows<'static> {
    let keys = asked.keys.as_ref().unwrap();
    let mut found = vec![0; keys.len().div_ceil(8)];
    for (at, key) in keys.iter().enumerate() {
        found[at / 8] |= u8::from(key % 3 == 0) << (at % 8);
    }
    Rows {
        version,
        dim: 1,
        row_type: RowType::F32,
        found: found.into(),
        values: infer::Data::F32(keys.iter().map(|key| *key as f32).collect()),
        offsets: None,
        inverse: None,
        active: None,
        missing: Vec::new(),
        overlay_sequence: Some(100 - keys[0]),
    }
}

/// Looks up these keys, of which the peer answers so many a call; what came, and how many each call had and of which version.
async fn ask(
    asked: Lookup<'static>,
    most: usize,
) -> (Result<Rows<'static>, CallError>, Vec<(usize, Option<u64>)>) {
    let (client, mut peer, _listener) = pair().await;
    let mut calls = Vec::new();
    let server = async {
        while let Some(quest) = peer.next().await {
            let payload = Payload::new(quest.encoding, &quest.payload).unwrap();
            let part = Lookup::decode(&payload).unwrap().0;
            let count = part.keys.as_ref().unwrap().len();
            calls.push((count, part.at_version));
            let mut out = Vec::new();
            let mut encoder = Encoder::new(&mut out, Encoding::Msgpack, false);
            let status = if count > most {
                let status = Status::new(Code::TooLarge, "ask for fewer keys");
                status.encode(&mut encoder);
                1
            } else {
                Rows::write(&rows(&part, 7), &mut encoder);
                0
            };
            peer.send(&answer(quest.seq.unwrap(), status, &out)).await;
        }
    };
    let caller = async {
        let found = client.features_lookup_split(&asked, None).await;
        drop(client);
        found
    };
    let (found, ()) = tokio::join!(caller, server);
    (found, calls)
}

#[tokio::test]
async fn a_lookup_is_halved_until_its_parts_are_answered_and_joined() {
    let (found, calls) = ask(lookup(0..21), 6).await;
    let expected = Rows {
        overlay_sequence: Some(82),
        ..rows(&lookup(0..21), 7)
    };
    assert_eq!(found.unwrap(), expected);
    let pinned = Some(7);
    assert_eq!(
        calls,
        [
            (21, None),
            (11, None),
            (6, None),
            (6, pinned),
            (6, pinned),
            (3, pinned)
        ]
    );
}

#[tokio::test]
async fn a_lookup_that_fits_is_one_call() {
    let (found, calls) = ask(lookup(0..6), 6).await;
    assert_eq!(found.unwrap(), rows(&lookup(0..6), 7));
    assert_eq!(calls, [(6, None)]);
}

#[tokio::test]
async fn one_row_that_is_too_large_is_refused() {
    let (found, calls) = ask(lookup(0..2), 0).await;
    let refused = found.unwrap_err();
    assert!(
        matches!(&refused, CallError::Status(status) if status.code == Code::TooLarge),
        "{refused}"
    );
    assert_eq!(calls, [(2, None), (1, None)]);
}
