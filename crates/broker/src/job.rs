//! One message: what it is, where it stands, what has happened to it.
//!
//! ```text
//!            put, durable store          put with a delay ┐   ┌ release with a delay
//!                    │                                    ▼   │
//!                    ▼           committed            ┌─────────┐
//!               [PENDING] ──────────────┬───────────▶ │ DELAYED │
//!                                       │             └────┬────┘
//!                                       ▼    time passes   │
//!                                  ┌─────────┐ ◀───────────┘
//!                          ┌─────▶ │  READY  │ ── pop ───────────▶ gone
//!            release, kick,│       └────┬────┘
//!            lease is over │            │ reserve
//!                          │            ▼
//!                          │       ┌──────────┐
//!                          ├────── │ RESERVED │ ── delete ────────▶ gone
//!                          │       └────┬─────┘
//!                          │            │ bury, or tried too often
//!                          │            ▼
//!                          │       ┌──────────┐
//!                          └────── │  BURIED  │ ── delete ────────▶ gone
//!                                  └──────────┘
//! ```

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use krarup_units::{Nanos, Stamp};

/// Bytes that a message costs beside its body: its places in tables and lines.
pub const OVERHEAD: u64 = 320;

/// The number of a message; smaller ones were put earlier.
pub type Id = u64;
pub use krarup_service::ClientId;
/// The place of a tube.
pub type TubeId = u32;

/// Where a message stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Put, and not yet committed: no client sees it.
    Pending,
    /// A client that may have it can take it.
    Ready,
    /// One client has it until then.
    Reserved {
        /// Who.
        by: ClientId,
        /// When it is taken away.
        until: Stamp,
    },
    /// No client may take it until then.
    Delayed {
        /// When it becomes ready.
        until: Stamp,
        /// The same since 1970, as a store has it: its place among those delayed.
        due: Nanos,
    },
    /// Set aside until it is kicked.
    Buried {
        /// Its place among those buried.
        order: u64,
    },
}

impl JobState {
    /// The word of the protocol.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Pending | Self::Ready => "ready",
            Self::Reserved { .. } => "reserved",
            Self::Delayed { .. } => "delayed",
            Self::Buried { .. } => "buried",
        }
    }
}

/// How often something happened to a message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JobCounts {
    /// It was reserved.
    pub reserves: u32,
    /// A lease of it ran out.
    pub timeouts: u32,
    /// It was given back.
    pub releases: u32,
    /// It was buried.
    pub buries: u32,
    /// It was kicked.
    pub kicks: u32,
}

/// A message that waits, or is being worked on.
#[derive(Clone, Debug)]
pub struct Job {
    /// Where it lives, all its life unless it is given up as dead.
    pub tube: TubeId,
    /// The client that put it, if it had said its name.
    pub sender: Option<Arc<str>>,
    /// The only client that may have it.
    pub receiver: Option<Arc<str>>,
    /// The smaller, the sooner.
    pub priority: u32,
    /// What it was put or released with last.
    pub delay: Nanos,
    /// How long a lease lasts.
    pub ttr: Nanos,
    /// When it was put, since 1970.
    pub created: Nanos,
    /// Where it stands.
    pub state: JobState,
    /// What comes back with it to those that speak memcached's protocol.
    pub flags: u32,
    /// When it is gone if it still waits then, since 1970, whatever its tube says; none: never.
    pub lives_until: Option<Nanos>,
    /// When it is gone if it still waits then.
    pub expires: Option<Stamp>,
    /// When it became ready, or was handed out, since 1970; none: it is neither, or that is not
    /// known.
    pub since: Option<Nanos>,
    /// What happened to it.
    pub happened: JobCounts,
    /// Whether the store is sent it: leases and ends of delays are not.
    pub saved: bool,
    /// The message itself; the store shares it until it is written.
    pub body: Arc<[u8]>,
}

impl Job {
    /// What it is counted with, in bytes.
    pub(crate) fn cost(&self) -> u64 {
        self.body.len() as u64 + OVERHEAD
    }
}

/// Something of each of many messages.
pub(crate) type IdMap<T> = HashMap<Id, T, BuildHasherDefault<IdHasher>>;

/// Spreads ids by one multiplication. The broker gives them itself, so that no client can choose
/// some that fall together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(byte.into()));
    }

    #[inline]
    fn write_u64(&mut self, id: u64) {
        // Ids of a shard have a factor in common, which the low half of a product keeps: both
        // halves together have all bits spread. The factor is 2^64 over the golden ratio.
        let product = u128::from(self.0 ^ id) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::*;

    #[test]
    fn ids_of_any_shard_fall_evenly_into_places() {
        let hash = |id: Id| BuildHasherDefault::<IdHasher>::default().hash_one(id);
        for step in [1, 2, 3, 10, 16, 64, 100, 128, 1_000, 1 << 20] {
            for first in [1, 1_000_000_007, 1 << 40] {
                let ids = || (0..4_096_u64).map(|place| first + place * step);
                // The lowest bits are a place in a table, the highest seven tell ids there apart.
                // At random 63 % of all places would be taken.
                let places: HashSet<u64> = ids().map(|id| hash(id) & 4_095).collect();
                let tags: HashSet<u64> = ids().map(|id| hash(id) >> 57).collect();
                assert!(places.len() > 4_096 / 2, "{} places of step {step} from {first}", places.len());
                assert!(tags.len() > 64, "{} tags of step {step} from {first}", tags.len());
            }
        }
    }
}
