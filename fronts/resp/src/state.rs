//! What a connection keeps between its commands.
//! Its invariant: the texts of a client are bounded, and no log shows its token.

use millpond_wire_frame::{RespProgress, RespVersion};

/// Bytes of a client's name, and of each text of CLIENT SETINFO.
pub(crate) const NAME_BYTES_MAX: usize = 128;
/// Bytes of a token.
pub(crate) const TOKEN_BYTES_MAX: usize = 1024;

/// Bytes of a connection's state at most, its texts included.
pub const STATE_BYTES: u64 = (size_of::<State>() + 3 * NAME_BYTES_MAX + TOKEN_BYTES_MAX) as u64;

/// See this module.
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
    /// CLIENT SETNAME.
    pub(crate) name: Box<str>,
    /// CLIENT SETINFO lib-name and lib-ver.
    pub(crate) library: [Box<str>; 2],
}
