//! The rows themselves. A further command is a row here, and a file or a function that asks and replies.

use super::{Kind, Row, Run, client, connection, describe, info, keys, scan};

const READS: &[&str] = &["readonly", "fast"];
const WRITES: &[&str] = &["write", "denyoom"];
const CONNECTION: &[&str] = &["noscript", "loading", "stale", "fast"];
const LOGIN: &[&str] = &["noscript", "loading", "stale", "fast", "no_auth", "allow_busy"];
const SERVER: &[&str] = &["loading", "stale"];

/// A command that its connection answers, or a call that takes no keys.
const fn plain(
    name: &'static str,
    arity: i32,
    flags: &'static [&'static str],
    group: &'static str,
    summary: &'static str,
    run: Run,
) -> Row {
    Row {
        name,
        arity,
        flags,
        keys: [0, 0, 0],
        group,
        summary,
        run,
        join: None,
    }
}

/// A command of keys.
const fn of_keys(
    name: &'static str,
    arity: i32,
    keys: [i32; 3],
    group: &'static str,
    summary: &'static str,
    run: Run,
) -> Row {
    Row {
        keys,
        ..plain(name, arity, READS, group, summary, run)
    }
}

/// A command that changes something, which no table lets it.
const fn write(name: &'static str, arity: i32, last: i32, group: &'static str) -> Row {
    Row {
        flags: WRITES,
        ..of_keys(
            name,
            arity,
            [1, last, 1],
            group,
            "Changes something, which a feature table refuses.",
            Run::Keys(&[]),
        )
    }
}

/// Every command, by name.
#[rustfmt::skip]
pub(crate) static ROWS: &[Row] = &[
    write("append", 3, 1, "string"),
    plain("auth", -2, LOGIN, "connection", "Brings the token of a group of [access.tokens].", Run::Here(connection::auth)),
    plain("client", -2, CONNECTION, "connection", "Names the connection, and tells of it.", Run::Here(client::client)),
    plain("command", -1, SERVER, "server", "Describes the commands.", Run::Here(describe::command)),
    plain("config", -2, SERVER, "server", "Gives a few settings by the names that Redis has for them.", Run::Here(describe::config)),
    write("copy", -3, 2, "generic"),
    plain("dbsize", 1, READS, "server", "Returns the number of keys.", Run::Keys(&[(Kind::Table, scan::size)])),
    write("decr", 2, 1, "string"),
    write("decrby", 3, 1, "string"),
    write("del", -2, -1, "generic"),
    plain("echo", 2, CONNECTION, "connection", "Returns its word.", Run::Here(connection::echo)),
    of_keys("exists", -2, [1, -1, 1], "generic", "Counts the keys that are there.", Run::Keys(&[(Kind::Table, keys::exists)])),
    write("expire", -3, 1, "generic"),
    write("expireat", -3, 1, "generic"),
    write("flushall", -1, 0, "server"),
    write("flushdb", -1, 0, "server"),
    Row {
        join: Some(keys::join),
        ..of_keys("get", 2, [1, 1, 1], "string", "Returns the value of a key.", Run::Keys(&[(Kind::Table, keys::get)]))
    },
    write("getdel", 2, 1, "string"),
    write("getex", -2, 1, "string"),
    write("getset", 3, 1, "string"),
    write("hdel", -3, 1, "hash"),
    plain("hello", -1, LOGIN, "connection", "Chooses RESP2 or RESP3.", Run::Here(connection::hello)),
    write("hincrby", 4, 1, "hash"),
    write("hset", -4, 1, "hash"),
    write("incr", 2, 1, "string"),
    write("incrby", 3, 1, "string"),
    write("incrbyfloat", 3, 1, "string"),
    plain("info", -1, SERVER, "server", "Tells of the server.", Run::Call(info::info)),
    write("lpop", -2, 1, "list"),
    write("lpush", -3, 1, "list"),
    of_keys("mget", -2, [1, -1, 1], "string", "Returns the values of keys.", Run::Keys(&[(Kind::Table, keys::mget)])),
    write("mset", -3, -1, "string"),
    write("msetnx", -3, -1, "string"),
    write("persist", 2, 1, "generic"),
    write("pexpire", -3, 1, "generic"),
    write("pexpireat", -3, 1, "generic"),
    plain("ping", -1, CONNECTION, "connection", "Returns its word, or PONG.", Run::Call(connection::ping)),
    write("psetex", 4, 1, "string"),
    plain("quit", -1, LOGIN, "connection", "Closes the connection.", Run::Here(connection::quit)),
    write("rename", 3, 2, "generic"),
    write("renamenx", 3, 2, "generic"),
    plain("reset", 1, LOGIN, "connection", "Makes the connection a new one.", Run::Here(connection::reset)),
    write("rpop", -2, 1, "list"),
    write("rpush", -3, 1, "list"),
    write("sadd", -3, 1, "set"),
    plain("scan", -2, READS, "generic", "Lists keys, a page at a time.", Run::Keys(&[(Kind::Table, scan::scan)])),
    plain("select", 2, CONNECTION, "connection", "Chooses a database.", Run::Here(connection::select)),
    write("set", -3, 1, "string"),
    write("setex", 4, 1, "string"),
    write("setnx", 3, 1, "string"),
    write("setrange", 4, 1, "string"),
    write("srem", -3, 1, "set"),
    of_keys("strlen", 2, [1, 1, 1], "string", "Returns the bytes of a key's value.", Run::Keys(&[(Kind::Table, keys::strlen)])),
    of_keys("type", 2, [1, 1, 1], "generic", "Returns what a key holds.", Run::Keys(&[(Kind::Table, keys::kind)])),
    write("unlink", -2, -1, "generic"),
    write("zadd", -4, 1, "sorted-set"),
    write("zrem", -3, 1, "sorted-set"),
];
