//! `[log]`: where, how much and how it is logged.
//! It writes nothing. Its invariant: a level has one number and one name, and is known by either.

use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use tracing::level_filters::LevelFilter;

/// `[log]`
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Log {
    /// 1 or "trace", 2 or "debug": a line a request, with its scores; 3 or "info"; 4 or "warn"; 5 or "error".
    pub level: Level,
    /// Appended to; standard error when left out.
    pub file: Option<PathBuf>,
    /// "text" or "json".
    pub format: Format,
    /// Bytes of lines waiting to be written; further lines are dropped and counted.
    pub queue_bytes_max: usize,
    /// Calls that take longer are logged, whatever the level; 0: none.
    pub slow_ms: u64,
}

impl Default for Log {
    fn default() -> Self {
        Log {
            level: Level::Info,
            file: None,
            format: Format::Text,
            queue_bytes_max: 16 << 20,
            slow_ms: 0,
        }
    }
}

/// How much is logged, with the numbers of report R1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// 1: each call as it comes in, each connection as it comes and goes.
    Trace,
    /// 2: a line a request.
    Debug,
    /// 3: what happens to the process.
    #[default]
    Info,
    /// 4: what may need somebody.
    Warn,
    /// 5: what does.
    Error,
}

impl<'de> Deserialize<'de> for Level {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Number(i64),
            Name(String),
        }
        let (text, found) = match Form::deserialize(deserializer)? {
            Form::Number(number) => (number.to_string(), number.to_string()),
            Form::Name(name) => (name.clone(), format!("{name:?}")),
        };
        Level::named(&text).ok_or_else(|| {
            D::Error::custom(format_args!(
                "log level {found}; expected 1 or \"trace\", 2 or \"debug\", 3 or \"info\", 4 or \"warn\", 5 or \"error\""
            ))
        })
    }
}

impl Level {
    /// All of them, in the order of their numbers.
    pub const ALL: [Level; 5] = [Level::Trace, Level::Debug, Level::Info, Level::Warn, Level::Error];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Level::Trace => "trace",
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Warn => "warn",
            Level::Error => "error",
        }
    }

    /// What passes at it.
    pub(crate) fn filter(self) -> LevelFilter {
        match self {
            Level::Trace => LevelFilter::TRACE,
            Level::Debug => LevelFilter::DEBUG,
            Level::Info => LevelFilter::INFO,
            Level::Warn => LevelFilter::WARN,
            Level::Error => LevelFilter::ERROR,
        }
    }

    /// The level of a name, or of a number as report R1 has them.
    pub fn named(text: &str) -> Option<Level> {
        let is = |(level, number): &(Level, &str)| text.eq_ignore_ascii_case(level.name()) || text == *number;
        let numbered = Level::ALL.into_iter().zip(["1", "2", "3", "4", "5"]);
        numbered.into_iter().find(is).map(|(level, _)| level)
    }
}

/// How a log line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// For people.
    Text,
    /// For machines: one object a line.
    Json,
}
