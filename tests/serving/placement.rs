//! `server.numa_node`: the server's threads use one memory node's processors and memory, as the kernel tells.

use crate::harness::{Millpond, r1_folder};
use std::path::{Path, PathBuf};

/// Threads of the server by name: net threads, the admin port's and model instances.
fn threads(pid: u32) -> Vec<(String, PathBuf)> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    // The thread that started the server ends meanwhile.
    let named = tasks.filter_map(|task| {
        let task = task.ok()?.path();
        let name = std::fs::read_to_string(task.join("comm")).ok()?;
        Some((name.trim().to_owned(), task))
    });
    let ours = |(name, _): &(String, PathBuf)| {
        ["net", "admin", "infer"]
            .iter()
            .any(|prefix| name.starts_with(prefix))
    };
    named.filter(ours).collect()
}

/// What follows `name` in a thread's status.
fn status(task: &Path, name: &str) -> String {
    let status = std::fs::read_to_string(task.join("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.unwrap().trim().to_owned()
}

#[test]
fn a_node_holds_all_threads_and_their_memory() {
    let folder = r1_folder();
    if !Path::new("/sys/devices/system/node/online").exists() {
        // A kernel without nodes: asking for one is refused by name.
        let (_, said) = Millpond::try_start(folder.path(), &["server.numa_node=0"])
            .err()
            .unwrap();
        assert!(
            said.contains("server.numa_node") && said.contains("no memory nodes"),
            "{said}"
        );
        return;
    }
    let server = Millpond::start(folder.path(), &["server.numa_node=0"]);
    let list = std::fs::read_to_string("/sys/devices/system/node/node0/cpulist").unwrap();
    let threads = threads(server.child.id());
    assert!(threads.len() >= 4, "{threads:?}");
    for (name, task) in threads {
        let policies = std::fs::read_to_string(task.join("numa_maps")).unwrap();
        assert!(policies.contains(" prefer:0 "), "{name}: {policies}");
        // Where this test's process is held to fewer processors, so is the server.
        let own = status(Path::new("/proc/self"), "Cpus_allowed_list:");
        let found = status(&task, "Cpus_allowed_list:");
        assert!(found == list.trim() || found == own, "{name}: {found}");
    }
    drop(server);
    let elsewhere = Millpond::start(folder.path(), &[]);
    let (name, task) = threads_of_net(elsewhere.child.id());
    let policies = std::fs::read_to_string(task.join("numa_maps")).unwrap();
    assert!(!policies.contains(" prefer:"), "{name}: {policies}");
}

fn threads_of_net(pid: u32) -> (String, PathBuf) {
    let first = threads(pid).into_iter().find(|(name, _)| name.starts_with("net"));
    first.unwrap()
}

#[test]
fn a_node_that_is_not_there_and_processors_that_are_not_of_it_are_refused() {
    let folder = r1_folder();
    let check = |set: &[&str], words: &str| {
        let (_, said) = Millpond::try_start(folder.path(), set).err().unwrap();
        assert!(
            said.contains("server.numa_node") && said.contains(words),
            "{said}"
        );
    };
    check(&["server.numa_node=1023"], "no");
    if Path::new("/sys/devices/system/node/online").exists() {
        check(&["server.numa_node=1023"], "no such memory node");
        check(
            &["server.numa_node=0", "server.cpus=[1022]"],
            "server.cpus names 1022",
        );
    }
}
