//! The rows themselves. A further command is a row here, and a file or a function that asks and replies.

use super::store::{Compile, clear, expiry, inspect, lists, numbers, reads, scan as ranges, strings};
use super::{Ask, Kind, Row, Run, Served, client, connection, describe, info, keys, multi, scan};

const READS: &[&str] = &["readonly", "fast"];
const WRITES: &[&str] = &["write", "denyoom"];
const CONNECTION: &[&str] = &["noscript", "loading", "stale", "fast"];
const LOGIN: &[&str] = &["noscript", "loading", "stale", "fast", "no_auth", "allow_busy"];
const TRANSACTION: &[&str] = &["noscript", "loading", "stale", "fast", "allow_busy"];
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
    }
}

/// A command of tables.
const fn table(ask: Ask) -> Served {
    Served {
        kind: Kind::Table,
        ask: Some(ask),
        join: None,
        compile: None,
    }
}

/// A command of stores that is operations of a batch.
const fn store(compile: Compile) -> Served {
    Served {
        kind: Kind::Store,
        ask: None,
        join: None,
        compile: Some(compile),
    }
}

/// One that is a call of its own wherever it stands.
const fn store_call(ask: Ask) -> Served {
    Served {
        kind: Kind::Store,
        ..table(ask)
    }
}

/// One that is a call of its own where it stands behind no write, and operations elsewhere; of a command that may write, that without
/// options.
const fn store_read(ask: Ask, compile: Compile) -> Served {
    Served {
        ask: Some(ask),
        ..store(compile)
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
const fn write(
    name: &'static str,
    arity: i32,
    keys: [i32; 3],
    group: &'static str,
    summary: &'static str,
    served: &'static [Served],
) -> Row {
    Row {
        flags: WRITES,
        ..of_keys(name, arity, keys, group, summary, Run::Keys(served))
    }
}

/// One that nothing here lets it; a table says that it is read only.
const fn refused(name: &'static str, arity: i32, last: i32, group: &'static str) -> Row {
    write(
        name,
        arity,
        [1, last, 1],
        group,
        "Is not served: a feature table is read only, and an ordered store has no such command.",
        &[],
    )
}

/// Every command, by name.
#[rustfmt::skip]
pub(crate) static ROWS: &[Row] = &[
    write("append", 3, [1, 1, 1], "string", "Adds bytes behind the value of a key.", &[store(strings::append)]),
    plain("auth", -2, LOGIN, "connection", "Brings the token of a group of [access.tokens].", Run::Here(connection::auth)),
    plain("client", -2, CONNECTION, "connection", "Names the connection, and tells of it.", Run::Here(client::client)),
    plain("command", -1, SERVER, "server", "Describes the commands.", Run::Here(describe::command)),
    plain("config", -2, SERVER, "server", "Gives a few settings by the names that Redis has for them.", Run::Here(describe::config)),
    refused("copy", -3, 2, "generic"),
    plain("dbsize", 1, READS, "server", "Returns the number of keys.", Run::Keys(&[table(scan::size), store_call(inspect::size)])),
    write("decr", 2, [1, 1, 1], "string", "Takes 1 from the number of a key.", &[store(numbers::decr)]),
    write("decrby", 3, [1, 1, 1], "string", "Takes a number from that of a key.", &[store(numbers::decr_by)]),
    write("del", -2, [1, -1, 1], "generic", "Takes keys away.", &[store(strings::del)]),
    plain("discard", 1, TRANSACTION, "transactions", "Forgets what was queued.", Run::Here(multi::discard)),
    plain("echo", 2, CONNECTION, "connection", "Returns its word.", Run::Here(connection::echo)),
    plain("exec", 1, TRANSACTION, "transactions", "Has what was queued take effect as one batch.", Run::Exec),
    of_keys("exists", -2, [1, -1, 1], "generic", "Counts the keys that are there.", Run::Keys(&[table(keys::exists), store_read(inspect::ask_exists, inspect::exists)])),
    write("expire", -3, [1, 1, 1], "generic", "Says how many seconds a key lasts.", &[store(expiry::expire)]),
    write("expireat", -3, [1, 1, 1], "generic", "Says until which second of Unix time a key lasts.", &[store(expiry::expire_at)]),
    of_keys("expiretime", 2, [1, 1, 1], "generic", "Returns the second of Unix time until which a key lasts.", Run::Keys(&[store_read(inspect::ask_expire_time, inspect::expire_time)])),
    write("flushall", -1, [0, 0, 0], "server", "Takes all keys away, where there is one store.", &[store_call(clear::all)]),
    write("flushdb", -1, [0, 0, 0], "server", "Takes all keys of the selected store away.", &[store_call(clear::selected)]),
    of_keys("get", 2, [1, 1, 1], "string", "Returns the value of a key.", Run::Keys(&[
        Served { join: Some(keys::join), ..table(keys::get) },
        Served { join: Some(reads::join), ..store_read(reads::get, strings::get) },
    ])),
    write("getdel", 2, [1, 1, 1], "string", "Returns the value of a key, and takes it away.", &[store(strings::getdel)]),
    write("getex", -2, [1, 1, 1], "string", "Returns the value of a key, and says how long it lasts.", &[store_read(reads::get, strings::getex)]),
    write("getset", 3, [1, 1, 1], "string", "Writes the value of a key, and returns the one before.", &[store(strings::getset)]),
    refused("hdel", -3, 1, "hash"),
    plain("hello", -1, LOGIN, "connection", "Chooses RESP2 or RESP3.", Run::Here(connection::hello)),
    refused("hincrby", 4, 1, "hash"),
    refused("hset", -4, 1, "hash"),
    write("incr", 2, [1, 1, 1], "string", "Adds 1 to the number of a key.", &[store(numbers::incr)]),
    write("incrby", 3, [1, 1, 1], "string", "Adds a number to that of a key.", &[store(numbers::incr_by)]),
    write("incrbyfloat", 3, [1, 1, 1], "string", "Adds a decimal number to that of a key.", &[store(numbers::incr_by_float)]),
    plain("info", -1, SERVER, "server", "Tells of the server.", Run::Call(info::info)),
    of_keys("lindex", 3, [1, 1, 1], "list", "Returns an item of a list; 0 is the newest.", Run::Keys(&[store_read(lists::ask_index, lists::index)])),
    of_keys("llen", 2, [1, 1, 1], "list", "Returns the number of a list's items.", Run::Keys(&[store_read(inspect::ask_llen, inspect::llen)])),
    refused("lpop", -2, 1, "list"),
    write("lpush", -3, [1, 1, 1], "list", "Adds items to a list, the last of which is the newest then.", &[store(lists::push)]),
    of_keys("lrange", 4, [1, 1, 1], "list", "Returns items of a list; 0 is the newest.", Run::Keys(&[store_read(lists::ask_range, lists::range)])),
    write("ltrim", 4, [1, 1, 1], "list", "Leaves some items of a list.", &[store(lists::trim)]),
    of_keys("mget", -2, [1, -1, 1], "string", "Returns the values of keys.", Run::Keys(&[table(keys::mget), store_read(reads::mget, strings::mget)])),
    write("mset", -3, [1, -1, 2], "string", "Writes the values of keys.", &[store(strings::mset)]),
    write("msetnx", -3, [1, -1, 2], "string", "Writes the values of keys, if none of them is there.", &[store_call(strings::msetnx)]),
    plain("multi", 1, TRANSACTION, "transactions", "Queues the commands behind it, until EXEC.", Run::Here(multi::multi)),
    plain("ordered.scan", -3, READS, "generic", "Returns the keys of a range and their values, in order.", Run::Keys(&[store_call(ranges::range)])),
    write("persist", 2, [1, 1, 1], "generic", "Has a key last for good.", &[store(inspect::persist)]),
    write("pexpire", -3, [1, 1, 1], "generic", "Says how many milliseconds a key lasts.", &[store(expiry::pexpire)]),
    write("pexpireat", -3, [1, 1, 1], "generic", "Says until which millisecond of Unix time a key lasts.", &[store(expiry::pexpire_at)]),
    of_keys("pexpiretime", 2, [1, 1, 1], "generic", "Returns the millisecond of Unix time until which a key lasts.", Run::Keys(&[store_read(inspect::ask_pexpire_time, inspect::pexpire_time)])),
    plain("ping", -1, CONNECTION, "connection", "Returns its word, or PONG.", Run::Call(connection::ping)),
    write("psetex", 4, [1, 1, 1], "string", "Writes the value of a key, and how many milliseconds it lasts.", &[store(strings::psetex)]),
    of_keys("pttl", 2, [1, 1, 1], "generic", "Returns how many milliseconds a key lasts.", Run::Keys(&[store_read(inspect::ask_pttl, inspect::pttl)])),
    plain("quit", -1, LOGIN, "connection", "Closes the connection.", Run::Here(connection::quit)),
    refused("rename", 3, 2, "generic"),
    refused("renamenx", 3, 2, "generic"),
    plain("reset", 1, LOGIN, "connection", "Makes the connection a new one.", Run::Here(connection::reset)),
    refused("rpop", -2, 1, "list"),
    refused("rpush", -3, 1, "list"),
    refused("sadd", -3, 1, "set"),
    plain("scan", -2, READS, "generic", "Lists keys, a page at a time.", Run::Keys(&[table(scan::scan), store_call(ranges::scan)])),
    plain("select", 2, CONNECTION, "connection", "Chooses a database.", Run::Here(connection::select)),
    write("set", -3, [1, 1, 1], "string", "Writes the value of a key.", &[store(strings::set)]),
    write("setex", 4, [1, 1, 1], "string", "Writes the value of a key, and how many seconds it lasts.", &[store(strings::setex)]),
    write("setnx", 3, [1, 1, 1], "string", "Writes the value of a key, if it is not there.", &[store(strings::setnx)]),
    refused("setrange", 4, 1, "string"),
    refused("srem", -3, 1, "set"),
    of_keys("strlen", 2, [1, 1, 1], "string", "Returns the bytes of a key's value.", Run::Keys(&[table(keys::strlen), store_read(reads::strlen, strings::strlen)])),
    of_keys("ttl", 2, [1, 1, 1], "generic", "Returns how many seconds a key lasts.", Run::Keys(&[store_read(inspect::ask_ttl, inspect::ttl)])),
    of_keys("type", 2, [1, 1, 1], "generic", "Returns what a key holds.", Run::Keys(&[table(keys::kind), store_read(inspect::ask_kind, inspect::kind)])),
    write("unlink", -2, [1, -1, 1], "generic", "Takes keys away.", &[store(strings::del)]),
    refused("zadd", -4, 1, "sorted-set"),
    refused("zrem", -3, 1, "sorted-set"),
];
