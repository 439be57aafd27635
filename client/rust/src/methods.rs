//! The methods, typed: one function a method, over the schemas of wire/schema.
//!
//! It adds nothing to a call: encode, [`Client::call`], decode. Its invariant: an answer that does not decode is a
//! [`CallError::Protocol`] that names the method and the key.

use crate::{CallError, Client};
use millpond_wire_schema::payload::{Encoder, Encoding, Payload};
use millpond_wire_schema::{
    FeaturesLookup, Infer, OrderedAppend, OrderedBatch, OrderedConcatenate, OrderedExpire, OrderedGet,
    OrderedIncrement, OrderedInspect, OrderedItems, OrderedPut, OrderedRemove, OrderedRemovePrefix,
    OrderedScan, OrderedTrim, Ping, Rank,
};
use millpond_wire_schema::{Field, Method, Of};
use millpond_wire_schema::{
    features_lookup, infer, ordered_append, ordered_batch, ordered_concatenate, ordered_expire, ordered_get,
    ordered_increment, ordered_inspect, ordered_items, ordered_put, ordered_remove, ordered_remove_prefix,
    ordered_scan, ordered_trim, rank,
};
use std::time::Duration;

impl Client {
    /// `*ping`: the server's clock in milliseconds since the Unix epoch.
    ///
    /// # Errors
    /// As [`Client::call_raw`].
    pub async fn ping(&self, deadline: Option<Duration>) -> Result<u64, CallError> {
        Ok(self.typed::<Ping>(&(), deadline).await?.ts)
    }

    /// `features.lookup`: one [`features_lookup::Rows`] a table, in the call's order.
    ///
    /// # Errors
    /// As [`Client::call_raw`].
    pub async fn features_lookup(
        &self,
        call: &features_lookup::Call<'_>,
        deadline: Option<Duration>,
    ) -> Result<Vec<features_lookup::Rows<'static>>, CallError> {
        let answer = self.typed::<FeaturesLookup>(call, deadline);
        Ok(match answer.await? {
            features_lookup::Answer::One(rows) => vec![rows],
            features_lookup::Answer::Many(many) => many.lookups,
        })
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
        let answer = self.typed::<OrderedGet>(call, deadline).await?;
        let found = answer.values.into_iter().zip(answer.versions);
        Ok(found
            .map(|(value, version)| value.map(|value| (value.into_owned(), version)))
            .collect())
    }

    /// `ordered.put`: the versions written, and what they survive.
    ///
    /// # Errors
    /// As [`Client::call_raw`]. After [`CallError::Timeout`] and [`CallError::Closed`] the put may have been written.
    pub async fn ordered_put(
        &self,
        call: &ordered_put::Call<'_>,
        deadline: Option<Duration>,
    ) -> Result<ordered_put::Answer<'static>, CallError> {
        self.typed::<OrderedPut>(call, deadline).await
    }

    /// `ordered.remove`: how many keys were there, and what their removal survives.
    ///
    /// # Errors
    /// As [`Client::ordered_put`].
    pub async fn ordered_remove(
        &self,
        call: &ordered_remove::Call<'_>,
        deadline: Option<Duration>,
    ) -> Result<ordered_remove::Answer<'static>, CallError> {
        self.typed::<OrderedRemove>(call, deadline).await
    }

    /// `ordered.remove_prefix`: how many keys were removed, and whether there are more.
    ///
    /// # Errors
    /// As [`Client::ordered_put`].
    pub async fn ordered_remove_prefix(
        &self,
        call: &ordered_remove_prefix::Call<'_>,
        deadline: Option<Duration>,
    ) -> Result<ordered_remove_prefix::Answer<'static>, CallError> {
        self.typed::<OrderedRemovePrefix>(call, deadline).await
    }

    /// `ordered.increment`: the sum, its version, and what it survives.
    ///
    /// # Errors
    /// As [`Client::ordered_put`]. Whoever repeats it may have added twice.
    pub async fn ordered_increment(
        &self,
        call: &ordered_increment::Call<'_>,
        deadline: Option<Duration>,
    ) -> Result<ordered_increment::Answer<'static>, CallError> {
        self.typed::<OrderedIncrement>(call, deadline).await
    }

    /// `ordered.expire`: how many keys were there, and what their new time survives.
    ///
    /// # Errors
    /// As [`Client::ordered_put`].
    pub async fn ordered_expire(
        &self,
        call: &ordered_expire::Call<'_>,
        deadline: Option<Duration>,
    ) -> Result<ordered_expire::Answer<'static>, CallError> {
        self.typed::<OrderedExpire>(call, deadline).await
    }

    /// `ordered.concatenate`: how many bytes the value has then, its version, and what that survives.
    ///
    /// # Errors
    /// As [`Client::ordered_put`]. Whoever repeats it may have added twice.
    pub async fn ordered_concatenate(
        &self,
        call: &ordered_concatenate::Call<'_>,
        deadline: Option<Duration>,
    ) -> Result<ordered_concatenate::Answer<'static>, CallError> {
        self.typed::<OrderedConcatenate>(call, deadline).await
    }

    /// `ordered.append`: how many items the list has then, its version, and what that survives.
    ///
    /// # Errors
    /// As [`Client::ordered_put`]. Whoever repeats it may have added twice.
    pub async fn ordered_append(
        &self,
        call: &ordered_append::Call<'_>,
        deadline: Option<Duration>,
    ) -> Result<ordered_append::Answer<'static>, CallError> {
        self.typed::<OrderedAppend>(call, deadline).await
    }

    /// `ordered.items`: items of a list, the newest first.
    ///
    /// # Errors
    /// As [`Client::call_raw`].
    pub async fn ordered_items(
        &self,
        call: &ordered_items::Call<'_>,
        deadline: Option<Duration>,
    ) -> Result<ordered_items::Answer<'static>, CallError> {
        self.typed::<OrderedItems>(call, deadline).await
    }

    /// `ordered.trim`: how many items are left, the key's version, and what that survives.
    ///
    /// # Errors
    /// As [`Client::ordered_put`].
    pub async fn ordered_trim(
        &self,
        call: &ordered_trim::Call<'_>,
        deadline: Option<Duration>,
    ) -> Result<ordered_trim::Answer<'static>, CallError> {
        self.typed::<OrderedTrim>(call, deadline).await
    }

    /// `ordered.inspect`: what keys are, without their values, or what the store holds.
    ///
    /// # Errors
    /// As [`Client::call_raw`].
    pub async fn ordered_inspect(
        &self,
        call: &ordered_inspect::Call<'_>,
        deadline: Option<Duration>,
    ) -> Result<ordered_inspect::Answer<'static>, CallError> {
        self.typed::<OrderedInspect>(call, deadline).await
    }

    /// `ordered.batch`: what each operation found or did, and what the batch survives.
    ///
    /// # Errors
    /// As [`Client::ordered_put`].
    pub async fn ordered_batch(
        &self,
        call: &ordered_batch::Call<'_>,
        deadline: Option<Duration>,
    ) -> Result<ordered_batch::Answer<'static>, CallError> {
        self.typed::<OrderedBatch>(call, deadline).await
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
        self.typed::<OrderedScan>(call, deadline).await
    }

    /// `infer`: the outputs of a call with named tensors, one score a sample of a call with samples.
    ///
    /// # Errors
    /// As [`Client::call_raw`].
    pub async fn infer(
        &self,
        call: &infer::Call<'_>,
        deadline: Option<Duration>,
    ) -> Result<infer::Answer<'static>, CallError> {
        self.typed::<Infer>(call, deadline).await
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
        self.typed::<Rank>(call, deadline).await
    }

    async fn typed<M: Method>(
        &self,
        call: &Of<'_, M::Call>,
        deadline: Option<Duration>,
    ) -> Result<Of<'static, M::Answer>, CallError> {
        let mut payload = Vec::new();
        M::Call::write(call, &mut Encoder::new(&mut payload, Encoding::Msgpack, false));
        let answer = self.call(M::NAME, &payload, deadline).await?;
        Payload::new(Encoding::Msgpack, &answer)
            .and_then(|answer| Ok(M::Answer::own(M::Answer::decode(&answer)?.0)))
            .map_err(|error| self.misread(M::NAME, "the answer", &error))
    }
}
