//! The latencies of a thread on their way to another process: a histogram as a text.
//!
//! It is base64 of numbers of seven bits a byte, the lowest first, the top bit set in all but a number's last byte:
//!
//! ```text
//! sum_ns  ns_max  then for each bucket that holds samples, ascending: distance from the bucket before it, count
//! ```
//!
//! Buckets are numbered as in `buckets`; the first distance is from bucket 0, which holds nothing. Its invariant: what
//! is read back equals what was written, bit for bit, and what nobody wrote is an error.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::PackedLatency;
use crate::buckets::{BUCKETS, index, upper_edge};

impl From<PackedLatency> for String {
    fn from(packed: PackedLatency) -> String {
        let mut bytes = Vec::new();
        push(&mut bytes, packed.sum_ns);
        push(&mut bytes, u128::from(packed.ns_max));
        let mut before = 0;
        for &(edge, count) in &packed.buckets {
            let bucket = index(edge);
            push(&mut bytes, (bucket - before) as u128);
            push(&mut bytes, u128::from(count));
            before = bucket;
        }
        STANDARD.encode(bytes)
    }
}

impl TryFrom<String> for PackedLatency {
    type Error = String;

    fn try_from(text: String) -> Result<PackedLatency, String> {
        let bytes = STANDARD
            .decode(text)
            .map_err(|error| format!("the latencies are no base64: {error}"))?;
        read(&bytes).ok_or_else(|| "the latencies are cut off or no histogram of ours".to_owned())
    }
}

fn read(mut bytes: &[u8]) -> Option<PackedLatency> {
    let sum_ns = take(&mut bytes)?;
    let ns_max = u64::try_from(take(&mut bytes)?).ok()?;
    let (mut buckets, mut bucket, mut samples) = (Vec::new(), 0usize, 0u64);
    while !bytes.is_empty() {
        let distance = usize::try_from(take(&mut bytes)?).ok()?;
        let count = u64::try_from(take(&mut bytes)?).ok()?;
        bucket = bucket.checked_add(distance)?;
        samples = samples.checked_add(count)?;
        if distance == 0 || count == 0 || bucket >= BUCKETS {
            return None;
        }
        buckets.push((upper_edge(bucket), count));
    }
    Some(PackedLatency {
        buckets,
        sum_ns,
        ns_max,
    })
}

fn push(bytes: &mut Vec<u8>, mut number: u128) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// The next number; nothing when the bytes end in it or it does not fit.
fn take(bytes: &mut &[u8]) -> Option<u128> {
    let mut number = 0u128;
    for place in 0.. {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let shift = 7 * place;
        let bits = u128::from(byte & 0x7f);
        if shift >= u128::BITS || bits << shift >> shift != bits {
            return None;
        }
        number |= bits << shift;
        if byte < 0x80 {
            break;
        }
    }
    Some(number)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::{ErrorKind, Tally};
    use proptest::prelude::*;

    fn through(tally: &Tally) -> Tally {
        serde_json::from_str(&serde_json::to_string(tally).unwrap()).unwrap()
    }

    fn assert_same(one: &Tally, other: &Tally) {
        assert_eq!(one.counters, other.counters);
        assert_eq!(one.operations, other.operations);
        assert_eq!(one.seconds, other.seconds);
        assert_eq!(one.latency, other.latency);
        assert_eq!(one.service, other.service);
        assert_eq!(one.lateness, other.lateness);
        assert_eq!(one.latency_refused, other.latency_refused);
    }

    fn of(buckets: Vec<(u64, u64)>, sum_ns: u128, ns_max: u64) -> PackedLatency {
        PackedLatency {
            buckets,
            sum_ns,
            ns_max,
        }
    }

    #[test]
    fn every_bucket_and_every_number_comes_back() {
        let buckets: Vec<(u64, u64)> = (1..BUCKETS).map(|at| (upper_edge(at), at as u64)).collect();
        for packed in [
            PackedLatency::default(),
            of(buckets, u128::MAX, u64::MAX),
            of(vec![(1, u64::MAX)], 1, 1),
        ] {
            let text = String::from(packed.clone());
            assert_eq!(PackedLatency::try_from(text), Ok(packed));
        }
    }

    #[test]
    fn what_nobody_wrote_is_refused() {
        let check = |bytes: &[u8]| assert_eq!(read(bytes), None, "{bytes:?}");
        check(&[]);
        check(&[1]);
        check(&[1, 1, 5]);
        check(&[1, 1, 0, 1]);
        check(&[1, 1, 5, 0]);
        check(&[1, 1, 0xff, 0xff, 0x7f, 1]);
        check(&[0x80; 40]);
        check(&[[0xff; 19].as_slice(), &[1]].concat());
        assert!(PackedLatency::try_from("no base64!".to_owned()).is_err());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            if let Some(packed) = read(&bytes) {
                prop_assert_eq!(PackedLatency::try_from(String::from(packed.clone())), Ok(packed));
            }
        }

        /// Tallies that went through another process merge to what they would have merged to here.
        #[test]
        fn a_merge_over_the_wire_is_bit_for_bit(
            outcomes in prop::collection::vec((0u64..70_000_000_000, 0usize..3, 0u8..12), 0..300),
        ) {
            let mut threads = vec![Tally::with_operations(2); 3];
            for (ns, thread, what) in outcomes {
                let tally = &mut threads[thread];
                match what {
                    0 => tally.roll(),
                    1 => tally.wrong(0, || format!("after {ns} ns")),
                    2 => tally.refused(1, 30_101, ns),
                    3 => tally.error(1, ErrorKind::Status, Some(7), || "status 7".into()),
                    4 => tally.unchecked(0, ns, ns / 2, 3),
                    _ => tally.answer(usize::from(what % 2), ns, ns / 3, ns / 1_000),
                }
            }
            let (mut here, mut there) = (Tally::default(), Tally::default());
            for tally in &mut threads {
                tally.finish();
                let came = through(tally);
                assert_same(&came, tally);
                here.merge(tally);
                there.merge(&came);
            }
            assert_same(&there, &here);
        }
    }
}
