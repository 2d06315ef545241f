//! Which servers a key belongs to: a pure table, built once for a list of servers.
//!
//! | file | its one idea |
//! |---|---|
//! | `hash` | a key as a number |
//! | `ketama` | a ring of points |
//! | `rendezvous` | highest score wins |
//! | `jump` | a key jumps only to the new slot |
//! | `ch3` | a walk down a tree of servers |
//! | `modulo` | the remainder |
//!
//! Ketama and modulo place every key where twemproxy and libmemcached place it, for the same
//! servers, names, weights and hash function, and ch3 where mcrouter does: `tests/placement` holds
//! what those programs answered.

mod ch3;
mod hash;
mod jump;
mod ketama;
mod member;
mod modulo;
mod rendezvous;
#[cfg(test)]
pub(crate) mod tests;

pub use hash::KeyHash;
use ketama::Ring;
use krarup_units::Mistake;
pub use member::Member;
use rendezvous::Rendezvous;
use serde::{Deserialize, Serialize};

/// Slots that the weights of one pool may add up to where each unit of weight is a slot.
const SLOTS: u64 = 1 << 20;

/// How servers share the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum KeyDistribution {
    /// A ring with 160 points for a server of mean weight: twemproxy's `ketama`, libmemcached's
    /// `KETAMA_WEIGHTED`.
    #[default]
    Ketama,
    /// libmemcached's `consistent` (its `KETAMA` behaviour): 100 points a server, hashed as keys
    /// are. As in libmemcached, a weight above 1 turns it into [`KeyDistribution::Ketama`].
    #[serde(rename = "consistent", alias = "ketama_libmemcached")]
    KetamaLibmemcached,
    /// Highest score wins: the evenest of those that move only a new server's share.
    Rendezvous,
    /// Jump hash: even and quick, for lists that change at their end only.
    Jump,
    /// The remainder: twemproxy's and libmemcached's `modula`.
    #[serde(alias = "modula")]
    Modulo,
    /// mcrouter's default, which knows no weights and brings its own hash function. What stands
    /// behind the first `|#|` of a key is left out, as there. For lists that change at their end
    /// only.
    Ch3,
}

impl KeyDistribution {
    /// The function that its own program hashes keys by unless told otherwise: libmemcached's for
    /// the ring without weights, twemproxy's for all others.
    pub fn usual_hash(self) -> KeyHash {
        if self == Self::KetamaLibmemcached { KeyHash::OneAtATime } else { KeyHash::Fnv1a64 }
    }

    /// Every distribution with the name it has in a configuration.
    pub const ALL: [(Self, &str); 6] = [
        (Self::Ketama, "ketama"),
        (Self::KetamaLibmemcached, "consistent"),
        (Self::Rendezvous, "rendezvous"),
        (Self::Jump, "jump"),
        (Self::Modulo, "modulo"),
        (Self::Ch3, "ch3"),
    ];

    /// The name in a configuration.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(distribution, _)| *distribution == self).expect("all are in the table").1
    }
}

/// Where the keys of one pool lie.
#[derive(Clone, Debug)]
pub struct Placement {
    distribution: KeyDistribution,
    hash: KeyHash,
    tag: Option<(u8, u8)>,
    members: Vec<Member>,
    table: Table,
}

/// Built from the same, they place every key alike.
impl PartialEq for Placement {
    fn eq(&self, other: &Self) -> bool {
        let Self { distribution, hash, tag, members, table: _ } = self;
        (*distribution, *hash, *tag) == (other.distribution, other.hash, other.tag)
            && *members == other.members
    }
}

#[derive(Clone, Debug)]
enum Table {
    Ring(Ring),
    Rendezvous(Rendezvous),
    /// The member of each slot, a slot for each unit of weight.
    Slots {
        slot: fn(u64, usize) -> usize,
        owners: Vec<u16>,
    },
    Tree,
}

impl Placement {
    /// Builds the table for `members`, whose order matters for jump, modulo and ch3, and elsewhere
    /// only between equal points.
    ///
    /// With a `tag`, such as `{` and `}`, only what stands between the first `{` and the next `}`
    /// is hashed; the whole key where that is empty or there is none.
    ///
    /// # Errors
    /// No member, more than 65,535, a weight of 0, two members of one name where the name decides;
    /// for jump and modulo weights that add up to more than 1,048,576, for ch3 any but 1.
    pub fn new(
        distribution: KeyDistribution,
        hash: KeyHash,
        tag: Option<(u8, u8)>,
        members: &[Member],
    ) -> Result<Self, Mistake> {
        if members.is_empty() {
            return Err(Mistake::plain("there is no server to place keys on"));
        }
        if members.len() > usize::from(u16::MAX) {
            return Err(Mistake::new(format!("{} servers in one pool", members.len()), "65535 are the most"));
        }
        if let Some(member) = members.iter().find(|member| member.weight == 0) {
            return Err(Mistake::plain(format!("{} has weight 0, and must have at least 1", member.name)));
        }
        let by_name =
            !matches!(distribution, KeyDistribution::Jump | KeyDistribution::Modulo | KeyDistribution::Ch3);
        let mut names: Vec<&str> = members.iter().map(|member| member.name.as_str()).collect();
        names.sort_unstable();
        if let Some(pair) = names.windows(2).find(|pair| by_name && pair[0] == pair[1]) {
            return Err(Mistake::new(
                format!(
                    "two servers are called {}, and by {} the second would get no key",
                    pair[0],
                    distribution.name()
                ),
                "give them different names",
            ));
        }
        let weighted = members.iter().any(|member| member.weight > 1);
        let table = match distribution {
            KeyDistribution::KetamaLibmemcached if !weighted => Table::Ring(Ring::unweighted(members, hash)),
            KeyDistribution::Ketama | KeyDistribution::KetamaLibmemcached => {
                Table::Ring(Ring::weighted(members))
            }
            KeyDistribution::Rendezvous => Table::Rendezvous(Rendezvous::new(members)),
            KeyDistribution::Jump => Table::Slots { slot: jump::slot, owners: slots(members)? },
            KeyDistribution::Modulo => Table::Slots { slot: modulo::slot, owners: slots(members)? },
            KeyDistribution::Ch3 if weighted => {
                return Err(Mistake::new("ch3 knows no weights", "leave them out, or choose rendezvous"));
            }
            KeyDistribution::Ch3 => Table::Tree,
        };
        Ok(Self { distribution, hash, tag, members: members.to_vec(), table })
    }

    /// How the servers share the keys.
    pub fn distribution(&self) -> KeyDistribution {
        self.distribution
    }

    /// By which function a key becomes a number.
    pub fn hash(&self) -> KeyHash {
        self.hash
    }

    /// The server a key belongs to, as its place in the list of members.
    #[inline]
    pub fn primary(&self, key: &[u8]) -> usize {
        if self.members.len() == 1 {
            return 0;
        }
        self.primary_of(self.number(key))
    }

    /// The number that decides where a key lies: the same in every placement with this hash
    /// function and tag, whatever its servers.
    #[inline]
    pub fn number(&self, key: &[u8]) -> u64 {
        let key = self.hashed(key);
        if let Table::Tree = self.table { ch3::number(key) } else { self.hash.number(key) }
    }

    #[inline]
    fn primary_of(&self, number: u64) -> usize {
        match &self.table {
            Table::Ring(ring) => ring.primary(number),
            Table::Rendezvous(rendezvous) => rendezvous.primary(number),
            Table::Slots { slot, owners } => usize::from(owners[slot(number, owners.len())]),
            Table::Tree => ch3::place(number, self.members.len()),
        }
    }

    /// The `count` servers that hold copies of a key, all different, the primary first; all of them
    /// where `count` is larger. What was in `into` is gone; it grows to no more than the number of
    /// members.
    ///
    /// After the primary come, by ketama, the next servers clockwise; by rendezvous, the next
    /// highest scores; by jump, modulo and ch3, the next in the list.
    #[inline]
    pub fn replicas(&self, key: &[u8], count: usize, into: &mut Vec<usize>) {
        self.replicas_of(self.number(key), count, into);
    }

    /// The same for a key of this [number](Self::number).
    pub fn replicas_of(&self, number: u64, count: usize, into: &mut Vec<usize>) {
        into.clear();
        let count = count.min(self.members.len());
        if count == 0 {
            return;
        }
        if count == 1 {
            into.push(self.primary_of(number));
            return;
        }
        match &self.table {
            Table::Ring(ring) => ring.replicas(number, count, into),
            Table::Rendezvous(rendezvous) => rendezvous.replicas(number, count, into),
            Table::Slots { .. } | Table::Tree => {
                let primary = self.primary_of(number);
                into.extend((primary..self.members.len()).chain(0..primary).take(count));
            }
        }
    }

    /// The share of all keys that each member is expected to get: for a ring, the arcs before its
    /// points; else its weight over all.
    ///
    /// A ring gives a server of very small weight no point, and so no share, as libmemcached and
    /// twemproxy do.
    pub fn shares(&self) -> Vec<f64> {
        match &self.table {
            // 15 bits of a checksum: a ring's first 130,000th.
            Table::Ring(ring) if self.hash == KeyHash::Crc32 => return ring.shares_below(1 << 15),
            Table::Ring(ring) => return ring.shares(),
            _ => {}
        }
        let weights = || self.members.iter().map(|member| f64::from(member.weight));
        let total: f64 = weights().sum();
        weights().map(|weight| weight / total).collect()
    }

    /// The part of a key that is hashed.
    #[inline]
    fn hashed<'key>(&self, key: &'key [u8]) -> &'key [u8] {
        let Some((open, close)) = self.tag else { return key };
        let inner = key.iter().position(|byte| *byte == open).and_then(|start| {
            let rest = &key[start + 1..];
            rest.iter().position(|byte| *byte == close).map(|end| &rest[..end])
        });
        inner.filter(|inner| !inner.is_empty()).unwrap_or(key)
    }
}

/// One slot for each unit of weight, in the order of the list.
fn slots(members: &[Member]) -> Result<Vec<u16>, Mistake> {
    let total: u64 = members.iter().map(|member| u64::from(member.weight)).sum();
    if total > SLOTS {
        return Err(Mistake::new(
            format!("the weights add up to {total}"),
            format!("{SLOTS} are the most, so divide them all by the same number"),
        ));
    }
    let owners = members.iter().enumerate();
    Ok(owners.flat_map(|(owner, member)| std::iter::repeat_n(owner as u16, member.weight as usize)).collect())
}
