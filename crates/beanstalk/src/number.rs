//! Whole numbers in ASCII, read as beanstalkd reads them, and written.

/// A number of at most `most` behind any number of blanks, and what follows its last digit.
#[inline]
pub(crate) fn number(text: &[u8], most: u64) -> Option<(u64, &[u8])> {
    let text = without_blanks(text);
    let (mut value, mut digits) = (0_u64, 0);
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value.checked_mul(10)?.checked_add(u64::from(digit))?;
        digits += 1;
    }
    (digits > 0 && value <= most).then(|| (value, &text[digits..]))
}

/// Behind the blanks at the front; tabs are none.
#[inline]
pub(crate) fn without_blanks(mut text: &[u8]) -> &[u8] {
    while let [b' ', rest @ ..] = text {
        text = rest;
    }
    text
}

/// Appends it.
#[inline]
pub(crate) fn digits(out: &mut Vec<u8>, number: u64) {
    let mut buffer = itoa::Buffer::new();
    out.extend_from_slice(buffer.format(number).as_bytes());
}

/// Where the first end of a line begins.
#[inline]
pub(crate) fn end_of_line(bytes: &[u8]) -> Option<usize> {
    memchr::memchr_iter(b'\n', bytes).find(|at| *at > 0 && bytes[at - 1] == b'\r').map(|at| at - 1)
}
