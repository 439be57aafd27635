//! What a run comes to: its bars, what is printed, and the exit code.

use millpond_press_report::{State, report, terminal};
use millpond_press_verdict::{BarOutcome, Decision, exit_code};

use super::Run;
use crate::{Error, Outcome, bars};

impl Run {
    pub(super) fn outcome(self) -> Result<Outcome, Error> {
        let (bars, lines) = self.bars()?;
        let result = self.result;
        let markdown = report(&result);
        let text = terminal(&result) + &self.beside.lines() + &lines;
        // What was just written can be written again.
        let json = serde_json::to_string_pretty(&result).unwrap_or_default();
        let of_points = match result.state {
            // All figures come from commands.
            State::Complete if self.scenario.targets.is_empty() => 0,
            State::Complete => exit_code(
                &result.points,
                result.search.as_ref(),
                self.scenario.load.until_missed,
            ),
            _ => 3,
        };
        let is = |decision| bars.iter().any(|bar| bar.decision == decision);
        let exit_code = match of_points {
            0 if is(Decision::Fail) => 1,
            0 if is(Decision::Noisy) => 3,
            other => other,
        };
        Ok(Outcome {
            folder: self.folder.path().to_owned(),
            output: if self.options.json { json.clone() } else { text },
            markdown,
            json,
            exit_code,
            bars,
            result,
        })
    }

    /// What the bars come to, kept in the folder, and their lines.
    fn bars(&self) -> Result<(Vec<BarOutcome>, String), Error> {
        let mut lines = String::new();
        let mut outcomes = Vec::new();
        for (bar, why) in bars::decide(&self.scenario.bars, &self.result.points, &self.beside) {
            let why = why.map_or_else(String::new, |why| format!("   ({why})"));
            lines += &format!("{}{why}\n", bar.line);
            outcomes.push(bar);
        }
        if !outcomes.is_empty() {
            let json = serde_json::to_vec_pretty(&outcomes).unwrap_or_default();
            self.folder.write("bars.json", &json)?;
        }
        Ok((outcomes, lines))
    }
}
