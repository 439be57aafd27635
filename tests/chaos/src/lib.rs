//! The chaos campaign: a real server, loaded from every front, hurt in every way this machine allows, and looked at from
//! outside (docs/reliability.md).
//!
//! It links nothing of the server but what reads and writes its wire. Its invariant: what it plans follows from a seed, and what it
//! reports was seen at the server's ports, in its files or in /proc.

pub mod campaign;
pub mod certificates;
pub mod configuration;
pub mod fault;
pub mod finding;
pub mod followers;
pub mod fresh;
pub mod front;
pub mod invariant;
pub mod ledger;
pub mod life;
pub mod load;
pub mod means;
pub mod mixed;
pub mod plan;
pub mod round;
pub mod scene;
pub mod server;
pub mod settings;
pub mod table;
pub mod tally;
