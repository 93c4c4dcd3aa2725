//! Wall-clock times as text, in UTC: sortable, without a time-zone library.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// `2026-11-30T15:38:38.123Z`.
pub fn rfc3339(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let [year, month, day, hour, minute, second] = fields(since.as_secs());
    let millis = since.subsec_millis();
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

/// `20261130T153838Z`, for names of folders.
pub fn compact(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let [year, month, day, hour, minute, second] = fields(since.as_secs());
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// The time that [`rfc3339`] wrote; `None` for other texts.
pub fn parse_rfc3339(text: &str) -> Option<SystemTime> {
    let number = |range: std::ops::Range<usize>| text.get(range)?.parse::<u64>().ok();
    if text.len() != 24 || !text.ends_with('Z') || text.as_bytes()[10] != b'T' {
        return None;
    }
    let (year, month, day) = (number(0..4)?, number(5..7)?, number(8..10)?);
    let seconds = number(11..13)? * 3600 + number(14..16)? * 60 + number(17..19)?;
    if year < 1970 || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let seconds = days_from_civil(year, month, day).checked_mul(86_400)? + seconds;
    UNIX_EPOCH.checked_add(Duration::from_secs(seconds) + Duration::from_millis(number(20..23)?))
}

/// Year, month, day, hour, minute, second of the proleptic Gregorian calendar.
fn fields(seconds: u64) -> [u64; 6] {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Years that begin on 1 March, so that the leap day comes last; day 0 is 0000-03-01.
    let days = days + 719_468;
    let era = days / 146_097;
    let day_of_era = days % 146_097;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    [year, month, day, rest / 3600, rest / 60 % 60, rest % 60]
}

/// Days since 1970-01-01.
fn days_from_civil(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let year_of_era = year % 400;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    year / 400 * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_times_are_written_and_read() {
        let at = |seconds| UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(rfc3339(at(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(rfc3339(at(951_782_399)), "2000-02-28T23:59:59.000Z");
        assert_eq!(rfc3339(at(951_782_400)), "2000-02-29T00:00:00.000Z");
        assert_eq!(compact(at(4_102_444_799)), "20991231T235959Z");
        for day in (0..80_000).step_by(13) {
            let time = at(day * 86_400 + 4711);
            assert_eq!(parse_rfc3339(&rfc3339(time)), Some(time));
        }
    }

    #[test]
    fn other_texts_are_no_times() {
        for text in ["", "yesterday", "2026-13-30T15:38:38.123Z", "2026-11-30 15:38:38.123Z", "äääääääääääT"]
        {
            assert_eq!(parse_rfc3339(text), None, "{text}");
        }
    }
}
