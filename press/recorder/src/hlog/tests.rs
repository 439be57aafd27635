//! Logs are written, read back and merged; damaged ones are named.

#![allow(clippy::unwrap_used, clippy::expect_used)]
use super::reading::{COOKIE_COMPRESSED, read_log};
use super::*;
use crate::Latency;
use proptest::prelude::*;
use std::time::Duration;

/// Two threads, three seconds, the second one empty in the second thread, which also ends early.
fn tallies() -> [Tally; 2] {
    let mut tallies = [Tally::default(), Tally::default()];
    for second in 0..3u64 {
        for (thread, tally) in tallies.iter_mut().enumerate() {
            if thread == 0 || second == 0 {
                (1..500u64).for_each(|i| tally.answer(0, i * i * (1_000 + 77 * second), i, 1));
                tally.answer(0, 90_000_000_000, 1, 1);
            }
            if thread == 0 || second < 2 {
                tally.roll();
            }
        }
    }
    tallies.iter_mut().for_each(Tally::finish);
    tallies
}

fn written() -> String {
    let [zero, one] = tallies();
    let mut out = Vec::new();
    let start = UNIX_EPOCH + Duration::from_millis(1_700_000_000_250);
    let tagged = [("thread-0".into(), &zero), ("thread 1".into(), &one)];
    write_log(&mut out, start, &tagged).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn what_is_written_is_read_back_and_adds_up_to_the_whole() {
    let text = written();
    assert!(text.starts_with("#[StartTime: 1700000000.250 (seconds since epoch)]\n#[BaseTime: "));
    assert_eq!(text.lines().nth(4), Some(LEGEND));
    let entries = read_log(&text).unwrap();
    let tags: Vec<&str> = entries
        .iter()
        .map(|entry| entry.tag.as_deref().unwrap())
        .collect();
    assert_eq!(tags, ["thread-0", "thread_1", "thread-0", "thread_1", "thread-0"]);
    let starts: Vec<f64> = entries.iter().map(|entry| entry.start_s).collect();
    assert_eq!(starts, [0.0, 0.0, 1.0, 1.0, 2.0]);
    assert_eq!(entries[3].latency.count(), 0);

    let [mut whole, one] = tallies();
    // Sum and maximum are not in a log.
    assert_eq!(entries[2].latency.buckets, whole.seconds[1].latency.buckets);
    whole.merge(&one);
    let mut sum = Latency::new();
    entries.iter().for_each(|entry| sum.add(&entry.latency));
    assert_eq!(sum.pack().buckets, whole.latency.pack().buckets);
    assert_eq!(sum.count(), 2_000);
}

#[test]
fn the_librarys_own_reader_reads_it() {
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
    let text = written();
    let entries: Vec<LogEntry> = IntervalLogIterator::new(text.as_bytes())
        .collect::<Result<_, _>>()
        .unwrap();
    assert_eq!(entries.len(), 2 + 5);
    assert_eq!(
        entries[0],
        LogEntry::StartTime(Duration::from_millis(1_700_000_000_250))
    );
}

#[test]
fn a_bad_line_is_named_and_a_cut_file_is_called_cut() {
    let text = written();
    let said = |text: &str| read_log(text).expect_err("refused");
    for (from, to, why) in [
        (
            "Tag=thread_1,1.000,1.000",
            "Tag=thread_1,x,1.000",
            "\"x\" is no number",
        ),
        ("Tag=thread_1,1.000,1.000", "Tag=thread_1,1.000", "3 fields"),
        ("Tag=thread_1,1.000,", "Tag=thread_1\n", "nothing behind"),
    ] {
        let said = said(&text.replacen(from, to, 1));
        assert!(said.starts_with("line 9 ") && said.contains(why), "{said}");
    }
    let said_of_payload = |payload: &str| said(&format!("0.000,1.000,1.000,{payload}\n"));
    assert!(said_of_payload("§").contains("no base64"));
    assert!(said_of_payload("AAAA").contains("no head"));
    assert!(said_of_payload("AAAAAAAAAAAA").contains("V2"));
    let cut = |end: usize| said(&text[..end]);
    assert!(cut(text.len() - 1).contains("cut off"), "{}", cut(text.len() - 1));
    assert!(cut(text.len() - 40).contains("cut off"));
    let last_line = text.trim_end().rfind('\n').unwrap() + 1;
    assert!(cut(last_line).contains("cut off"));
    assert_eq!(read_log("").unwrap(), []);
}

#[test]
fn histograms_of_other_bounds_are_refused() {
    let other = Histogram::<u64>::new_with_bounds(1, 1_000_000, 2).unwrap();
    let mut bytes = Vec::new();
    V2DeflateSerializer::new().serialize(&other, &mut bytes).unwrap();
    let line = format!("0.0,1.0,0.0,{}\n", STANDARD.encode(&bytes));
    let said = read_log(&line).expect_err("refused");
    assert!(said.contains("1 to 1000000 with 2 digits"), "{said}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// Neither the text nor what is under the base64 and the compression can make the reader panic.
    #[test]
    fn garbage_is_an_error_or_a_histogram(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
        counts in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let mut text = written().into_bytes();
        let place = at.index(text.len());
        text[place] = byte;
        let _ = read_log(&String::from_utf8_lossy(&text));

        let mut inner = 0x1c84_9313u32.to_be_bytes().to_vec();
        inner.extend((counts.len() as u32).to_be_bytes());
        inner.extend([0, 0, 0, 0, 0, 0, 0, 3]);
        inner.extend(1u64.to_be_bytes());
        inner.extend(NS_MAX.to_be_bytes());
        inner.extend(1f64.to_be_bytes());
        inner.extend(counts);
        let mut outer = COOKIE_COMPRESSED.to_be_bytes().to_vec();
        outer.extend([0; 4]);
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&inner).unwrap();
        let stream = encoder.finish().unwrap();
        outer[4..].copy_from_slice(&(stream.len() as u32).to_be_bytes());
        outer.extend(stream);
        let _ = read_log(&format!("0.0,1.0,0.0,{}\n", STANDARD.encode(&outer)));
    }
}
