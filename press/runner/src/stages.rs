//! The server's own split of its work, from its metrics before and after a load.
//!
//! Millpond's `millpond_stage_seconds` (sum and count by stage) are understood; a server without them has no split. Its
//! invariant: a figure that a page of metrics does not hold is absent, and no page makes the run fail.

use std::collections::BTreeMap;

use millpond_press_report::Stage;

use crate::probe::Ready;

/// Sum of seconds and count of each stage, since the server began.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Totals(BTreeMap<String, (f64, f64)>);

impl Totals {
    pub(crate) fn read(from: &Ready) -> Totals {
        from.text().map(|text| Totals::parse(&text)).unwrap_or_default()
    }

    /// Reads the lines `millpond_stage_seconds_sum{stage="…"} VALUE` and `…_count{…}`.
    fn parse(text: &str) -> Totals {
        let mut totals = Totals::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, value)) = line.rsplit_once(' ') else {
                continue;
            };
            let Ok(value) = value.parse::<f64>() else { continue };
            let Some(rest) = name.strip_prefix("millpond_stage_seconds_") else {
                continue;
            };
            let Some((kind @ ("sum" | "count"), label)) = rest.split_once("{stage=\"") else {
                continue;
            };
            let stage = label.trim_end_matches("\"}").to_owned();
            let entry = totals.0.entry(stage).or_default();
            if kind == "sum" {
                entry.0 += value;
            } else {
                entry.1 += value;
            }
        }
        totals
    }

    /// What was spent between two readings, the longest mean first.
    pub(crate) fn until(&self, later: &Totals) -> Vec<Stage> {
        let mut stages: Vec<Stage> = later
            .0
            .iter()
            .filter_map(|(name, &(sum, count))| {
                let (sum_before, count_before) = self.0.get(name).copied().unwrap_or_default();
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
}
