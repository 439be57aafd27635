//! The calls to etcd that membership makes, over its JSON gateway. It keeps nothing between calls. Its invariant: each call but
//! the lines of a watch ends within the timeout.

use crate::Error;
use crate::endpoint::Endpoint;
use crate::http::{self, Answer};
use crate::messages::{
    Bytes, Compare, Done, Failure, GrantRequest, LeaseRequest, LeaseResponse, Number, Operation, Pair,
    PutRequest, RangeRequest, RangeResponse, Streamed, TxnRequest, TxnResponse, WatchCreate, WatchRequest,
    WatchResponse,
};
use crate::tls::Connector;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::time::Duration;

/// Keys that are read at most: the map and more nodes than a map may have.
const KEYS_MAX: i64 = 4096;

/// etcd, at one of its endpoints.
#[derive(Clone)]
pub(crate) struct Etcd {
    pub(crate) endpoint: Endpoint,
    pub(crate) tls: Option<Connector>,
    pub(crate) timeout: Duration,
}

/// All keys of a prefix, at one revision.
pub(crate) struct Listing {
    pub(crate) revision: i64,
    pub(crate) pairs: Vec<Pair>,
}

/// Whatever is of a prefix, from one revision on.
pub(crate) struct Watch {
    endpoint: String,
    answer: Answer,
}

const RANGE: &str = "/v3/kv/range";
const PUT: &str = "/v3/kv/put";
const TXN: &str = "/v3/kv/txn";
const GRANT: &str = "/v3/lease/grant";
const KEEP_ALIVE: &str = "/v3/lease/keepalive";
const REVOKE: &str = "/v3/lease/revoke";
const WATCH: &str = "/v3/watch";

impl Etcd {
    /// Reads all keys of a prefix; without their values where `keys_only`.
    pub(crate) async fn list(&self, prefix: &str, keys_only: bool) -> Result<Listing, Error> {
        let request = RangeRequest {
            key: Bytes::of(prefix),
            range_end: end_of(prefix),
            limit: Number(KEYS_MAX),
            keys_only,
        };
        let found: RangeResponse = self.ask(RANGE, &request).await?;
        if found.more {
            return Err(garbage(
                &self.endpoint.text,
                RANGE,
                &format!("more than {KEYS_MAX} keys are under {prefix}"),
            ));
        }
        Ok(Listing {
            revision: found.header.revision.0,
            pairs: found.kvs,
        })
    }

    /// Puts a key under a lease.
    pub(crate) async fn put(&self, key: &str, value: &[u8], lease: i64) -> Result<(), Error> {
        let _: Done = self.ask(PUT, &put_of(key, value, lease)).await?;
        Ok(())
    }

    /// Puts a key that was last changed in `revision`, 0 where it is not there; false where it was changed since.
    pub(crate) async fn replace(&self, key: &str, value: &[u8], revision: i64) -> Result<bool, Error> {
        let request = TxnRequest {
            compare: [Compare {
                key: Bytes::of(key),
                target: "MOD",
                result: "EQUAL",
                mod_revision: Number(revision),
            }],
            success: [Operation {
                request_put: put_of(key, value, 0),
            }],
        };
        let found: TxnResponse = self.ask(TXN, &request).await?;
        Ok(found.succeeded)
    }

    /// A new lease.
    pub(crate) async fn grant(&self, ttl: Duration) -> Result<i64, Error> {
        let ttl = Number(i64::try_from(ttl.as_secs()).unwrap_or(i64::MAX));
        let found: LeaseResponse = self.ask(GRANT, &GrantRequest { ttl }).await?;
        match found.id {
            Number(0) => Err(garbage(&self.endpoint.text, GRANT, "the lease has no number")),
            Number(id) => Ok(id),
        }
    }

    /// Keeps a lease; false where it is not there any more.
    pub(crate) async fn keep_alive(&self, lease: i64) -> Result<bool, Error> {
        let body = written(
            &self.endpoint.text,
            KEEP_ALIVE,
            &LeaseRequest { id: Number(lease) },
        )?;
        let answered = async {
            let mut answer = http::post(&self.endpoint, self.tls.as_ref(), KEEP_ALIVE, body).await?;
            self.check_status(KEEP_ALIVE, &mut answer).await?;
            let line = answer.line().await?.unwrap_or_default();
            streamed::<LeaseResponse>(&self.endpoint.text, KEEP_ALIVE, &line)
        };
        match self.in_time(KEEP_ALIVE, answered).await {
            Ok(found) if found.id.0 != lease => Err(garbage(
                &self.endpoint.text,
                KEEP_ALIVE,
                "it is about another lease",
            )),
            Ok(found) => Ok(found.ttl.0 > 0),
            Err(error) if error.is_not_found() => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Ends a lease and removes its keys.
    pub(crate) async fn revoke(&self, lease: i64) -> Result<(), Error> {
        let _: Done = self.ask(REVOKE, &LeaseRequest { id: Number(lease) }).await?;
        Ok(())
    }

    /// Watches a prefix from a revision on.
    pub(crate) async fn watch(&self, prefix: &str, revision: i64) -> Result<Watch, Error> {
        let request = WatchRequest {
            create_request: WatchCreate {
                key: Bytes::of(prefix),
                range_end: end_of(prefix),
                start_revision: Number(revision),
            },
        };
        let body = written(&self.endpoint.text, WATCH, &request)?;
        let begun = async {
            let mut answer = http::post(&self.endpoint, self.tls.as_ref(), WATCH, body).await?;
            self.check_status(WATCH, &mut answer).await?;
            let mut watch = Watch {
                endpoint: self.endpoint.text.clone(),
                answer,
            };
            match watch.next().await? {
                first if first.created => Ok(watch),
                _ => Err(garbage(
                    &self.endpoint.text,
                    WATCH,
                    "it does not begin with `created`",
                )),
            }
        };
        self.in_time(WATCH, begun).await
    }

    /// One request, one answer.
    async fn ask<T: DeserializeOwned>(
        &self,
        call: &'static str,
        request: &impl Serialize,
    ) -> Result<T, Error> {
        let body = written(&self.endpoint.text, call, request)?;
        let answered = async {
            let mut answer = http::post(&self.endpoint, self.tls.as_ref(), call, body).await?;
            self.check_status(call, &mut answer).await?;
            let json = answer.whole().await?;
            serde_json::from_slice(&json)
                .map_err(|error| garbage(&self.endpoint.text, call, &error.to_string()))
        };
        self.in_time(call, answered).await
    }

    async fn check_status(&self, call: &'static str, answer: &mut Answer) -> Result<(), Error> {
        if answer.status == 200 {
            return Ok(());
        }
        let body = answer.whole().await?;
        let failure: Failure = serde_json::from_slice(&body).unwrap_or_default();
        Err(refused(&self.endpoint.text, call, answer.status, failure))
    }

    async fn in_time<T>(
        &self,
        call: &'static str,
        answered: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let late = |_| Error::Timeout {
            endpoint: self.endpoint.text.clone(),
            call,
            timeout: self.timeout,
        };
        tokio::time::timeout(self.timeout, answered).await.map_err(late)?
    }
}

impl Watch {
    /// What is next. It waits as long as nothing happens; nothing is lost where this future is dropped.
    pub(crate) async fn next(&mut self) -> Result<WatchResponse, Error> {
        let Some(line) = self.answer.line().await? else {
            return Err(self.ended("it closed the stream"));
        };
        let found: WatchResponse = streamed(&self.endpoint, WATCH, &line)?;
        if found.compact_revision.0 > 0 {
            return Err(self.ended(&format!(
                "revisions below {} are compacted",
                found.compact_revision.0
            )));
        }
        match found.canceled {
            true => Err(self.ended(&found.cancel_reason)),
            false => Ok(found),
        }
    }

    fn ended(&self, reason: &str) -> Error {
        Error::WatchEnded {
            endpoint: self.endpoint.clone(),
            reason: excerpt(reason),
        }
    }
}

/// What ends a prefix: its last byte is '/', and '0' is the next.
fn end_of(prefix: &str) -> Bytes {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    Bytes(end)
}

fn put_of(key: &str, value: &[u8], lease: i64) -> PutRequest {
    PutRequest {
        key: Bytes::of(key),
        value: Bytes(value.to_vec()),
        lease: Number(lease),
    }
}

fn written(endpoint: &str, call: &'static str, request: &impl Serialize) -> Result<String, Error> {
    serde_json::to_string(request).map_err(|error| garbage(endpoint, call, &error.to_string()))
}

fn streamed<T: DeserializeOwned>(endpoint: &str, call: &'static str, line: &[u8]) -> Result<T, Error> {
    match serde_json::from_slice(line) {
        Ok(Streamed::Result(found)) => Ok(found),
        Ok(Streamed::Error(failure)) => Err(refused(endpoint, call, 200, failure)),
        Err(error) => Err(garbage(endpoint, call, &error.to_string())),
    }
}

fn refused(endpoint: &str, call: &'static str, status: u16, failure: Failure) -> Error {
    Error::Refused {
        endpoint: endpoint.to_owned(),
        call,
        status,
        code: failure.code,
        message: match failure.message.as_str() {
            "" => "it does not say why".to_owned(),
            message => excerpt(message),
        },
    }
}

fn garbage(endpoint: &str, call: &'static str, detail: &str) -> Error {
    Error::Garbage {
        endpoint: endpoint.to_owned(),
        call,
        detail: excerpt(detail),
    }
}

/// The start of what somebody else wrote.
fn excerpt(text: &str) -> String {
    text.chars().take(200).collect()
}
