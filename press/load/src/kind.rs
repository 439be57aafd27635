//! What a kind of target is: its row of [`KINDS`](crate::KINDS), and what it is told of the scenario.
//!
//! The rest of a kind is its file in `kinds`: it makes requests of what the scenario says, and reads answers over a connection
//! ([`Protocol`](crate::protocol::Protocol)) or makes calls in this process ([`Local`](crate::local::Local)). Its invariant: nobody
//! outside of that file asks which kind a target is of, only what it takes.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use millpond_press_recorder::Live;
use millpond_press_workload::{Mixed, RandomRows, RequestSet};
use serde::Deserialize;
use tokio::sync::mpsc::Sender;

use crate::plan::{Plan, Report};
use crate::protocol::{plain, words};
use crate::{Error, KINDS, Part, ProgramStart, Threads};

/// A kind of target.
pub struct TargetKind {
    /// What scenarios call it; results have the first name.
    pub(crate) names: &'static [&'static str],
    /// What a scenario may ask of it.
    pub takes: Takes,
    /// The only request where a scenario names a method or a path and nothing to send to it.
    pub empty: &'static [u8],
    /// What is sent to a target, in a few words: the first operation's.
    pub in_words: fn(&Description<'_>) -> String,
    /// The texts of one operation, the one that says what it is first: its line of words. The error is the key that it lacks.
    pub texts: fn(&Description<'_>, &Operation) -> Result<Vec<String>, &'static str>,
    /// What is verified of an answer beside the checks of the scenario.
    pub verified: fn(&Given<'_>) -> &'static str,
    /// Whether the rows of a table of random rows can be held against the answers to these operations.
    pub knows_rows: fn(&[Operation]) -> bool,
    /// Makes the requests, once, before the first is sent; the error names the one that cannot be made.
    pub prepare: fn(&Given<'_>) -> Result<Arc<dyn Target>, String>,
}

impl TargetKind {
    /// A kind whose requests are commands, and whose answers are checked as the scenario says and no further.
    pub(crate) const fn new(
        names: &'static [&'static str],
        takes: Takes,
        prepare: fn(&Given<'_>) -> Result<Arc<dyn Target>, String>,
    ) -> TargetKind {
        TargetKind {
            names,
            takes,
            empty: b"",
            in_words: |target| target.operations.first().map(first_words).unwrap_or_default(),
            texts: |_, operation| Ok(vec![operation.command.clone().ok_or("command")?]),
            verified: |_| "",
            knows_rows: |_| false,
            prepare,
        }
    }

    /// The kind that scenarios call so.
    pub fn named(name: &str) -> Option<&'static TargetKind> {
        KINDS.iter().find(|kind| kind.names.contains(&name))
    }

    /// Its name in results.
    pub fn name(&self) -> &'static str {
        self.names.first().copied().unwrap_or_default()
    }
}

impl fmt::Debug for TargetKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// What a scenario may ask of a kind of target.
#[derive(Debug, Clone, Copy)]
pub struct Takes {
    /// It is called in this process: it takes `files`, and no address, server, connections or processes.
    pub local: bool,
    /// It is a program that makes the calls itself: it takes `program`, an address only where it calls a server, and no requests.
    pub program: bool,
    /// Its connections may be encrypted.
    pub tls: bool,
    /// A connection carries several requests at a time.
    pub pipelined: bool,
    /// Its requests are bodies of JSON, sent to a `method`; its answers have fields.
    pub json: bool,
    /// It takes `path` and `headers`.
    pub path: bool,
    /// Its commands are words, of which none is empty.
    pub words: bool,
    /// Its answers hold values, which can be held against those that were written.
    pub values: bool,
    /// Its requests are any bytes, of which there is at least one; the server keeps none of them.
    pub any_bytes: bool,
}

impl Takes {
    /// A kind with connections that takes nothing beside what all do.
    pub(crate) const NONE: Takes = Takes {
        local: false,
        program: false,
        tls: false,
        pipelined: false,
        json: false,
        path: false,
        words: false,
        values: false,
        any_bytes: false,
    };
    /// A store of keys over the network, with commands of words.
    pub(crate) const STORE: Takes = Takes {
        pipelined: true,
        words: true,
        values: true,
        ..Takes::NONE
    };
    /// A kind that is called in this process, with commands of words.
    pub(crate) const LOCAL: Takes = Takes {
        local: true,
        words: true,
        ..Takes::NONE
    };
}

/// What an operation asks for, in a few words.
pub(crate) fn first_words(operation: &Operation) -> String {
    let words = operation.command.as_ref().or(operation.method.as_ref());
    words.or(operation.path.as_ref()).cloned().unwrap_or_default()
}

/// One kind of request; every text may hold placeholders.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// What results call it.
    pub name: Option<String>,
    /// How often it is drawn beside others.
    #[serde(default = "weight")]
    pub weight: f64,
    /// Whether its keys may be new ones.
    #[serde(default)]
    pub writes: bool,
    /// The method that is called.
    pub method: Option<String>,
    /// The verb of an HTTP request.
    pub verb: Option<String>,
    /// The path of an HTTP request.
    pub path: Option<String>,
    /// What is sent.
    pub body: Option<String>,
    /// What is sent, as words.
    pub command: Option<String>,
}

fn weight() -> f64 {
    1.0
}

/// What a scenario says of a target, as far as its kind asks.
#[derive(Debug, Clone, Copy)]
pub struct Description<'a> {
    /// Host and port as they were written.
    pub address: &'a str,
    /// The method that is called.
    pub method: Option<&'a str>,
    /// The path of HTTP requests.
    pub path: Option<&'a str>,
    /// Header lines of HTTP requests.
    pub headers: &'a BTreeMap<String, String>,
    /// Kinds of requests that are drawn.
    pub operations: &'a [Operation],
    /// In process: the folder of a feature table or of an ordered store, or the file of a model.
    pub files: Option<&'a Path>,
    /// The largest answer that is awaited.
    pub answer_bytes_max: usize,
}

impl Description<'_> {
    /// The method and the path; each follows from the other where only one is given.
    pub(crate) fn method_and_path(&self) -> (String, String) {
        let last = |path: &str| path.rsplit('/').next().unwrap_or_default().to_owned();
        let method = self.method.map(str::to_owned).or_else(|| self.path.map(last));
        let method = method.unwrap_or_default();
        let path = self
            .path
            .map_or_else(|| format!("/service/{method}"), str::to_owned);
        (method, path)
    }
}

/// What is sent to a target, and what is known of the answers before they come.
#[derive(Clone, Copy)]
pub struct Given<'a> {
    /// The target.
    pub target: Description<'a>,
    /// The requests, whose first line says what they are where `has_first_lines`.
    pub set: &'a RequestSet,
    /// Whether the texts of an operation are the lines of a request.
    pub has_first_lines: bool,
    /// Whether the scenario names nothing to send.
    pub is_empty: bool,
    /// The keys of each request, where they were drawn.
    pub mixed: Option<&'a Mixed>,
    /// The value of a key, where values are checked.
    pub value_of: Option<&'a dyn Fn(u64) -> Vec<u8>>,
    /// The rows that lookups must get.
    pub rows: Option<RandomRows>,
}

impl Given<'_> {
    /// What is verified of values.
    pub(crate) fn values_in_words(&self) -> &'static str {
        match (self.mixed, self.value_of) {
            (Some(_), Some(_)) => "; every value is the one that was written",
            _ => "",
        }
    }

    /// What is verified of rows.
    pub(crate) fn rows_in_words(&self) -> &'static str {
        match self.rows {
            Some(_) => "; every row is the one that was made",
            None => "",
        }
    }

    /// Takes each request: its first line, which is `first` where it has none of its own, and what follows.
    pub(crate) fn each_body(
        &self,
        first: &str,
        mut take: impl FnMut(&str, &[u8]) -> Result<(), String>,
    ) -> Result<(), String> {
        self.each(|request| {
            let (line, body) = match self.has_first_lines {
                true => {
                    let end = request.iter().position(|&byte| byte == b'\n');
                    let (line, body) = request.split_at(end.unwrap_or(request.len()));
                    let line = std::str::from_utf8(line).map_err(|_| "has a first line that is not UTF-8")?;
                    (line, body.get(1..).unwrap_or_default())
                }
                false => (first, request),
            };
            take(line, body)
        })
    }

    /// Takes the words of each request, in which `\x20` stands for that byte.
    pub(crate) fn each_command(
        &self,
        mut take: impl FnMut(&[&[u8]]) -> Result<(), String>,
    ) -> Result<(), String> {
        self.each(|request| {
            let words: Vec<Cow<'_, [u8]>> = words(request).map(plain).collect();
            take(&words.iter().map(AsRef::as_ref).collect::<Vec<_>>())
        })
    }

    /// Takes each request; what is wrong with one is said of its number.
    pub(crate) fn each(&self, mut take: impl FnMut(&[u8]) -> Result<(), String>) -> Result<(), String> {
        for (number, request) in self.set.iter().enumerate() {
            take(request).map_err(|what| format!("request {} {what}", number + 1))?;
        }
        Ok(())
    }
}

#[cfg(test)]
impl<'a> Given<'a> {
    /// Requests to a target of which nothing is said.
    pub(crate) fn of(set: &'a RequestSet, answer_bytes_max: usize) -> Given<'a> {
        static NONE: BTreeMap<String, String> = BTreeMap::new();
        Given {
            target: Description {
                address: "h:1",
                method: None,
                path: None,
                headers: &NONE,
                operations: &[],
                files: None,
                answer_bytes_max,
            },
            set,
            has_first_lines: false,
            is_empty: false,
            mixed: None,
            value_of: None,
            rows: None,
        }
    }
}

/// A target with its prepared requests.
pub trait Target: Send + Sync {
    /// Opens what is called in this process, or takes what a `program` is started with; over a network nothing is to be done.
    ///
    /// # Errors
    /// It cannot be opened; the message names the file.
    fn open(&self, _program: Option<&ProgramStart>) -> Result<(), String> {
        Ok(())
    }

    /// Sends every one of the requests once, before anything is measured, and wants an answer to each.
    ///
    /// # Errors
    /// A request cannot be made, or was not answered.
    fn fill(&self, given: &Given<'_>, address: Option<SocketAddr>, timeout: Duration) -> Result<(), String>;

    /// Starts those threads of a load generator that are in `part`, each with one of `lives`.
    ///
    /// # Errors
    /// A thread cannot be started.
    fn drive(
        &self,
        plan: Plan,
        part: Part,
        reports: &Sender<Report>,
        lives: &[Arc<Live>],
    ) -> Result<Threads, Error>;
}
