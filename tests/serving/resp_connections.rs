//! Connections of RESP: who may call, what each remembers, and what ends it.

use super::resp::{CONFIG, Redis, command, folder, row};
use crate::harness::Millpond;
use std::io::{Read, Write};
use std::time::Duration;

#[test]
fn an_address_that_is_not_allowed_is_answered_nothing_else() {
    let folder = folder(CONFIG);
    let server = Millpond::start(folder.path(), &["access.ip_allow=[\"10.0.0.0/8\"]"]);
    let mut redis = Redis::connect(&server);
    let refused = "-NOPERM this server takes no calls from this address; its operator lists addresses in access.ip_allow\r\n";
    for command in [
        "ECHO a",
        "COMMAND COUNT",
        "CONFIG GET save",
        "CLIENT ID",
        "HELLO 3",
        "PING",
        "GET 1",
    ] {
        redis.line(command, refused);
    }
}

#[test]
fn a_connection_has_a_version_a_name_and_a_database() {
    let folder = folder(CONFIG);
    let server = Millpond::start(folder.path(), &[]);
    let mut redis = Redis::connect(&server);
    redis.line("PING", "+PONG\r\n");
    redis.line("PING 'a b'", "$3\r\na b\r\n");
    redis.line("CLIENT GETNAME", "$-1\r\n");
    redis.line("CLIENT SETNAME one", "+OK\r\n");
    redis.line("CLIENT GETNAME", "$3\r\none\r\n");
    redis.line("CLIENT SETINFO lib-name probe", "+OK\r\n");
    redis.line("CLIENT NO-EVICT ON", "+OK\r\n");
    redis.line("CLIENT NO-TOUCH OFF", "+OK\r\n");
    redis.line("CONFIG GET save", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n");
    redis.line("CONFIG GET appendonly", "*2\r\n$10\r\nappendonly\r\n$2\r\nno\r\n");
    redis.line("CONFIG GET nothing", "*0\r\n");
    redis.line(
        "CONFIG HELP",
        "*5\r\n+CONFIG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:\r\n+GET <pattern> [<pattern> ...]\r\n\
         +    Return a few settings whose names match, and their values.\r\n+HELP\r\n+    Print this help.\r\n",
    );
    for (command, items) in [("CLIENT", 19), ("COMMAND", 13)] {
        redis.line(&format!("{command} HELP"), &format!("*{items}\r\n+{command} "));
        let rest = "<subcommand> [<arg> [value] [opt] ...]. Subcommands are:\r\n";
        redis.check(b"", rest.as_bytes());
        for item in 1..items {
            let line = redis.status();
            let is_indented = line.starts_with("    ");
            assert_eq!(is_indented, item % 2 == 0, "{command}: {line}");
        }
    }
    redis.line("SELECT 3", "+OK\r\n");
    let hello = "%7\r\n$6\r\nserver\r\n$8\r\nmillpond\r\n$7\r\nversion\r\n";
    redis.line("HELLO 3 SETNAME two", hello);
    // Version and number of the connection, up to the modules, of which there are none.
    let (mut rest, mut byte) = (Vec::new(), [0]);
    while !rest.ends_with(b"$7\r\nmodules\r\n*0\r\n") {
        redis.0.read_exact(&mut byte).unwrap();
        rest.push(byte[0]);
    }
    assert!(
        rest.windows(11).any(|part| part == b"proto\r\n:3\r\n"),
        "{}",
        rest.escape_ascii()
    );
    redis.line("CLIENT GETNAME", "$3\r\ntwo\r\n");
    // What is not there has a type of its own in RESP3.
    redis.check(&command(&[b"GET", &1000_u64.to_le_bytes()]), b"_\r\n");
    redis.line("CONFIG GET save", "%1\r\n$4\r\nsave\r\n$0\r\n\r\n");
    redis.line("RESET", "+RESET\r\n");
    redis.line("CLIENT GETNAME", "$-1\r\n");
    redis.check(b"GET 7\r\n", &row(7));
    redis.line("COMMAND COUNT", ":");
    redis.line("", "55\r\n");
    // What would only be refused, on tables.
    redis.line("COMMAND INFO rpush", "*1\r\n$-1\r\n");
    redis.line("COMMAND DOCS rpush zadd", "*0\r\n");
    redis.line("COMMAND INFO get nothing", "*2\r\n*10\r\n$3\r\nget\r\n:2\r\n*2\r\n+readonly\r\n+fast\r\n:1\r\n:1\r\n:1\r\n*1\r\n+@read\r\n*0\r\n*0\r\n*0\r\n$-1\r\n");
    redis.line(
        "INFO keyspace",
        "$80\r\n# Keyspace\r\ndb0:keys=100,expires=0,avg_ttl=0\r\ndb3:keys=100,expires=0,avg_ttl=0\r\n\r\n",
    );
    let stats = redis.bulk("INFO stats");
    assert!(
        stats.contains("\r\ntotal_connections_received:") && !stats.contains("received:0\r\n"),
        "{stats}"
    );
    assert!(stats.contains("\r\nrejected_connections:0\r\n"), "{stats}");
    let clients = redis.bulk("INFO clients");
    assert!(clients.contains("\r\nblocked_clients:0\r\n"), "{clients}");
    redis.line("QUIT", "+OK\r\n");
    assert_eq!(redis.rest(), b"");
}

#[test]
fn what_is_no_command_ends_its_connection() {
    let folder = folder(CONFIG);
    let server = Millpond::start(folder.path(), &[]);
    let ends = |sent: &[u8], expected: &str| {
        let mut redis = Redis::connect(&server);
        redis.0.write_all(sent).unwrap();
        assert_eq!(
            String::from_utf8(redis.rest()).unwrap(),
            expected,
            "{}",
            sent.escape_ascii()
        );
    };
    ends(
        b"*x\r\nPING\r\n",
        "-ERR Protocol error: invalid multibulk length\r\n",
    );
    ends(b"*1\r\n$-5\r\n", "-ERR Protocol error: invalid bulk length\r\n");
    // A command may take as many bytes as a frame.
    ends(
        b"*2\r\n$3\r\nGET\r\n$65536\r\n",
        "-ERR Protocol error: invalid bulk length\r\n",
    );
    ends(b"*20000\r\n", "-ERR Protocol error: invalid multibulk length\r\n");
    ends(b"*1\r\n*1\r\n", "-ERR Protocol error: expected '$', got '*'\r\n");
    ends(
        b"GET \"1\r\n",
        "-ERR Protocol error: unbalanced quotes in request\r\n",
    );
    ends(&[b'x'; 70_000], "-ERR Protocol error: too big inline request\r\n");
    ends(
        b"PING\r\n*1\r\n:1\r\nPING\r\n",
        "+PONG\r\n-ERR Protocol error: expected '$', got ':'\r\n",
    );
    // A page of any site can have a browser send these.
    ends(b"POST / HTTP/1.1\r\nHost: a\r\n\r\nPING\r\n", "");
    ends(
        b"GET / HTTP/1.1\r\nHost: a\r\n\r\nPING\r\n",
        "-ERR wrong number of arguments for 'get' command\r\n",
    );
    ends(&command(&[b"host:", b"a"]), "");
}

#[test]
fn a_token_is_brought_by_auth_or_hello() {
    let folder = folder(&format!(
        "{CONFIG}[access.tokens.ranking]\ntoken = \"s3cret-1\"\nmethods = [\"features.*\"]\n\
         [access.tokens.other]\ntoken = \"s3cret-2\"\nmethods = [\"ordered.*\"]\n"
    ));
    let server = Millpond::start(folder.path(), &[]);
    let mut redis = Redis::connect(&server);
    const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";
    const NONE: &str = "-NOAUTH Authentication required.\r\n";
    redis.line("PING", "+PONG\r\n");
    redis.line("GET 7", NONE);
    redis.line("DBSIZE", NONE);
    // Of a pipeline each has its answer.
    redis.line("GET 7\r\nGET 8", &NONE.repeat(2));
    redis.line("AUTH s3cret", WRONG);
    redis.line("AUTH other s3cret-1", WRONG);
    redis.line("AUTH a b c", "-ERR syntax error\r\n");
    redis.line("HELLO 3 AUTH default s3cret SETNAME x", WRONG);
    redis.line("CLIENT GETNAME", "$-1\r\n");
    redis.line("AUTH s3cret-2", "+OK\r\n");
    redis.line(
        "GET 7",
        "-NOPERM the token does not open features.lookup; send one that does\r\n",
    );
    redis.line("AUTH ranking s3cret-1", "+OK\r\n");
    redis.check(b"GET 7\r\n", &row(7));
    redis.line("RESET", "+RESET\r\n");
    redis.line("GET 7", NONE);
    redis.line("HELLO 2 AUTH default s3cret-1", "*14\r\n");
    let log = std::fs::read_to_string(folder.path().join("millpond.log")).unwrap();
    assert!(!log.contains("s3cret"), "{log}");
}

#[test]
fn a_connection_over_the_limit_is_told_so() {
    let folder = folder(CONFIG);
    let server = Millpond::start(folder.path(), &["server.connections_max=1"]);
    let mut first = Redis::connect(&server);
    first.line("PING", "+PONG\r\n");
    for line in ["GET 7", "ECHO a"] {
        let mut second = Redis::connect(&server);
        second.line(line, "-OVERLOADED the connection limit of 1 is reached; ");
        assert!(second.rest().ends_with(b"server.connections_max\r\n"));
    }
    first.check(b"GET 7\r\n", &row(7));
}

#[test]
fn a_unix_socket_serves_too() {
    let folder = folder(&CONFIG.replace(
        "[server.resp]\n",
        "[server.resp]\nlisten_also = [\"unix:resp.sock\"]\n",
    ));
    let _server = Millpond::start(folder.path(), &[]);
    let mut stream = std::os::unix::net::UnixStream::connect(folder.path().join("resp.sock")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    stream.write_all(b"GET 7\r\nQUIT\r\n").unwrap();
    let mut found = Vec::new();
    stream.read_to_end(&mut found).unwrap();
    assert_eq!(found, [&row(7)[..], b"+OK\r\n"].concat());
}
