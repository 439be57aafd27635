//! What has to hold whatever is done to the server, looked at from outside, one file a promise.
//!
//! That answers are right is checked where calls are made (`load`), and puts by what callers know of them (`ledger`).

pub mod fresh;
pub mod memory;
pub mod mixed;
pub mod ready;
pub mod service;
pub mod stop;
pub mod store;
pub mod table;
