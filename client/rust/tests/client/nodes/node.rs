//! A node that answers, fails, refuses, stays silent or lies, as a test says.

use crate::peer::{Peer, answer};
use millpond_client_rust::schema::features_lookup::{Header, Lookup, Pool, RowType};
use millpond_client_rust::schema::payload::{Encoder, Encoding, Payload};
use millpond_client_rust::schema::{FeaturesInspect, Field as _, Method as _};
use millpond_client_rust::{Code, Status};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

/// What a node does with a call.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Does {
    /// It answers from this version, or from the one that it holds.
    Serve(u64, Option<u64>),
    Refuse(Code),
    Silent,
    Close,
    /// It answers a row too few.
    Lie,
}

/// A node of these tests. Its rows are the key and the version; even keys are not there.
pub(super) struct Node {
    pub(super) addr: String,
    pub(super) does: Arc<Mutex<Does>>,
    pub(super) asked: Arc<Mutex<Vec<Lookup<'static>>>>,
}

impl Node {
    pub(super) async fn start() -> Node {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let node = Node {
            addr: listener.local_addr().unwrap().to_string(),
            does: Arc::new(Mutex::new(Does::Serve(1, None))),
            asked: Arc::default(),
        };
        let (does, asked) = (node.does.clone(), node.asked.clone());
        tokio::spawn(async move {
            loop {
                let mut peer = Peer::accept(&listener).await;
                let (does, asked) = (does.clone(), asked.clone());
                tokio::spawn(async move {
                    while let Some(quest) = peer.next().await {
                        let payload = Payload::new(Encoding::Msgpack, &quest.payload).unwrap();
                        let now = *does.lock().unwrap();
                        if quest.method == FeaturesInspect::NAME {
                            peer.send(&answer(quest.seq.unwrap(), 0, &inspected(now))).await;
                            continue;
                        }
                        let lookup = Lookup::own(Lookup::decode(&payload).unwrap().0);
                        let said = said(now, &lookup);
                        asked.lock().unwrap().push(lookup);
                        match said {
                            Some((status, payload)) => {
                                peer.send(&answer(quest.seq.unwrap(), status, &payload)).await;
                            }
                            None if now == Does::Silent => {}
                            None => return,
                        }
                    }
                });
            }
        });
        node
    }

    pub(super) fn does(&self, does: Does) {
        *self.does.lock().unwrap() = does;
    }

    pub(super) fn keys_asked(&self) -> Vec<u64> {
        let asked = self.asked.lock().unwrap();
        asked
            .iter()
            .flat_map(|lookup| lookup.keys.clone().unwrap())
            .collect()
    }
}

/// An answer's status and payload.
fn said(does: Does, lookup: &Lookup<'_>) -> Option<(u8, Vec<u8>)> {
    let mut keys = lookup.keys.clone().unwrap();
    let (serves, holds) = match does {
        Does::Serve(serves, holds) => (serves, holds),
        Does::Refuse(code) => return Some(error(code)),
        Does::Silent | Does::Close => return None,
        Does::Lie => {
            keys.pop();
            (1, None)
        }
    };
    let version = lookup.at_version.unwrap_or(serves);
    if version != serves && Some(version) != holds {
        return Some(error(Code::VersionGone));
    }
    // Bags are asked for where they have no key.
    let rows = match lookup.pool {
        Pool::None => keys.len(),
        _ => lookup.offsets.len() - 1,
    };
    assert!(lookup.pool == Pool::None || keys.is_empty());
    let header = Header {
        version,
        dim: 2,
        row_type: RowType::F32,
        keys: keys.len(),
        rows,
        inverse: None,
        overlay_sequence: None,
        active: (version != serves).then_some(serves),
        missing: &[],
    };
    let mut payload = Vec::new();
    let out = &mut Encoder::new(&mut payload, Encoding::Msgpack, false);
    header.write(out, |found, values| {
        if lookup.pool != Pool::None {
            values.copy_from_slice(&[-1.0_f32, -2.0].map(f32::to_le_bytes).concat().repeat(rows));
            return;
        }
        for (at, (key, row)) in keys.iter().zip(values.chunks_exact_mut(8)).enumerate() {
            found[at / 8] |= ((key % 2) as u8) << (at % 8);
            let numbers = if key % 2 == 1 {
                [*key as f32, version as f32]
            } else {
                [0.0; 2]
            };
            row.copy_from_slice(&numbers.map(f32::to_le_bytes).concat());
        }
    });
    Some((0, payload))
}

/// What a node says of its table: each version hashes texts in a slot of its own.
fn inspected(does: Does) -> Vec<u8> {
    let Does::Serve(version, _) = does else {
        panic!("{does:?} is not asked for its tables")
    };
    let mut payload = Vec::new();
    Encoder::new(&mut payload, Encoding::Msgpack, false).map(|out| {
        out.key("tables");
        out.items([version].into_iter(), |out, version| {
            out.map(|out| {
                for (key, text) in [("table", "films"), ("slot", &slot(version))] {
                    out.key(key);
                    out.text(text);
                }
                for key in [
                    "version",
                    "dim",
                    "rows",
                    "bytes",
                    "resident_bytes",
                    "created",
                    "age_s",
                ] {
                    out.key(key);
                    out.uint(version);
                }
                for key in ["held", "columns"] {
                    out.key(key);
                    out.items([0_u64; 0].into_iter(), |out, number| out.uint(number));
                }
                out.key("cut");
                out.bool(false);
            });
        });
    });
    payload
}

pub(super) fn slot(version: u64) -> String {
    format!("of version {version}")
}

fn error(code: Code) -> (u8, Vec<u8>) {
    let mut payload = Vec::new();
    let status = Status::new(code, "of a test");
    status.encode(&mut Encoder::new(&mut payload, Encoding::Msgpack, false));
    (1, payload)
}
