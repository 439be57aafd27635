//! `*status`: whether calls are taken, in one boolean, as FPNN's tools ask it.
//! Its invariant: it is answered while the server warms up and while it drains, and false then.

use crate::{Served, tell};
use millpond_wire_payload::Payload;
use millpond_wire_schema::{Status, system::IsServing};

pub(crate) fn serve(call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let status = call.host.is_ready();
    tell::<IsServing<'static>>(call, payload, &IsServing { status })
}
