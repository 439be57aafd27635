//! What is printed, and kept: `report.txt` as it was printed, `bars.json` and `run.json` for programs, `table.md` for
//! docs/performance.md.
//!
//! Raw results of single measurements lie beside them, each in a file or folder of its own. Its invariant: after
//! [`Report::close`] every bar of the group has exactly one outcome, and one that was decided is not decided again.

use crate::bar::{Bar, Row};
use crate::provenance::Provenance;
use crate::setup::Setup;
use anyhow::Context as _;
use millpond_press_recorder::Interval;
use millpond_press_verdict::{BarOutcome, Decision, Series, figure};
use serde::Serialize;
use std::fs::File;
use std::io::Write as _;
use std::path::PathBuf;
use std::time::Instant;

/// One bar's outcome.
#[derive(Serialize)]
struct Outcome {
    #[serde(flatten)]
    bar: BarOutcome,
    /// How often it was measured.
    tries: usize,
    /// Marks of the whole run that it must be read with.
    marks: Vec<String>,
}

/// The report being written.
pub(crate) struct Report {
    folder: PathBuf,
    text: File,
    started: Instant,
    provenance: Provenance,
    marks: Vec<String>,
    outcomes: Vec<Outcome>,
}

impl Report {
    pub(crate) fn create(setup: &Setup) -> anyhow::Result<Report> {
        let folder = setup.out.clone();
        let text = File::create(folder.join("report.txt"))
            .with_context(|| format!("cannot write to {}", folder.display()))?;
        let mut report = Report {
            folder,
            text,
            started: Instant::now(),
            provenance: Provenance::read(setup),
            marks: Vec::new(),
            outcomes: Vec::new(),
        };
        report.write("run.json", &serde_json::to_string_pretty(&report.provenance)?)?;
        let words = report.provenance.in_words();
        report.say(&words);
        Ok(report)
    }

    /// The folder of all tries.
    pub(crate) fn folder(&self) -> PathBuf {
        self.folder.clone()
    }

    /// Prints lines for people. A report that cannot be kept is found out at the end.
    pub(crate) fn say(&mut self, text: &str) {
        println!("{text}");
        let _ = writeln!(self.text, "{text}");
    }

    /// Says what every figure of this run must be read with, once, and marks them with it.
    pub(crate) fn mark(&mut self, text: &str) {
        if !self.marks.iter().any(|mark| mark == text) {
            self.marks.push(text.to_owned());
            self.say(text);
        }
    }

    /// Keeps a file beside the report.
    pub(crate) fn write(&self, name: &str, text: &str) -> anyhow::Result<()> {
        let path = self.folder.join(name);
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Keeps a bar's line for the end, and shows what it will say; `runs` are the figures its value was made of.
    pub(crate) fn bar(&mut self, bar: &Bar<'_>, value: f64, runs: Series) {
        self.outcome(BarOutcome::of(bar, value, runs));
    }

    /// The same of a bar that was decided.
    pub(crate) fn outcome(&mut self, bar: BarOutcome) {
        let mut line = format!("  = {}", bar.line.trim_start_matches("bar "));
        if let Some(interval) = bar.interval {
            line += &format!("   ({})", interval_in_words(interval));
        }
        if let Some((least, most)) = bar.runs.steal() {
            line += &format!("   (hypervisor {least:.1} to {most:.1} % of a core)");
        }
        self.say(&line);
        let at = self
            .outcomes
            .iter()
            .position(|outcome| outcome.bar.name == bar.name);
        let tries = at.map_or(0, |at| self.outcomes[at].tries) + 1;
        let outcome = Outcome {
            bar,
            tries,
            marks: self.marks.clone(),
        };
        match at {
            None => self.outcomes.push(outcome),
            Some(at) if self.outcomes[at].bar.decision == Decision::Noisy => self.outcomes[at] = outcome,
            Some(_) => self.say("    (it was decided in an earlier try, which stands)"),
        }
    }

    /// Gives the bars of a group that got no line one that says so. Where the group could not be measured to its end, those that
    /// an earlier try left noisy get one too: it was no noise that the try found.
    pub(crate) fn close(&mut self, bars: &[Row], was_measured: bool) -> anyhow::Result<()> {
        for Row { name, op, limit } in bars {
            let outcome = self.outcomes.iter().find(|outcome| outcome.bar.name == *name);
            let is_open = match outcome {
                None => true,
                Some(outcome) => outcome.bar.decision == Decision::Noisy && !was_measured,
            };
            if is_open {
                self.bar(&Bar::new(name, *op, *limit), f64::NAN, Series::default());
            }
        }
        self.write("bars.json", &serde_json::to_string_pretty(&self.outcomes)?)
    }

    /// Whether one of the bars could not be told from the machine's noise.
    pub(crate) fn is_noisy(&self, bars: &[Row]) -> bool {
        let of_group = |outcome: &&Outcome| bars.iter().any(|bar| bar.name == outcome.bar.name);
        let mut outcomes = self.outcomes.iter().filter(of_group);
        outcomes.any(|outcome| outcome.bar.decision == Decision::Noisy)
    }

    /// Prints the lines of all bars, which nothing follows; whether none of them failed. One that stayed noisy counts as measured.
    pub(crate) fn finish(mut self) -> anyhow::Result<bool> {
        self.write("table.md", &self.table())?;
        let minutes = self.started.elapsed().as_secs_f64() / 60.0;
        let folder = self.folder.display().to_string();
        let mut text =
            format!("\n## All bars, after {minutes:.1} minutes; raw results and table.md in {folder}\n");
        for mark in &self.marks {
            text += &format!("{mark}\n");
        }
        for Outcome { bar, tries, .. } in &self.outcomes {
            if bar.decision == Decision::Noisy {
                let interval = bar.interval.map(interval_in_words);
                let interval = interval.unwrap_or("no pairs to tell by".to_owned());
                text += &format!("{} is noisy: tries {tries}, {interval}\n", bar.name);
            }
        }
        for outcome in &self.outcomes {
            text += &format!("\n{}", outcome.bar.line);
        }
        self.say(&text);
        self.text.sync_all()?;
        let failed = |outcome: &Outcome| outcome.bar.decision == Decision::Fail;
        Ok(!self.outcomes.iter().any(failed))
    }

    /// The bars as a table of docs/performance.md: one run, of one commit.
    fn table(&self) -> String {
        let mut text = format!("{}\n", self.provenance.in_one_line());
        for mark in &self.marks {
            text += &format!("**{mark}.**\n");
        }
        text += "\n| bar | value | runs | stolen, % of a core | limit | commit | |\n|---|---|---|---|---|---|---|\n";
        let commit = self.provenance.commit();
        for Outcome { bar, tries, .. } in &self.outcomes {
            let mut runs = match bar.runs.figures().len() {
                0 => String::new(),
                1 => "one".to_owned(),
                count => format!(
                    "{} to {}, {count}",
                    figure(bar.runs.min()),
                    figure(bar.runs.max())
                ),
            };
            if let Some(interval) = bar.interval {
                runs += &format!("; {}", interval_in_words(interval));
            }
            let steal = bar.runs.steal();
            text += &format!(
                "| {} | {} | {runs} | {} | {} {} | {commit} | {} |\n",
                bar.name,
                bar.value.map_or("-".to_owned(), figure),
                steal.map_or("-".to_owned(), |(least, most)| format!("{least:.1} to {most:.1}")),
                bar.op,
                figure(bar.limit),
                match bar.decision {
                    Decision::Pass => "pass".to_owned(),
                    Decision::Fail => "**fail**".to_owned(),
                    Decision::Noisy => format!("noisy, tries {tries}"),
                },
            );
        }
        text
    }
}

fn interval_in_words(interval: Interval) -> String {
    let Interval { mean, low, high, n } = interval;
    format!("{mean:.3}, interval {low:.3} to {high:.3} of {n} pairs")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use crate::bar::Op;
    use millpond_press_verdict::{Conditions, Standing};

    const NOISY: Bar = Bar::new("a-over-b", Op::AtLeast, 0.9);
    const DECIDED: Bar = Bar::new("c-us", Op::AtMost, 2.0);
    const MISSING: Bar = Bar::new("d-count", Op::Equal, 1.0);
    /// The bars of a group.
    fn group() -> Vec<Row> {
        let row = |bar: Bar<'_>| Row {
            name: bar.name.to_owned(),
            op: bar.op,
            limit: bar.limit,
        };
        [NOISY, DECIDED, MISSING].map(row).to_vec()
    }

    /// A report of a try in which one bar was noisy, one was decided, and one was not measured.
    fn first_try(name: &str, was_measured: bool) -> Report {
        let folder = std::env::temp_dir().join(format!("millpond-report-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut report = Report {
            text: File::create(folder.join("report.txt")).unwrap(),
            folder,
            started: Instant::now(),
            provenance: Provenance::default(),
            marks: Vec::new(),
            outcomes: Vec::new(),
        };
        let unfit = Conditions {
            standing: Standing::Unfit,
            steal_percent: 0.0,
        };
        let mut runs = Series::default();
        runs.under(1.0, unfit);
        report.bar(&NOISY, 1.0, runs);
        report.bar(&DECIDED, 1.0, Series::from_iter([1.0]));
        report.close(&group(), was_measured).unwrap();
        report
    }

    fn verdicts(report: &Report) -> Vec<(&str, Decision)> {
        let outcomes = report.outcomes.iter();
        outcomes
            .map(|outcome| (outcome.bar.name.as_str(), outcome.bar.decision))
            .collect()
    }

    #[test]
    fn a_later_try_that_cannot_be_measured_fails_what_was_noisy() {
        let mut report = first_try("later", true);
        assert!(report.is_noisy(&group()));
        let noisy = |verdict| {
            vec![
                ("a-over-b", verdict),
                ("c-us", Decision::Pass),
                ("d-count", Decision::Fail),
            ]
        };
        assert_eq!(verdicts(&report), noisy(Decision::Noisy));
        report.close(&group(), false).unwrap();
        assert_eq!(verdicts(&report), noisy(Decision::Fail));
        assert!(!report.is_noisy(&group()));
        assert_eq!(report.outcomes[0].bar.line, "bar a-over-b missing >= 0.9000 fail");
        let folder = report.folder();
        assert!(!report.finish().unwrap());
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_try_that_ends_early_leaves_nothing_noisy() {
        let report = first_try("early", false);
        assert!(!report.is_noisy(&group()));
        std::fs::remove_dir_all(report.folder()).unwrap();
    }
}
