//! UTC dates for names and results. No time zones, no parsing.
//!
//! Its invariant: equal to `date -u` from 1970 on.

use std::time::{SystemTime, UNIX_EPOCH};

/// `2026-11-22T01:02:03Z`.
pub fn rfc3339_utc(time: SystemTime) -> String {
    let [year, month, day, hour, minute, second] = fields(time);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
}

/// `20261122-010203`, for names of folders.
pub fn compact_utc(time: SystemTime) -> String {
    let [year, month, day, hour, minute, second] = fields(time);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

fn fields(time: SystemTime) -> [u64; 6] {
    let seconds = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (mut days, of_day) = (seconds / 86_400, seconds % 86_400);
    let mut year = 1970;
    while days >= 365 + leap_day(year) {
        days -= 365 + leap_day(year);
        year += 1;
    }
    let mut month = 1;
    for of_month in [31, 28 + leap_day(year), 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < of_month {
            break;
        }
        days -= of_month;
        month += 1;
    }
    let time = [of_day / 3600, of_day / 60 % 60, of_day % 60];
    [year, month, days + 1, time[0], time[1], time[2]]
}

/// The days that a year has more than 365.
fn leap_day(year: u64) -> u64 {
    u64::from(year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let check = |seconds: u64, expected: &str| {
            assert_eq!(rfc3339_utc(UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        };
        check(0, "1970-01-01T00:00:00Z");
        check(951_782_399, "2000-02-28T23:59:59Z");
        check(951_782_400, "2000-02-29T00:00:00Z");
        check(1_798_761_599, "2026-12-31T23:59:59Z");
        check(4_107_542_400, "2100-03-01T00:00:00Z");
        assert_eq!(
            compact_utc(UNIX_EPOCH + Duration::from_secs(951_782_400)),
            "20000229-000000"
        );
    }
}
