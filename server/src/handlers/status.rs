//! `*status`: whether calls are taken, in one boolean, as FPNN's tools ask it.
//! Its invariant: it is answered while the server warms up and while it drains, and false then.

use crate::Shared;
use millpond_wire_schema::{Field as _, own::IsServing};
use millpond_wire_transport::Reply;

pub(crate) fn answer(shared: &Shared, reply: Reply<'_>) {
    let status = shared.is_ready();
    reply.ok(|out| IsServing::write(&IsServing { status }, out));
}
