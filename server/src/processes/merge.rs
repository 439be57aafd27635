//! Pages of metrics of several processes as one.
//!
//! Counters and histograms add up exactly: all processes are the same program with the same buckets. Its invariant: a
//! counter never falls, because what a process had counted when it died is kept.

use std::collections::HashMap;
use std::fmt::Write as _;

/// How a gauge of several processes becomes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Sum,
    Max,
    Min,
}

/// The gauges that do not add up.
const RULES: [(&str, Rule); 5] = [
    // Ready when all are.
    ("millpond_ready", Rule::Min),
    ("millpond_uptime_seconds", Rule::Max),
    // They map the same table.
    ("millpond_table_version", Rule::Max),
    ("millpond_table_rows", Rule::Max),
    // The one that ends first is the one to know of: each process reads the files for itself.
    ("millpond_tls_certificate_not_after_seconds", Rule::Min),
];

/// Families of samples, in the order in which they came.
#[derive(Debug, Clone, Default)]
pub(super) struct Sheet {
    families: Vec<Family>,
    at: HashMap<String, usize>,
}

#[derive(Debug, Clone)]
struct Family {
    name: String,
    kind: String,
    help: String,
    /// Name with labels, and value.
    samples: Vec<(String, f64)>,
    at: HashMap<String, usize>,
}

impl Sheet {
    /// Reads a page of this server's; what is no sample of a family is left out.
    pub(super) fn read(page: &str) -> Sheet {
        let mut sheet = Sheet::default();
        let mut current: Option<usize> = None;
        let mut help = "";
        for line in page.lines() {
            if let Some(words) = line.strip_prefix("# HELP ") {
                help = words.split_once(' ').map_or("", |(_, help)| help);
            } else if let Some(words) = line.strip_prefix("# TYPE ") {
                current = words
                    .split_once(' ')
                    .map(|(name, kind)| sheet.family(name, kind, help));
            } else if let Some((name, value)) = line.rsplit_once(' ')
                && let (Some(family), Ok(value)) = (current, value.parse())
            {
                sheet.families[family].add(name, value);
            }
        }
        sheet
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) -> usize {
        if let Some(&at) = self.at.get(name) {
            return at;
        }
        self.at.insert(name.to_owned(), self.families.len());
        self.families.push(Family {
            name: name.to_owned(),
            kind: kind.to_owned(),
            help: help.to_owned(),
            samples: Vec::new(),
            at: HashMap::new(),
        });
        self.families.len() - 1
    }

    /// Takes in what another process counted.
    pub(super) fn merge(&mut self, other: &Sheet) {
        for family in &other.families {
            let at = self.family(&family.name, &family.kind, &family.help);
            for (name, value) in &family.samples {
                self.families[at].add(name, *value);
            }
        }
    }

    /// What stays of a process that has died: what it had counted, and nothing of its state.
    pub(super) fn without_gauges(&self) -> Sheet {
        let mut kept = Sheet::default();
        for family in self.families.iter().filter(|family| family.kind != "gauge") {
            let at = kept.family(&family.name, &family.kind, &family.help);
            kept.families[at] = family.clone();
        }
        kept
    }

    /// The value of a sample, by its name with its labels.
    pub(super) fn value(&self, name: &str) -> Option<f64> {
        self.families.iter().find_map(|family| {
            let at = *family.at.get(name)?;
            Some(family.samples[at].1)
        })
    }

    /// As a page.
    pub(super) fn into_page(self) -> String {
        let mut page = String::new();
        for family in self.families {
            let (name, kind, help) = (&family.name, &family.kind, &family.help);
            let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
            for (name, value) in &family.samples {
                let _ = writeln!(page, "{name} {value}");
            }
        }
        page
    }
}

impl Family {
    fn rule(&self) -> Rule {
        let named = RULES.iter().find(|(name, _)| *name == self.name);
        named.map_or(Rule::Sum, |(_, rule)| *rule)
    }

    fn add(&mut self, name: &str, value: f64) {
        let Some(&at) = self.at.get(name) else {
            self.at.insert(name.to_owned(), self.samples.len());
            self.samples.push((name.to_owned(), value));
            return;
        };
        let rule = self.rule();
        let sum = &mut self.samples[at].1;
        *sum = match rule {
            Rule::Sum => *sum + value,
            Rule::Max => sum.max(value),
            Rule::Min => sum.min(value),
        };
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    const ONE: &str = "# HELP a_total Calls, counted.\n# TYPE a_total counter\na_total{m=\"x y\"} 3\na_total{m=\"z\"} 1\n\
                       # HELP t_seconds Times.\n# TYPE t_seconds histogram\nt_seconds_bucket{le=\"0.1\"} 2\n\
                       t_seconds_bucket{le=\"+Inf\"} 4\nt_seconds_sum 0.5\nt_seconds_count 4\n\
                       # HELP millpond_ready Ready.\n# TYPE millpond_ready gauge\nmillpond_ready 1\n\
                       # HELP millpond_connections Connections.\n# TYPE millpond_connections gauge\nmillpond_connections 7\n";
    const OTHER: &str = "# HELP a_total Calls, counted.\n# TYPE a_total counter\na_total{m=\"z\"} 5\na_total{m=\"new\"} 2\n\
                         # HELP t_seconds Times.\n# TYPE t_seconds histogram\nt_seconds_bucket{le=\"0.1\"} 1\n\
                         t_seconds_bucket{le=\"+Inf\"} 1\nt_seconds_sum 0.25\nt_seconds_count 1\n\
                         # HELP millpond_ready Ready.\n# TYPE millpond_ready gauge\nmillpond_ready 0\n\
                         # HELP millpond_connections Connections.\n# TYPE millpond_connections gauge\nmillpond_connections 4\n";

    #[test]
    fn counts_add_up_and_gauges_follow_their_rule() {
        let mut sheet = Sheet::read(ONE);
        assert_eq!(sheet.clone().into_page(), ONE, "one page is what it was");
        sheet.merge(&Sheet::read(OTHER));
        let check = |name: &str, value: f64| assert_eq!(sheet.value(name), Some(value), "{name}");
        check("a_total{m=\"x y\"}", 3.0);
        check("a_total{m=\"z\"}", 6.0);
        check("a_total{m=\"new\"}", 2.0);
        check("t_seconds_bucket{le=\"0.1\"}", 3.0);
        check("t_seconds_bucket{le=\"+Inf\"}", 5.0);
        check("t_seconds_sum", 0.75);
        check("millpond_ready", 0.0);
        check("millpond_connections", 11.0);
        let page = sheet.into_page();
        assert_eq!(page.matches("# TYPE a_total counter").count(), 1, "{page}");
    }

    #[test]
    fn what_a_dead_process_counted_is_kept_and_its_state_is_not() {
        let kept = Sheet::read(ONE).without_gauges();
        assert_eq!(kept.value("a_total{m=\"z\"}"), Some(1.0));
        assert_eq!(kept.value("t_seconds_count"), Some(4.0));
        assert_eq!(kept.value("millpond_connections"), None);
        let mut sheet = Sheet::read(OTHER);
        sheet.merge(&kept);
        assert_eq!(sheet.value("a_total{m=\"z\"}"), Some(6.0));
        assert_eq!(sheet.value("millpond_connections"), Some(4.0));
    }

    #[test]
    fn what_is_no_page_gives_nothing() {
        for page in ["", "a 1", "# TYPE\nx 1", "# TYPE a counter\na one\n", "no page"] {
            assert!(
                Sheet::read(page)
                    .families
                    .iter()
                    .all(|family| family.samples.is_empty())
            );
        }
    }

    /// The gauges that the server prints, in the order of `admin/page.rs`. Whoever adds one says here how it is merged.
    #[test]
    fn every_gauge_has_been_thought_of() {
        const ADDED_UP: [&str; 10] = [
            "millpond_in_flight",
            "millpond_in_flight_bytes",
            "millpond_awaiting_callers",
            "millpond_threads_stuck",
            "millpond_connections",
            "millpond_connections_beside",
            "millpond_write_buffer_bytes",
            "millpond_unfinished_bytes",
            "millpond_model_queued",
            "millpond_model_busy",
        ];
        // Several processes have no stores (`config::check::check_shared`).
        const NEVER: [&str; 3] = [
            "millpond_store_keys",
            "millpond_store_bytes",
            "millpond_store_read_only",
        ];
        let source = include_str!("../admin/page.rs");
        let texts: Vec<&str> = source.split('"').skip(1).step_by(2).collect();
        let gauges = texts.windows(2).filter(|pair| pair[1] == "gauge");
        let mut seen = 0;
        for pair in gauges {
            let mut known = RULES.iter().map(|(name, _)| name).chain(&ADDED_UP).chain(&NEVER);
            let known = known.any(|name| *name == pair[0]);
            assert!(known, "how is the gauge {} of several processes merged?", pair[0]);
            seen += 1;
        }
        assert_eq!(seen, ADDED_UP.len() + NEVER.len() + RULES.len());
    }
}
