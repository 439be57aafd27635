//! EXPIRE and its kind; and how commands say how long a key lasts.
//! Its invariant: a time is milliseconds from now on, or it has passed.

use super::numbers::{NO_INTEGER, integer, next_integer};
use super::{Operations, Part, Reply};
use millpond_wire_frame::RespWords;
use std::time::{SystemTime, UNIX_EPOCH};

/// How a word gives a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unit {
    /// Milliseconds that 1 is.
    ms: i64,
    /// A moment of Unix time, and not how long from now on.
    is_moment: bool,
}

/// How long a key lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Lasts {
    /// Milliseconds from now on, at least 1.
    Ms(u64),
    /// The moment has passed.
    Past,
}

impl Lasts {
    /// For a put that needs a time: a moment that has passed is the shortest one.
    pub(super) fn at_least_ms(self) -> u64 {
        match self {
            Lasts::Ms(ms) => ms,
            Lasts::Past => 1,
        }
    }
}

impl Unit {
    pub(super) const SECONDS: Unit = Unit {
        ms: 1000,
        is_moment: false,
    };
    pub(super) const MILLISECONDS: Unit = Unit {
        ms: 1,
        is_moment: false,
    };
    const UNIX_SECONDS: Unit = Unit {
        ms: 1000,
        is_moment: true,
    };
    const UNIX_MILLISECONDS: Unit = Unit {
        ms: 1,
        is_moment: true,
    };

    /// The option of SET and GETEX that names it.
    pub(super) fn of_option(option: &[u8]) -> Option<Unit> {
        let named: [(&[u8], Unit); 4] = [
            (b"ex", Unit::SECONDS),
            (b"px", Unit::MILLISECONDS),
            (b"exat", Unit::UNIX_SECONDS),
            (b"pxat", Unit::UNIX_MILLISECONDS),
        ];
        let mut named = named.into_iter();
        named.find_map(|(name, unit)| option.eq_ignore_ascii_case(name).then_some(unit))
    }

    /// What a word says; 0 and less is no time for such a command.
    pub(super) fn lasts(self, word: &[u8], command: &str) -> Result<Lasts, String> {
        let number = integer(word).ok_or(NO_INTEGER)?;
        if number <= 0 {
            return Err(invalid(command));
        }
        self.of_number(number, unix_ms()).ok_or_else(|| invalid(command))
    }

    /// The time of a number; nothing where milliseconds have no 63 bits for its moment.
    fn of_number(self, number: i64, now_ms: i64) -> Option<Lasts> {
        let ms = number.checked_mul(self.ms)?;
        let moment = if self.is_moment {
            ms
        } else {
            ms.checked_add(now_ms)?
        };
        let left = if self.is_moment {
            moment.saturating_sub(now_ms)
        } else {
            ms
        };
        Some(match u64::try_from(left) {
            Ok(left @ 1..) => Lasts::Ms(left),
            _ => Lasts::Past,
        })
    }
}

fn invalid(command: &str) -> String {
    format!("ERR invalid expire time in '{command}' command")
}

/// Milliseconds of Unix time, as clients count it that name a moment.
pub(super) fn unix_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

pub(in crate::commands) fn expire(out: &mut Operations<'_>, words: RespWords<'_>) -> Result<Part, String> {
    last(out, words, Unit::SECONDS, "expire")
}

pub(in crate::commands) fn pexpire(out: &mut Operations<'_>, words: RespWords<'_>) -> Result<Part, String> {
    last(out, words, Unit::MILLISECONDS, "pexpire")
}

pub(in crate::commands) fn expire_at(out: &mut Operations<'_>, words: RespWords<'_>) -> Result<Part, String> {
    last(out, words, Unit::UNIX_SECONDS, "expireat")
}

pub(in crate::commands) fn pexpire_at(
    out: &mut Operations<'_>,
    words: RespWords<'_>,
) -> Result<Part, String> {
    last(out, words, Unit::UNIX_MILLISECONDS, "pexpireat")
}

fn last(
    out: &mut Operations<'_>,
    mut words: RespWords<'_>,
    unit: Unit,
    command: &str,
) -> Result<Part, String> {
    let key = words.next().unwrap_or_default();
    let number = next_integer(&mut words);
    if let Some(option) = words.next() {
        // Whether a key expires, and when, is no condition that a batch has.
        let shown = String::from_utf8_lossy(option.get(..64).unwrap_or(option));
        return Err(format!("ERR Unsupported option {shown}"));
    }
    match unit
        .of_number(number?, unix_ms())
        .ok_or_else(|| invalid(command))?
    {
        Lasts::Past => out.remove(key),
        Lasts::Ms(ttl_ms) => out.expire(key, Some(ttl_ms)),
    }
    Ok(Part::of(1, Reply::Count))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_bounds() {
        const NOW: i64 = 1_700_000_000_000;
        let check = |unit: Unit, number: i64, expected: Option<Lasts>| {
            assert_eq!(unit.of_number(number, NOW), expected, "{unit:?} {number}");
        };
        check(Unit::SECONDS, 2, Some(Lasts::Ms(2000)));
        check(Unit::SECONDS, -2, Some(Lasts::Past));
        check(Unit::SECONDS, i64::MAX, None);
        check(Unit::SECONDS, i64::MIN, None);
        check(
            Unit::MILLISECONDS,
            i64::MAX - NOW,
            Some(Lasts::Ms((i64::MAX - NOW) as u64)),
        );
        check(Unit::MILLISECONDS, i64::MAX - NOW + 1, None);
        check(Unit::UNIX_SECONDS, NOW / 1000 + 1, Some(Lasts::Ms(1000)));
        check(Unit::UNIX_MILLISECONDS, NOW, Some(Lasts::Past));
        check(Unit::UNIX_MILLISECONDS, NOW + 1, Some(Lasts::Ms(1)));
        check(Unit::UNIX_MILLISECONDS, i64::MIN, Some(Lasts::Past));
        check(
            Unit::UNIX_MILLISECONDS,
            i64::MAX,
            Some(Lasts::Ms((i64::MAX - NOW) as u64)),
        );
    }
}
