//! Order of sources, refused keys, and what is checked before a bind.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;

mod access;
mod example;

fn check(text: &str, flags: &[&str], expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("millpond.toml");
    std::fs::write(&file, text).unwrap();
    std::fs::write(folder.path().join("m.onnx"), b"").unwrap();
    std::fs::create_dir(folder.path().join("t")).unwrap();
    let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let environment = vec![
        ("MILLPOND__SERVER__THREADS".to_owned(), "3".to_owned()),
        ("PATH".to_owned(), "/".to_owned()),
    ];
    let found = match load(&Origin {
        file: Some(file),
        environment,
        flags,
    }) {
        Ok(config) => format!("{config:?}"),
        Err(error) => error.to_string(),
    };
    assert!(found.contains(expected), "{found}\ndoes not contain {expected:?}");
}

#[test]
fn flags_come_before_environment_before_file() {
    check("[server]\nthreads = 2", &[], "threads: 3");
    check("[server]\nthreads = 2", &["server.threads=4"], "threads: 4");
    check("[log]\nlevel = 5", &[], "level: Error");
    check("[log]\nlevel = 5", &["log.level=2"], "level: Debug");
    check("", &["log.level=debug"], "level: Debug");
    check("[log]\nlevel = 1", &[], "level: Trace");
    check("", &["log.level=trace"], "level: Trace");
}

#[test]
fn unknown_and_wrong_keys_are_named() {
    check("[server]\nlisen = \"127.0.0.1:1\"", &[], "unknown field `lisen`");
    check("[server]\nlisen = \"127.0.0.1:1\"", &[], "line 2");
    check(
        "",
        &["server.thread=1"],
        "--set server.thread=1: unknown field `thread`",
    );
    check("", &["server"], "expected key.path=value");
    check("[log]\nlevel = 7", &[], "log level 7; expected 1");
    check(
        "[server]\nlisten = \"localhost\"",
        &[],
        "\"localhost\" is no address; write IP:PORT",
    );
    check(
        "[server]\nlisten = \"unix:a.sock\"",
        &[],
        "\"unix:a.sock\" is a Unix socket, which only listen_also of [server] and [server.resp] takes: listen_also = [\"unix:a.sock\"]",
    );
    check(
        "[server]\nconnections_max = 0",
        &[],
        "server.connections_max is 0",
    );
    check("[admin]\nlisten = \"127.0.0.1:13500\"", &[], "different ports");
    check(
        "[log]\nqueue_bytes_max = 100",
        &[],
        "log.queue_bytes_max is 100; expected 1024 to 1073741824 bytes",
    );
    check(
        "[server]\nunfinished_bytes_max = 16777215",
        &[],
        "server.unfinished_bytes_max is 16777215; one request may take 16777216 bytes",
    );
    check(
        "[server]\nin_flight_bytes_max = 8388607",
        &[],
        "server.in_flight_bytes_max is 8388607; one call may hold 8388608 bytes",
    );
    check(
        "[server]\nwrite_buffers_total_bytes_max = 16777215",
        &[],
        "server.write_buffers_total_bytes_max is 16777215; one answer may take 16777216 bytes",
    );
}

#[test]
fn what_is_named_must_be_there() {
    check("[features.a]\npath = \"none\"", &[], "features.a.path");
    check("[models.a]\npath = \"none.onnx\"", &[], "models.a.path");
    check(
        "[models.a]\npath = \"m.onnx\"\nwarm_up = [300]",
        &[],
        "warm_up holds 300",
    );
    check(
        "[models.a]\n",
        &[],
        "models.a.path is missing; name an ONNX model",
    );
    check("[ordered.a]\n", &[], "ordered.a.path is missing");
    check(
        "[onnxruntime]\nlibrary = \"none\"",
        &[],
        "/none, which is not there; name ONNX Runtime's shared library",
    );
    check(
        "[onnxruntime]\nlibrary = \"t\"",
        &[],
        "a folder without ONNX Runtime",
    );
    check(
        "[ordered.a]\ndurability = \"memory\"\ncheckpoint_log_bytes = 0",
        &[],
        "ordered.a.checkpoint_log_bytes is 0; expected at least 1",
    );
    check(
        "[ordered.a]\ndurability = \"memory\"\nsegment_bytes_max = 0",
        &[],
        "ordered.a.segment_bytes_max is 0; expected at least 1",
    );
    check(
        "[features.a]\npath = \"t\"\n[features.a.overlay]\ndurability = \"memory\"\nsegment_bytes_max = 0",
        &[],
        "features.a.overlay.segment_bytes_max is 0; expected at least 1",
    );
    check(
        "[ordered.a]\ndurability = \"memory\"\nmemory_bytes_max = 0",
        &[],
        "ordered.a.memory_bytes_max is 0",
    );
    check(
        "[ordered.a]\ndurability = \"memory\"\neviction = \"oldest_write\"",
        &[],
        "ordered.a.eviction is \"oldest_write\", but without a limit nothing has to give way; set ordered.a.memory_bytes_max",
    );
    check(
        "[ordered.a]\ndurability = \"memory\"\nmemory_bytes_max = 9\neviction = \"allkeys-lru\"",
        &[],
        "unknown variant `allkeys-lru`, expected one of `none`, `oldest_write`, `soonest_expiry`",
    );
    check(
        "[ordered.a]\ndurability = \"memory\"\npath = \"x\"",
        &[],
        "keeps no file",
    );
    check(
        "default_model = \"b\"\n[models.a]\npath = \"m.onnx\"",
        &[],
        "default_model is \"b\"",
    );
    let pipeline = "[pipelines.p]\nrequest = \"samples\"\nstages = [{name = \"k\", hash = {slot = \"0\", from = \"samples.0\"}}, \
        {name = \"v\", lookup = {table = \"nope\", keys = \"k\"}}, {name = \"s\", model = {model = \"a\", input = \"v\"}}]";
    check(
        pipeline,
        &[],
        "line 3: pipelines.p, stage \"v\", key lookup.table is \"nope\", which no [features.…] section defines",
    );
    let pipeline = "[pipelines.p]\nrequest = \"samples\"\n[[pipelines.p.stages]]\nname = \"k\"\n\n\
        hash = {slot = \"0\", from = \"k\"}";
    check(
        pipeline,
        &[],
        "line 6: pipeline `p`, stage `k`, key `hash.from`: the stage reads itself",
    );
    let table = "[pipelines.p]\nrequest = \"values\"\n[pipelines.p.stages.z]\nmerge = { of = [\"inputs.data\"] }\n\
        [pipelines.p.stages.b]\nmerge = { of = [\"inputs.data\"] }\nnext = [\"nowhere\"]";
    check(
        table,
        &[],
        "line 7: pipeline `p`, stage `b`, key `next`: no stage is called `nowhere`",
    );
    let name = "[pipelines.p]\nrequest = \"samples\"\n[[pipelines.p.stages]]\nname = \"items\"";
    check(name, &[], "line 4: pipeline `p`, stage number 1, key `name`");
}

#[test]
fn a_stores_queue_holds_what_admission_lets_in() {
    let mut config = Config::default();
    config.server.in_flight_bytes_max = 1 << 30;
    assert_eq!(config.resources().put_bytes_max, 1 << 30);
}

#[test]
fn a_practice_model_has_its_behaviour_and_no_file() {
    let check_practice = |keys: &str, expected: &str| {
        check(
            &format!("[models.a]\nbackend = \"practice\"\n{keys}"),
            &[],
            expected,
        );
    };
    check_practice(
        "behaviour = \"wait\"\nus = 1000",
        "behaviour: Some(Wait), us: Some(1000)",
    );
    check_practice(
        "behaviour = \"compute\"\nus = 0\nus_per_row = 3\nwidth = 7",
        "width: 7",
    );
    check_practice(
        "behaviour = \"wait\"\nus = 1\npath = \"m.onnx\"",
        "path is for backend \"onnxruntime\", and the backend is \"practice\"; leave it out",
    );
    check_practice("us = 1000", "models.a.behaviour is missing");
    check_practice("behaviour = \"wait\"", "models.a.us is missing");
    check_practice("behaviour = \"sleep\"\nus = 1", "unknown variant `sleep`");
    check_practice(
        "behaviour = \"wait\"\nus = 0\nus_per_row = 100000",
        "takes 25600000 us (us + batch_size_max * us_per_row)",
    );
    check_practice(
        "behaviour = \"wait\"\nus = 1\nwidth = 0",
        "models.a.width is 0; expected 1 to",
    );
    check_practice(
        "behavior = \"wait\"\nus = 1",
        "key \"behavior\" is unknown; for backend \"practice\" expected one of [\"backend\", \"version\", \"behaviour\"",
    );
    check(
        "[models.a]\nbackend = \"onnx\"\npath = \"m.onnx\"",
        &[],
        "backend is \"onnx\"; expected one of [",
    );
    check(
        "[models.a]\nbackned = \"practice\"\nus = 1",
        &[],
        "key \"backned\" is unknown",
    );
    check(
        "[models.a]\npath = \"m.onnx\"\noptions = { \"session.nonsense\" = 1 }",
        &[],
        "models.a.options: ONNX Runtime has no session option \"session.nonsense\"",
    );
    check(
        "[models.a]\npath = \"m.onnx\"\nus = 1",
        &[],
        "us is for backend \"practice\", and the backend is \"onnxruntime\"; leave it out",
    );
}

#[test]
fn methods_of_ones_own_have_names_of_their_own() {
    let check_problem = |text: &str, expected: &str| check(text, &[], expected);
    check_problem("[methods.\"*x\"]\nkind = \"echo\"", "the server's own");
    check_problem("[methods.rank]\nkind = \"echo\"", "the server's own");
    check_problem("[methods.\"\"]\nkind = \"echo\"", "0 bytes");
    let long = format!("[methods.{}]\nkind = \"echo\"", "x".repeat(256));
    check_problem(&long, "256 bytes");
    check_problem("[methods.a]", "methods.\"a\".answer is missing");
    check_problem("[methods.a]\nkind = \"echo\"\nanswer = {}", "leave answer out");
    check_problem("[methods.a]\nkind = \"eko\"", "unknown variant `eko`");
    check_problem("[methods.a]\nanswer = {}", "methods: {\"a\"");
}

#[test]
fn a_duplex_method_names_what_it_calls() {
    let duplex = |keys: &str, expected: &str| {
        check(&format!("[methods.a]\nkind = \"duplex\"\n{keys}"), &[], expected);
    };
    duplex("push = \"p q\"\ntimeout_ms = 1", "push: Some(\"p q\")");
    duplex(
        "push = \"p\"\nearly = true\nanswer = { a = 1 }\npayload = {}",
        "early: true",
    );
    duplex("", "methods.\"a\".push is missing");
    duplex("push = \"\"", "methods.\"a\".push: the name has 0 bytes");
    duplex("push = \"p\"\ntimeout_ms = 0", "methods.\"a\".timeout_ms is 0");
    duplex("push = \"p\"\ntimeout_ms = 86400001", "expected 1 to 86400000");
    duplex("push = \"p\"\nanswer = {}", "or set early = true");
    duplex("push = \"p\"\noneway = true", "set early = true too");
    let others = [
        ("push = \"p\"", "push"),
        ("payload = {}", "payload"),
        ("timeout_ms = 5", "timeout_ms"),
        ("early = true", "early"),
        ("oneway = true", "oneway"),
    ];
    for (line, name) in others {
        for kind in ["kind = \"echo\"", "answer = {}"] {
            let expected = format!("methods.\"a\".{name} is for kind \"duplex\"");
            check(&format!("[methods.a]\n{kind}\n{line}"), &[], &expected);
        }
    }
}

#[test]
fn what_several_processes_cannot_share_is_refused() {
    check(
        "[server]\nprocesses = 0",
        &[],
        "server.processes is 0; expected at least 1",
    );
    check("[server]\nprocesses = 300", &[], "expected at most 256");
    check("[server]\nprocesses = 3", &[], "processes: 3");
    check(
        "[server]\nprocesses = 3\n[ordered.a]\ndurability = \"memory\"",
        &[],
        "processes: 3",
    );
    let reads_a_store = r#"
        [server]
        processes = 3
        [ordered.a]
        durability = "memory"
        [features.t]
        path = "t"
        [models.m]
        backend = "practice"
        behaviour = "wait"
        us = 1
        [pipelines.p]
        request = "rank"
        stages = [
            { name = "recent", scan = { store = "a", prefix = "u", limit = 3 } },
            { name = "keys", hash = { slot = "0", from = "recent" } },
            { name = "items_keys", hash = { slot = "1", from = "items" } },
            { name = "vec", lookup = { table = "t", keys = "keys", pool = "mean" } },
            { name = "items_vec", lookup = { table = "t", keys = "items_keys" } },
            { name = "x", assemble = { columns = ["vec", "items_vec"] } },
            { name = "scores", model = { model = "m", input = "x" } },
        ]"#;
    check(
        reads_a_store,
        &[],
        "pipelines.p, stage \"recent\" reads ordered.a: one process has the stores, and pipelines run in each; leave the stage out, or set \
         server.processes = 1 (it is 3)",
    );
    check(reads_a_store, &["server.processes=1"], "processes: 1");
    let port = "[server]\nprocesses = 3\nlisten = \"127.0.0.1:0\"";
    check(port, &[], "server.listen is 127.0.0.1:0");
    check(port, &["server.processes=1"], "processes: 1");
    check(
        "[server]\nprocesses = 3\nlisten_also = [\"[::1]:0\"]",
        &[],
        "server.listen_also[0] is [::1]:0",
    );
    check(
        "[server]\nprocesses = 3\nlisten_also = [\"unix:a.sock\"]",
        &[],
        "a Unix socket has one process that accepts",
    );
}

#[test]
fn no_two_keys_name_one_address() {
    let refused = |listens: &str, expected: &str| {
        for processes in [1, 3] {
            let text = format!("[server]\nprocesses = {processes}\n{listens}");
            check(&text, &[], expected);
        }
    };
    let tls = "[server.tls]\ncertificate = \"c\"\nprivate_key = \"k\"\n";
    let also = |addresses: &str, rest: &str| format!("listen_also = [{addresses}]\n{rest}");
    refused(
        &also("\"[::1]:7\", \"127.0.0.1:13503\"", tls),
        "server.listen_also[1] and server.tls.listen are both 127.0.0.1:13503; give them different ports",
    );
    refused(
        &also("\"127.0.0.1:13500\"", ""),
        "server.listen and server.listen_also[0] are both 127.0.0.1:13500; give them",
    );
    refused(
        &also("\"[::1]:7\", \"127.0.0.1:9\", \"[::1]:7\"", ""),
        "server.listen_also[0] and server.listen_also[2] are both [::1]:7; give them",
    );
    refused(
        &also("\"127.0.0.1:13590\"", ""),
        "server.listen_also[0] and admin.listen are both 127.0.0.1:13590; give them",
    );
    refused(
        &format!("{tls}listen = \"127.0.0.1:13500\""),
        "server.listen and server.tls.listen are both 127.0.0.1:13500; give them",
    );
    refused(
        &format!("{tls}listen = \"127.0.0.1:13590\""),
        "server.tls.listen and admin.listen are both 127.0.0.1:13590; give them",
    );
    // An address that takes all of a family takes that one too.
    refused(
        &also("\"0.0.0.0:13503\"", tls),
        "server.listen_also[0] is 0.0.0.0:13503 and server.tls.listen is 127.0.0.1:13503, which are one address",
    );
    refused(
        &also("\"[::]:13503\", \"127.0.0.2:13503\", \"127.0.0.1:13504\"", tls),
        "listen_also: [Inet([::]:13503), Inet(127.0.0.2:13503), Inet(127.0.0.1:13504)]",
    );
    // Each gets a port of its own.
    check(
        "[server]\nlisten = \"127.0.0.1:0\"\nlisten_also = [\"127.0.0.1:0\", \"0.0.0.0:0\"]",
        &[],
        "listen_also: [Inet(127.0.0.1:0), Inet(0.0.0.0:0)]",
    );
}

#[test]
fn a_store_does_not_follow_its_own_server() {
    let refused = |server: &str, leader: &str, key: &str| {
        let store = format!("[ordered.s]\npath = \"s\"\nfollow = \"{leader}\"\nfollow_token_file = \"t\"\n");
        check(
            &format!("[server]\n{server}\n{store}"),
            &[],
            &format!(
                "ordered.s.follow is {leader:?}, where this server listens itself ({key}); name the server"
            ),
        );
    };
    refused("", "127.0.0.1:13500", "server.listen");
    refused("", "localhost:13500", "server.listen");
    refused("listen = \"0.0.0.0:9\"", "127.0.0.1:9", "server.listen");
    refused("listen_also = [\"[::1]:7\"]", "[::1]:7", "server.listen_also[0]");
    refused("listen_also = [\"unix:/s\"]", "unix:/s", "server.listen_also[0]");
    // Of the file's folder, both, however its path is spelt.
    for path in ["s.sock", "./s.sock", "t/../s.sock"] {
        let relative = format!(
            "[server]\nlisten_also = [\"unix:s.sock\"]\n[ordered.s]\npath = \"s\"\nfollow = \"unix:{path}\"\nfollow_token_file = \"t\""
        );
        check(
            &relative,
            &[],
            "s.sock\", where this server listens itself (server.listen_also[0])",
        );
    }
    // A path may have what an address may not; what is wrong with the next key shows that it passed.
    let follow = |leader: &str, expected: &str| {
        let store =
            format!("[ordered.s]\npath = \"s\"\nfollow = \"{leader}\"\nfollow_token_file = \"m.onnx\"");
        check(&store, &[], expected);
    };
    follow("unix:/two words, and a comma", "m.onnx is empty");
    follow("unix:", "no path follows unix:");
    follow("unix:/a\\u0000", "a control character");
    follow("unix:/\u{fffd}/s", "folder is not UTF-8");
    follow(&format!("unix:/{}", "s".repeat(107)), "at most 107 bytes");
    follow("two words:7", "a space");
    // Loopback addresses of the other family are not its own.
    let other = "[server]\nlisten = \"0.0.0.0:9\"\n[ordered.s]\npath = \"s\"\nfollow = \"[::1]:9\"\nfollow_token_file = \"m.onnx\"";
    check(other, &[], "m.onnx is empty");
    refused(
        "[server.tls]\ncertificate = \"c\"\nprivate_key = \"k\"",
        "tls://127.0.0.1:13503",
        "server.tls.listen",
    );
}
