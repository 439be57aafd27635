//! Feature tables: batch lookup and pooling over immutable versions, and fresh rows over them.
//!
//! A table maps `u64` keys to rows of numbers or bytes. Each version of it is a folder that never changes
//! (docs/formats/feature-shard.md); [`write::Writer`] makes one and a [`Table`] reads one, each shard by a perfect hash
//! function. An [`Overlay`] holds the rows that were upserted since, in memory and in a log (docs/formats/overlay-log.md), and
//! [`fold`] writes them as the next version. This crate never sees a socket, a wire type or another engine. Its one
//! invariant: an opened table answers every lookup, without locks or panics, whatever bytes its files hold.
//!
//! ```
//! use millpond_engines_features::{Pool, Schema, Table, write::Writer};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dir = tempfile::tempdir()?;
//! let table_dir = dir.path().join("films");
//!
//! let mut writer = Writer::create(&table_dir, "films", 1, Schema::floats(2), 1)?;
//! writer.push(7, &[1.0, 2.0])?;
//! writer.push(u64::MAX, &[3.0, 4.0])?;
//! writer.finish()?;
//!
//! let mut table = Table::open_version(&table_dir, None)?;
//! table.make_resident()?;
//!
//! let (mut values, mut found) = ([0.0; 6], [0; 1]);
//! assert_eq!(table.lookup(&[u64::MAX, 5, 7], &mut values, &mut found), 2);
//! assert_eq!(values, [3.0, 4.0, 0.0, 0.0, 1.0, 2.0]);
//! assert_eq!(found, [0b101]);
//!
//! let mut pooled = [0.0; 4];
//! table.lookup_pooled(&[7, 5, u64::MAX], &[0, 3, 3], Pool::Mean, &mut pooled, &mut found)?;
//! assert_eq!(pooled, [2.0, 3.0, 0.0, 0.0]);
//! # Ok(())
//! # }
//! ```
//!
//! Upserts show over the version that a table reads:
//!
//! ```
//! use millpond_engines_features::{Durability, Overlay, OverlaySection, Schema, Table, Upsert, write::Writer};
//! use std::sync::{Arc, mpsc::sync_channel};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let dir = tempfile::tempdir()?;
//! let table_dir = dir.path().join("films");
//! let mut writer = Writer::create(&table_dir, "films", 1, Schema::floats(2), 1)?;
//! writer.push(7, &[1.0, 2.0])?;
//! writer.finish()?;
//! let mut table = Table::open_version(&table_dir, None)?;
//!
//! let section = OverlaySection { durability: Durability::Memory, ..OverlaySection::default() };
//! let (overlay, _) = Overlay::open(&section, &table, 1 << 20)?;
//! table.see(&overlay)?;
//! let table = Arc::new(table);
//!
//! let columns: [&str; 0] = [];
//! let upsert = Upsert::new(&table, vec![8], &columns, &[5.0, 6.0], vec![7])?;
//! let (done, ended) = sync_channel(1);
//! overlay.upsert(upsert, move |end| drop(done.send(end)));
//! assert_eq!(ended.recv()??.sequence, 1);
//!
//! let (mut values, mut found) = ([0.0; 4], [0; 1]);
//! assert_eq!(table.lookup(&[7, 8], &mut values, &mut found), 1);
//! assert_eq!(values, [0.0, 0.0, 5.0, 6.0]);
//! assert_eq!(found, [0b10]);
//! # Ok(())
//! # }
//! ```

mod active;
mod check;
mod counts;
mod error;
mod files;
mod format1;
mod guard;
mod hash;
mod header;
mod layer;
mod lookup;
mod manifest;
mod map;
mod node_share;
mod overlay;
mod pages;
mod projection;
mod received;
mod rows;
mod scan;
mod schema;
mod section;
mod shard;
mod source;
mod table;
mod varying;
mod versions;
pub mod write;

pub use active::{
    Active, activate_at_start, delete_at_start, delete_unused_version, roll_back_at_start, version_at_start,
};
pub use check::{CheckedLayers, check_opens};
pub use counts::LookupStart;
pub use error::Error;
pub use hash::text_key;
pub use lookup::Pool;
pub use millpond_wal::{Durability, QueueError};
pub use node_share::{HeldBuckets, NodeShare};
pub use overlay::{
    Fold, FoldVersion, Folded, FreshPage, FreshRow, Hidden, Lost, Overlay, OverlayRecovery, OverlaySection,
    Settled, Stamp, UPSERT_BYTES_MAX, Upsert, UpsertError, Upserted, fold, hidden_by, hidden_by_version,
    lost_without, stored_rows,
};
pub use projection::{Answered, Projection};
pub use received::{VersionFiles, verify_files, version_files};
pub use rows::Cell;
pub use schema::{Column, DIM_MAX, Keys, NotFinite, Numbers, ROW_BYTES_MAX, Schema};
pub use section::{Memory, RespKeys, Section, WATCH_EVERY_MS};
pub use source::Source;
pub use table::{LAYERS_MAX, ShardInfo, Table};
pub use varying::FoundRows;
pub use versions::{
    Described, VersionInfo, delete_version, describe_version, describe_versions, folder as version_name,
    number as version_number, version_dir, version_infos, versions,
};
