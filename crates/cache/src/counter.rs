//! The numbers that `incr` and `decr` find and leave behind in a value.

use krarup_memcache::Arithmetic;

/// The number a value begins with, read as memcached reads it, with C's `strtoull`: blanks, a sign,
/// digits, and then nothing, a blank or a zero byte, whatever follows. `None` is no number, or one
/// beyond 64 bits.
pub fn read(value: &[u8]) -> Option<u64> {
    let start = value.iter().position(|byte| !is_blank(*byte))?;
    let (negative, digits) = match &value[start..] {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let end = digits.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(digits.len());
    if end == 0 || digits.get(end).is_some_and(|&byte| byte != 0 && !is_blank(byte)) {
        return None;
    }
    let number = digits[..end]
        .iter()
        .try_fold(0_u64, |number, digit| number.checked_mul(10)?.checked_add(u64::from(digit - b'0')))?;
    // strtoull wraps what has a minus sign; memcached takes the outcome unless it looks negative.
    let number = if negative { number.wrapping_neg() } else { number };
    (!negative || number <= i64::MAX as u64).then_some(number)
}

/// Sums wrap at 2⁶⁴, differences stop at zero.
pub fn apply(command: Arithmetic, number: u64, delta: u64) -> u64 {
    match command {
        Arithmetic::Incr => number.wrapping_add(delta),
        Arithmetic::Decr => number.saturating_sub(delta),
    }
}

/// The value that `number` leaves where one of `length` bytes was: never shorter, blanks make up
/// for missing digits.
pub fn write(number: u64, length: usize) -> Vec<u8> {
    let mut value = number.to_string().into_bytes();
    value.resize(length.max(value.len()), b' ');
    value
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_may_have_blanks_around_it_and_anything_after_them() {
        for (value, number) in [
            (&b"5"[..], 5),
            (b" 5", 5),
            (b"5 ", 5),
            (b"5 abc", 5),
            (b"+5", 5),
            (b"\n5", 5),
            (b"5\t", 5),
            (b"5\0x", 5),
            (b"-0", 0),
            (b"-18446744073709551615", 1),
            (b"0000000000000000000000000000005", 5),
            (b"18446744073709551615", u64::MAX),
        ] {
            assert_eq!(read(value), Some(number), "{value:?}");
        }
        for value in [&b""[..], b"  ", b"-5", b"0x10", b"5x", b"z", b"+", b"- 5", b"18446744073709551616"] {
            assert_eq!(read(value), None, "{value:?}");
        }
    }

    #[test]
    fn sums_wrap_and_differences_stop_at_zero() {
        assert_eq!(apply(Arithmetic::Incr, u64::MAX, 2), 1);
        assert_eq!(apply(Arithmetic::Decr, 3, 5), 0);
    }

    #[test]
    fn a_shrinking_number_keeps_its_length() {
        assert_eq!(write(9, 2), b"9 ");
        assert_eq!(write(100, 2), b"100");
        let long = write(9, 70_000);
        assert_eq!((long.len(), long.trim_ascii()), (70_000, &b"9"[..]));
    }
}
