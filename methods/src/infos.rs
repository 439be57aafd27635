//! `*infos`: what is running and what it has counted, as the process around the methods tells it.
//! Its invariant: a call with keys of its own is refused before anything is counted up.

use crate::Served;
use millpond_wire_payload::Payload;
use millpond_wire_schema::{Field as _, Status, system::AllInfos};

pub(crate) fn serve(call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    <()>::decode(payload)?;
    let host = call.host;
    call.answer(None, |out| AllInfos::write(&host.infos(), out));
    Ok(())
}
