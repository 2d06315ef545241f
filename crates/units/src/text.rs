//! Quantities as people read and write them: three digits and a unit.

use std::fmt;

use crate::{Mistake, Nanos, Seconds};

/// A positive number with three significant digits: `1.50`, `23.4`, `512`.
pub fn three_digits(value: f64) -> String {
    let size = value.abs();
    if size >= 99.95 {
        format!("{value:.0}")
    } else if size >= 9.995 {
        format!("{value:.1}")
    } else {
        format!("{value:.2}")
    }
}

/// A length of time with three digits and the unit that suits it: `1.50 ms`, `23.4 µs`, `2.00 s`.
pub fn duration(seconds: Seconds) -> String {
    let size = seconds.abs();
    if !seconds.is_finite() {
        return seconds.to_string();
    }
    let (scale, unit) = if size == 0.0 || size >= 0.999_5 {
        (1.0, "s")
    } else if size >= 0.999_5e-3 {
        (1e3, "ms")
    } else if size >= 0.999_5e-6 {
        (1e6, "µs")
    } else {
        (1e9, "ns")
    };
    format!("{} {unit}", three_digits(seconds * scale))
}

/// A count or a rate, its thousands apart: `2,938`; small ones keep three digits: `4.20`.
pub fn count(value: f64) -> String {
    if !value.is_finite() {
        return value.to_string();
    }
    if value.abs() < 99.95 && value.fract() != 0.0 {
        return three_digits(value);
    }
    // A half goes up, as where a value is rounded before it is shown.
    let digits = format!("{:.0}", value.abs().round());
    let mut text = String::with_capacity(digits.len() * 4 / 3 + 1);
    if value < 0.0 && digits != "0" {
        text.push('-');
    }
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Reads a length of time with its unit: `250ms`, `1.5 s`, `100us`, `2m`. A bare number is seconds.
///
/// # Errors
/// Names the text and the units that are understood.
pub fn parse_duration(text: &str) -> Result<Seconds, Mistake> {
    let wrong =
        || Mistake::new(format!("`{text}` is not a length of time"), "write it like 250ms, 1.5s or 2m");
    let (number, unit) = split_unit(text);
    let scale = match unit {
        "" | "s" | "sec" => 1.0,
        "ms" => 1e-3,
        "us" | "µs" | "μs" => 1e-6,
        "ns" => 1e-9,
        "m" | "min" => 60.0,
        "h" => 3_600.0,
        "d" => 86_400.0,
        _ => return Err(wrong()),
    };
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value * scale),
        _ => Err(wrong()),
    }
}

/// Reads a bandwidth in bits per second: `101 Mbit/s`, `10Gbit/s`, `9600 bit/s`, `1 Mbps`.
///
/// # Errors
/// Names the text and how it is written.
pub fn parse_bandwidth(text: &str) -> Result<f64, Mistake> {
    let wrong =
        || Mistake::new(format!("`{text}` is not a bandwidth"), "write it like 101 Mbit/s or 10 Gbit/s");
    let (number, unit) = split_unit(text);
    let scale = match unit.trim_end_matches("/s").trim_end_matches("ps") {
        "bit" | "b" => 1.0,
        "kbit" | "Kbit" | "kb" => 1e3,
        "Mbit" | "mbit" | "Mb" => 1e6,
        "Gbit" | "gbit" | "Gb" => 1e9,
        _ => return Err(wrong()),
    };
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() && value >= 0.0 => Ok(value * scale),
        _ => Err(wrong()),
    }
}

/// Reads a size with its unit, binary throughout: `1MiB`, `1m` and `1MB` are all 1,048,576 bytes,
/// as memcached's own `-I 1m` is. A bare number is bytes.
///
/// # Errors
/// Names the text and the units that are understood.
pub fn parse_size(text: &str) -> Result<u64, Mistake> {
    let wrong = || Mistake::new(format!("`{text}` is not a size"), "write it like 4096, 64KiB or 1MiB");
    let (number, unit) = split_unit(text);
    let shift = match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kb" | "kib" => 10,
        "m" | "mb" | "mib" => 20,
        "g" | "gb" | "gib" => 30,
        "t" | "tb" | "tib" => 40,
        _ => return Err(wrong()),
    };
    let value: f64 = number.parse().map_err(|_| wrong())?;
    let bytes = value * (1_u64 << shift) as f64;
    if bytes.is_finite() && bytes >= 0.0 && bytes < u64::MAX as f64 { Ok(bytes as u64) } else { Err(wrong()) }
}

/// Reads a number that may have a decimal prefix or parts of thousands: `20k`, `1.5M`, `1_000`,
/// `2G`.
fn scaled(text: &str) -> Option<f64> {
    let (number, unit) = split_unit(text);
    let scale = match unit {
        "" => 1.0,
        "k" | "K" => 1e3,
        "M" | "m" => 1e6,
        "G" | "g" | "B" => 1e9,
        _ => return None,
    };
    let value: f64 = number.replace('_', "").parse().ok()?;
    let scaled = value * scale;
    scaled.is_finite().then_some(scaled)
}

/// Reads a count, a whole number of 0 or more: `4096`, `1_000`, `20k`, `1.5M`. A prefix is decimal.
///
/// # Errors
/// Names the text and how it is written.
pub fn parse_count(text: &str) -> Result<u64, Mistake> {
    let plain = text.trim().replace('_', "");
    let whole = plain.parse::<u64>().ok();
    // What has no prefix is read without loss.
    let value = whole.or_else(|| {
        let prefixed = plain.ends_with(char::is_alphabetic);
        let value = scaled(&plain).filter(|value| prefixed && (0.0..2_f64.powi(53)).contains(value))?;
        // 1.1k is 1100 and not a little more.
        ((value - value.round()).abs() < 1e-12 * value.max(1.0)).then(|| value.round() as u64)
    });
    value.ok_or_else(|| {
        Mistake::new(format!("`{text}` is no whole number of 0 or more"), "write it like 4096, 20k or 1M")
    })
}

/// Reads a rate per second, 0 or more: `1000`, `20k`, `1.5M`, `20k/s`. A prefix is decimal.
///
/// # Errors
/// Names the text and how it is written.
pub fn parse_rate(text: &str) -> Result<f64, Mistake> {
    let number = text.trim().trim_end_matches("/s");
    scaled(number)
        .filter(|value| *value >= 0.0)
        .ok_or_else(|| Mistake::new(format!("`{text}` is no rate"), "write it like 1000, 20k or 1.5M"))
}

/// Seconds since 1970 as date and time in UTC: `2026-11-21 21:34:44 UTC`.
pub fn timestamp(unix_seconds: u64) -> String {
    let (days, second) = (unix_seconds / 86_400, unix_seconds % 86_400);
    // Days are counted from 1 March of year 0, so that the leap day is the last of its year; 400
    // years have 146,097 days.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02} UTC",
        second / 3_600,
        second / 60 % 60,
        second % 60
    )
}

/// Reads an instant, as nanoseconds since 1970 (UTC): a whole number of those, or date and time as
/// RFC 3339 writes them, `2026-11-22T07:30:00.5Z` or `2026-11-22 08:30:00+01:00`. What is finer
/// than a nanosecond is cut off.
///
/// # Errors
/// Names the text and both ways to write an instant.
pub fn parse_instant(text: &str) -> Result<Nanos, Mistake> {
    let text = text.trim();
    let read = if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().ok().map(Nanos)
    } else {
        date_and_time(text)
    };
    read.ok_or_else(|| {
        Mistake::new(
            format!("`{text}` is no instant"),
            "write nanoseconds since 1970, or 2026-11-22T07:30:00Z (RFC 3339)",
        )
    })
}

fn date_and_time(text: &str) -> Option<Nanos> {
    let number = |from: usize, to: usize, least: u64, most: u64| {
        let digits = text.get(from..to).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))?;
        digits.parse::<u64>().ok().filter(|number| (least..=most).contains(number))
    };
    let sign = |place: usize, signs: &str| text.get(place..=place).filter(|sign| signs.contains(sign));
    let (year, month, day) = (number(0, 4, 1970, 9_999)?, number(5, 7, 1, 12)?, number(8, 10, 1, 31)?);
    let (hour, minute) = (number(11, 13, 0, 23)?, number(14, 16, 0, 59)?);
    let second = number(17, 19, 0, 60)?; // a leap second is the first of the next minute
    for (place, signs) in [(4, "-"), (7, "-"), (10, "Tt "), (13, ":"), (16, ":")] {
        sign(place, signs)?;
    }
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let most = match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    };
    if day > most {
        return None;
    }
    let mut end = 19;
    let mut nanos = 0;
    if sign(end, ".").is_some() {
        let digits = text[end + 1..].bytes().take_while(u8::is_ascii_digit).count();
        let kept = text.get(end + 1..end + 1 + digits.min(9)).filter(|kept| !kept.is_empty())?;
        nanos = kept.parse::<u64>().ok()? * 10_u64.pow(9 - kept.len() as u32);
        end += 1 + digits;
    }
    let east = match (text.get(end..)?, sign(end, "+-")) {
        ("Z" | "z", _) => 0,
        (zone, Some(sign)) if zone.len() == 6 && zone.get(3..4) == Some(":") => {
            let minutes = number(end + 1, end + 3, 0, 23)? * 60 + number(end + 4, end + 6, 0, 59)?;
            minutes as i64 * if sign == "+" { 60 } else { -60 }
        }
        _ => return None,
    };
    // As in `timestamp`: years begin in March.
    let (shifted, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = shifted * 365 + shifted / 4 - shifted / 100 + shifted / 400 + (153 * month + 2) / 5 + day
        - 1
        - 719_468;
    let seconds = (days * 86_400 + hour * 3_600 + minute * 60 + second).checked_add_signed(-east)?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos).map(Nanos)
}

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| c.is_alphabetic()).unwrap_or(text.len());
    (text[..end].trim(), text[end..].trim())
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&duration(self.as_seconds()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn bandwidths_read_as_people_write_them() {
        for (text, bits) in
            [("101 Mbit/s", 101e6), ("10Gbit/s", 10e9), ("9600 bit/s", 9600.0), ("1 Mbps", 1e6)]
        {
            assert_eq!(parse_bandwidth(text), Ok(bits), "{text}");
        }
        assert!(parse_bandwidth("fast").is_err());
    }

    #[test]
    fn counts_and_rates_read_as_people_write_them() {
        for (text, count) in
            [("4096", 4_096), ("1_000", 1_000), ("20k", 20_000), ("1M", 1_000_000), ("1.1k", 1_100), ("0", 0)]
        {
            assert_eq!(parse_count(text), Ok(count), "{text}");
            assert_eq!(parse_rate(text), Ok(count as f64), "{text}");
        }
        assert_eq!(parse_count("18446744073709551615"), Ok(u64::MAX));
        for text in
            ["", "-1", "1.5", "20q", "k", "1.5000005M", "1.0000000005G", "many", "1e400", "99999999999G"]
        {
            assert!(parse_count(text).is_err(), "{text}");
        }
        assert_eq!((parse_rate("20k/s"), parse_rate("0.5")), (Ok(20_000.0), Ok(0.5)));
        for text in ["-1", "fast", "nan", "inf", "20 parsec"] {
            assert!(parse_rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn lengths_print_with_three_digits_and_the_unit_that_suits() {
        for (seconds, text) in [
            (0.0, "0.00 s"),
            (1.5e-3, "1.50 ms"),
            (23.42e-6, "23.4 µs"),
            (0.999_6e-3, "1.00 ms"),
            (512e-9, "512 ns"),
            (75.0, "75.0 s"),
            (f64::INFINITY, "inf"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn counts_keep_their_thousands_apart() {
        for (value, text) in
            [(0.0, "0"), (4.2, "4.20"), (999.0, "999"), (1e6, "1,000,000"), (-2_938.4, "-2,938")]
        {
            assert_eq!(count(value), text);
        }
    }

    #[test]
    fn instants_are_dates_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00 UTC"),
            (951_782_399, "2000-02-28 23:59:59 UTC"),
            (951_782_400, "2000-02-29 00:00:00 UTC"),
            (1_709_251_200, "2024-03-01 00:00:00 UTC"),
            (1_795_296_884, "2026-11-21 21:34:44 UTC"),
            (4_107_542_400, "2100-03-01 00:00:00 UTC"),
        ] {
            assert_eq!(timestamp(seconds), text);
        }
    }

    #[test]
    fn an_instant_is_nanoseconds_or_date_and_time() {
        let second = 1_000_000_000;
        for (text, nanos) in [
            ("1795332600000000001", 1_795_332_600_000_000_001),
            ("2026-11-22T07:30:00Z", 1_795_332_600 * second),
            ("2026-11-22 08:30:00.000000001+01:00", 1_795_332_600 * second + 1),
            ("2026-11-22t02:00:00.5-05:30", 1_795_332_600 * second + second / 2),
            ("2000-02-29T00:00:00.12345678987z", 951_782_400 * second + 123_456_789),
        ] {
            assert_eq!(parse_instant(text), Ok(Nanos(nanos)), "{text}");
        }
        for wrong in [
            "",
            "now",
            "-5",
            "2026-11-22",
            "2026-11-22T07:30:00",
            "2026-11-31T07:30:00Z",
            "2100-02-29T00:00:00Z",
            "2026-11-22T24:00:00Z",
            "2026-11-22T07:30:00.Z",
            "1970-01-01T00:30:00+01:00",
            "99999999999999999999",
        ] {
            assert!(parse_instant(wrong).unwrap_err().to_string().contains("RFC 3339"), "{wrong}");
        }
    }

    #[test]
    fn what_is_no_length_is_named() {
        assert!(parse_duration("soon").unwrap_err().to_string().contains("`soon`"));
        assert!(parse_duration("-1s").is_err());
        assert_eq!(parse_duration("250ms"), Ok(0.25));
        assert_eq!(parse_duration("2"), Ok(2.0));
    }

    proptest! {
        #[test]
        fn no_text_makes_the_readers_panic(text in ".*") {
            let _ = parse_duration(&text);
            let _ = parse_size(&text);
            let _ = parse_instant(&text);
            let _ = parse_instant(&format!("2026-11-22T07:30:00{text}"));
        }

        #[test]
        fn a_printed_timestamp_reads_back(seconds in 0_u64..18_446_744_073) {
            let text = timestamp(seconds).replace(" UTC", "Z");
            prop_assert_eq!(parse_instant(&text), Ok(Nanos(seconds * 1_000_000_000)));
        }

        #[test]
        fn a_printed_length_reads_back_within_its_three_digits(seconds in 1e-9_f64..1e4) {
            let read = parse_duration(&duration(seconds)).unwrap();
            prop_assert!((read - seconds).abs() <= 0.006 * seconds);
        }
    }
}
