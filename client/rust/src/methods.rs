//! The methods, typed: one function a method, over the payloads of wire/schema.
//!
//! It adds nothing to a call: encode, [`Client::call`], decode. Its invariant: an answer that does not decode is a
//! [`CallError::Protocol`] that names the method and the key.

use crate::{CallError, Client};
use millpond_wire_schema::frame::{Encoder, Encoding, FieldError, Map, decode_map};
use millpond_wire_schema::{features_lookup, infer, ordered_get, ordered_put, ordered_scan, ping, rank};
use std::time::Duration;

impl Client {
    /// `*ping`: the server's clock in milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// As [`Client::call_raw`].
    pub async fn ping(&self, deadline: Option<Duration>) -> Result<u64, CallError> {
        let empty = |out: &mut Encoder<'_>| out.map(0);
        self.typed("*ping", empty, ping::decode_answer, deadline).await
    }

    /// `features.lookup`: one [`features_lookup::Rows`] a table, in the call's order.
    ///
    /// # Errors
    /// As [`Client::call_raw`].
    pub async fn features_lookup(
        &self,
        call: &features_lookup::Call<'_>,
        deadline: Option<Duration>,
    ) -> Result<Vec<features_lookup::Rows>, CallError> {
        let encode = |out: &mut Encoder<'_>| call.encode(out);
        self.typed(
            "features.lookup",
            encode,
            features_lookup::decode_answer,
            deadline,
        )
        .await
    }

    /// `ordered.get`: value and version of each key, `None` where it is absent.
    ///
    /// # Errors
    /// As [`Client::call_raw`].
    pub async fn ordered_get(
        &self,
        call: &ordered_get::Call<'_>,
        deadline: Option<Duration>,
    ) -> Result<Vec<Option<(Vec<u8>, u64)>>, CallError> {
        let encode = |out: &mut Encoder<'_>| call.encode(out);
        let decode = |map: Map<'_>| {
            let found = ordered_get::decode_answer(map)?.into_iter();
            Ok(found
                .map(|entry| entry.map(|(value, version)| (value.into_owned(), version)))
                .collect())
        };
        self.typed("ordered.get", encode, decode, deadline).await
    }

    /// `ordered.put`: the versions written, and what they survive.
    ///
    /// # Errors
    /// As [`Client::call_raw`]. After [`CallError::Timeout`] and [`CallError::Closed`] the put may have been written.
    pub async fn ordered_put(
        &self,
        call: &ordered_put::Call<'_>,
        deadline: Option<Duration>,
    ) -> Result<ordered_put::Answer, CallError> {
        let encode = |out: &mut Encoder<'_>| call.encode(out);
        self.typed("ordered.put", encode, ordered_put::Answer::decode, deadline)
            .await
    }

    /// `ordered.scan`: entries in key order, and the cursor to go on with.
    ///
    /// # Errors
    /// As [`Client::call_raw`].
    pub async fn ordered_scan(
        &self,
        call: &ordered_scan::Call<'_>,
        deadline: Option<Duration>,
    ) -> Result<ordered_scan::Answer<'static>, CallError> {
        let encode = |out: &mut Encoder<'_>| call.encode(out);
        let decode = |map: Map<'_>| Ok(ordered_scan::Answer::decode(map)?.into_owned());
        self.typed("ordered.scan", encode, decode, deadline).await
    }

    /// `infer` with named tensors: the outputs.
    ///
    /// # Errors
    /// As [`Client::call_raw`].
    pub async fn infer(
        &self,
        call: &infer::Call<'_>,
        deadline: Option<Duration>,
    ) -> Result<infer::Answer, CallError> {
        self.typed(
            "infer",
            |out: &mut Encoder<'_>| call.encode(out),
            infer::Answer::decode,
            deadline,
        )
        .await
    }

    /// `infer` with samples: one score a sample.
    ///
    /// # Errors
    /// As [`Client::call_raw`].
    pub async fn infer_scores(
        &self,
        call: &infer::Call<'_>,
        deadline: Option<Duration>,
    ) -> Result<Vec<f32>, CallError> {
        self.typed(
            "infer",
            |out: &mut Encoder<'_>| call.encode(out),
            infer::decode_scores,
            deadline,
        )
        .await
    }

    /// `rank`: the candidates and their scores.
    ///
    /// # Errors
    /// As [`Client::call_raw`].
    pub async fn rank(
        &self,
        call: &rank::Call<'_>,
        deadline: Option<Duration>,
    ) -> Result<rank::Answer<'static>, CallError> {
        let decode = |map: Map<'_>| Ok(rank::Answer::decode(map)?.into_owned());
        self.typed("rank", |out: &mut Encoder<'_>| call.encode(out), decode, deadline)
            .await
    }

    async fn typed<T>(
        &self,
        method: &str,
        encode: impl FnOnce(&mut Encoder<'_>),
        decode: impl FnOnce(Map<'_>) -> Result<T, FieldError>,
        deadline: Option<Duration>,
    ) -> Result<T, CallError> {
        let mut payload = Vec::new();
        encode(&mut Encoder::new(&mut payload, Encoding::Msgpack, false));
        let answer = self.call(method, &payload, deadline).await?;
        let map = decode_map(Encoding::Msgpack, &answer)
            .map_err(|error| self.misread(method, "the answer", &error))?;
        decode(map).map_err(|error| self.misread(method, "the answer", &error))
    }
}
