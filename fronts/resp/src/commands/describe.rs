//! COMMAND and CONFIG GET: what clients ask of a server before they use it.
//! Its invariant: it says of a command what its row says, and of what no database has nothing.

use super::{Here, ROWS, Row, SYNTAX, find, help, lower, no_subcommand, wrong_number};
use crate::glob::matches;
use millpond_wire_frame::{RespReply, RespWords};

const SUBCOMMANDS: &[(&str, &str)] = &[
    ("(no subcommand)", "Describe all commands."),
    ("COUNT", "Return the number of commands."),
    (
        "DOCS [<command-name> ...]",
        "Say what commands do: these, or all.",
    ),
    ("INFO [<command-name> ...]", "Describe commands: these, or all."),
    ("LIST", "Return the names of all commands."),
];
const OF_CONFIG: &[(&str, &str)] = &[(
    "GET <pattern> [<pattern> ...]",
    "Return a few settings whose names match, and their values.",
)];

pub(super) fn command(here: &mut Here<'_>, mut words: RespWords<'_>, out: &mut Vec<u8>) {
    let mut reply = here.reply(out);
    let all: Vec<&Row> = ROWS.iter().filter(|row| row.is_served()).collect();
    let Some(given) = words.next() else {
        reply.array(all.len());
        return all.into_iter().for_each(|row| describe(row, &mut reply));
    };
    let is_alone = words.clone().next().is_none();
    match lower(given).as_str() {
        "count" if !is_alone => reply.error(&wrong_number("command|count")),
        // FILTERBY is not served.
        "list" if !is_alone => reply.error(SYNTAX),
        "count" => reply.integer(all.len() as i64),
        "list" => {
            reply.array(all.len());
            all.into_iter().for_each(|row| reply.bulk(row.name.as_bytes()));
        }
        "info" => {
            let named: Vec<Option<&Row>> = match is_alone {
                true => all.into_iter().map(Some).collect(),
                false => words.map(find_served).collect(),
            };
            reply.array(named.len());
            for row in named {
                match row {
                    Some(row) => describe(row, &mut reply),
                    None => reply.nil(),
                }
            }
        }
        "docs" => {
            let named: Vec<&Row> = match is_alone {
                true => all,
                false => words.filter_map(find_served).collect(),
            };
            reply.map(named.len());
            named.into_iter().for_each(|row| document(row, &mut reply));
        }
        "help" if is_alone => help("command", SUBCOMMANDS, &mut reply),
        _ => reply.error(&no_subcommand("command", given)),
    }
}

fn find_served(name: &[u8]) -> Option<&'static Row> {
    find(name).filter(|row| row.is_served())
}

/// The ten parts of COMMAND's reply.
fn describe(row: &Row, reply: &mut RespReply<'_>) {
    reply.array(10);
    reply.bulk(row.name.as_bytes());
    reply.integer(i64::from(row.arity));
    reply.set(row.flags.len());
    row.flags.iter().for_each(|flag| reply.status(flag));
    row.keys.iter().for_each(|key| reply.integer(i64::from(*key)));
    let category = if row.writes() { "@write" } else { "@read" };
    let categories: &[&str] = match row.keys {
        [0, ..] => &[],
        _ => &[category],
    };
    reply.set(categories.len());
    categories.iter().for_each(|category| reply.status(category));
    // No tips, no further words on keys, no subcommands.
    (0..3).for_each(|_| reply.array(0));
}

fn document(row: &Row, reply: &mut RespReply<'_>) {
    reply.bulk(row.name.as_bytes());
    let entries = [("summary", row.summary), ("since", "1.0.0"), ("group", row.group)];
    reply.map(entries.len());
    for (key, value) in entries {
        reply.bulk(key.as_bytes());
        reply.bulk(value.as_bytes());
    }
}

pub(super) fn config(here: &mut Here<'_>, mut words: RespWords<'_>, out: &mut Vec<u8>) {
    let given = words.next().unwrap_or_default();
    let patterns: Vec<String> = words.map(lower).collect();
    match lower(given).as_str() {
        "get" => {}
        "help" if patterns.is_empty() => return help("config", OF_CONFIG, &mut here.reply(out)),
        _ => return here.reply(out).error(&no_subcommand("config", given)),
    }
    if patterns.is_empty() {
        return here.reply(out).error(&wrong_number("config|get"));
    }
    let last = here.options.databases.all().last();
    let databases = last.map_or(1, |last| u64::from(last.number) + 1).to_string();
    let bytes_max = here.options.limits.frame_bytes_max.to_string();
    let settings = [
        ("appendonly", "no"),
        ("databases", databases.as_str()),
        ("maxmemory", "0"),
        ("proto-max-bulk-len", bytes_max.as_str()),
        ("save", ""),
    ];
    let is_wanted = |name: &str| {
        let mut patterns = patterns.iter();
        patterns.any(|pattern| matches(pattern.as_bytes(), name.as_bytes()))
    };
    let wanted: Vec<_> = settings.into_iter().filter(|(name, _)| is_wanted(name)).collect();
    let mut reply = here.reply(out);
    reply.map(wanted.len());
    for (name, value) in wanted {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    }
}
