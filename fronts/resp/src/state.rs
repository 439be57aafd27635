//! What a connection keeps between its commands.
//! Its invariant: the texts of a client are bounded, and no log shows its token.

use crate::again::Again;
use crate::commands::Queued;
use millpond_wire_frame::{RespProgress, RespVersion};
use millpond_wire_schema::features_scan::Cursor;
use std::cell::OnceCell;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a client's name, and of each text of CLIENT SETINFO.
pub(crate) const NAME_BYTES_MAX: usize = 128;
/// Bytes of a token.
pub(crate) const TOKEN_BYTES_MAX: usize = 1024;

/// Bytes of a connection's state at most, its texts included. What a transaction and commands of a refused call hold beside it is counted
/// with requests that are not whole; those of a call that is on its way, up to 128 KiB, are not counted.
pub const STATE_BYTES: u64 =
    (size_of::<State>() + size_of::<Scanned>() + size_of::<Again>() + 3 * NAME_BYTES_MAX + TOKEN_BYTES_MAX)
        as u64;

/// What HELLO, SELECT, AUTH and CLIENT have set on a connection.
#[derive(Default)]
pub(crate) struct State {
    /// What HELLO has chosen.
    pub(crate) version: RespVersion,
    /// What SELECT has chosen.
    pub(crate) database: u32,
    /// What AUTH has brought; every call has it.
    pub(crate) token: Option<Box<str>>,
    /// How far the command is checked that is not whole.
    pub(crate) parsed: RespProgress,
    /// Made by the first SCAN.
    pub(crate) scanned: OnceCell<Arc<Scanned>>,
    /// What MULTI has begun.
    pub(crate) queued: Option<Box<Queued>>,
    /// CLIENT SETNAME.
    pub(crate) name: Box<str>,
    /// CLIENT SETINFO lib-name and lib-ver.
    pub(crate) library: [Box<str>; 2],
}

/// The cursor that the last SCAN of a connection was answered, and its database. A cursor of RESP is a number, which has a few
/// bits of its version; the connection that got it knows the rest.
#[derive(Debug, Default)]
pub(crate) struct Scanned(Mutex<Option<(u32, Cursor)>>);

impl Scanned {
    pub(crate) fn keep(&self, database: u32, cursor: Option<Cursor>) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = cursor.map(|cursor| (database, cursor));
    }

    /// The whole cursor that a number stands for, as this connection got it in that database.
    pub(crate) fn of(&self, database: u32, number: u64) -> Option<Cursor> {
        let kept = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (of, cursor) = kept?;
        (of == database && cursor.to_number() == number).then_some(cursor)
    }
}
