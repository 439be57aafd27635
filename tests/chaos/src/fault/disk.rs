//! Disks that are full, folders that turn read-only, files that may not grow.
//!
//! Full and read-only take mounts, for which the campaign has a namespace of its own: nothing of them is left when it ends.

use crate::configuration::SEGMENT_BYTES_MAX;
use crate::finding::Broken;
use crate::fresh;
use crate::invariant::ready;
use crate::mixed::FOLDERS;
use crate::scene::{Scene, Truth};
use anyhow::Context as _;
use rustix::process::{Resource, Rlimit, prlimit};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Large enough for what a store's rounds put.
const DISK_BYTES: u64 = 192 << 20;

/// A mount that fails is made again so often.
const MOUNT_TRIES: u32 = 20;

/// The disk below a store.
pub struct Disk {
    /// What is mounted.
    mounted: Option<PathBuf>,
}

fn command(program: &str, arguments: &[&str], path: &Path) -> anyhow::Result<()> {
    let done = Command::new(program).args(arguments).arg(path).output();
    let done = done.with_context(|| format!("cannot run {program}"))?;
    anyhow::ensure!(
        done.status.success(),
        "{program} {}: {}",
        path.display(),
        String::from_utf8_lossy(&done.stderr).trim()
    );
    Ok(())
}

/// It is mounted, then made read-only, which the system refuses where the server has begun to write a new file between the two.
fn lay_read_only(folder: &Path) -> anyhow::Result<()> {
    let from = folder.display().to_string();
    let mut tries = 1;
    loop {
        match command("mount", &["--bind", "-o", "ro", &from], folder) {
            Err(_) if tries < MOUNT_TRIES => {
                let _ = command("umount", &["--lazy"], folder);
                tries += 1;
            }
            done => return done,
        }
    }
}

impl Disk {
    /// A disk of its own for `folder`, or the one that is there.
    ///
    /// # Errors
    /// It cannot be mounted.
    pub fn new(folder: &Path, is_own: bool) -> anyhow::Result<Disk> {
        if !is_own {
            return Ok(Disk { mounted: None });
        }
        let size = format!("size={DISK_BYTES}");
        command("mount", &["-t", "tmpfs", "-o", &size, "tmpfs"], folder)?;
        Ok(Disk {
            mounted: Some(folder.to_owned()),
        })
    }

    /// Whether it can be filled without harm.
    pub fn is_own(&self) -> bool {
        self.mounted.is_some()
    }

    /// Copies what is on it to a folder that stays.
    ///
    /// # Errors
    /// A file that cannot be copied.
    pub fn keep(&self, folder: &Path) -> anyhow::Result<()> {
        match &self.mounted {
            Some(mounted) => command("cp", &["-a", &mounted.display().to_string()], folder),
            None => Ok(()),
        }
    }

    /// Unmounts it.
    pub fn leave(&mut self) {
        if let Some(mounted) = self.mounted.take() {
            // The namespace takes with it what cannot be unmounted now.
            let _ = command("umount", &["--lazy"], &mounted);
        }
    }

    /// Fills it up, and makes room again.
    pub(super) fn full(&self, scene: &Scene<'_>, lasts: Duration) -> anyhow::Result<()> {
        let Some(mounted) = &self.mounted else {
            return Ok(());
        };
        begin(scene);
        let filler = mounted.join("filler");
        let mut file = std::fs::File::create(&filler).context("cannot create the filler")?;
        // Until it is full to the last byte; what then is freed by a cut is taken again.
        let fill = |file: &mut std::fs::File| {
            for block in [1 << 20, 4096] {
                while file.write_all(&vec![7; block]).is_ok() {}
            }
        };
        fill(&mut file);
        scene.sleep(lasts);
        fill(&mut file);
        scene.sleep(lasts);
        drop(file);
        std::fs::remove_file(&filler).context("cannot remove the filler")?;
        ready::after_disk(scene);
        Ok(())
    }

    /// Lays a read-only mount over the folders of all logs: open files can be written, none can be made.
    pub(super) fn read_only(&self, scene: &Scene<'_>, lasts: Duration) -> anyhow::Result<()> {
        begin(scene);
        let folders = ["store/events", FOLDERS[0], FOLDERS[1], fresh::LOG];
        let folders = folders.map(|folder| scene.folder.join(folder));
        for folder in &folders {
            lay_read_only(folder)?;
        }
        scene.sleep(lasts);
        for folder in &folders {
            command("umount", &["--lazy"], folder)?;
        }
        ready::after_disk(scene);
        Ok(())
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        self.leave();
    }
}

/// From here on the disk explains refusals, and readiness may go either way.
pub(super) fn begin(scene: &Scene<'_>) {
    scene.disk_failed.store(true, Ordering::SeqCst);
    scene.expect(Truth::Unknown);
}

/// No file of the server may grow beyond half a segment: a write past that fails, or is cut short.
pub(super) fn file_size(scene: &Scene<'_>, lasts: Duration) -> anyhow::Result<()> {
    begin(scene);
    let pid = Some(scene.server.pid());
    let limit = |current| Rlimit {
        current,
        maximum: None,
    };
    // In the middle of a segment, wherever it is now.
    let set = prlimit(pid, Resource::Fsize, limit(Some(SEGMENT_BYTES_MAX / 2)));
    scene.sleep(lasts);
    let reset = prlimit(pid, Resource::Fsize, limit(None));
    if let (Err(error), None) = (set.and(reset), scene.server.ended()) {
        scene.tell(
            Broken::Service,
            format!("the limit of file sizes cannot be set: {error}"),
        );
    }
    ready::after_disk(scene);
    Ok(())
}
