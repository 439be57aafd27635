//! What a parent and its processes say to each other: a JSON object a line, over pipes.
//!
//! Both ends are the same program, so nothing here has versions. Its invariant: a line that is too long, or no message, ends
//! the talk; it is never skipped.

use crate::handlers::tune::Setting;
use millpond_metrics::Values;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::io::{BufRead, Read as _, Write};
use std::net::IpAddr;

/// Bytes of a line: the counts of thousands of methods have a few MiB.
const LINE_BYTES_MAX: u64 = 64 << 20;

/// What a parent tells a process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Order {
    /// Tell what was counted, for the round of this number.
    Metrics { round: u64 },
    /// Say that you hear.
    Beat,
    /// Take over a setting that `*tune` changed, in this process's own call of this number or in another process.
    Set { setting: Setting, asked: Option<u64> },
    /// The call of `*tune` of this number changed nothing.
    Refuse { asked: u64, problem: String },
    /// Read the files of `server.tls` again.
    Reload,
    /// Everything that was tuned is told: begin to accept.
    Serve,
    /// Finish what was accepted, and end.
    Stop,
}

/// What a process tells its parent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Said {
    /// It is warm; it accepts nothing before it is told to.
    Warm,
    /// It accepts.
    Ready,
    /// It hears; and its threads turn, or not.
    Beats { why_not_ready: Option<String> },
    /// What it has counted.
    Metrics { round: u64, values: Values },
    /// `*tune` asks for this here, in the call of this number.
    Tune {
        asked: u64,
        key: String,
        value: String,
        /// The address that must be able to call after it.
        keeps: Option<IpAddr>,
    },
}

/// The next message; nothing at the end, or where there is no message.
pub(super) fn hear<T: DeserializeOwned>(from: &mut impl BufRead) -> Option<T> {
    let mut line = Vec::new();
    from.by_ref()
        .take(LINE_BYTES_MAX)
        .read_until(b'\n', &mut line)
        .ok()?;
    // One that was cut off has no end.
    let line = line.strip_suffix(b"\n")?;
    serde_json::from_slice(line)
        .inspect_err(|error| tracing::error!(%error, "a line between a process and its parent is no message"))
        .ok()
}

/// Says a message.
pub(super) fn say<T: Serialize>(to: &mut impl Write, message: &T) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn messages_arrive_as_they_were_said() {
        let said = [
            Said::Warm,
            Said::Ready,
            Said::Beats { why_not_ready: None },
            Said::Beats {
                why_not_ready: Some("net-0 does not turn".into()),
            },
            Said::Metrics {
                round: 7,
                values: vec![
                    ("a".into(), vec![("{x=\"\\n\"}".into(), 0.1)]),
                    ("b".into(), Vec::new()),
                ],
            },
            Said::Tune {
                asked: 1,
                key: "server.stat".into(),
                value: "false".into(),
                keeps: "::1".parse().ok(),
            },
        ];
        let mut bytes = Vec::new();
        said.iter().for_each(|message| say(&mut bytes, message).unwrap());
        let mut from = bytes.as_slice();
        for message in said {
            assert_eq!(hear::<Said>(&mut from), Some(message));
        }
        assert_eq!(hear::<Said>(&mut from), None);
    }

    #[test]
    fn what_is_no_message_ends_the_talk() {
        for line in ["\"ready\"", "\"stop", "no json\n", "\"no such order\"\n", ""] {
            assert_eq!(hear::<Order>(&mut line.as_bytes()), None, "{line:?}");
        }
        assert_eq!(hear::<Order>(&mut "\"stop\"\n".as_bytes()), Some(Order::Stop));
        let level = Order::Set {
            setting: Setting::LogLevel(crate::config::Level::Warn),
            asked: Some(2),
        };
        let mut bytes = Vec::new();
        say(&mut bytes, &level).unwrap();
        assert_eq!(hear(&mut bytes.as_slice()), Some(level));
    }
}
