//! With which record each epoch of a log ended, in the file `epochs` of its folder: the log itself tells only until a checkpoint stands for it.
//!
//! A line has an epoch, its last record, and a checksum. Invariant: what a line says is durable in the log before it is written, so that an end may be
//! unknown, and none is made up.

use std::path::Path;
use std::sync::Arc;

use millpond_wal::{History, Log};

use super::Note;
use crate::Error;

/// Ends that are kept: those of the latest epochs.
const KEPT: usize = 256;

/// Begins an epoch in the log of a folder, and notes with which record the one before ended. Where that cannot be noted, it is not known.
pub(super) fn begin_epoch(
    log: &mut Log,
    dir: &Path,
    history: History,
    next_version: u64,
) -> Result<(), Arc<Error>> {
    let before = log.history();
    log.begin_epoch(history, next_version)?;
    let last = log.next_sequence() - 1;
    let Some(ended) = before.filter(|before| before.id == history.id && before.epoch < history.epoch) else {
        return Ok(());
    };
    if last > 0
        && let Err(error) = add(dir, ended, last)
    {
        tracing::warn!(%error, dir = %dir.display(), "where an epoch ended cannot be noted in an ordered store's folder: followers that lag behind it will take no copy by themselves");
    }
    Ok(())
}

fn add(dir: &Path, ended: History, last: u64) -> std::io::Result<()> {
    let text = Note::Epochs.read(dir)?.unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let kept = lines.iter().skip(lines.len().saturating_sub(KEPT - 1));
    let mut text: String = kept.map(|line| format!("{line}\n")).collect();
    text += &line(ended, last);
    Note::Epochs.write(dir, &text)
}

fn line(ended: History, last: u64) -> String {
    let said = format!("{}{last}", begin_of(ended));
    let sum = crc32c::crc32c(said.as_bytes());
    format!("{said} {sum:08x}\n")
}

fn begin_of(ended: History) -> String {
    format!("{ended} ended with record ")
}

/// With which record an epoch of the folder's log ended; 0 where that is not known. Up to there whoever followed in that epoch has what this log has.
pub(super) fn last_of(dir: &Path, epoch: History) -> u64 {
    let text = Note::Epochs.read(dir).unwrap_or_else(|error| {
        tracing::warn!(%error, dir = %dir.display(), "where epochs ended cannot be read from an ordered store's folder");
        None
    });
    let begin = begin_of(epoch);
    let text = text.unwrap_or_default();
    let ends = text.lines().filter_map(|line| {
        let (said, sum) = line.rsplit_once(' ')?;
        let is_sound = u32::from_str_radix(sum, 16) == Ok(crc32c::crc32c(said.as_bytes()));
        said.strip_prefix(&begin)?.parse().ok().filter(|_: &u64| is_sound)
    });
    ends.min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn ends_are_found_by_their_epoch_and_not_where_a_byte_is_another() {
        let dir = tempfile::tempdir().unwrap();
        let of = |epoch| History { epoch, id: [7; 16] };
        assert_eq!(last_of(dir.path(), of(1)), 0);
        for (epoch, last) in [(1, 30), (12, 45), (99, 45)] {
            add(dir.path(), of(epoch), last).unwrap();
        }
        let found = |epoch| last_of(dir.path(), of(epoch));
        assert_eq!([found(1), found(12), found(99), found(2)], [30, 45, 45, 0]);
        let id = [8; 16];
        assert_eq!(last_of(dir.path(), History { epoch: 1, id }), 0);
        let path = dir.path().join("epochs");
        let whole = std::fs::read(&path).unwrap();
        for at in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[at] ^= [1, 128][at % 2];
            std::fs::write(&path, damaged).unwrap();
            let pairs = [(1, 30), (12, 45), (99, 45)];
            assert!(
                pairs
                    .iter()
                    .all(|(epoch, last)| [0, *last].contains(&found(*epoch)))
            );
        }
        // The latest are kept.
        std::fs::write(&path, whole).unwrap();
        for epoch in 100..100 + KEPT as u64 {
            add(dir.path(), of(epoch), epoch).unwrap();
        }
        assert_eq!((found(99), found(100), found(355)), (0, 100, 355));
    }
}
