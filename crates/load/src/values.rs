//! What is stored under a key: a function of the key, a version and the size, so that any reader
//! can verify it.
//!
//! ```text
//! │ version, 16 hex digits │ checksum, 16 hex digits │ noise, begun at a place the checksum says …  │
//! ```
//! The checksum is over the key's text, the version and the size. The noise is a fixed block of
//! printable bytes, gone through in a circle; so writing a value and verifying one cost no more
//! than copying and comparing it. A value below 32 bytes has room for noise only, begun at a place
//! that the key says, so that its front alone looks whole. Nothing depends on the run's seed: what
//! one run stored, every other can verify.

use std::fmt;

use rand::RngExt;

use crate::random;

/// Bytes in front of the noise.
const HEADER: usize = 32;
/// Bytes of noise before it repeats.
const NOISE: usize = 1 << 16;
/// Printable, and none that memcached's protocol means something by.
const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Writes and verifies values.
#[derive(Clone, Debug)]
pub struct ValueGenerator {
    noise: Box<[u8]>,
}

/// How a value is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mismatch {
    /// The checksum does not belong to the key, the version and the size: another key's value, or
    /// one cut short.
    Checksum,
    /// The byte at this place is not the one that was stored.
    Byte(usize),
    /// There is nothing, where no value is stored without a byte.
    Empty,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Checksum => f.write_str("the checksum is not that of this key and size"),
            Self::Byte(place) => write!(f, "byte {place} is not what was stored"),
            Self::Empty => f.write_str("it is empty, and no value is stored without a byte"),
        }
    }
}

impl Default for ValueGenerator {
    fn default() -> Self {
        Self::new()
    }
}

impl ValueGenerator {
    /// Makes the noise.
    pub fn new() -> Self {
        let mut random = random::stream(0, "noise", 0);
        let noise = (0..NOISE).map(|_| LETTERS[random.random::<u8>() as usize % LETTERS.len()]).collect();
        Self { noise }
    }

    /// Appends the value of `key` in `version` with `size` bytes.
    #[inline]
    pub fn write(&self, key: &[u8], version: u64, size: usize, out: &mut Vec<u8>) {
        let named = hash(key);
        let (mut at, mut left) = if size >= HEADER {
            let checksum = checksum(named, version, size);
            out.extend_from_slice(&hex(version));
            out.extend_from_slice(&hex(checksum));
            (checksum as usize % NOISE, size - HEADER)
        } else {
            (named as usize % NOISE, size)
        };
        while left > 0 {
            let piece = &self.noise[at..NOISE.min(at + left)];
            out.extend_from_slice(piece);
            left -= piece.len();
            at = 0;
        }
    }

    /// Whether `data` is what was stored under `key`, in any version.
    ///
    /// # Errors
    /// What is wrong with it.
    #[inline]
    pub fn check(&self, key: &[u8], data: &[u8]) -> Result<(), Mismatch> {
        let named = hash(key);
        let (mut at, mut place) = if data.len() >= HEADER {
            let version = unhex(&data[..16]).ok_or(Mismatch::Checksum)?;
            let expected = checksum(named, version, data.len());
            if unhex(&data[16..HEADER]) != Some(expected) {
                return Err(Mismatch::Checksum);
            }
            (expected as usize % NOISE, HEADER)
        } else {
            (named as usize % NOISE, 0)
        };
        while place < data.len() {
            let piece = &self.noise[at..NOISE.min(at + data.len() - place)];
            let found = &data[place..place + piece.len()];
            if found != piece {
                let byte = found.iter().zip(piece).position(|(found, stored)| found != stored);
                return Err(Mismatch::Byte(place + byte.expect("the pieces differ")));
            }
            place += piece.len();
            at = 0;
        }
        Ok(())
    }
}

/// FNV-1a, 64 bits, spread over all bits.
#[inline]
fn hash(key: &[u8]) -> u64 {
    let folded = key.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    random::mix(folded)
}

#[inline]
fn checksum(named: u64, version: u64, size: usize) -> u64 {
    random::mix(random::mix(named ^ random::mix(version)) ^ size as u64)
}

#[inline]
fn hex(value: u64) -> [u8; 16] {
    std::array::from_fn(|digit| b"0123456789abcdef"[(value >> (60 - 4 * digit)) as usize & 15])
}

#[inline]
fn unhex(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |value, &digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(value << 4 | u64::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(key: &[u8], version: u64, size: usize) -> Vec<u8> {
        let mut out = Vec::new();
        ValueGenerator::new().write(key, version, size, &mut out);
        out
    }

    #[test]
    fn a_value_is_printable_and_the_same_for_ever() {
        // Fixed on purpose: a change here makes values stored before unverifiable.
        let text = "0000000000000001296ddf172bdf84d1XAixUVUb9vMJSk6s";
        assert_eq!(String::from_utf8(value(b"key-7", 1, 48)).unwrap(), text);
        assert!(value(b"k", 5, 300_000).iter().all(u8::is_ascii_graphic));
    }

    #[test]
    fn versions_differ() {
        assert_ne!(value(b"key", 1, 100), value(b"key", 2, 100));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_written_verifies(key in "[a-z0-9-]{1,40}", version: u64, size in 0_usize..200_000) {
            let data = value(key.as_bytes(), version, size);
            prop_assert_eq!(data.len(), size);
            prop_assert_eq!(ValueGenerator::new().check(key.as_bytes(), &data), Ok(()));
        }

        #[test]
        fn one_wrong_byte_anywhere_is_seen(size in 1_usize..5_000, place: prop::sample::Index, flip in 1_u8..=255) {
            let mut data = value(b"key", 3, size);
            let place = place.index(size);
            data[place] ^= flip;
            prop_assert!(ValueGenerator::new().check(b"key", &data).is_err());
        }

        #[test]
        fn another_keys_value_and_a_cut_one_are_seen(size in 32_usize..5_000, cut in 1_usize..32) {
            let data = value(b"key-1", 3, size);
            prop_assert_eq!(ValueGenerator::new().check(b"key-2", &data), Err(Mismatch::Checksum));
            if size - cut >= HEADER {
                prop_assert_eq!(ValueGenerator::new().check(b"key-1", &data[..size - cut]), Err(Mismatch::Checksum));
            }
        }
    }
}
