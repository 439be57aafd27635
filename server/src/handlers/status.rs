//! `*status`: whether calls are taken, in one boolean, as FPNN's tools ask it.
//! Its invariant: it is answered while the server warms up and while it drains, and false then.

use crate::Shared;
use millpond_wire_schema::serving;
use millpond_wire_transport::{Answered, Reply};

pub(crate) fn answer<'r>(shared: &Shared, reply: Reply<'r>) -> Answered<'r> {
    let is_serving = shared.is_ready();
    reply.answer(|out| serving::encode_answer(out, is_serving))
}
