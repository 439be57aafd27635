//! The server's own split of its work and its counts, from its metrics before and after a load.
//!
//! Millpond's `millpond_stage_seconds` (sum and count by stage), `millpond_calls_total` and `millpond_connections` are
//! understood; a server without them has no split. Its invariant: a figure that a page of metrics does not hold is absent,
//! and no page makes the run fail.

use std::collections::BTreeMap;

use millpond_press_verdict::Stage;

use crate::probe::Ready;

/// What a page of metrics says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Totals {
    /// Sum of seconds and count of each stage, since the server began.
    stages: BTreeMap<String, (f64, f64)>,
    /// Calls of all methods answered with a result, since the server began.
    calls: Option<f64>,
    /// Connections of now.
    connections: Option<f64>,
    /// Every sample by its name with its labels.
    samples: BTreeMap<String, f64>,
}

impl Totals {
    pub(crate) fn read(from: &Ready) -> Totals {
        from.text().map(|text| Totals::parse(&text)).unwrap_or_default()
    }

    /// Reads the lines `millpond_stage_seconds_sum{stage="…"} VALUE` and `…_count{…}`, `millpond_calls_total{…}` and
    /// `millpond_connections`.
    fn parse(text: &str) -> Totals {
        let mut totals = Totals::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, value)) = line.rsplit_once(' ') else {
                continue;
            };
            let Ok(value) = value.parse::<f64>() else { continue };
            totals.samples.insert(name.to_owned(), value);
            if name == "millpond_connections" {
                totals.connections = Some(value);
            } else if name.starts_with("millpond_calls_total{") {
                *totals.calls.get_or_insert(0.0) += value;
            }
            let Some(rest) = name.strip_prefix("millpond_stage_seconds_") else {
                continue;
            };
            let Some((kind @ ("sum" | "count"), label)) = rest.split_once("{stage=\"") else {
                continue;
            };
            let stage = label.trim_end_matches("\"}").to_owned();
            let entry = totals.stages.entry(stage).or_default();
            if kind == "sum" {
                entry.0 += value;
            } else {
                entry.1 += value;
            }
        }
        totals
    }

    /// The server's own count of its connections.
    pub(crate) fn connections(&self) -> Option<u64> {
        self.connections.map(|connections| connections as u64)
    }

    /// The calls that the server answered between two readings.
    pub(crate) fn calls_until(&self, later: &Totals) -> Option<u64> {
        let calls = later.calls? - self.calls?;
        // A server that began anew counts from 0.
        (calls >= 0.0).then_some(calls as u64)
    }

    /// The mean time of a call between two readings, of all methods but the server's own. It holds the server's queue.
    pub(crate) fn call_us_until(&self, later: &Totals) -> Option<f64> {
        let (seconds, calls) = (
            self.grown(later, "millpond_call_seconds_sum", "")?,
            self.grown(later, "millpond_call_seconds_count", "")?,
        );
        // A server that began anew counts from 0.
        (calls > 0.0 && seconds >= 0.0).then(|| seconds * 1e6 / calls)
    }

    /// The part of that mean in which a call waited in the server's queue; nothing where the server does not part its calls.
    /// Calls that are answered in the turn that reads them have no parts, and waited in none.
    pub(crate) fn queue_us_until(&self, later: &Totals) -> Option<f64> {
        let calls = self.grown(later, "millpond_call_seconds_count", "")?;
        let seconds = self.grown(later, "millpond_call_part_seconds_sum", "part=\"queue\"")?;
        (calls > 0.0 && seconds >= 0.0).then(|| seconds * 1e6 / calls)
    }

    /// What the samples of this name that have this label grew by until a later reading, over all methods but the server's own;
    /// nothing where there is no such sample.
    fn grown(&self, later: &Totals, name: &str, label: &str) -> Option<f64> {
        let prefix = format!("{name}{{method=\"");
        let samples = later.samples.range(prefix.clone()..);
        let of_methods = samples.take_while(|(name, _)| name.starts_with(&prefix));
        of_methods
            .filter(|(name, _)| name.contains(label))
            .filter(|(name, _)| {
                !name
                    .strip_prefix(&prefix)
                    .is_some_and(|rest| rest.starts_with('*'))
            })
            .map(|(name, now)| now - self.samples.get(name).copied().unwrap_or(0.0))
            .reduce(|sum, grown| sum + grown)
    }

    /// A sample of a later reading, and what it grew by since this one.
    pub(crate) fn sample_until(&self, later: &Totals, name: &str) -> Option<(f64, f64)> {
        let now = *later.samples.get(name)?;
        Some((now, now - self.samples.get(name).copied().unwrap_or(0.0)))
    }

    /// What was spent between two readings, the longest mean first.
    pub(crate) fn until(&self, later: &Totals) -> Vec<Stage> {
        let mut stages: Vec<Stage> = later
            .stages
            .iter()
            .filter_map(|(name, &(sum, count))| {
                let (sum_before, count_before) = self.stages.get(name).copied().unwrap_or_default();
                let count = count - count_before;
                (count > 0.0).then(|| Stage {
                    name: name.clone(),
                    count: count as u64,
                    us_mean: (sum - sum_before) * 1e6 / count,
                })
            })
            .collect();
        stages.sort_by(|a, b| b.us_mean.total_cmp(&a.us_mean));
        stages
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_what_lies_between_two_pages() {
        let page = |queue: f64, count: u64| {
            Totals::parse(&format!(
                "# HELP x\nmillpond_stage_seconds_bucket{{stage=\"queue\",le=\"1\"}} 5\n\
                 millpond_stage_seconds_sum{{stage=\"queue\"}} {queue}\n\
                 millpond_stage_seconds_count{{stage=\"queue\"}} {count}\nother_sum 4\n\
                 millpond_call_seconds_sum{{method=\"infer\"}} {queue}\nmillpond_call_seconds_count{{method=\"infer\"}} {count}\nbroken\n"
            ))
        };
        let stages = page(1.0, 10).until(&page(1.5, 20));
        assert_eq!((stages.len(), stages[0].count), (1, 10));
        assert!((stages[0].us_mean - 50_000.0).abs() < 1e-6);
        assert!(page(1.0, 10).until(&page(1.0, 10)).is_empty());
    }

    #[test]
    fn the_time_of_calls_is_that_of_the_methods_that_were_asked() {
        let page = |seconds: f64, calls: u64| {
            Totals::parse(&format!(
                "millpond_call_seconds_sum{{method=\"*infos\"}} {}\nmillpond_call_seconds_count{{method=\"*infos\"}} {calls}\n\
                 millpond_call_seconds_sum{{method=\"ordered.batch\"}} {seconds}\n\
                 millpond_call_seconds_count{{method=\"ordered.batch\"}} {calls}\n",
                seconds * 9.0
            ))
        };
        let found = page(1.0, 10).call_us_until(&page(1.5, 20)).unwrap();
        assert!((found - 50_000.0).abs() < 1e-6, "{found}");
        assert_eq!(page(1.0, 10).call_us_until(&page(1.0, 10)), None, "no call");
        assert_eq!(page(1.5, 20).call_us_until(&page(0.1, 30)), None, "it began anew");
        assert_eq!(Totals::default().call_us_until(&Totals::default()), None);
    }

    #[test]
    fn the_queue_of_calls_is_apart_from_their_work() {
        let page = |queue: f64, work: f64, calls: u64| {
            let part = |name: &str, seconds: f64| {
                format!(
                    "millpond_call_part_seconds_sum{{method=\"ordered.batch\",part=\"{name}\"}} {seconds}\n"
                )
            };
            Totals::parse(&format!(
                "millpond_call_seconds_sum{{method=\"ordered.batch\"}} {}\n\
                 millpond_call_seconds_count{{method=\"ordered.batch\"}} {calls}\n{}{}{}\
                 millpond_call_part_seconds_sum{{method=\"*infos\",part=\"queue\"}} {calls}\n",
                queue + work,
                part("queue", queue),
                part("work", work),
                part("write", 9.0 * work)
            ))
        };
        let (before, after) = (page(1.0, 2.0, 10), page(1.4, 2.1, 20));
        let queue = before.queue_us_until(&after).unwrap();
        let work = before.call_us_until(&after).unwrap() - queue;
        assert!((queue - 40_000.0).abs() < 1e-6, "{queue}");
        assert!((work - 10_000.0).abs() < 1e-6, "{work}");
        let whole = Totals::parse("millpond_call_seconds_count{method=\"infer\"} 5\n");
        assert_eq!(Totals::default().queue_us_until(&whole), None, "no parts");
    }

    #[test]
    fn the_servers_own_counts_are_read() {
        let page = |infer: u64, ping: u64, connections: u64| {
            Totals::parse(&format!(
                "millpond_calls_total{{method=\"infer\"}} {infer}\nmillpond_calls_total{{method=\"*ping\"}} {ping}\n\
                 millpond_connections_accepted_total 99\nmillpond_connections {connections}\n"
            ))
        };
        let (before, after) = (page(3, 1, 0), page(10, 4, 7));
        assert_eq!(before.calls_until(&after), Some(10));
        assert_eq!(after.calls_until(&before), None, "it began anew");
        assert_eq!(after.connections(), Some(7));
        assert_eq!(Totals::default().calls_until(&after), None);
        assert_eq!(Totals::default().connections(), None);
    }
}
