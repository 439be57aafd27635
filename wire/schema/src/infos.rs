//! `*infos`: {} → {"FPNN.status": {…}, "APP.status": {}, "millpond": {…}}: what is running and what it has counted.
//! It is for people and press, not for monitoring (`/metrics` is). Its invariant: every figure is a total since start.

use crate::frame::Encoder;

/// One figure or fact of the answer.
#[derive(Debug, Clone, PartialEq)]
pub enum Info {
    /// A count.
    Count(u64),
    /// A figure with a fraction.
    Decimal(f64),
    /// Yes or no.
    Flag(bool),
    /// A fact.
    Text(String),
    /// More of them.
    Group(Vec<(String, Info)>),
}

/// Writes the answer: `fpnn` under "FPNN.status", `millpond` under "millpond".
pub fn encode_answer(out: &mut Encoder<'_>, fpnn: &[(String, Info)], millpond: &[(String, Info)]) {
    out.map(3);
    out.key("FPNN.status");
    group(out, fpnn);
    out.key("APP.status");
    out.map(0);
    out.end_map();
    out.key("millpond");
    group(out, millpond);
    out.end_map();
}

fn group(out: &mut Encoder<'_>, infos: &[(String, Info)]) {
    out.map(infos.len());
    for (name, info) in infos {
        out.key(name);
        match info {
            Info::Count(count) => out.uint(*count),
            Info::Decimal(value) => out.f64(*value),
            Info::Flag(value) => out.bool(*value),
            Info::Text(text) => out.text(text),
            Info::Group(infos) => group(out, infos),
        }
    }
    out.end_map();
}
