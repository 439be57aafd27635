//! The samples of one process, or of several together, and the text that Prometheus reads (exposition format 0.0.4).
//!
//! Counters and histograms add up exactly: all processes are the same program with the same buckets. Its invariant: a label's
//! value cannot break out of its quotes, and a family is printed once.

use crate::{Family, Kind, Metric, Octaves, Read, Times};
use std::borrow::Borrow;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::ops::RangeInclusive;

/// Bounds of the buckets that are printed: powers of two, in nanoseconds (1 µs to 4.3 s).
const POWERS: RangeInclusive<u32> = 10..=32;
/// The same of sizes: 1 to 65,536.
const SIZE_POWERS: RangeInclusive<u32> = 0..=16;

/// A page as it goes from one process to another: each family's name, and its samples.
pub type Values = Vec<(String, Vec<(String, f64)>)>;

/// Families with their samples, in the order in which they came.
#[derive(Debug, Clone, Default)]
pub struct Page {
    families: Vec<(&'static Family, Vec<Sample>)>,
    /// The families of all parts that it was made of, whether these were there or not.
    declared: Vec<&'static Family>,
}

/// What follows the family's name in a line, and the value.
type Sample = (String, f64);

impl Page {
    /// What a part has counted. Of a part that is not there the families are declared, and not printed.
    pub fn part<P>(&mut self, list: &'static [Metric<P>], part: Option<&P>) {
        self.declared.extend(list.iter().map(|metric| &metric.family));
        let Some(part) = part else { return };
        for metric in list {
            metric.read(part, &[], self.samples(&metric.family));
        }
    }

    /// What several parts of a kind have counted, each under its name in the label.
    pub fn parts<P, N: AsRef<str>, B: Borrow<P>>(
        &mut self,
        list: &'static [Metric<P>],
        label: &str,
        parts: Option<impl IntoIterator<Item = (N, B)>>,
    ) {
        let parts = parts.map(|parts| parts.into_iter().map(|(name, part)| ([name], part)));
        self.labelled(list, [label], parts);
    }

    /// As [`Page::parts`], where it takes several labels to name a part.
    pub fn labelled<P, N: AsRef<str>, B: Borrow<P>, const LABELS: usize>(
        &mut self,
        list: &'static [Metric<P>],
        labels: [&str; LABELS],
        parts: Option<impl IntoIterator<Item = ([N; LABELS], B)>>,
    ) {
        self.declared.extend(list.iter().map(|metric| &metric.family));
        let Some(parts) = parts else { return };
        let parts: Vec<([N; LABELS], B)> = parts.into_iter().collect();
        for metric in list {
            let samples = self.samples(&metric.family);
            for (names, part) in &parts {
                let names: [(&str, &str); LABELS] =
                    std::array::from_fn(|at| (labels[at], names[at].as_ref()));
                metric.read(part.borrow(), &names, samples);
            }
        }
    }

    fn samples(&mut self, family: &'static Family) -> &mut Vec<Sample> {
        let known = self
            .families
            .iter()
            .position(|(known, _)| known.name == family.name);
        let at = known.unwrap_or_else(|| {
            self.families.push((family, Vec::new()));
            self.families.len() - 1
        });
        &mut self.families[at].1
    }

    /// Takes in what another process counted.
    pub fn merge(&mut self, other: &Page) {
        for (family, values) in &other.families {
            let samples = self.samples(family);
            let by_name = values.iter().map(|(sample, value)| (sample.as_str(), *value));
            let mut theirs: HashMap<&str, f64> = by_name.collect();
            for (sample, value) in samples.iter_mut() {
                if let Some(their) = theirs.remove(sample.as_str()) {
                    *value = family.merge.of(*value, their);
                }
            }
            let new = values
                .iter()
                .filter(|(sample, _)| theirs.contains_key(sample.as_str()));
            samples.extend(new.cloned());
        }
    }

    /// What stays of a process that has died: what it had counted, and nothing of its state.
    #[must_use]
    pub fn without_gauges(mut self) -> Page {
        self.families.retain(|(family, _)| family.kind != Kind::Gauge);
        self
    }

    /// The value of a family's sample without labels.
    pub fn value(&self, name: &str) -> Option<f64> {
        let (_, samples) = self.families.iter().find(|(family, _)| family.name == name)?;
        let (_, value) = samples.iter().find(|(sample, _)| sample.is_empty())?;
        Some(*value)
    }

    /// What the values of another process of the same program are.
    pub fn declared(self) -> Vec<&'static Family> {
        self.declared
    }

    /// For another process of the same program.
    pub fn into_values(self) -> Values {
        let families = self.families.into_iter();
        families
            .map(|(family, samples)| (family.name.to_owned(), samples))
            .collect()
    }

    /// From another process, of which these are the families. Values of a name that is not among them are left out.
    pub fn from_values(values: Values, families: &[&'static Family]) -> Page {
        let named = |name: &str| families.iter().find(|family| family.name == name).copied();
        let families = values.into_iter();
        Page {
            families: families
                .filter_map(|(name, samples)| Some((named(&name)?, samples)))
                .collect(),
            declared: Vec::new(),
        }
    }

    /// As Prometheus reads it.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (family, samples) in &self.families {
            let (name, kind, help) = (family.name, family.kind.name(), family.help);
            let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (sample, value) in samples {
                let _ = writeln!(text, "{name}{sample} {value}");
            }
        }
        text
    }
}

impl<P> Metric<P> {
    fn read(&self, part: &P, labels: &[(&str, &str)], samples: &mut Vec<Sample>) {
        let mut samples = Samples { labels, samples };
        match self.read {
            Read::Value(read) => samples.add(self.label.as_slice(), read(part) / self.divisor),
            Read::Samples(read) => read(part, &mut samples),
        }
    }
}

/// Where a metric of several samples puts them.
#[derive(Debug)]
pub struct Samples<'s> {
    /// Those of the whole part.
    labels: &'s [(&'s str, &'s str)],
    samples: &'s mut Vec<Sample>,
}

impl Samples<'_> {
    /// A sample. Labels hold names from the configuration, so quotes and backslashes are escaped.
    pub fn add(&mut self, labels: &[(&str, &str)], value: f64) {
        self.push("", labels, &[], value);
    }

    /// A histogram: the samples `_bucket`, `_sum` and `_count`.
    pub fn times(&mut self, labels: &[(&str, &str)], times: &Times) {
        for power in POWERS {
            let bound = ((1_u64 << power) as f64 / 1e9).to_string();
            self.push("_bucket", labels, &[("le", &bound)], times.at_most(power) as f64);
        }
        let count = times.count() as f64;
        self.push("_bucket", labels, &[("le", "+Inf")], count);
        self.push("_sum", labels, &[], times.seconds());
        self.push("_count", labels, &[], count);
    }

    /// As [`Samples::times`], of times that were counted in nanoseconds.
    pub fn octave_times(&mut self, labels: &[(&str, &str)], times: &Octaves) {
        self.octaves(labels, times, POWERS, 1e9);
    }

    /// A histogram of sizes: of rows, say.
    pub fn octave_sizes(&mut self, labels: &[(&str, &str)], sizes: &Octaves) {
        self.octaves(labels, sizes, SIZE_POWERS, 1.0);
    }

    fn octaves(
        &mut self,
        labels: &[(&str, &str)],
        octaves: &Octaves,
        powers: RangeInclusive<u32>,
        divisor: f64,
    ) {
        for power in powers {
            let bound = ((1_u64 << power) as f64 / divisor).to_string();
            self.push(
                "_bucket",
                labels,
                &[("le", &bound)],
                octaves.at_most(power) as f64,
            );
        }
        let count = octaves.count() as f64;
        self.push("_bucket", labels, &[("le", "+Inf")], count);
        self.push("_sum", labels, &[], octaves.sum() as f64 / divisor);
        self.push("_count", labels, &[], count);
    }

    fn push(&mut self, suffix: &str, labels: &[(&str, &str)], bound: &[(&str, &str)], value: f64) {
        let mut sample = suffix.to_owned();
        for (key, label) in self.labels.iter().chain(labels).chain(bound) {
            let label = label
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            let before = if sample.len() == suffix.len() { '{' } else { ',' };
            let _ = write!(sample, "{before}{key}=\"{label}\"");
        }
        if sample.len() > suffix.len() {
            sample.push('}');
        }
        self.samples.push((sample, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the processes of these tests count.
    struct Part {
        calls: Vec<(&'static str, f64)>,
        ready: f64,
        connections: f64,
    }

    const METRICS: &[Metric<Part>] = &[
        Metric::samples(
            "a_total",
            Kind::Counter,
            "Calls, counted.",
            |part: &Part, samples| {
                for (method, count) in &part.calls {
                    samples.add(&[("m", method)], *count);
                }
            },
        ),
        Metric::gauge("ready", "1 once warm.", |part: &Part| part.ready).min(),
        Metric::gauge("connections", "Connections.", |part: &Part| part.connections)
            .label("state", "live")
            .info("live"),
        Metric::gauge("connections", "", |_| 1.0).label("state", "refused"),
    ];

    fn page(calls: &[(&'static str, f64)], ready: f64, connections: f64) -> Page {
        let mut page = Page::default();
        let calls = calls.to_vec();
        page.part(
            METRICS,
            Some(&Part {
                calls,
                ready,
                connections,
            }),
        );
        page
    }

    fn check(page: &Page, samples: &str) {
        let text = page.text();
        let found: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(found.join("; "), samples, "{text}");
    }

    #[test]
    fn a_page_is_what_prometheus_reads() {
        assert_eq!(
            page(&[("x \"y\"\\\n", 3.0)], 1.0, 7.5).text(),
            "# HELP a_total Calls, counted.\n# TYPE a_total counter\na_total{m=\"x \\\"y\\\"\\\\\\n\"} 3\n\
             # HELP ready 1 once warm.\n# TYPE ready gauge\nready 1\n\
             # HELP connections Connections.\n# TYPE connections gauge\n\
             connections{state=\"live\"} 7.5\nconnections{state=\"refused\"} 1\n"
        );
    }

    #[test]
    fn parts_of_a_kind_have_a_label_and_no_part_a_family_all_the_same() {
        let part = Part {
            calls: vec![("x", 1.0)],
            ready: 0.0,
            connections: 2.0,
        };
        let mut several = Page::default();
        several.parts(METRICS, "model", Some([("r1", &part), ("r2", &part)]));
        check(
            &several,
            "a_total{model=\"r1\",m=\"x\"} 1; a_total{model=\"r2\",m=\"x\"} 1; ready{model=\"r1\"} 0; ready{model=\"r2\"} 0; \
             connections{model=\"r1\",state=\"live\"} 2; connections{model=\"r2\",state=\"live\"} 2; \
             connections{model=\"r1\",state=\"refused\"} 1; connections{model=\"r2\",state=\"refused\"} 1",
        );
        let mut none = Page::default();
        none.parts(METRICS, "model", Some([("", &part); 0]));
        assert_eq!(none.text().matches("# TYPE").count(), 3);
        assert_eq!(Metric::infos(METRICS, &part).collect::<Vec<_>>(), [("live", 2.0)]);
    }

    #[test]
    fn counts_add_up_and_gauges_follow_their_rule() {
        let mut sum = page(&[("x", 3.0), ("z", 1.0)], 1.0, 7.0);
        sum.merge(&page(&[("z", 5.0), ("new", 2.0)], 0.0, 4.0));
        let merged = "a_total{m=\"x\"} 3; a_total{m=\"z\"} 6; a_total{m=\"new\"} 2; ready 0; \
                      connections{state=\"live\"} 11; connections{state=\"refused\"} 2";
        check(&sum, merged);
        assert_eq!((sum.value("ready"), sum.value("connections")), (Some(0.0), None));
        const HIGHEST: &[Metric<f64>] = &[Metric::gauge("version", "", |version: &f64| *version).max()];
        let mut highest = Page::default();
        highest.part(HIGHEST, Some(&3.0));
        highest.merge(&highest.clone());
        check(&highest, "version 3");
    }

    #[test]
    fn histograms_have_buckets_a_sum_and_a_count() {
        const TIMES: &[Metric<Times>] = &[Metric::samples(
            "t",
            Kind::Histogram,
            "Times.",
            |times: &Times, samples| {
                samples.times(&[("part", "queue")], times);
            },
        )];
        let histogram = crate::Histogram::default();
        for ns in [1000, 2000] {
            histogram.add(std::time::Duration::from_nanos(ns));
        }
        let mut times = Times::default();
        times.add(&histogram);
        let mut page = Page::default();
        page.part(TIMES, Some(&times));
        page.merge(&page.clone());
        let text = page.text();
        for line in [
            "# TYPE t histogram\nt_bucket{part=\"queue\",le=\"0.000001024\"} 2\n",
            "t_bucket{part=\"queue\",le=\"0.000002048\"} 4\n",
            "t_bucket{part=\"queue\",le=\"+Inf\"} 4\nt_sum{part=\"queue\"} 0.000006\nt_count{part=\"queue\"} 4\n",
        ] {
            assert!(text.contains(line), "{line} is not in {text}");
        }
    }

    #[test]
    fn sizes_have_buckets_of_their_own_and_parts_several_labels() {
        const ROWS: &[Metric<crate::Octaves>] = &[Metric::samples(
            "rows",
            Kind::Histogram,
            "Rows.",
            |rows: &crate::Octaves, samples| samples.octave_sizes(&[], rows),
        )];
        let histogram = crate::OctaveHistogram::default();
        [1, 3, 4, 100_000]
            .into_iter()
            .for_each(|rows| histogram.add(rows));
        let mut page = Page::default();
        page.labelled(ROWS, ["model", "version"], Some([(["m", "2"], histogram.read())]));
        let text = page.text();
        let of = "model=\"m\",version=\"2\"";
        for line in [
            format!(
                "rows_bucket{{{of},le=\"1\"}} 1\nrows_bucket{{{of},le=\"2\"}} 1\nrows_bucket{{{of},le=\"4\"}} 3\n"
            ),
            format!("rows_bucket{{{of},le=\"65536\"}} 3\nrows_bucket{{{of},le=\"+Inf\"}} 4\n"),
            format!("rows_sum{{{of}}} 100008\nrows_count{{{of}}} 4\n"),
        ] {
            assert!(text.contains(&line), "{line} is not in {text}");
        }
    }

    #[test]
    fn what_a_dead_process_counted_is_kept_and_its_state_is_not() {
        let kept = page(&[("z", 1.0)], 1.0, 7.0).without_gauges();
        check(&kept, "a_total{m=\"z\"} 1");
        let mut sum = page(&[("z", 5.0)], 1.0, 4.0);
        sum.merge(&kept);
        check(
            &sum,
            "a_total{m=\"z\"} 6; ready 1; connections{state=\"live\"} 4; connections{state=\"refused\"} 1",
        );
    }

    #[test]
    fn values_of_another_process_find_their_families() {
        let families: Vec<&'static Family> = METRICS.iter().map(|metric| &metric.family).collect();
        let sent = page(&[("x", 3.0)], 1.0, 7.0);
        let mut values = sent.clone().into_values();
        values.push(("unknown".to_owned(), vec![(String::new(), 1.0)]));
        assert_eq!(Page::from_values(values, &families).text(), sent.text());
        assert_eq!(Page::from_values(Vec::new(), &families).text(), "");
    }
}
