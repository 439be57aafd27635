//! FLUSHDB and FLUSHALL: each one `ordered.clear`, which a token opens alone.
//! Its invariant: what is not selected keeps its keys.

use super::begin_map;
use crate::commands::{Asked, Asking, SYNTAX};
use crate::databases::Holds;
use millpond_wire_frame::RespWords;
use millpond_wire_schema::{Method as _, OrderedClear};

pub(in crate::commands) fn selected(asking: &mut Asking<'_>, words: RespWords<'_>) -> Result<Asked, String> {
    check_mode(words)?;
    let name = asking.database.map_or("", |database| &database.name);
    begin_map(asking.payload, name, 1);
    Ok(Asked::of(OrderedClear::NAME, |_, _, reply| {
        reply.status("OK");
        Ok(())
    }))
}

/// SYNC, ASYNC or nothing: either way others are served meanwhile, and the reply comes when all is gone.
fn check_mode(mut words: RespWords<'_>) -> Result<(), String> {
    let is_mode = |mode: &[u8]| mode.eq_ignore_ascii_case(b"sync") || mode.eq_ignore_ascii_case(b"async");
    match (words.next(), words.next()) {
        (None, _) => Ok(()),
        (Some(mode), None) if is_mode(mode) => Ok(()),
        _ => Err(SYNTAX.to_owned()),
    }
}

/// One call clears one store.
pub(in crate::commands) fn all(asking: &mut Asking<'_>, words: RespWords<'_>) -> Result<Asked, String> {
    check_mode(words.clone())?;
    let stores = asking.databases.all();
    match stores.filter(|database| database.holds == Holds::Store).count() {
        0 | 1 => selected(asking, words),
        count => Err(format!(
            "ERR FLUSHALL means {count} stores; SELECT each and FLUSHDB"
        )),
    }
}
