//! `*infos` in a process whose ordered stores another one has: what that says of them stands among what this one says of itself.
//!
//! Its invariant: it is answered in time; where the other process says nothing, without the stores.

use crate::{Engines, Served, infos};
use millpond_calls::{
    Detached, NodeAnswer, NodeCall, NodeError, NodeSink, Outbound, OutboundTimer, forwarded,
};
use millpond_wire_payload::{Encoding, Payload};
use millpond_wire_schema::{Field as _, Infos, Method as _, Status, system::AllInfos};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long the other process is waited for.
const WAIT_MAX: Duration = Duration::from_secs(1);
/// A map without entries.
const NOTHING: &[u8] = &[0x80];
/// Where the stores stand.
const STORES: &str = "ordered";

pub(crate) fn serve(call: &mut Served<'_>, payload: &Payload<'_>) -> Result<(), Status> {
    let process = call.calls.stores_at().cloned();
    let (Some(process), Some((outbound, _))) = (process, call.outbound()) else {
        return infos::serve(call, payload);
    };
    <()>::decode(payload)?;
    let (own, now) = (call.host.infos(), call.asked.clock.read());
    // A lone process answers without a place among the calls in flight: where there is none, this one answers without the stores.
    let Ok(permit) = call.calls.admission.enter() else {
        return infos::serve(call, payload);
    };
    let waiting = Arc::new(Mutex::new(Some((call.detach(Some(permit), None)?, own))));
    let late = Arc::clone(&waiting);
    let timer = outbound.at(now + WAIT_MAX, Box::new(move |_, _| answer(&late, None)));
    outbound.send_on(NodeCall {
        node: process,
        encoding: Encoding::Msgpack,
        method: Infos::NAME,
        payload: forwarded(WAIT_MAX.as_millis() as u64, NOTHING),
        sink: Box::new(Asked { waiting, timer }),
    });
    Ok(())
}

/// What is answered once, and what is known without the other process.
type Waiting = Mutex<Option<(Detached<Engines>, AllInfos<'static>)>>;

/// The other process is asked.
struct Asked {
    waiting: Arc<Waiting>,
    timer: OutboundTimer,
}

impl NodeSink for Asked {
    fn ended(self: Box<Self>, outbound: &Outbound, _: Instant, said: Result<NodeAnswer<'_>, NodeError>) {
        outbound.cancel(&self.timer);
        answer(&self.waiting, said.ok());
    }
}

fn answer(waiting: &Waiting, said: Option<NodeAnswer<'_>>) {
    let taken = waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some((detached, mut own)) = taken else { return };
    let payload = said.map(|said| Payload::new(said.encoding, said.payload));
    if let Some(Ok(payload)) = payload
        && let Ok((there, _)) = AllInfos::decode(&payload)
    {
        let mut of_stores = there.millpond.0.into_iter();
        let of_stores = of_stores.find(|(name, _)| name == STORES);
        let place = own.millpond.0.iter_mut().find(|(name, _)| name == STORES);
        if let (Some((_, found)), Some((_, place))) = (of_stores, place) {
            *place = found.into_owned();
        }
    }
    detached.answer(|out| AllInfos::write(&own, out));
}
