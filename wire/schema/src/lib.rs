//! What the methods' payloads hold: one file a method, and one table of errors.
//!
//! A method's call and answer are declared once; their reading, writing, owned form, documentation and fuzzing follow from
//! the declaration. It is not a server: no handler, no socket, no engine. Its invariant: whatever is written is read back,
//! in msgpack and in JSON.
//!
//! ```
//! use millpond_wire_schema::{Field, features_lookup::Lookup, payload::{Encoding, Payload}};
//!
//! let payload = Payload::new(Encoding::Json, br#"{"table": "films", "keys": [1, 2, 3]}"#).unwrap();
//! let (lookup, _) = Lookup::decode(&payload).unwrap();
//! assert_eq!(lookup.keys, Some(vec![1, 2, 3]));
//! ```

mod declare;
pub mod features_activate;
pub mod features_delete;
pub mod features_fresh;
pub mod features_inspect;
pub mod features_lookup;
pub mod features_missed;
pub mod features_rollback;
pub mod features_scan;
pub mod features_upsert;
pub mod features_versions;
pub mod field;
pub mod infer;
mod method;
pub mod ordered_append;
pub mod ordered_batch;
pub mod ordered_checkpoint;
pub mod ordered_clear;
pub mod ordered_concatenate;
pub mod ordered_copy;
pub mod ordered_expire;
pub mod ordered_follow;
pub mod ordered_get;
pub mod ordered_increment;
pub mod ordered_inspect;
pub mod ordered_items;
pub mod ordered_promote;
pub mod ordered_put;
pub mod ordered_remove;
pub mod ordered_remove_prefix;
pub mod ordered_scan;
pub mod ordered_trim;
pub mod rank;
pub mod run;
pub mod status;
pub mod system;
#[cfg(test)]
mod tests;
pub mod tune;

pub use field::{Field, Key, Of};
pub use method::{Method, MethodSchema, Side};
pub use millpond_wire_payload as payload;
pub use status::{Code, Reason, Status};

method::methods! {
    Ping: "*ping" reads, () => system::Pong<'static>;
    ServerStatus: "*status" reads, () => system::IsServing<'static>;
    Infos: "*infos" reads, () => system::AllInfos<'static>;
    Tune: "*tune" changes, tune::Call<'static> => tune::Answer<'static>;
    FeaturesLookup: "features.lookup" reads, features_lookup::Call<'static> => features_lookup::Answer<'static>;
    FeaturesScan: "features.scan" reads, features_scan::Call<'static> => features_scan::Answer<'static>;
    FeaturesUpsert: "features.upsert" changes, features_upsert::Call<'static> => features_upsert::Answer<'static>;
    FeaturesMissed: "features.missed" changes, features_missed::Call<'static> => features_missed::Answer<'static>;
    FeaturesFresh: "features.fresh" reads, features_fresh::Call<'static> => features_fresh::Answer<'static>;
    FeaturesInspect: "features.inspect" reads, features_inspect::Call<'static> => features_inspect::Answer<'static>;
    FeaturesVersions: "features.versions" reads, features_versions::Call<'static> => features_versions::Answer<'static>;
    FeaturesActivate: "features.activate" changes, features_activate::Call<'static> => features_versions::Answer<'static>;
    FeaturesRollback: "features.rollback" changes, features_rollback::Call<'static> => features_versions::Answer<'static>;
    FeaturesDelete: "features.delete" changes, features_delete::Call<'static> => features_versions::Answer<'static>;
    OrderedGet: "ordered.get" reads, ordered_get::Call<'static> => ordered_get::Answer<'static>;
    OrderedPut: "ordered.put" changes, ordered_put::Call<'static> => ordered_put::Answer<'static>;
    OrderedRemove: "ordered.remove" changes, ordered_remove::Call<'static> => ordered_remove::Answer<'static>;
    OrderedRemovePrefix: "ordered.remove_prefix" changes, ordered_remove_prefix::Call<'static> => ordered_remove_prefix::Answer<'static>;
    OrderedClear: "ordered.clear" changes, ordered_clear::Call<'static> => ordered_clear::Answer<'static>;
    OrderedCheckpoint: "ordered.checkpoint" changes, ordered_checkpoint::Call<'static> => ordered_checkpoint::Answer<'static>;
    OrderedIncrement: "ordered.increment" changes, ordered_increment::Call<'static> => ordered_increment::Answer<'static>;
    OrderedExpire: "ordered.expire" changes, ordered_expire::Call<'static> => ordered_expire::Answer<'static>;
    OrderedConcatenate: "ordered.concatenate" changes, ordered_concatenate::Call<'static> => ordered_concatenate::Answer<'static>;
    OrderedAppend: "ordered.append" changes, ordered_append::Call<'static> => ordered_append::Answer<'static>;
    OrderedItems: "ordered.items" reads, ordered_items::Call<'static> => ordered_items::Answer<'static>;
    OrderedTrim: "ordered.trim" changes, ordered_trim::Call<'static> => ordered_trim::Answer<'static>;
    OrderedBatch: "ordered.batch" changes, ordered_batch::Call<'static> => ordered_batch::Answer<'static>;
    OrderedScan: "ordered.scan" reads, ordered_scan::Call<'static> => ordered_scan::Answer<'static>;
    OrderedInspect: "ordered.inspect" reads, ordered_inspect::Call<'static> => ordered_inspect::Answer<'static>;
    OrderedFollow: "ordered.follow" changes, ordered_follow::Call<'static> => ordered_follow::Answer<'static>;
    OrderedCopy: "ordered.copy" changes, ordered_copy::Call<'static> => ordered_copy::Answer<'static>;
    OrderedPromote: "ordered.promote" changes, ordered_promote::Call<'static> => ordered_promote::Answer<'static>;
    Infer: "infer" reads, infer::Call<'static> => infer::Answer<'static>;
    Rank: "rank" reads, rank::Call<'static> => rank::Answer<'static>;
    Run: "run" reads, run::Call<'static> => run::Answer<'static>;
}
