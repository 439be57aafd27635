//! What a parent and its processes say to each other.
//!
//! A process is asked to stop by SIGTERM, as any other, so that needs no message. Its invariant: nothing here has versions,
//! because both ends are the same program.

use crate::switch::{Plan, Refusal};
use crate::tune::Setting;
use millpond_catalog::Serving;
use millpond_metrics::Values;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::path::PathBuf;

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
    /// Take the first step of a switch.
    Open { switch: u64, plan: Plan },
    /// The switch of this number is decided: take its last step, or drop what was opened for it.
    Close { switch: u64, is_made: bool },
    /// The call of this process of this number, which asked for a switch, has come to this: why a restart will not serve it, if
    /// it will not, or why it was not made.
    Switched {
        asked: u64,
        outcome: Result<Option<String>, Refusal>,
    },
    /// Read the files of `server.tls` again.
    Reload,
    /// The first order of all: open these versions, which the others serve. Other tables are opened as a lone process does it.
    /// Where there are ordered stores, the first process listens on that Unix socket for the calls that the others send on.
    Begin {
        serving: BTreeMap<String, Serving>,
        stores: Option<PathBuf>,
    },
    /// Everything that was tuned is told: switch to these versions where the others have meanwhile, and begin to accept.
    Serve { serving: BTreeMap<String, Serving> },
}

/// What a process tells its parent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Report {
    /// It is warm, with these versions; it accepts nothing before it is told to.
    Warm { serving: BTreeMap<String, Serving> },
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
    /// A switch is asked for here, in the call of this number.
    Switch { asked: u64, plan: Plan },
    /// What the switch of this number takes is open here, or cannot be opened.
    Opened { switch: u64, refusal: Option<Refusal> },
    /// The last step of the switch of this number is taken here.
    Closed { switch: u64 },
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;
    use millpond_fleet::{hear, say};

    #[test]
    fn messages_arrive_as_they_were_said() {
        let said = [
            Report::Warm {
                serving: [(
                    "films".to_owned(),
                    Serving {
                        version: u64::MAX,
                        before: None,
                        highest: u64::MAX,
                    },
                )]
                .into(),
            },
            Report::Ready,
            Report::Beats { why_not_ready: None },
            Report::Beats {
                why_not_ready: Some("net-0 does not turn".into()),
            },
            Report::Metrics {
                round: 7,
                values: vec![
                    ("a".into(), vec![("{x=\"\\n\"}".into(), 0.1)]),
                    ("b".into(), Vec::new()),
                ],
            },
            Report::Tune {
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
            assert_eq!(hear::<Report>(&mut from), Some(Ok(message)));
        }
        assert_eq!(hear::<Report>(&mut from), None);
    }

    #[test]
    fn orders_arrive_as_they_were_given() {
        let level = Order::Set {
            setting: Setting::LogLevel(crate::config::Level::Warn),
            asked: Some(2),
        };
        let mut bytes = Vec::new();
        say(&mut bytes, &level).unwrap();
        assert_eq!(hear(&mut bytes.as_slice()), Some(Ok(level)));
        let serve = Order::Serve {
            serving: BTreeMap::new(),
        };
        let said = "{\"serve\":{\"serving\":{}}}\n";
        assert_eq!(hear(&mut said.as_bytes()), Some(Ok(serve)));
        let unknown = hear::<Order>(&mut "\"no such order\"\n".as_bytes());
        assert!(unknown.is_some_and(|heard| heard.is_err()));
    }
}
