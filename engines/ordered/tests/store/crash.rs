//! Cuts the log at every byte, as a crash may, and looks at what comes back.
//!
//! Invariant under test: a prefix of the acknowledged puts, each of them whole.

use crate::{HEADER_BYTES, History, contents, copy, one, reopen};

/// Cuts the last segment of a seeded history at every offset.
fn check(seed: u64, puts: usize, segment_bytes_max: u64) {
    let history = History::write(seed, puts, segment_bytes_max);
    let last = history.last_segment();
    let whole = std::fs::metadata(last).unwrap().len();
    let starts = history.records_of(last);
    let scratch = tempfile::tempdir().unwrap();
    for cut in 0..=whole {
        let dir = scratch.path().join(cut.to_string());
        copy(&history.dir, &dir);
        let file = dir.join(last.file_name().unwrap());
        std::fs::File::options()
            .write(true)
            .open(&file)
            .unwrap()
            .set_len(cut)
            .unwrap();
        let zeros = std::fs::read(&file)
            .unwrap()
            .into_iter()
            .rev()
            .take_while(|byte| *byte == 0);
        let zeros = zeros.count() as u64;

        let (store, recovery) = reopen(&dir);
        // The last record boundary that the cut leaves in place, and the puts up to there.
        let ends = starts.iter().copied().chain([(puts, whole)]);
        let (survivors, end) = ends
            .take_while(|&(_, end)| end <= cut)
            .last()
            .unwrap_or((starts[0].0, 0));
        assert_eq!(
            contents(&store),
            history.states[survivors],
            "seed {seed}, cut at {cut}"
        );
        assert_eq!(recovery.records as usize, survivors, "seed {seed}, cut at {cut}");
        let torn = recovery
            .torn_tail
            .map(|torn| (torn.file, torn.offset, torn.bytes));
        // What is torn within a header is dropped as it is.
        let zeros = if cut < HEADER_BYTES { 0 } else { zeros };
        let expected = (cut > end || cut < HEADER_BYTES).then(|| (file.clone(), end, cut - end - zeros));
        assert_eq!(torn, expected, "seed {seed}, cut at {cut}");

        assert_eq!(
            std::fs::metadata(&file).unwrap().len(),
            end.max(HEADER_BYTES),
            "cut at {cut}"
        );
        // What was cut is gone for good, and the log goes on behind it.
        store.write_wait(one("later", "put")).unwrap();
        let expected = contents(&store);
        store.close().unwrap();
        let (store, recovery) = reopen(&dir);
        assert_eq!(
            (recovery.torn_tail, recovery.records as usize),
            (None, survivors + 1)
        );
        assert_eq!(contents(&store), expected, "seed {seed}, cut at {cut}");
        drop(store);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}

#[test]
fn one_segment_cut_at_every_byte() {
    check(11, 8, 1 << 20);
}

#[test]
fn last_of_several_segments_cut_at_every_byte() {
    check(12, 30, 400);
}

#[test]
fn a_tail_of_zeros_is_nothing() {
    // They were reserved; and some file systems lengthen the file before they write to it.
    let history = History::write(13, 5, 1 << 20);
    let last = history.last_segment();
    let whole = std::fs::metadata(last).unwrap().len();
    for zeros in [1, 7, 5000, 2 << 20] {
        let file = std::fs::File::options().write(true).open(last).unwrap();
        file.set_len(whole + zeros).unwrap();
        let (store, recovery) = reopen(&history.dir);
        assert_eq!(recovery.torn_tail, None, "{zeros}");
        assert_eq!(Some(&contents(&store)), history.states.last());
        assert_eq!(std::fs::metadata(last).unwrap().len(), whole);
    }
}
