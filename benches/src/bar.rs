//! Bars that are measured together: by a scenario, whose rows they are, or by code.

use crate::report::Report;
use crate::setup::Setup;
use anyhow::Context as _;
pub(crate) use millpond_press_verdict::{Bar, Op};
use serde::Deserialize;

/// Bars that are measured together.
pub(crate) struct Group {
    pub(crate) name: &'static str,
    pub(crate) measure: Measure,
}

/// How they are measured.
pub(crate) enum Measure {
    /// By `benches/scenarios/NAME.toml`; this makes what it needs, and gives overrides of its keys.
    Scenario(fn(&Setup) -> anyhow::Result<Vec<String>>),
    Code {
        title: &'static str,
        bars: &'static [Bar<'static>],
        run: fn(&Setup, &mut Report) -> anyhow::Result<()>,
    },
}

/// A row of a scenario.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Row {
    pub(crate) name: String,
    pub(crate) op: Op,
    pub(crate) limit: f64,
}

/// What is needed of a group before it is measured.
#[derive(Deserialize)]
pub(crate) struct About {
    pub(crate) scenario: Title,
    #[serde(default)]
    pub(crate) bar: Vec<Row>,
    #[serde(default)]
    load: Load,
}

#[derive(Deserialize)]
pub(crate) struct Title {
    pub(crate) title: String,
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
            measure: Measure::Scenario(prepare),
        }
    }

    /// Its scenario's file.
    pub(crate) fn file(&self) -> String {
        format!("benches/scenarios/{}.toml", self.name)
    }

    /// What it is about, and its bars.
    pub(crate) fn about(&self) -> anyhow::Result<About> {
        if let Measure::Code { title, bars, .. } = &self.measure {
            let row = |bar: &Bar<'_>| Row {
                name: bar.name.to_owned(),
                op: bar.op,
                limit: bar.limit,
            };
            return Ok(About {
                scenario: Title {
                    title: (*title).to_owned(),
                },
                bar: bars.iter().map(row).collect(),
                load: Load::default(),
            });
        }
        let file = self.file();
        let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
        toml::from_str(&text).with_context(|| format!("{file} is no scenario"))
    }
}

impl About {
    /// Whether the scenario offers loads of a given length.
    pub(crate) fn has_length(&self) -> bool {
        self.load.duration_s.is_some()
    }
}
