//! Bars that are measured together: by a scenario, whose rows they are, or by code.

use crate::report::Report;
use crate::setup::Setup;
use anyhow::Context as _;
pub(crate) use millpond_press_verdict::{Bar, Op};
use serde::Deserialize;

/// Bars that are measured together.
pub(crate) struct Group {
    pub(crate) name: &'static str,
    /// What it is about, and its bars; a scenario says that itself.
    pub(crate) title: &'static str,
    pub(crate) bars: &'static [Bar<'static>],
    pub(crate) measure: Measure,
}

/// How they are measured.
pub(crate) enum Measure {
    /// By `benches/scenarios/NAME.toml`; this makes what it needs, and gives overrides of its keys.
    Scenario(fn(&Setup) -> anyhow::Result<Vec<String>>),
    Code(fn(&Setup, &mut Report) -> anyhow::Result<()>),
}

/// A row of a scenario.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) op: Op,
    pub(crate) limit: f64,
}

/// What of a scenario's file is needed before it is run.
#[derive(Deserialize)]
struct File {
    scenario: About,
    #[serde(default)]
    bar: Vec<Row>,
    #[serde(default)]
    load: Load,
}

#[derive(Deserialize)]
struct About {
    title: String,
}

/// The part of its load that a quick look shortens.
#[derive(Default, Deserialize)]
struct Load {
    duration_s: Option<f64>,
}

impl Group {
    /// A group of a scenario that needs what this makes.
    pub(crate) const fn of(name: &'static str, prepare: fn(&Setup) -> anyhow::Result<Vec<String>>) -> Group {
        Group {
            name,
            title: "",
            bars: &[],
            measure: Measure::Scenario(prepare),
        }
    }

    /// A group whose scenario needs nothing to be made.
    pub(crate) const fn plain(name: &'static str) -> Group {
        Group {
            name,
            title: "",
            bars: &[],
            measure: Measure::Scenario(|_| Ok(Vec::new())),
        }
    }

    /// Its scenario's file.
    pub(crate) fn file(&self) -> String {
        format!("benches/scenarios/{}.toml", self.name)
    }

    /// Whether its scenario offers loads of a given length.
    pub(crate) fn has_length(&self) -> anyhow::Result<bool> {
        Ok(self.read()?.load.duration_s.is_some())
    }

    fn read(&self) -> anyhow::Result<File> {
        let file = self.file();
        let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
        toml::from_str(&text).with_context(|| format!("{file} is no scenario"))
    }

    /// What it is about, and its bars.
    pub(crate) fn about(&self) -> anyhow::Result<(String, Vec<Row>)> {
        match self.measure {
            Measure::Code(_) => {
                let row = |bar: &Bar<'_>| Row {
                    name: bar.name.to_owned(),
                    op: bar.op,
                    limit: bar.limit,
                };
                Ok((self.title.to_owned(), self.bars.iter().map(row).collect()))
            }
            Measure::Scenario(_) => {
                let File { scenario, bar, .. } = self.read()?;
                Ok((scenario.title, bar))
            }
        }
    }
}
