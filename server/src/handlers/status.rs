//! `*status`: whether calls are taken, in one boolean, as FPNN's tools ask it.
//! Its invariant: it is answered while the server warms up and while it drains, and false then.

use super::tell;
use crate::router::Call;
use millpond_calls::Reply;
use millpond_wire_payload::Payload;
use millpond_wire_schema::{Field as _, own::IsServing};

pub(crate) fn answer(call: &Call<'_>, payload: &Payload<'_>, reply: Reply<'_>) {
    let status = call.shared.is_ready();
    tell(call, payload, reply, |out| {
        IsServing::write(&IsServing { status }, out)
    });
}
