//! `*tune`: changes one setting of the running server, with FPNN's names for them.
//!
//! Nothing is written to the configuration: a restart has the old values. Its invariant: a key or value that is refused
//! changed nothing, and says which keys or values there are.

use crate::Shared;
use crate::access::Net;
use crate::config::Level;
use millpond_wire_schema::frame::Map;
use millpond_wire_schema::{Code, Status, tune as schema};
use millpond_wire_transport::{Answered, Reply};

/// A key with what changes it; that gives the value it has now, or what is wrong.
type Setting = (&'static str, fn(&Shared, &str) -> Result<String, String>);

const SETTINGS: [Setting; 6] = [
    ("server.log.level", log_level),
    ("server.slow.log", slow_log),
    ("server.stat", stat),
    ("server.security.ip.whiteList.enable", list_enable),
    ("server.security.ip.whiteList.addIP", list_add),
    ("server.security.ip.whiteList.removeIP", list_remove),
];

/// What was changed.
pub(crate) struct Tuned {
    key: &'static str,
    value: String,
}

impl Tuned {
    pub(crate) fn answer<'r>(&self, reply: Reply<'r>) -> Answered<'r> {
        reply.answer(|out| schema::encode_answer(out, self.key, &self.value))
    }
}

/// Changes what the call asks for; its token was checked.
pub(crate) fn tuned(shared: &Shared, map: Map<'_>) -> Result<Tuned, Status> {
    let (call, _) = schema::Call::decode(map)?;
    let tuned = set(shared, &call.key, &call.value).map_err(|ex| Status::new(Code::BadArgument, ex))?;
    if let Some(sibling) = shared.sibling.get() {
        sibling.tuned(tuned.key, &call.value);
    }
    Ok(tuned)
}

/// Changes what was changed in another process of this server.
pub(crate) fn follow(shared: &Shared, key: &str, value: &str) -> Result<(), String> {
    set(shared, key, value).map(drop)
}

fn set(shared: &Shared, key: &str, value: &str) -> Result<Tuned, String> {
    let known = SETTINGS.iter().find(|(known, _)| *known == key);
    let Some((key, set)) = known else {
        let keys = SETTINGS.map(|(key, _)| key).join(", ");
        return Err(format!(
            "key \"key\" is {key:?}, which cannot be tuned; keys are {keys}"
        ));
    };
    let value = set(shared, value.trim())
        .map_err(|problem| format!("key \"value\" is {value:?} for {key}: {problem}"))?;
    tracing::warn!(key, value, "tuned");
    Ok(Tuned { key, value })
}

fn log_level(shared: &Shared, value: &str) -> Result<String, String> {
    let level =
        Level::named(value).ok_or("expected trace or 1, debug or 2, info or 3, warn or 4, error or 5")?;
    let log = shared
        .log()
        .ok_or("this process writes its log otherwise; set the level there")?;
    log.set_level(level);
    Ok(level.name().to_owned())
}

fn slow_log(shared: &Shared, value: &str) -> Result<String, String> {
    let ms: u64 = value
        .parse()
        .map_err(|_| "expected milliseconds as a whole number; 0 turns the slow log off")?;
    shared.slow.set_ms(ms);
    Ok(shared.slow.ms().to_string())
}

fn stat(shared: &Shared, value: &str) -> Result<String, String> {
    shared.metrics.set_on(on_or_off(value)?);
    Ok(shared.metrics.is_on().to_string())
}

fn list_enable(shared: &Shared, value: &str) -> Result<String, String> {
    let list = &shared.access.addresses;
    list.set_on(on_or_off(value)?)?;
    Ok(list.is_on().to_string())
}

fn list_add(shared: &Shared, value: &str) -> Result<String, String> {
    let list = &shared.access.addresses;
    list.add(Net::parse(value)?);
    Ok(list.shown())
}

fn list_remove(shared: &Shared, value: &str) -> Result<String, String> {
    let list = &shared.access.addresses;
    list.remove(Net::parse(value)?)?;
    Ok(list.shown())
}

fn on_or_off(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}
