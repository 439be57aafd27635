//! SET and its kind, GETSET, GETDEL, GETEX, MSET, and reads that stand behind writes.
//! Its invariant: options that contradict each other are a syntax error, as Redis says.

use super::expiry::{Lasts, Unit};
use super::{Operations, Part, Parts, Reply, Unmet};
use crate::commands::{Asked, Asking, SYNTAX, wrong_number};
use millpond_wire_frame::{Encoding, RespWords};
use millpond_wire_payload::Encoder;
use millpond_wire_schema::ordered_batch::{Operation, Options};
use millpond_wire_schema::{Method as _, OrderedPut};

pub(in crate::commands) fn get(out: &mut Operations<'_>, mut words: RespWords<'_>) -> Result<Part, String> {
    out.get(words.next().unwrap_or_default());
    Ok(Part::of(1, Reply::First))
}

pub(in crate::commands) fn mget(out: &mut Operations<'_>, words: RespWords<'_>) -> Result<Part, String> {
    let before = out.count();
    words.for_each(|key| out.get(key));
    Ok(Part::of(out.count() - before, Reply::Values))
}

pub(in crate::commands) fn strlen(
    out: &mut Operations<'_>,
    mut words: RespWords<'_>,
) -> Result<Part, String> {
    out.get(words.next().unwrap_or_default());
    Ok(Part::of(1, Reply::Length))
}

/// SET key value [NX | XX] [GET] [EX s | PX ms | EXAT s | PXAT ms | KEEPTTL].
pub(in crate::commands) fn set(out: &mut Operations<'_>, mut words: RespWords<'_>) -> Result<Part, String> {
    let key = words.next().unwrap_or_default();
    let value = words.next().unwrap_or_default();
    let options = SetOptions::read(words)?;
    let reply = match options.gets {
        true => Reply::First,
        false => Reply::Ok,
    };
    let before = out.count();
    if options.gets {
        out.get(key);
    }
    match options.lasts {
        // A moment that has passed: what was put is gone at once.
        Some(Lasts::Past) if !options.is_conditional() => out.remove(key),
        lasts => {
            let put = Options {
                ttl_ms: lasts.map(Lasts::at_least_ms),
                keep_ttl: options.keeps,
                if_absent: options.if_absent,
                if_present: options.if_present,
                ..Options::default()
            };
            out.put(key, value, put);
        }
    }
    Ok(Part {
        unmet: options.is_conditional().then_some(Unmet::Nil),
        ..Part::of(out.count() - before, reply)
    })
}

/// What stands behind a SET's value.
#[derive(Default)]
struct SetOptions {
    if_absent: bool,
    if_present: bool,
    gets: bool,
    keeps: bool,
    lasts: Option<Lasts>,
}

impl SetOptions {
    fn is_conditional(&self) -> bool {
        self.if_absent || self.if_present
    }

    #[inline]
    fn read(mut words: RespWords<'_>) -> Result<SetOptions, String> {
        let mut options = SetOptions::default();
        let mut time = None;
        while let Some(option) = words.next() {
            let is = |name: &str| option.eq_ignore_ascii_case(name.as_bytes());
            if is("nx") && !options.if_present {
                options.if_absent = true;
            } else if is("xx") && !options.if_absent {
                options.if_present = true;
            } else if is("get") {
                options.gets = true;
            } else if is("keepttl") && time.is_none() {
                options.keeps = true;
            } else {
                let unit = Unit::of_option(option).filter(|_| time.is_none() && !options.keeps);
                let unit = unit.ok_or(SYNTAX)?;
                time = Some((unit, words.next().ok_or(SYNTAX)?));
            }
        }
        let lasts = time.map(|(unit, given)| unit.lasts(given, "set"));
        options.lasts = lasts.transpose()?;
        // The old value of a key that is there would be the answer, and the batch is refused.
        match options.if_absent && options.gets {
            true => Err(SYNTAX.to_owned()),
            false => Ok(options),
        }
    }
}

pub(in crate::commands) fn append(
    out: &mut Operations<'_>,
    mut words: RespWords<'_>,
) -> Result<Part, String> {
    let key = words.next().unwrap_or_default();
    let value = words.next().unwrap_or_default();
    out.push(&Operation::Concatenate(key.into(), value.into()));
    Ok(Part::of(1, Reply::Number))
}

pub(in crate::commands) fn setnx(out: &mut Operations<'_>, mut words: RespWords<'_>) -> Result<Part, String> {
    let key = words.next().unwrap_or_default();
    let put = Options {
        if_absent: true,
        ..Options::default()
    };
    out.put(key, words.next().unwrap_or_default(), put);
    Ok(Part {
        unmet: Some(Unmet::Zero),
        ..Part::of(1, Reply::One)
    })
}

pub(in crate::commands) fn setex(out: &mut Operations<'_>, words: RespWords<'_>) -> Result<Part, String> {
    set_for(out, words, Unit::SECONDS, "setex")
}

pub(in crate::commands) fn psetex(out: &mut Operations<'_>, words: RespWords<'_>) -> Result<Part, String> {
    set_for(out, words, Unit::MILLISECONDS, "psetex")
}

fn set_for(
    out: &mut Operations<'_>,
    mut words: RespWords<'_>,
    unit: Unit,
    command: &str,
) -> Result<Part, String> {
    let key = words.next().unwrap_or_default();
    let lasts = unit.lasts(words.next().unwrap_or_default(), command)?;
    let put = Options {
        ttl_ms: Some(lasts.at_least_ms()),
        ..Options::default()
    };
    out.put(key, words.next().unwrap_or_default(), put);
    Ok(Part::of(1, Reply::Ok))
}

pub(in crate::commands) fn getset(
    out: &mut Operations<'_>,
    mut words: RespWords<'_>,
) -> Result<Part, String> {
    let key = words.next().unwrap_or_default();
    out.get(key);
    out.put(key, words.next().unwrap_or_default(), Options::default());
    Ok(Part::of(2, Reply::First))
}

pub(in crate::commands) fn getdel(
    out: &mut Operations<'_>,
    mut words: RespWords<'_>,
) -> Result<Part, String> {
    let key = words.next().unwrap_or_default();
    out.get(key);
    out.remove(key);
    Ok(Part::of(2, Reply::First))
}

/// GETEX key [EX s | PX ms | EXAT s | PXAT ms | PERSIST].
pub(in crate::commands) fn getex(out: &mut Operations<'_>, mut words: RespWords<'_>) -> Result<Part, String> {
    let key = words.next().unwrap_or_default();
    out.get(key);
    let Some(option) = words.next() else {
        return Ok(Part::of(1, Reply::First));
    };
    let persists = option.eq_ignore_ascii_case(b"persist");
    let unit = Unit::of_option(option);
    let given = unit.and_then(|unit| Some((unit, words.next()?)));
    match (given, persists, words.next()) {
        (None, true, None) => out.expire(key, None),
        (Some((unit, given)), false, None) => match unit.lasts(given, "getex")? {
            Lasts::Past => out.remove(key),
            Lasts::Ms(ttl_ms) => out.expire(key, Some(ttl_ms)),
        },
        _ => return Err(SYNTAX.to_owned()),
    }
    Ok(Part::of(2, Reply::First))
}

pub(in crate::commands) fn mset(out: &mut Operations<'_>, words: RespWords<'_>) -> Result<Part, String> {
    let before = out.count();
    for pair in pairs(words, "mset") {
        let (key, value) = pair?;
        out.put(key, value, Options::default());
    }
    Ok(Part::of(out.count() - before, Reply::Ok))
}

/// A key that is named twice is not there at first: the conditions of a put come before its entries, those of a batch between them.
pub(in crate::commands) fn msetnx(asking: &mut Asking<'_>, words: RespWords<'_>) -> Result<Asked, String> {
    let name = asking.database.map_or("", |database| &database.name);
    let mut out = Encoder::new(asking.payload, Encoding::Msgpack, false);
    out.map(|out| {
        out.key("table");
        out.text(name);
        out.key("if_absent");
        out.bool(true);
        out.key("entries");
        out.array(|out| {
            for pair in pairs(words, "msetnx") {
                let (key, value) = pair?;
                out.array(|out| {
                    out.bytes(key);
                    out.bytes(value);
                });
            }
            Ok::<(), String>(())
        })
    })?;
    let part = Part {
        unmet: Some(Unmet::Zero),
        ..Part::of(0, Reply::One)
    };
    let asked = Asked::of(OrderedPut::NAME, |_, _, reply| {
        reply.integer(1);
        Ok(())
    });
    Ok(Asked {
        parts: Parts::One(part),
        ..asked
    })
}

/// Keys and values.
fn pairs<'w>(
    mut words: RespWords<'w>,
    command: &str,
) -> impl Iterator<Item = Result<(&'w [u8], &'w [u8]), String>> {
    std::iter::from_fn(move || {
        let key = words.next()?;
        Some(match words.next() {
            Some(value) => Ok((key, value)),
            None => Err(wrong_number(command)),
        })
    })
}

pub(in crate::commands) fn del(out: &mut Operations<'_>, words: RespWords<'_>) -> Result<Part, String> {
    let before = out.count();
    words.for_each(|key| out.remove(key));
    Ok(Part::of(out.count() - before, Reply::Count))
}
