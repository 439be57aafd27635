//! INFO: what `*infos` says, under the names that Redis has for it.
//! Its invariant: it names no file and no peer.

use super::{Asked, Asking, lower};
use crate::databases::Holds;
use crate::form::Form;
use millpond_wire_frame::{Encoding, RespWords};
use millpond_wire_payload::{Encoder, Map, Payload, Read, Value};
use millpond_wire_schema::system::AllInfos;
use millpond_wire_schema::{Field as _, Infos, Method as _};
use std::sync::Arc;

/// The version of Redis whose commands these are, for clients that ask what they may send.
const REDIS_VERSION: &str = "7.4.0";
/// Sections of INFO, in their order.
const SECTIONS: [(&str, Section); 6] = [
    ("Server", server),
    ("Clients", clients),
    ("Memory", memory),
    ("Stats", stats),
    ("Replication", replication),
    ("Keyspace", keyspace),
];

/// Appends the lines of a section.
type Section = fn(&Map<'_>, &Form, &mut String);

pub(super) fn info(asking: &mut Asking<'_>, words: RespWords<'_>) -> Result<Asked, String> {
    Encoder::new(asking.payload, Encoding::Msgpack, false).map(|_| ());
    let sections: Vec<String> = words.map(lower).collect();
    let is_all = |section: &String| ["all", "default", "everything"].contains(&section.as_str());
    let wanted = !sections.is_empty() && !sections.iter().any(is_all);
    let text = wanted.then(|| Arc::from(sections.join(" ").into_bytes()));
    let asked = Asked::of(Infos::NAME, |answer, form, reply| {
        reply.verbatim(&text_of(answer, form)?);
        Ok(())
    });
    Ok(Asked { text, ..asked })
}

fn text_of(answer: &Payload<'_>, form: &Form) -> Read<String> {
    let infos = AllInfos::decode(answer)?.0.millpond;
    let wanted = form.asked.text.as_deref().map(String::from_utf8_lossy);
    let mut text = String::new();
    for (name, section) in SECTIONS {
        let is_wanted = |wanted: &str| wanted.split(' ').any(|wanted| wanted.eq_ignore_ascii_case(name));
        if !wanted.as_deref().is_none_or(is_wanted) {
            continue;
        }
        if !text.is_empty() {
            text.push_str("\r\n");
        }
        text.push_str(&format!("# {name}\r\n"));
        section(&infos, form, &mut text);
    }
    Ok(text)
}

fn server(infos: &Map<'_>, form: &Form, text: &mut String) {
    line(text, "redis_version", REDIS_VERSION);
    line(text, "redis_mode", "standalone");
    line(text, "server_name", "millpond");
    line(text, "millpond_version", form.server_version);
    line(text, "process_id", &number(infos, "pid"));
    line(text, "uptime_in_seconds", &number(infos, "uptime_s"));
}

fn clients(infos: &Map<'_>, _: &Form, text: &mut String) {
    line(text, "connected_clients", &number(infos, "connections_live"));
    // No command waits for another client's.
    line(text, "blocked_clients", "0");
}

/// Of all stores with a number: what a table maps is the system's cache.
fn memory(infos: &Map<'_>, form: &Form, text: &mut String) {
    line(text, "used_memory", &of_stores(infos, form, "memory_bytes"));
}

fn stats(infos: &Map<'_>, form: &Form, text: &mut String) {
    line(
        text,
        "total_connections_received",
        &number(infos, "connections_accepted"),
    );
    line(
        text,
        "rejected_connections",
        &number(infos, "connections_refused"),
    );
    line(text, "total_commands_processed", &calls(infos).to_string());
    line(text, "evicted_keys", &of_stores(infos, form, "evicted"));
}

/// The sum over all stores with a number.
fn of_stores(infos: &Map<'_>, form: &Form, name: &str) -> String {
    let stores = form.databases.all();
    let stores = stores.filter(|database| database.holds == Holds::Store);
    let counts = stores.filter_map(|store| uint(held(infos, "ordered", &store.name)?.get(name)));
    counts.sum::<u64>().to_string()
}

/// Calls of all methods that have ended, of which several commands may be one.
fn calls(infos: &Map<'_>) -> u64 {
    let Some(Value::Map(methods)) = infos.get("methods") else {
        return 0;
    };
    let ended = methods.0.iter().filter_map(|(_, method)| match method {
        Value::Map(method) => Some(["answered", "failed"].map(|name| uint(method.get(name)).unwrap_or(0))),
        _ => None,
    });
    ended.flatten().sum()
}

/// Of the store that is selected; a table takes no writes and follows nobody.
fn replication(infos: &Map<'_>, form: &Form, text: &mut String) {
    let selected = form.database.filter(|database| database.holds == Holds::Store);
    let store = selected.and_then(|database| held(infos, "ordered", &database.name));
    let follows = store.is_some_and(|store| matches!(store.get("leads"), Some(Value::UInt(0))));
    line(text, "role", if follows { "slave" } else { "master" });
    let followers = store.map_or_else(|| "0".to_owned(), |store| number(store, "followers"));
    line(text, "connected_slaves", &followers);
}

fn keyspace(infos: &Map<'_>, form: &Form, text: &mut String) {
    for database in form.databases.all() {
        let (group, keys) = match database.holds {
            Holds::Table(_) => ("features", "rows"),
            Holds::Store => ("ordered", "keys"),
        };
        let Some(held) = held(infos, group, &database.name) else {
            continue;
        };
        let (name, keys) = (format!("db{}", database.number), number(held, keys));
        // 0 for a table; when a key of a store expires on average is not known.
        let expiring = number(held, "expiring");
        line(text, &name, &format!("keys={keys},expires={expiring},avg_ttl=0"));
    }
}

/// What is said of a table or a store.
fn held<'m, 'i>(infos: &'m Map<'i>, group: &str, name: &str) -> Option<&'m Map<'i>> {
    let Some(Value::Map(group)) = infos.get(group) else {
        return None;
    };
    match group.get(name) {
        Some(Value::Map(held)) => Some(held),
        _ => None,
    }
}

fn line(text: &mut String, name: &str, value: &str) {
    text.push_str(&format!("{name}:{value}\r\n"));
}

fn number(infos: &Map<'_>, name: &str) -> String {
    uint(infos.get(name)).unwrap_or(0).to_string()
}

fn uint(value: Option<&Value<'_>>) -> Option<u64> {
    match value {
        Some(Value::UInt(number)) => Some(*number),
        _ => None,
    }
}
