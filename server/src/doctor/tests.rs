//! Machines of files, as the kernel would show them; no finding depends on the machine that runs the tests.
#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::*;
use crate::config::Listen;
use millpond_engines_ordered as ordered;
use std::fs;
use std::path::Path;

/// A machine as the kernel would show it.
fn machine(files: &[(&str, &str)]) -> Facts {
    let root = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    Facts::read(root.path())
}

fn finding(facts: &Facts, config: &Config, what: &str) -> Finding {
    let found = examine(facts, config);
    let of_it = found.into_iter().find(|finding| finding.what == what);
    of_it.unwrap_or_else(|| panic!("nothing is said of {what}"))
}

#[test]
fn too_few_files_are_told_with_the_number_that_is_needed() {
    let facts = machine(&[(
        "proc/self/limits",
        "Limit                     Soft Limit           Hard Limit           Units     \n\
         Max open files            1024                 20000                files     \n",
    )]);
    assert_eq!(facts.files_max, Some(20_000));
    let mut config = Config::default();
    assert_eq!(finding(&facts, &config, "open files").standing, Standing::Good);
    config.server.connections_max = 100_000;
    let short = finding(&facts, &config, "open files");
    assert_eq!(short.standing, Standing::Short);
    assert!(
        short.text.contains("LimitNOFILE=104160") && short.text.contains("server.connections_max to 15840"),
        "{}",
        short.text
    );
}

#[test]
fn more_connections_than_can_be_counted_are_too_many() {
    let facts = machine(&[
        ("proc/self/limits", "Max open files  1024  20000  files\n"),
        ("proc/sys/fs/file-max", "100000\n"),
    ]);
    let mut config = Config::default();
    config.server.connections_max = usize::MAX;
    for what in ["open files", "open files of the machine"] {
        assert_eq!(finding(&facts, &config, what).standing, Standing::Short, "{what}");
    }
}

#[test]
fn several_processes_are_a_way_around_the_limit_and_count_for_the_machine() {
    let facts = machine(&[
        ("proc/self/limits", "Max open files  1024  20000  files\n"),
        ("proc/sys/fs/file-max", "100000\n"),
        ("proc/self/status", "Cpus_allowed_list:\t0-3\n"),
    ]);
    let mut config = Config::default();
    let whole = finding(&facts, &config, "open files of the machine");
    assert_eq!(whole.standing, Standing::Good, "{whole:?}");
    config.server.connections_max = 200_000;
    let short = finding(&facts, &config, "open files");
    let way = "server.processes = 14 with server.connections_max = 15840";
    assert!(short.text.contains(way), "{}", short.text);
    (config.server.processes, config.server.connections_max) = (14, 15_840);
    let each = finding(&facts, &config, "open files");
    assert_eq!(each.standing, Standing::Good, "{each:?}");
    assert!(each.text.contains("in each process"), "{each:?}");
    let whole = finding(&facts, &config, "open files of the machine");
    assert_eq!(whole.standing, Standing::Short, "{whole:?}");
    assert!(whole.text.contains("sysctl -w fs.file-max=280000"), "{whole:?}");
    let threads = finding(&facts, &config, "processors");
    assert_eq!(threads.standing, Standing::Better, "{threads:?}");
    assert!(
        threads.text.contains("14 net threads in 14 processes"),
        "{threads:?}"
    );
    // One of the processes has the stores, and connections for the others.
    config
        .ordered
        .insert("events".into(), ordered::Section::default());
    config.server.threads = 1;
    let each = finding(&facts, &config, "open files");
    assert!(each.standing == Standing::Short, "{each:?}");
    (config.server.processes, config.server.connections_max) = (1, 200_000);
    let short = finding(&facts, &config, "open files");
    assert!(
        short.text.contains("server.connections_max to 15840")
            && short
                .text
                .contains("or spread the same connections over processes"),
        "{}",
        short.text
    );
    config.ordered.clear();
    config.server.threads = 0;
    // What one process alone can serve is not spread.
    config.server.listen_also = vec![Listen::Unix("a.sock".into())];
    let short = finding(&facts, &config, "open files");
    assert!(!short.text.contains("server.processes"), "{}", short.text);
    config.server.listen_also.clear();
    // A million under so low a limit takes more processes than there may be.
    (config.server.processes, config.server.connections_max) = (1, 10_000_000);
    let short = finding(&facts, &config, "open files");
    assert!(!short.text.contains("server.processes"), "{}", short.text);
}

#[test]
fn what_callers_can_make_it_hold_is_held_against_the_memory() {
    let what = "memory at worst";
    let facts = machine(&[
        ("proc/meminfo", "MemAvailable:    1048576 kB\n"),
        ("proc/sys/net/ipv4/tcp_mem", "10\t20\t4096\n"),
        ("proc/self/smaps", "Size: 8 kB\nKernelPageSize:        4 kB\n"),
    ]);
    let mut config = Config::default();
    config.server.threads = 1;
    let fits = finding(&facts, &config, what);
    assert_eq!(fits.standing, Standing::Good, "{fits:?}");
    for word in [
        "MiB beside tables, models and stores; 1024 are available",
        "requests that are not complete or not served yet 351,",
        "answers that wait for their peers 256,",
        "net threads at work 129,",
        "sockets may take 16 besides (net.ipv4.tcp_mem)",
    ] {
        assert!(fits.text.contains(word), "{fits:?} without {word:?}");
    }
    assert!(!fits.text.contains("calls to peers"), "{fits:?}");
    config.server.processes = 2;
    let over = finding(&facts, &config, what);
    assert_eq!(over.standing, Standing::Better, "{over:?}");
    assert!(
        over.text.contains("It is in 2 processes, each of them")
            && over.text.contains("Lower server.connections_max"),
        "{over:?}"
    );
    config
        .ordered
        .insert("events".into(), ordered::Section::default());
    let with_store = finding(&facts, &config, what);
    assert!(
        with_store.text.contains("puts that wait for their stores 64")
            && with_store
                .text
                .contains("; the process that has the ordered stores "),
        "{with_store:?}"
    );
    config.ordered.clear();
    config.server.processes = 1;
    let model = "backend = \"practice\"\nbehaviour = \"wait\"\nus = 1\nqueue_bytes_max = 1073741824";
    config.models = [("m".to_owned(), toml::from_str(model).unwrap())].into();
    let over = finding(&facts, &config, what);
    assert!(
        over.standing == Standing::Better && over.text.contains("and 2056 for calls that wait for models"),
        "{over:?}"
    );
}

#[test]
fn a_machine_that_could_be_better_is_told_how() {
    let facts = machine(&[
        ("proc/sys/net/core/somaxconn", "128\n"),
        ("proc/sys/net/ipv4/ip_local_port_range", "40000\t50000\n"),
        ("proc/meminfo", "MemTotal: 9 kB\nMemAvailable:    71680 kB\n"),
        ("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-2,7\n"),
        ("sys/fs/cgroup/cpu.max", "150000 100000\n"),
        (
            "sys/devices/system/clocksource/clocksource0/current_clocksource",
            "hpet\n",
        ),
        (
            "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
            "powersave\n",
        ),
        (
            "sys/kernel/mm/transparent_hugepage/enabled",
            "[always] madvise never\n",
        ),
        ("sys/devices/system/node/online", "0-1\n"),
    ]);
    let config = Config::default();
    for (what, word) in [
        ("connections waiting to be accepted", "somaxconn=4096"),
        ("ports for connections from here", "10001 an address"),
        ("memory", "70 MiB are available"),
        ("processors", "allows 1.50; 4 net threads"),
        ("clock", "hpet"),
        ("processor frequency", "cpupower"),
        ("transparent huge pages", "madvise >"),
        ("memory nodes", "one server a node"),
    ] {
        let found = finding(&facts, &config, what);
        assert_eq!(found.standing, Standing::Better, "{found:?}");
        assert!(found.text.contains(word), "{found:?} without {word:?}");
    }
}

#[test]
fn what_cannot_be_read_is_left_out() {
    let odd = [
        ("proc/self/limits", "Max open files"),
        ("proc/meminfo", "MemAvailable: many kB"),
        ("proc/self/status", "Cpus_allowed_list:\t3-1\n"),
        ("sys/fs/cgroup/cpu.max", "max 100000\n"),
        ("sys/kernel/mm/transparent_hugepage/enabled", "always"),
    ];
    for facts in [machine(&[]), machine(&odd)] {
        assert_eq!(facts, Facts::default());
        assert!(examine(&facts, &Config::default()).is_empty());
    }
}

#[test]
fn this_machine_is_read() {
    let facts = Facts::read(Path::new("/"));
    assert!(
        facts.files_max.is_some() && facts.processors.is_some(),
        "{facts:?}"
    );
}

#[test]
fn processors_that_are_pinned_are_good() {
    let facts = machine(&[("sys/devices/system/node/online", "0-1\n")]);
    let check = |change: fn(&mut Config), standing, word: &str| {
        let mut config = Config::default();
        change(&mut config);
        let found = finding(&facts, &config, "memory nodes");
        assert_eq!(found.standing, standing, "{found:?}");
        assert!(found.text.contains(word), "{found:?} without {word:?}");
    };
    check(|_| {}, Standing::Better, "numactl --cpunodebind=N");
    check(
        |config| config.server.cpus = vec![0],
        Standing::Good,
        "server.cpus pins",
    );
}
