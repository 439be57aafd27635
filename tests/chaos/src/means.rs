//! What this machine allows a campaign to do: mounts of its own, and changing what system calls return.
//!
//! Its invariant: what is mounted is seen by this process and its children alone, and ends with them; and they end with it.

use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// The first process of a namespace hears no signal that it has not asked for; this one has, and its end is that of all.
const FIRST: &str = "trap 'exit 130' INT TERM; \"$0\" \"$@\" & wait $!";

/// Says that this process has a namespace of its own.
const ALONE: &str = "MILLPOND_CHAOS_ALONE";

fn works(program: &str, arguments: &[&str]) -> bool {
    let done = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    done.is_ok_and(|status| status.success())
}

/// Runs this program again in namespaces of mounts and processes of its own where that is possible, then with the rights to
/// mount: servers that it has started do not outlive it, however it ends. Returns where it is not, or is done already.
pub fn be_alone() {
    if std::env::var_os(ALONE).is_some() {
        return;
    }
    // Who is root needs no namespace of users, and would lose rights in one.
    const ROOT: &[&str] = &["--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
    const USER: &[&str] = &[
        "--map-root-user",
        "--mount",
        "--pid",
        "--fork",
        "--kill-child",
        "--mount-proc",
    ];
    let ways = [ROOT, USER];
    let way = ways
        .into_iter()
        .find(|way| works("unshare", &[*way, &["true"]].concat()));
    if let (Some(way), Ok(program)) = (way, std::env::current_exe()) {
        // It returns only where it fails; then the campaign goes on without.
        let _ = Command::new("unshare")
            .args(way)
            .args(["sh", "-c", FIRST])
            .arg(program)
            .args(std::env::args_os().skip(1))
            .env(ALONE, "1")
            .exec();
    }
}

/// Whether a tmpfs can be mounted in `folder`, for this process alone.
pub fn can_mount(folder: &Path) -> bool {
    let place = folder.display().to_string();
    std::env::var_os(ALONE).is_some()
        && works("mount", &["-t", "tmpfs", "tmpfs", &place])
        && works("umount", &[&place])
}

/// Whether strace can make a system call fail.
pub fn can_trace() -> bool {
    works(
        "strace",
        &[
            "-qq",
            "-o",
            "/dev/null",
            "-e",
            "inject=fdatasync:error=EIO",
            "-e",
            "trace=fdatasync",
            "true",
        ],
    )
}
