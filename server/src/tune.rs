//! What `*tune` changes: one setting of the running server, with FPNN's names for them.
//!
//! Nothing is written to the configuration: a restart has the old values. Its invariants: a key or value that is refused
//! changed nothing, and says which keys or values there are; and no caller shuts itself out who does not say so.

use crate::Shared;
use crate::config::Level;
use millpond_calls::Tuned;
use millpond_calls::access::{AddressRange, AllowList, ListChange};
use millpond_wire_schema::{Code, Status, tune as schema};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::sync::Arc;

/// What a setting is from now on; the same again changes nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Setting {
    LogLevel(Level),
    /// Milliseconds; 0 turns the slow log off.
    SlowLog(u64),
    Stat(bool),
    /// The whole list, on or off.
    AllowList(AllowList),
}

/// What a call asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Change {
    /// A setting, whatever it was before.
    To(Setting),
    /// A part of the list, as it is when its turn comes.
    List(ListChange),
}

/// A key that can be tuned, what its value means, and what it is now.
struct Key {
    name: &'static str,
    read: fn(&str) -> Result<Change, String>,
    now: fn(&Shared) -> String,
}

impl Key {
    /// What it is now.
    fn answer(&self, shared: &Shared) -> schema::Answer<'static> {
        schema::Answer {
            done: true,
            key: self.name.into(),
            value: (self.now)(shared).into(),
        }
    }
}

static KEYS: [Key; 6] = [
    Key {
        name: "server.log.level",
        read: log_level,
        now: |shared| {
            shared
                .program
                .log
                .as_ref()
                .map_or("", |log| log.level().name())
                .to_owned()
        },
    },
    Key {
        name: "server.slow.log",
        read: slow_log,
        now: |shared| shared.calls.slow.ms().to_string(),
    },
    Key {
        name: "server.stat",
        read: |value| Ok(Change::To(Setting::Stat(on_or_off(value)?))),
        now: |shared| shared.calls.statistics.is_on().to_string(),
    },
    Key {
        name: "server.security.ip.whiteList.enable",
        read: |value| Ok(Change::List(ListChange::Enable(on_or_off(value)?))),
        now: |shared| shared.calls.access.addresses.is_on().to_string(),
    },
    Key {
        name: "server.security.ip.whiteList.addIP",
        read: |value| Ok(Change::List(ListChange::Add(AddressRange::parse(value)?))),
        now: |shared| shared.calls.access.addresses.shown(),
    },
    Key {
        name: "server.security.ip.whiteList.removeIP",
        read: |value| Ok(Change::List(ListChange::Remove(AddressRange::parse(value)?))),
        now: |shared| shared.calls.access.addresses.shown(),
    },
];

/// A call that was understood; nothing has changed yet.
pub(crate) struct Asked {
    key: &'static Key,
    value: String,
    pub(crate) change: Change,
    /// The address that must be able to call after it, where there is one: its caller's.
    pub(crate) keeps: Option<IpAddr>,
}

impl Asked {
    /// Reads a key and its value.
    ///
    /// # Errors
    /// Which keys or values there are.
    pub(crate) fn read(key: &str, value: &str, keeps: Option<IpAddr>) -> Result<Asked, String> {
        let Some(known) = KEYS.iter().find(|known| known.name == key) else {
            let keys = KEYS.each_ref().map(|key| key.name).join(", ");
            return Err(format!(
                "key \"key\" is {key:?}, which cannot be tuned; keys are {keys}"
            ));
        };
        let value = value.trim();
        let change = (known.read)(value).map_err(|problem| refusal(known.name, value, &problem))?;
        Ok(Asked {
            key: known,
            value: value.to_owned(),
            change,
            keeps,
        })
    }

    /// The error for a change that cannot be made.
    pub(crate) fn refusal(&self, problem: &str) -> String {
        refusal(self.key.name, &self.value, problem)
    }

    /// Changes this process, the only one.
    fn change(&self, shared: &Shared) -> Result<(), String> {
        let done = match &self.change {
            Change::To(setting) => follow(shared, setting),
            Change::List(change) => shared.calls.access.addresses.change(*change, self.keeps),
        };
        done.map_err(|problem| self.refusal(&problem))?;
        tracing::warn!(key = self.key.name, value = (self.key.now)(shared), "tuned");
        Ok(())
    }
}

fn refusal(key: &str, value: &str, problem: &str) -> String {
    format!("key \"value\" is {value:?} for {key}: {problem}")
}

/// Changes what the call asks for, and says what it is then. One of several processes has their parent decide, and answers
/// when it follows.
pub(crate) fn tune(
    shared: &Arc<Shared>,
    call: &schema::Call<'_>,
    keeps: Option<IpAddr>,
) -> Result<Tuned, Status> {
    let bad = |ex| Status::new(Code::BadArgument, ex);
    let asked = Asked::read(&call.key, &call.value, keeps).map_err(bad)?;
    let Some(member) = &shared.program.member else {
        asked.change(shared).map_err(bad)?;
        return Ok(Tuned::Done(asked.key.answer(shared)));
    };
    let (member, shared) = (member.clone(), Arc::clone(shared));
    Ok(Tuned::Asks(Box::new(move |on_decision| {
        let key = asked.key;
        member.ask(key.name, &asked.value, asked.keeps, move |decision| {
            on_decision(decision.map(|()| key.answer(&shared)));
        });
    })))
}

/// Takes a setting over.
///
/// # Errors
/// Why this process cannot have it.
pub(crate) fn follow(shared: &Shared, setting: &Setting) -> Result<(), String> {
    match setting {
        Setting::LogLevel(level) => {
            let log = shared.program.log.as_ref();
            log.ok_or("this process writes its log otherwise; set the level there")?
                .set_level(*level);
        }
        Setting::SlowLog(ms) => shared.calls.slow.set_ms(*ms),
        Setting::Stat(on) => shared.calls.statistics.set_on(*on),
        Setting::AllowList(list) => shared.calls.access.addresses.replace(list.clone()),
    }
    Ok(())
}

fn log_level(value: &str) -> Result<Change, String> {
    let level =
        Level::named(value).ok_or("expected trace or 1, debug or 2, info or 3, warn or 4, error or 5")?;
    Ok(Change::To(Setting::LogLevel(level)))
}

fn slow_log(value: &str) -> Result<Change, String> {
    let ms = value
        .parse()
        .map_err(|_| "expected milliseconds as a whole number; 0 turns the slow log off")?;
    Ok(Change::To(Setting::SlowLog(ms)))
}

fn on_or_off(value: &str) -> Result<bool, String> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}
