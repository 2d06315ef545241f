//! Where a byte first stands, for lines that are mostly short.
//!
//! A command or an answer's line has 6 to 60 bytes. Eight at a time are compared in a register: a
//! byte is zero exactly where subtracting one borrows and its own highest bit is not set (the
//! lowest such place is exact, those above it may be borrowed from). What is longer goes on with
//! the wide instructions of `memchr`, which cost more to begin with than a short line takes.

/// No key is longer, so that the blank behind it is nearer.
const NEAR: usize = 256;
/// Bytes that are looked at eight at a time.
const SHORT: usize = 64;

const ONES: u64 = u64::from_ne_bytes([0x01; 8]);
const HIGHEST: u64 = u64::from_ne_bytes([0x80; 8]);

/// The highest bit of each byte that is zero, exact up to the lowest one.
#[inline]
const fn zeros(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & HIGHEST
}

#[inline]
const fn everywhere(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// The place of the lowest bit that is set in what [`zeros`] found.
#[inline]
const fn lowest(found: u64) -> usize {
    (found.trailing_zeros() / 8) as usize
}

/// The place of the first `byte`.
#[inline]
pub(crate) fn first(byte: u8, bytes: &[u8]) -> Option<usize> {
    let short = &bytes[..bytes.len().min(SHORT)];
    let (words, rest) = short.as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let found = zeros(u64::from_le_bytes(*word) ^ everywhere(byte));
        if found != 0 {
            return Some(at * 8 + lowest(found));
        }
    }
    if let Some(at) = rest.iter().position(|&other| other == byte) {
        return Some(words.len() * 8 + at);
    }
    let long = &bytes[short.len()..];
    if long.is_empty() { None } else { memchr::memchr(byte, long).map(|at| short.len() + at) }
}

/// The place of the blank that ends the word at the front; none where a line feed stands before it,
/// or it is not near.
#[inline]
pub(crate) fn word(bytes: &[u8]) -> Option<usize> {
    let (words, rest) = bytes[..bytes.len().min(NEAR)].as_chunks::<8>();
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let (blanks, ends) = (zeros(word ^ everywhere(b' ')), zeros(word ^ everywhere(b'\n')));
        if blanks | ends != 0 {
            let first = blanks != 0 && (ends == 0 || blanks.trailing_zeros() < ends.trailing_zeros());
            return first.then(|| at * 8 + lowest(blanks));
        }
    }
    let at = rest.iter().position(|&byte| matches!(byte, b' ' | b'\n'))?;
    (rest[at] == b' ').then_some(words.len() * 8 + at)
}

/// The place of the first line feed, and whether a NUL stands before it.
#[inline]
pub(crate) fn line_feed(bytes: &[u8]) -> Option<(usize, bool)> {
    let short = &bytes[..bytes.len().min(SHORT)];
    let (words, rest) = short.as_chunks::<8>();
    let mut nul = false;
    for (at, word) in words.iter().enumerate() {
        let word = u64::from_le_bytes(*word);
        let (ends, nuls) = (zeros(word ^ everywhere(b'\n')), zeros(word));
        if ends != 0 {
            let nul_before = nuls != 0 && nuls.trailing_zeros() < ends.trailing_zeros();
            return Some((at * 8 + lowest(ends), nul || nul_before));
        }
        nul |= nuls != 0;
    }
    let end = match rest.iter().position(|&byte| byte == b'\n') {
        Some(at) => words.len() * 8 + at,
        None => short.len() + memchr::memchr(b'\n', &bytes[short.len()..])?,
    };
    Some((end, nul || memchr::memchr(0, &bytes[words.len() * 8..end]).is_some()))
}

/// The words of a line. memcached parts them by blanks only: a tab belongs to a word.
pub(crate) fn words(mut line: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        while let [b' ', rest @ ..] = line {
            line = rest;
        }
        let end = first(b' ', line).unwrap_or(line.len());
        let (word, rest) = line.split_at(end);
        line = rest;
        (end > 0).then_some(word)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_stands_where_a_plain_search_finds_it(
            bytes in prop::collection::vec(prop_oneof![Just(b'\n'), Just(b' '), Just(0), Just(1), Just(0x0b), Just(0x80), any::<u8>()], 0..100),
            byte in prop_oneof![Just(b'\n'), Just(0_u8), any::<u8>()],
            quiet in 0_usize..100,
        ) {
            let mut bytes = bytes;
            // A part without any of them, so that long searches happen.
            bytes.iter_mut().take(quiet).for_each(|byte| *byte |= 0x10);
            prop_assert_eq!(first(byte, &bytes), bytes.iter().position(|&other| other == byte));
            let other = bytes.iter().position(|&other| other == b' ' || other == b'\n');
            prop_assert_eq!(word(&bytes), other.filter(|&at| bytes[at] == b' '));
            let end = bytes.iter().position(|&other| other == b'\n');
            prop_assert_eq!(line_feed(&bytes), end.map(|end| (end, bytes[..end].contains(&0))));
        }
    }
}
