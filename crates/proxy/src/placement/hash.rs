//! A key as a number: the hash functions that memcached's clients and proxies place keys by, value
//! for value.
//!
//! These are not the textbook's functions but what libmemcached and twemproxy compute, for the
//! number decides where a key lies. Three peculiarities are kept because of it. Where their C reads
//! a byte through a signed `char`, a byte of 128 and more is negative and fills the upper bits.
//! `fnv1_64` and `fnv1a_64` are cut to their lower 32 bits. `crc32` is 15 bits of the checksum, and
//! `crc16` is never cut to 16.

use md5::{Digest, Md5};
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

/// How a key becomes a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyHash {
    /// Fowler, Noll and Vo's, exclusive-or first, lower half of 64 bits: twemproxy's default.
    #[serde(rename = "fnv1a_64")]
    Fnv1a64,
    /// The same in 32 bits.
    #[serde(rename = "fnv1a_32")]
    Fnv1a32,
    /// Fowler, Noll and Vo's, multiplication first, lower half of 64 bits.
    #[serde(rename = "fnv1_64")]
    Fnv164,
    /// The same in 32 bits.
    #[serde(rename = "fnv1_32")]
    Fnv132,
    /// Appleby's second Murmur hash, seeded with the length.
    Murmur,
    /// Appleby's third in 32 bits, seeded as libmemcached does.
    Murmur3,
    /// The remainder by x¹⁶ + x¹² + x⁵ + 1, in a register of 32 bits.
    Crc16,
    /// Bits 16 to 30 of the usual checksum: what libmemcached calls CRC.
    Crc32,
    /// The usual checksum (IEEE 802.3), whole.
    Crc32a,
    /// The first four bytes of the digest, little end first: what ketama's own library does.
    Md5,
    /// XXH3 in 64 bits: quick, and well spread. The choice where no other program has to agree.
    Xxh3,
    /// Hsieh's.
    Hsieh,
    /// Jenkins' third, for bytes (`hashlittle`), begun with 13.
    Jenkins,
    /// Jenkins' first: libmemcached's default.
    #[serde(alias = "default")]
    OneAtATime,
}

impl KeyHash {
    /// Every function with the name it has in a configuration, which is twemproxy's where that has
    /// it.
    pub const ALL: [(Self, &str); 14] = [
        (Self::Fnv1a64, "fnv1a_64"),
        (Self::Fnv1a32, "fnv1a_32"),
        (Self::Fnv164, "fnv1_64"),
        (Self::Fnv132, "fnv1_32"),
        (Self::Murmur, "murmur"),
        (Self::Murmur3, "murmur3"),
        (Self::Crc16, "crc16"),
        (Self::Crc32, "crc32"),
        (Self::Crc32a, "crc32a"),
        (Self::Md5, "md5"),
        (Self::Xxh3, "xxh3"),
        (Self::Hsieh, "hsieh"),
        (Self::Jenkins, "jenkins"),
        (Self::OneAtATime, "one_at_a_time"),
    ];

    /// The name in a configuration.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(hash, _)| *hash == self).expect("every function is in the table").1
    }

    /// The key's number: 32 bits of it, but all 64 for [`KeyHash::Xxh3`].
    #[inline]
    pub fn number(self, key: &[u8]) -> u64 {
        if let Self::Xxh3 = self {
            return XxHash3_64::oneshot(key);
        }
        u64::from(match self {
            Self::Fnv1a64 => fnv1a(key, FNV_64_BASIS, FNV_64_PRIME),
            Self::Fnv1a32 => fnv1a(key, FNV_32_BASIS, FNV_32_PRIME),
            Self::Fnv164 => fnv1(key, FNV_64_BASIS, FNV_64_PRIME),
            Self::Fnv132 => fnv1(key, FNV_32_BASIS, FNV_32_PRIME),
            Self::Murmur => murmur(key),
            Self::Murmur3 => murmur3(key),
            Self::Crc16 => crc16(key),
            Self::Crc32 => (crc32fast::hash(key) >> 16) & 0x7fff,
            Self::Crc32a => crc32fast::hash(key),
            Self::Md5 => md5_words(key)[0],
            Self::Hsieh => hsieh(key),
            Self::Jenkins => jenkins(key),
            Self::OneAtATime => one_at_a_time(key),
            Self::Xxh3 => unreachable!("answered above"),
        })
    }
}

/// The MD5 digest as four numbers of 32 bits, little end first: ketama's points come four at a
/// time.
pub(super) fn md5_words(bytes: &[u8]) -> [u32; 4] {
    let digest = Md5::digest(bytes);
    std::array::from_fn(|word| little_end(&digest[4 * word..4 * word + 4]))
}

/// A byte as C's `char` is on the machines these functions grew up on: signed, then widened.
#[inline]
fn widened(byte: u8) -> u32 {
    i32::from(byte as i8) as u32
}

/// Up to four bytes as a number, the first the lowest.
#[inline]
fn little_end(bytes: &[u8]) -> u32 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

// Of 64 bits only the lower half is kept in the end, and the lower half of a product depends on
// lower halves alone.
const FNV_64_BASIS: u32 = 0x8422_2325;
const FNV_64_PRIME: u32 = 0x1b3;
const FNV_32_BASIS: u32 = 0x811c_9dc5;
const FNV_32_PRIME: u32 = 0x0100_0193;

#[inline]
fn fnv1a(key: &[u8], basis: u32, prime: u32) -> u32 {
    key.iter().fold(basis, |hash, byte| (hash ^ widened(*byte)).wrapping_mul(prime))
}

#[inline]
fn fnv1(key: &[u8], basis: u32, prime: u32) -> u32 {
    key.iter().fold(basis, |hash, byte| hash.wrapping_mul(prime) ^ widened(*byte))
}

fn one_at_a_time(key: &[u8]) -> u32 {
    let mut hash = key.iter().fold(0u32, |hash, byte| {
        let hash = hash.wrapping_add(widened(*byte));
        let hash = hash.wrapping_add(hash << 10);
        hash ^ hash >> 6
    });
    hash = hash.wrapping_add(hash << 3);
    hash ^= hash >> 11;
    hash.wrapping_add(hash << 15)
}

/// The seed that both Murmur hashes are given, so that a key's length matters.
fn murmur_seed(key: &[u8]) -> u32 {
    (key.len() as u32).wrapping_mul(0xdead_beef)
}

fn murmur(key: &[u8]) -> u32 {
    const MULTIPLIER: u32 = 0x5bd1_e995;
    let words = key.chunks_exact(4);
    let tail = words.remainder();
    let mut hash = words.fold(murmur_seed(key) ^ key.len() as u32, |hash, word| {
        let word = little_end(word).wrapping_mul(MULTIPLIER);
        let word = (word ^ word >> 24).wrapping_mul(MULTIPLIER);
        hash.wrapping_mul(MULTIPLIER) ^ word
    });
    if !tail.is_empty() {
        hash = (hash ^ little_end(tail)).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(MULTIPLIER);
    hash ^ hash >> 15
}

fn murmur3(key: &[u8]) -> u32 {
    let scrambled =
        |word: &[u8]| little_end(word).wrapping_mul(0xcc9e_2d51).rotate_left(15).wrapping_mul(0x1b87_3593);
    let words = key.chunks_exact(4);
    let tail = words.remainder();
    let mut hash = words.fold(murmur_seed(key), |hash, word| {
        (hash ^ scrambled(word)).rotate_left(13).wrapping_mul(5).wrapping_add(0xe654_6b64)
    });
    hash ^= scrambled(tail) ^ key.len() as u32;
    hash = (hash ^ hash >> 16).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ hash >> 13).wrapping_mul(0xc2b2_ae35);
    hash ^ hash >> 16
}

/// Remainders of one byte by the polynomial 0x1021.
const CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            remainder = if remainder & 0x8000 == 0 { remainder << 1 } else { remainder << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte] = remainder;
        byte += 1;
    }
    table
};

fn crc16(key: &[u8]) -> u32 {
    key.iter()
        .fold(0, |crc: u32, byte| crc << 8 ^ u32::from(CRC16[(crc >> 8 & 0xff) as usize ^ *byte as usize]))
}

fn hsieh(key: &[u8]) -> u32 {
    if key.is_empty() {
        return 0;
    }
    let words = key.chunks_exact(4);
    let tail = words.remainder();
    let mut hash = words.fold(0u32, |hash, word| {
        let hash = hash.wrapping_add(little_end(&word[..2]));
        let hash = hash << 16 ^ little_end(&word[2..]) << 11 ^ hash;
        hash.wrapping_add(hash >> 11)
    });
    match *tail {
        [first, second, third] => {
            hash = hash.wrapping_add(little_end(&[first, second]));
            hash ^= hash << 16 ^ widened(third) << 18;
            hash = hash.wrapping_add(hash >> 11);
        }
        [first, second] => {
            hash = hash.wrapping_add(little_end(&[first, second]));
            hash ^= hash << 11;
            hash = hash.wrapping_add(hash >> 17);
        }
        [only] => {
            hash = hash.wrapping_add(u32::from(only));
            hash ^= hash << 10;
            hash = hash.wrapping_add(hash >> 1);
        }
        _ => {}
    }
    for (left, right) in [(3, 5), (4, 17), (25, 6)] {
        hash ^= hash << left;
        hash = hash.wrapping_add(hash >> right);
    }
    hash
}

fn jenkins(key: &[u8]) -> u32 {
    let begun = 0xdead_beef_u32.wrapping_add(key.len() as u32).wrapping_add(13);
    let (mut a, mut b, mut c) = (begun, begun, begun);
    let mut rest = key;
    loop {
        // Twelve bytes at a time; the last one to twelve are only added, then stirred in another
        // way.
        let last = rest.len() <= 12;
        let (block, after) = rest.split_at(rest.len().min(12));
        let word =
            |place: usize| little_end(&block[block.len().min(4 * place)..block.len().min(4 * place + 4)]);
        if block.is_empty() {
            return c;
        }
        a = a.wrapping_add(word(0));
        b = b.wrapping_add(word(1));
        c = c.wrapping_add(word(2));
        if last {
            break;
        }
        for (mine, theirs) in [((4, 6), 8), ((16, 19), 4)] {
            a = a.wrapping_sub(c) ^ c.rotate_left(mine.0);
            c = c.wrapping_add(b);
            b = b.wrapping_sub(a) ^ a.rotate_left(mine.1);
            a = a.wrapping_add(c);
            c = c.wrapping_sub(b) ^ b.rotate_left(theirs);
            b = b.wrapping_add(a);
        }
        rest = after;
    }
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Published values: the FNV reference vectors (lower halves), RFC 1321, XMODEM's and IEEE's
    /// check values, XXH3's.
    #[test]
    fn the_functions_give_their_published_values() {
        for (hash, key, number) in [
            (KeyHash::Fnv1a64, &b"foobar"[..], 0xf739_67e8),
            (KeyHash::Fnv1a32, b"foobar", 0xbf9c_f968),
            (KeyHash::Fnv164, b"foobar", 0xa4dd_a9c2),
            (KeyHash::Fnv132, b"foobar", 0x31f0_b262),
            (KeyHash::Crc32a, b"123456789", 0xcbf4_3926),
            (KeyHash::Crc32, b"123456789", 0x4bf4),
            (KeyHash::Md5, b"abc", 0x9850_0190),
            (KeyHash::Xxh3, b"", 0x2d06_8005_38d3_94c2),
            (KeyHash::OneAtATime, b"a", 0xca2e_9442),
        ] {
            assert_eq!(hash.number(key), number, "{}", hash.name());
        }
        assert_eq!(KeyHash::Crc16.number(b"123456789") & 0xffff, 0x31c3);
    }

    #[test]
    fn every_function_is_called_what_a_configuration_calls_it() {
        for (hash, name) in KeyHash::ALL {
            assert_eq!(serde_json::to_string(&hash).unwrap(), format!("\"{name}\""));
            assert_eq!(hash.name(), name);
        }
    }
}
