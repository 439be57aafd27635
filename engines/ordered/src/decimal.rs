//! Decimal numbers as text, with up to 17 digits behind the point: what Redis's INCRBYFLOAT writes.
//!
//! Sums are exact, so that 0.1 and 0.2 are 0.3. Invariant: what is written reads as the same number.

/// Digits behind the point.
const DIGITS: i64 = 17;
const ONE: i128 = 10_i128.pow(DIGITS as u32);
/// Digits that a number may have in all: so many fit whatever they are.
const ALL_DIGITS: i64 = 38;
/// Bytes of a number, with those that say nothing.
pub(crate) const DECIMAL_BYTES_MAX: usize = 64;

/// A number, in units of the last digit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decimal(i128);

impl Decimal {
    /// Of text as "-12.5" or "3e-2"; digits beyond the 17th behind the point are rounded. `None`: it is none, or has more than 21 digits before
    /// the point.
    pub fn parse(text: &[u8]) -> Option<Decimal> {
        let text = std::str::from_utf8(text)
            .ok()
            .filter(|text| text.len() <= DECIMAL_BYTES_MAX)?;
        let (is_negative, text) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, exponent.parse::<i16>().ok()?),
            None => (text, 0),
        };
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = || whole.bytes().chain(fraction.bytes());
        if digits().next().is_none() || !digits().all(|digit| digit.is_ascii_digit()) {
            return None;
        }
        let leading = digits().take_while(|digit| *digit == b'0').count();
        let count = (whole.len() + fraction.len() - leading) as i64;
        // Of the units that are kept.
        let kept = count + DIGITS + i64::from(exponent) - fraction.len() as i64;
        if kept > ALL_DIGITS && count > 0 {
            return None;
        }
        let zeros = usize::try_from(kept - count).unwrap_or(0);
        let digits = digits().skip(leading).chain(std::iter::repeat_n(b'0', zeros));
        let mut units = 0_i128;
        for (at, digit) in digits.enumerate() {
            let (at, digit) = (at as i64, i128::from(digit - b'0'));
            match at.cmp(&kept) {
                std::cmp::Ordering::Less => units = units * 10 + digit,
                std::cmp::Ordering::Equal => units += i128::from(digit >= 5),
                std::cmp::Ordering::Greater => break,
            }
        }
        Some(Decimal(if is_negative { -units } else { units }))
    }

    /// The sum; `None` where it has too many digits.
    pub fn plus(self, other: Decimal) -> Option<Decimal> {
        let sum = self.0.checked_add(other.0)?;
        (sum.unsigned_abs() < 10_u128.pow(ALL_DIGITS as u32)).then_some(Decimal(sum))
    }

    /// Without zeros at its end.
    pub fn text(self) -> String {
        let sign = if self.0 < 0 { "-" } else { "" };
        let (whole, fraction) = (self.0.abs() / ONE, self.0.abs() % ONE);
        let text = format!("{sign}{whole}.{fraction:017}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    fn sum(one: &str, other: &str) -> String {
        let parse = |text: &str| Decimal::parse(text.as_bytes()).unwrap();
        parse(one).plus(parse(other)).unwrap().text()
    }

    #[test]
    fn sums_are_exact_and_written_as_redis_writes_them() {
        for (one, other, expected) in [
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("10.6", "-5", "5.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3", "-3.0", "0"),
            ("-1", ".25", "-0.75"),
            ("1.", "+1", "2"),
            ("1e-17", "0", "0.00000000000000001"),
            ("0.000000000000000005", "0", "0.00000000000000001"),
            ("0.000000000000000004", "-0", "0"),
            ("1e20", "-0.5", "99999999999999999999.5"),
            (
                "999999999999999999999",
                "0.99999999999999999",
                "999999999999999999999.99999999999999999",
            ),
            ("1e-300", "7", "7"),
            ("0e300", "7", "7"),
            ("-0", "0", "0"),
        ] {
            assert_eq!(sum(one, other), expected, "{one} + {other}");
        }
    }

    #[test]
    fn what_is_no_number_or_too_large_is_told() {
        for text in [
            "", "-", ".", "e3", "1e", "1e1.5", "--1", "1 ", " 1", "0x1", "nan", "inf", "1,5", "1e22",
            "1e30000", "1_0",
        ] {
            assert_eq!(Decimal::parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(Decimal::parse(&[b'1'; DECIMAL_BYTES_MAX + 1]), None);
        assert_eq!(Decimal::parse(b"\xff"), None);
        let most = Decimal::parse(b"999999999999999999999").unwrap();
        assert_eq!(most.plus(Decimal::parse(b"1").unwrap()), None);
        assert_eq!(most.plus(most), None);
    }

    #[test]
    fn what_is_written_reads_as_the_same() {
        for units in [
            0,
            1,
            -1,
            10,
            ONE,
            -ONE,
            15 * ONE / 10,
            123_456_789 * ONE + 987,
            i128::from(i64::MAX),
        ] {
            let number = Decimal(units);
            assert_eq!(Decimal::parse(number.text().as_bytes()), Some(number));
        }
    }
}
