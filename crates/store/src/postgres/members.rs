//! Brokers that share the shards: who is there, who owns what, and how many each should have.
//!
//! **Into how many shards** the queues are divided is changed by who holds the owners' lock for
//! itself; each that takes part in it, a member for each of its shards included, knows that it
//! stays.

use std::thread;
use std::time::Instant;

use tokio_postgres::Error;

use super::blocking::BlockingSession;
use super::heads::INDEXES;
use super::place::{
    Database, END_HOLDER, IS_OVERDUE, LEASE, LIGHT, LOOK, OWN, StoreError, TIMED, lock_of, migrate,
    only_reads,
};
use super::silence::OwnerSilence;
use crate::owners::ShardOwner;
use krarup_broker::shards::Shard;

/// A shard, as the table of owners has it.
#[derive(Clone, Debug)]
pub struct Standing {
    /// Which.
    pub shard: u32,
    /// Which member owns it; none: no member does, or its owner is silent.
    pub member: Option<i64>,
    /// Where its owner is, once it serves.
    pub owner: Option<ShardOwner>,
}

/// One of those that share the shards.
pub struct ShardMember {
    place: Database,
    client: BlockingSession,
    shards: u32,
    number: i64,
    /// Whether its session writes nothing: another may.
    only_reads: bool,
    /// Of each shard's owner.
    silences: Vec<OwnerSilence>,
}

impl std::fmt::Debug for ShardMember {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Member").field("number", &self.number).finish_non_exhaustive()
    }
}

/// Who is there, and who owns what.
#[derive(Clone, Debug, Default)]
pub struct MembersView {
    /// The numbers of those that are there, in their order.
    pub members: Vec<i64>,
    /// All shards.
    pub shards: Vec<Standing>,
}

impl ShardMember {
    /// Makes the tables if they are not there, and waits until the queues may be divided so;
    /// `waits` is told once.
    ///
    /// # Errors
    /// The database cannot be reached, or refuses.
    pub fn begin(place: Database, shards: u32, mut waits: impl FnMut()) -> Result<Self, StoreError> {
        let mut client = place.connect_untimed()?;
        migrate(&mut client)?;
        let mut told = false;
        while !join(&mut client, shards)? {
            if client.query_one(OWN, &[])?.get(0) {
                lay_out(&mut client, shards)?;
                client.execute("SELECT pg_advisory_unlock(1802658162, 2)", &[])?;
                continue;
            }
            if !std::mem::replace(&mut told, true) {
                waits();
            }
            thread::sleep(LOOK);
        }
        place.tell_largest(&mut client)?;
        client.batch_execute(TIMED)?;
        let number =
            client.query_one("INSERT INTO krarup.member DEFAULT VALUES RETURNING number", &[])?.get(0);
        while !say_so(&mut client, number)? {
            thread::sleep(LOOK);
        }
        let silences = (0..shards).map(|_| OwnerSilence::default()).collect();
        Ok(Self { place, client, shards, number, only_reads: false, silences })
    }

    /// Its number among all that ever were.
    pub fn number(&self) -> i64 {
        self.number
    }

    /// Says that this member is there, and looks who else is.
    ///
    /// # Errors
    /// [`StoreError::Deposed`]: the queues are no longer divided so. After others it can be tried
    /// again.
    pub fn look(&mut self) -> Result<MembersView, StoreError> {
        if self.client.is_closed() || self.only_reads {
            let mut client = self.place.connect()?;
            if !join(&mut client, self.shards)? {
                return Err(StoreError::Deposed);
            }
            // One that stands would stand in the way; one that has ended has none.
            let _ = self.client.unlock_all();
            if !say_so(&mut client, self.number)? {
                return Err(StoreError::Database("the lock of the session before is still held".into()));
            }
            self.client = client;
        }
        let mut seen = MembersView::default();
        let lease = LEASE.as_secs_f64();
        let renewed = self.client.execute(
            "INSERT INTO krarup.member OVERRIDING SYSTEM VALUE VALUES ($1) ON CONFLICT (number) DO UPDATE SET renewed = clock_timestamp()",
            &[&self.number],
        );
        self.only_reads = renewed.as_ref().is_err_and(only_reads);
        renewed?;
        let statement = "SELECT number FROM krarup.member \
             WHERE renewed > clock_timestamp() - make_interval(secs => $1) \
               AND EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = 1802658168 AND granted \
                           AND objid = (number & 2147483647)::oid \
                           AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) ORDER BY number";
        for row in self.client.query(statement, &[&lease])? {
            seen.members.push(row.get(0));
        }
        let statement = "SELECT shard, epoch, coalesce(address, ''), memcached, \
                 CASE WHEN EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND classid = 1802658162 AND granted \
                                   AND objid = (1000 + shard)::oid \
                                   AND database = (SELECT oid FROM pg_database WHERE datname = current_database())) THEN member END, \
                 renewed, renewed <= clock_timestamp() - make_interval(secs => $1) \
             FROM krarup.owner WHERE shard < $2 ORDER BY shard";
        for row in self.client.query(statement, &[&lease, &(self.shards as i32)])? {
            let shard = row.get::<_, i32>(0) as u32;
            let silent = self.silences[shard as usize].lasts(row.get(5), Instant::now()) && row.get(6);
            let (member, address): (Option<i64>, &str) = (row.get(4), row.get(2));
            let member = member.filter(|_| !silent);
            let address = address.parse().ok().filter(|_| member.is_some());
            let memcached: Option<&str> = row.get(3);
            let owner = address.map(|address| ShardOwner {
                epoch: row.get(1),
                address,
                memcached: memcached.and_then(|address| address.parse().ok()),
            });
            seen.shards.push(Standing { shard, member, owner });
        }
        Ok(seen)
    }
}

/// The lock by which a member is known to be there; none but its own session before, whose end the
/// server has not noticed yet, can have it: that one ends.
fn say_so(client: &mut BlockingSession, number: i64) -> Result<bool, Error> {
    client.batch_execute(LIGHT)?;
    let number = number as i32 & i32::MAX;
    let has: bool = client.query_one("SELECT pg_try_advisory_lock(1802658168, $1)", &[&number])?.get(0);
    if !has {
        client.execute(END_HOLDER, &[&client.schema().lock(1_802_658_168), &number])?;
    }
    Ok(has)
}

/// What a member does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberStep {
    /// It tries to take this shard.
    Take(u32),
    /// It hands this one over.
    Give(u32),
}

impl MembersView {
    /// What the member of this number does next, who has these shards, or is about to have them.
    /// All members see the same and come to the same: no member has more than one shard more than
    /// another, and no shard moves that need not.
    pub fn step(&self, me: i64, mine: &[u32]) -> Option<MemberStep> {
        let all = self.shards.len();
        let members = self.members.len().max(1);
        let (few, many) = (all / members, all.div_ceil(members));
        let has = |member: i64| self.shards.iter().filter(|shard| shard.member == Some(member)).count();
        let others = || self.members.iter().copied().filter(|member| *member != me);
        let wanting = others().any(|member| has(member) < few);
        if mine.len() < few || (mine.len() < many && !wanting) {
            // Members look for free shards at different places, so that they seldom try the same.
            let begin = self.members.iter().position(|member| *member == me).unwrap_or(0) * all / members;
            let free = |shard: &&Standing| shard.member.is_none() && !mine.contains(&shard.shard);
            let (before, behind) = self.shards.split_at(begin);
            return behind.iter().chain(before).find(free).map(|shard| MemberStep::Take(shard.shard));
        }
        // Of several that could give one, the first does; while some are free, those are taken
        // first.
        let first = !others().any(|member| member < me && has(member) >= mine.len());
        let none_free = self.shards.iter().all(|shard| shard.member.is_some());
        let gives = mine.len() > many || (mine.len() > few && wanting && first && none_free);
        gives.then(|| mine.last().copied().map(MemberStep::Give)).flatten()
    }
}

/// Takes part in the owners' lock, if the queues are divided into so many shards; whether it does.
pub(super) fn join(client: &mut BlockingSession, shards: u32) -> Result<bool, Error> {
    if !client.query_one("SELECT pg_try_advisory_lock_shared(1802658162, 2)", &[])?.get::<_, bool>(0) {
        return Ok(false);
    }
    // From here on it cannot be changed.
    let now: i32 = client.query_one("SELECT shards FROM krarup.layout", &[])?.get(0);
    if now != shards as i32 {
        client.execute("SELECT pg_advisory_unlock_shared(1802658162, 2)", &[])?;
        return Ok(false);
    }
    Ok(true)
}

/// Divides the queues into so many shards; to be asked by who holds the owners' lock for itself.
/// Ids go on above all that were ever given.
pub(super) fn lay_out(client: &mut BlockingSession, shards: u32) -> Result<(), Error> {
    let mut transaction = client.transaction()?;
    let changed = transaction
        .execute("UPDATE krarup.layout SET shards = $1 WHERE shards <> $1", &[&(shards as i32)])?
        > 0;
    if changed {
        // An owner counts by itself.
        transaction.batch_execute("SELECT krarup.count_messages(false)")?;
        if shards > 1 {
            // Later they would be in the way of all others.
            transaction.batch_execute(INDEXES)?;
        }
        transaction.execute(
            "INSERT INTO krarup.owner (shard) SELECT generate_series(0, $1 - 1) ON CONFLICT DO NOTHING",
            &[&(shards as i32)],
        )?;
        transaction.batch_execute(
            "UPDATE krarup.owner SET next_id = greatest( \
                 (SELECT max(next_id) FROM krarup.owner), (SELECT last_value + is_called::int FROM krarup.message_id), \
                 (SELECT coalesce(max(id), 0) + 1 FROM krarup.message))",
        )?;
    }
    transaction.commit()
}

/// Ends the session of a shard's owner that has been silent for too long; whether there was one.
pub(super) fn end_silent(client: &mut BlockingSession, shard: Shard) -> Result<bool, Error> {
    let end =
        format!("SELECT pg_terminate_backend(process) FROM krarup.owner WHERE {IS_OVERDUE} AND shard = $3");
    let ended = client.execute(&end, &[&LEASE.as_secs_f64(), &lock_of(shard), &(shard.number as i32)])?;
    Ok(ended > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(members: &[i64], owners: &[Option<i64>]) -> MembersView {
        let standing = |(shard, member): (usize, &Option<i64>)| Standing {
            shard: shard as u32,
            member: *member,
            owner: None,
        };
        MembersView { members: members.to_vec(), shards: owners.iter().enumerate().map(standing).collect() }
    }

    /// What comes of all members doing what they shall, one step each, as often as any has
    /// something to do.
    fn settle(members: &[i64], mut owners: Vec<Option<i64>>) -> (Vec<Option<i64>>, usize) {
        let mut moves = 0;
        for _ in 0..200 {
            let before = seen(members, &owners);
            let mut stood = true;
            for &me in members {
                let mine: Vec<u32> =
                    (0..owners.len() as u32).filter(|shard| owners[*shard as usize] == Some(me)).collect();
                match before.step(me, &mine) {
                    Some(MemberStep::Take(shard)) if owners[shard as usize].is_none() => {
                        owners[shard as usize] = Some(me);
                        stood = false;
                    }
                    Some(MemberStep::Take(_)) => stood = false,
                    Some(MemberStep::Give(shard)) => {
                        owners[shard as usize] = None;
                        moves += 1;
                        stood = false;
                    }
                    None => {}
                }
            }
            if stood {
                return (owners, moves);
            }
        }
        panic!("it never comes to rest: {owners:?}");
    }

    #[test]
    fn shards_are_shared_evenly_whichever_broker_comes_or_goes_and_none_moves_that_need_not() {
        for shards in 1..=16_usize {
            let mut owners = vec![None; shards];
            let mut members = vec![1];
            for (joins, member) in
                [(true, 2), (true, 3), (false, 1), (true, 4), (true, 5), (false, 3), (false, 5)]
            {
                if joins {
                    members.push(member);
                } else {
                    members.retain(|other| *other != member);
                    owners.iter_mut().filter(|owner| **owner == Some(member)).for_each(|owner| *owner = None);
                }
                let (now, moves) = settle(&members, owners);
                owners = now;
                let counts: Vec<usize> = members
                    .iter()
                    .map(|member| owners.iter().filter(|owner| **owner == Some(*member)).count())
                    .collect();
                let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
                assert!(most - least <= 1, "{shards} shards: {counts:?}");
                assert!(owners.iter().all(Option::is_some), "{shards} shards: {owners:?}");
                assert!(moves <= shards / members.len() + 1, "{moves} moves of {shards}");
            }
        }
    }
}
