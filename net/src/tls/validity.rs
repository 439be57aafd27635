//! From when to when a certificate holds, read from its DER.
//!
//! It checks no signature; that is the peer's work. Its invariant: what is no certificate has no validity, and nothing
//! beyond the bytes is looked at. Source: RFC 5280, 4.1 and 4.1.2.5.

use std::time::{SystemTime, UNIX_EPOCH};

const SEQUENCE: u8 = 0x30;
const INTEGER: u8 = 0x02;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;
/// The explicit version of a certificate, which may be left out.
const VERSION: u8 = 0xa0;
const DAY_S: i64 = 86_400;

/// From when to when a certificate holds, in seconds since 1970 UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The first second.
    pub not_before_s: i64,
    /// The last.
    pub not_after_s: i64,
}

impl Validity {
    /// That of a certificate in DER; nothing where it is none.
    pub(super) fn of(certificate: &[u8]) -> Option<Validity> {
        let mut outer = Der(certificate);
        let mut signed = Der(Der(outer.take(SEQUENCE)?).take(SEQUENCE)?);
        if signed.0.first() == Some(&VERSION) {
            signed.take(VERSION)?;
        }
        // Serial number, signature algorithm, issuer.
        for tag in [INTEGER, SEQUENCE, SEQUENCE] {
            signed.take(tag)?;
        }
        let mut validity = Der(signed.take(SEQUENCE)?);
        Some(Validity {
            not_before_s: validity.time()?,
            not_after_s: validity.time()?,
        })
    }

    /// Whole days that are left of it now; negative once it has run out, nothing while it has not begun.
    pub fn days_left(&self) -> Option<i64> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_s = since.map_or(0, |since| since.as_secs() as i64);
        (now_s >= self.not_before_s).then(|| (self.not_after_s - now_s).div_euclid(DAY_S))
    }
}

/// The rest of some DER.
struct Der<'a>(&'a [u8]);

impl<'a> Der<'a> {
    /// The content of the next element, which must have that tag.
    fn take(&mut self, tag: u8) -> Option<&'a [u8]> {
        let (found, rest) = self.0.split_first()?;
        let (first, rest) = rest.split_first()?;
        let (len, rest) = match first {
            ..=0x7f => (usize::from(*first), rest),
            0x81..=0x84 => {
                let (bytes, rest) = rest.split_at_checked(usize::from(first - 0x80))?;
                let len = bytes.iter().fold(0, |len, byte| len << 8 | usize::from(*byte));
                (len, rest)
            }
            _ => return None,
        };
        let (content, rest) = rest.split_at_checked(len)?;
        self.0 = rest;
        (*found == tag).then_some(content)
    }

    /// A time in either of its forms, always UTC and with seconds.
    fn time(&mut self) -> Option<i64> {
        let tag = *self.0.first()?;
        let content = self.take(tag)?;
        let text = std::str::from_utf8(content).ok()?.strip_suffix('Z')?;
        let (year, rest) = match tag {
            UTC_TIME => {
                let (year, rest) = text.split_at_checked(2)?;
                let year = number(year)?;
                (if year < 50 { 2000 + year } else { 1900 + year }, rest)
            }
            GENERALIZED_TIME => {
                let (year, rest) = text.split_at_checked(4)?;
                (number(year)?, rest)
            }
            _ => return None,
        };
        let part = |at: usize| number(rest.get(at..at + 2)?);
        let (month, day) = (part(0)?, part(2)?);
        if rest.len() != 10 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
            return None;
        }
        Some(days(year, month, day) * DAY_S + part(4)? * 3600 + part(6)? * 60 + part(8)?)
    }
}

fn number(digits: &str) -> Option<i64> {
    let all = digits.bytes().all(|byte| byte.is_ascii_digit());
    digits.parse().ok().filter(|_| all)
}

/// Days from 1970-01-01 to a day of the Gregorian calendar.
fn days(year: i64, month: i64, day: i64) -> i64 {
    // Years begin in March, so that the day that a leap year adds is their last.
    let year = if month > 2 { year } else { year - 1 };
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + of_year - 719_468
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn both_forms_of_time_are_read() {
        let check = |tag: u8, text: &str, expected: Option<i64>| {
            let mut der = vec![tag, text.len() as u8];
            der.extend_from_slice(text.as_bytes());
            assert_eq!(Der(&der).time(), expected, "{text}");
        };
        check(UTC_TIME, "700101000000Z", Some(0));
        check(UTC_TIME, "000229123456Z", Some(951_827_696));
        check(UTC_TIME, "491231235959Z", Some(2_524_607_999));
        check(UTC_TIME, "500101000000Z", Some(-631_152_000));
        check(GENERALIZED_TIME, "20500101000000Z", Some(2_524_608_000));
        check(GENERALIZED_TIME, "99991231235959Z", Some(253_402_300_799));
        for bad in [
            "",
            "Z",
            "7001010000Z",
            "700101000000",
            "701301000000Z",
            "70010100000-Z",
            "7001+1000000Z",
        ] {
            check(UTC_TIME, bad, None);
        }
        check(INTEGER, "700101000000Z", None);
    }

    #[test]
    fn what_is_no_certificate_has_no_validity() {
        let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()]).unwrap();
        let der = made.cert.der();
        let whole = Validity::of(der).unwrap();
        assert!(whole.not_before_s < whole.not_after_s && whole.days_left().is_some());
        for len in 0..100 {
            assert_eq!(Validity::of(&der[..len]), None, "{len}");
        }
        assert_eq!(Validity::of(&[0x30, 0x84, 0xff, 0xff, 0xff, 0xff, 0x30]), None);
        assert_eq!(Validity::of(&[0x30, 0x80, 0x30, 0x80]), None);
    }
}
