//! Whole numbers in ASCII, read as memcached reads them: an optional sign, digits, nothing else.

/// A number without sign, or with a plus sign.
pub(crate) fn unsigned(text: &[u8]) -> Option<u64> {
    let digits = text.strip_prefix(b"+").unwrap_or(text);
    if digits.is_empty() {
        return None;
    }
    let mut value: u64 = 0;
    for &byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    Some(value)
}

/// A blank, digits, and the rest, which begins with another blank or is empty: as servers write
/// numbers, without a sign.
pub(crate) fn blank_and_digits(text: &[u8]) -> Option<(u64, &[u8])> {
    let [b' ', text @ ..] = text else { return None };
    let (mut value, mut length) = (0_u64, 0);
    for &byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            if byte != b' ' {
                return None;
            }
            break;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        length += 1;
    }
    (length > 0).then(|| (value, &text[length..]))
}

/// Digits of `text` from `start` on, as many as there are, and the place behind them. None where
/// there are none, or more than certainly fit: others look closer.
#[inline]
pub(crate) fn digits(text: &[u8], start: usize) -> Option<(u64, usize)> {
    const FIT: usize = 19;
    let (mut value, mut at) = (0_u64, start);
    while let Some(&byte) = text.get(at) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        if at - start == FIT {
            return None;
        }
        value = value * 10 + u64::from(digit);
        at += 1;
    }
    (at > start).then_some((value, at))
}

/// Whether every memcached reads these digits alike, and they would be written anew as they are:
/// later ones take no plus sign and no long row of zeros, and `-0` would be `0`.
pub(crate) fn plain(text: &[u8]) -> bool {
    matches!(text, [b'0'] | [b'1'..=b'9', ..] | [b'-', b'1'..=b'9', ..])
}

/// A number without sign that fits 32 bits.
pub(crate) fn unsigned_32(text: &[u8]) -> Option<u32> {
    unsigned(text).and_then(|value| u32::try_from(value).ok())
}

/// A number with an optional sign that fits 32 bits: expiry times.
pub(crate) fn signed_32(text: &[u8]) -> Option<i32> {
    match text.strip_prefix(b"-") {
        Some([b'+', ..]) => None,
        Some(digits) => unsigned(digits).and_then(|value| i32::try_from(-i64::try_from(value).ok()?).ok()),
        None => unsigned(text).and_then(|value| i32::try_from(value).ok()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_digits_with_an_optional_sign() {
        assert_eq!(unsigned(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(unsigned(b"18446744073709551616"), None);
        assert_eq!(unsigned(b"+1"), Some(1));
        assert_eq!(unsigned(b"007"), Some(7));
        assert_eq!(unsigned(b"00000000000000000000000000000000000007"), Some(7));
        for text in [&b""[..], b"+", b"-1", b"1x", b" 1", b"1 ", b"++1"] {
            assert_eq!(unsigned(text), None, "{text:?}");
        }
        assert_eq!(signed_32(b"-2147483648"), Some(i32::MIN));
        assert_eq!(signed_32(b"2147483648"), None);
        assert_eq!(signed_32(b"-+1"), None);
        assert_eq!(signed_32(b"-"), None);
        assert_eq!(unsigned_32(b"4294967296"), None);
    }

    #[test]
    fn numbers_of_a_line_follow_one_another() {
        assert_eq!(blank_and_digits(b" 12 7"), Some((12, &b" 7"[..])));
        assert_eq!(blank_and_digits(b" 18446744073709551615"), Some((u64::MAX, &b""[..])));
        for text in [&b""[..], b" ", b"1", b"  1", b" +1", b" 1x", b" 18446744073709551616"] {
            assert_eq!(blank_and_digits(text), None, "{text:?}");
        }
    }

    #[test]
    fn digits_end_where_something_else_stands() {
        assert_eq!(digits(b"a 64\r", 2), Some((64, 4)));
        assert_eq!(digits(b"007", 0), Some((7, 3)));
        assert_eq!(digits(b"9999999999999999999", 0), Some((9_999_999_999_999_999_999, 19)));
        for (text, start) in [(&b"a"[..], 0), (b"1", 1), (b"", 0), (b"1", 7), (b"10000000000000000000", 0)] {
            assert_eq!(digits(text, start), None, "{text:?}");
        }
    }

    #[test]
    fn what_later_servers_refuse_is_not_plain() {
        for text in [&b"0"[..], b"1", b"-1", b"10", b"18446744073709551615"] {
            assert!(plain(text), "{text:?}");
        }
        for text in [&b"+1"[..], b"01", b"00", b"-0", b"-01", b"", b"-"] {
            assert!(!plain(text), "{text:?}");
        }
    }
}
