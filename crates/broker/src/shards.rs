//! Queues divided among several brokers: which shard a tube is of, which ids are whose, who owns
//! what.
//!
//! ```text
//! tube ──digest──▶ shard ──▶ its owner          id ──remainder──▶ shard
//! ```
//!
//! A tube is of one shard for as long as there are so many of them. The owner of shard `n` of `k`
//! gives the ids that leave `n` when divided by `k`, so that an id says where to look first, and no
//! two owners ever give the same.

use md5::{Digest, Md5};

use crate::job::Id;

/// The most shards there may be.
pub const MOST: u32 = 64;

/// One part of all queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which one, counted from 0.
    pub number: u32,
    /// Of how many.
    pub of: u32,
}

impl Shard {
    /// All queues.
    pub const WHOLE: Self = Self { number: 0, of: 1 };

    /// Whether there are others.
    pub const fn is_whole(self) -> bool {
        self.of == 1
    }

    /// Whether a tube is of this shard.
    pub fn has(self, tube: &str) -> bool {
        self.is_whole() || shard_of(tube, self.of) == self.number
    }

    /// The first of its ids that is not below this one.
    pub const fn id_from(self, id: Id) -> Id {
        let (number, of) = (self.number as Id, self.of as Id);
        id + (number + of - id % of) % of
    }
}

/// Which of so many shards a tube is of: by the part of its name in the first parentheses that hold
/// something, else by all of it. The database has the same function.
pub fn shard_of(tube: &str, shards: u32) -> u32 {
    let digest = Md5::digest(tag(tube).as_bytes());
    u32::from_be_bytes([digest[0], digest[1], digest[2], digest[3]]) % shards
}

/// What decides of a name: tubes that have it alike are together.
fn tag(tube: &str) -> &str {
    for (begin, _) in tube.match_indices('(') {
        let rest = &tube[begin + 1..];
        if let Some(length) = rest.find(')').filter(|length| *length > 0) {
            return &rest[..length];
        }
    }
    tube
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_of_different_shards_are_never_the_same_and_say_whose_they_are() {
        for (number, from, first) in [(0, 1, 4), (1, 1, 1), (3, 1, 3), (0, 4, 4), (3, 4, 7), (2, 7, 10)] {
            let shard = Shard { number, of: 4 };
            assert_eq!(shard.id_from(from), first);
            assert_eq!(shard.id_from(from) % 4, Id::from(number));
        }
        assert_eq!((Shard::WHOLE.id_from(1), Shard::WHOLE.id_from(7)), (1, 7));
    }

    #[test]
    fn tubes_with_the_same_part_in_parentheses_are_of_the_same_shard() {
        for (tube, expected) in [
            ("jobs", "jobs"),
            ("(a)jobs", "a"),
            ("jobs.(a)", "a"),
            ("()(b)", "b"),
            ("a(b(c)d", "b(c"),
            ("open(", "open("),
            ("()", "()"),
        ] {
            assert_eq!(tag(tube), expected);
        }
        assert_eq!(shard_of("x(a)", 64), shard_of("(a)y", 64));
        let used: std::collections::HashSet<u32> =
            (0..1_000).map(|n| shard_of(&format!("t{n}"), 64)).collect();
        assert_eq!(used.len(), 64);
    }

    #[test]
    fn the_digest_is_the_databases() {
        // select ('x' || left(md5('jobs'), 8))::bit(32)::bigint
        assert_eq!(shard_of("jobs", u32::MAX), 0x27a0_6a9e);
    }
}
