//! CLIENT: the connection's number, name and library.
//! Its invariant: it tells of no connection but its own.

use super::connection::name;
use super::{Here, SYNTAX, help, lower, no_subcommand, wrong_number};
use millpond_net::RemoteAddr;
use millpond_wire_frame::RespWords;

const SUBCOMMANDS: &[(&str, &str)] = &[
    ("GETNAME", "Return the name of this connection."),
    ("ID", "Return the number of this connection."),
    ("INFO", "Tell of this connection."),
    ("LIST", "Tell of this connection, and of no other."),
    ("NO-EVICT (ON|OFF)", "Change nothing: no connection is evicted."),
    (
        "NO-TOUCH (ON|OFF)",
        "Change nothing: no key has a time of its last use.",
    ),
    (
        "SETINFO (LIB-NAME|LIB-VER) <value>",
        "Name the client's library, or its version.",
    ),
    ("SETNAME <name>", "Name this connection."),
];

pub(super) fn client(here: &mut Here<'_>, mut words: RespWords<'_>, out: &mut Vec<u8>) {
    let given = words.next().unwrap_or_default();
    let rest: Vec<&[u8]> = words.take(3).collect();
    match (lower(given).as_str(), &rest[..]) {
        ("id", []) => here
            .reply(out)
            .integer(i64::try_from(here.connection).unwrap_or(i64::MAX)),
        ("getname", []) => match &*here.state.name {
            "" => here.reply(out).nil(),
            name => here.reply(out).bulk(name.as_bytes()),
        },
        ("setname", [given]) => match name(given) {
            Ok(name) => {
                here.state.name = name;
                here.reply(out).status("OK");
            }
            Err(text) => here.reply(out).error(&text),
        },
        ("setinfo", [attribute, value]) => set_info(here, attribute, value, out),
        ("list" | "info", []) => here.reply(out).verbatim(&format!("{}\n", line(here))),
        // No client is evicted, and no key has a time of its last use.
        ("no-evict" | "no-touch", [mode]) => match lower(mode).as_str() {
            "on" | "off" => here.reply(out).status("OK"),
            _ => here.reply(out).error(SYNTAX),
        },
        ("help", []) => help("client", SUBCOMMANDS, &mut here.reply(out)),
        (
            "id" | "getname" | "setname" | "setinfo" | "list" | "info" | "no-evict" | "no-touch" | "help",
            _,
        ) => {
            let command = format!("client|{}", lower(given));
            here.reply(out).error(&wrong_number(&command));
        }
        _ => here.reply(out).error(&no_subcommand("client", given)),
    }
}

fn set_info(here: &mut Here<'_>, attribute: &[u8], value: &[u8], out: &mut Vec<u8>) {
    let attribute = lower(attribute);
    let place = ["lib-name", "lib-ver"]
        .iter()
        .position(|known| *known == attribute);
    let slot = place.and_then(|place| here.state.library.get_mut(place));
    let text = match (slot, name(value)) {
        (None, _) => format!("ERR Unrecognized option '{attribute}'"),
        (Some(_), Err(_)) => {
            format!("ERR {attribute} cannot contain spaces, newlines or special characters.")
        }
        (Some(slot), Ok(value)) => {
            *slot = value;
            return here.reply(out).status("OK");
        }
    };
    here.reply(out).error(&text);
}

fn line(here: &Here<'_>) -> String {
    let state = &here.state;
    let RemoteAddr(address) = here.peer;
    let address = address.map_or("unix".to_owned(), |address| address.to_string());
    let [library, version] = &state.library;
    format!(
        "id={} addr={address} name={} flags=N db={} resp={} lib-name={library} lib-ver={version}",
        here.connection,
        state.name,
        state.database,
        state.version.number()
    )
}
