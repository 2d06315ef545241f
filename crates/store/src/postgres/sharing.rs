//! Beginning to use queues that no broker owns.
//!
//! Every connection of every broker that shares the queues holds the owners' lock together with the
//! others: an owner waits until the last of them is gone, and none of them begins while there is an
//! owner.

use std::thread;

use super::blocking::BlockingSession;
use super::place::{Database, LOOK, OWN, StoreError, TIMED, migrate};

const BEGIN: &str = include_str!("shared/begin.sql");

/// A share in the queues.
pub struct Sharing {
    pub(crate) place: Database,
    /// Our number among all brokers that ever shared them.
    pub(crate) number: i64,
    /// Holds the lock until the pool's connections do.
    pub(crate) first: BlockingSession,
}

impl std::fmt::Debug for Sharing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sharing").field("number", &self.number).finish_non_exhaustive()
    }
}

impl Sharing {
    /// Makes the tables and indexes if they are not there, and waits until no broker owns the
    /// queues; `waits` is told where that broker is, whenever it is another.
    ///
    /// # Errors
    /// The database cannot be reached, or refuses.
    pub fn begin(place: Database, mut waits: impl FnMut(&str)) -> Result<Self, StoreError> {
        let mut client = place.connect_untimed()?;
        migrate(&mut client)?;
        let mut told = None;
        loop {
            if client.query_one(OWN, &[])?.get(0) {
                // No other is there: a broker that comes meanwhile waits.
                client.batch_execute(BEGIN)?;
                client.batch_execute(
                    "SELECT pg_advisory_lock_shared(1802658162, 2), pg_advisory_unlock(1802658162, 2)",
                )?;
                break;
            }
            if super::members::join(&mut client, 0)? {
                break;
            }
            let owner: String = client
                .query_one("SELECT coalesce(address, '') FROM krarup.owner WHERE shard = 0", &[])?
                .get(0);
            if told.as_ref() != Some(&owner) {
                waits(&owner);
                told = Some(owner);
            }
            thread::sleep(LOOK);
        }
        place.tell_largest(&mut client)?;
        client.batch_execute(TIMED)?;
        let number =
            client.query_one("INSERT INTO krarup.broker DEFAULT VALUES RETURNING number", &[])?.get(0);
        Ok(Self { place, number, first: client })
    }

    /// Our number among all brokers that ever shared the queues.
    pub fn number(&self) -> i64 {
        self.number
    }
}
