//! The buckets of latencies: 1 ns to 60 s in three digits.
//!
//! They hold nothing. Their invariant: they are those of an HdrHistogram of that range, edge for edge, so that its log has what
//! was recorded.

/// The largest latency that is distinguished, in nanoseconds; longer ones are recorded as this.
pub(crate) const NS_MAX: u64 = 60_000_000_000;

/// Values below twice this have a bucket each; every doubling above shares this many: three digits.
const SUB_BUCKETS: usize = 1 << SUB_BITS;
const SUB_BITS: u32 = 10;

/// As many buckets as 60 s needs.
pub(crate) const BUCKETS: usize = index(NS_MAX) + 1;

/// The bucket of `ns`, which is at least 1.
pub(crate) const fn index(ns: u64) -> usize {
    // How often the value is halved until it has its eleven bits.
    let shift = match ns.ilog2() {
        bits if bits > SUB_BITS => bits - SUB_BITS,
        _ => 0,
    };
    shift as usize * SUB_BUCKETS + (ns >> shift) as usize
}

/// The largest value of a bucket.
pub(crate) const fn upper_edge(index: usize) -> u64 {
    let shift = (index / SUB_BUCKETS).saturating_sub(1);
    let sub = (index - shift * SUB_BUCKETS) as u64;
    ((sub + 1) << shift) - 1
}
