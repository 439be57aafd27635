//! A page of metrics as Prometheus reads it (exposition format 0.0.4).
//! It knows no metric. Its invariant: a label's value cannot break out of its quotes.

use super::histogram::Times;
use std::fmt::Write as _;

/// Bounds of the buckets that are printed: powers of two, in nanoseconds (1 µs to 4.3 s).
const POWERS: std::ops::RangeInclusive<u32> = 10..=32;

/// The text.
#[derive(Debug, Default)]
pub struct Page {
    text: String,
}

impl Page {
    /// Begins a family: its samples follow.
    pub fn family(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    /// One sample. Labels hold names from the configuration, so quotes and backslashes are escaped.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(name);
        for (at, (key, label)) in labels.iter().enumerate() {
            let label = label
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let _ = write!(self.text, "{}{key}=\"{label}\"", if at == 0 { '{' } else { ',' });
        }
        let _ = writeln!(self.text, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// A family of one sample without labels.
    pub fn single(&mut self, name: &str, kind: &str, help: &str, value: f64) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// The samples `NAME_bucket`, `NAME_sum` and `NAME_count`.
    pub(super) fn times(&mut self, name: &str, labels: &[(&str, &str)], times: &Times) {
        let bucket = format!("{name}_bucket");
        let mut with_bound = |bound: &str, count: u64| {
            let labels = [labels, &[("le", bound)]].concat();
            self.sample(&bucket, &labels, count as f64);
        };
        for power in POWERS {
            let seconds = (1_u64 << power) as f64 / 1e9;
            with_bound(&seconds.to_string(), times.at_most(power));
        }
        let count = times.count();
        with_bound("+Inf", count);
        self.sample(&format!("{name}_sum"), labels, times.seconds());
        self.sample(&format!("{name}_count"), labels, count as f64);
    }

    /// The page.
    pub fn into_text(self) -> String {
        self.text
    }
}
