//! The owner of each shard, as far as it is known.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use krarup_units::Address;

/// Where the owner of a shard is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardOwner {
    /// Its number: a later one has a higher.
    pub epoch: i64,
    /// Where it speaks beanstalkd's protocol.
    pub address: Address,
    /// Where it speaks memcached's.
    pub memcached: Option<Address>,
}

/// Who owns what, as far as is known.
#[derive(Debug)]
pub struct Owners(Mutex<Vec<Option<Arc<ShardOwner>>>>);

impl Owners {
    /// No broker is known to own any of so many shards.
    pub fn unknown(shards: u32) -> Self {
        Self(Mutex::new(vec![None; shards as usize]))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<Arc<ShardOwner>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many shards there are.
    pub fn shards(&self) -> u32 {
        self.lock().len() as u32
    }

    /// Who owns a shard.
    pub fn of(&self, shard: u32) -> Option<Arc<ShardOwner>> {
        self.lock().get(shard as usize).cloned().flatten()
    }

    /// What is known from now on.
    pub fn set(&self, shard: u32, owner: Option<ShardOwner>) {
        if let Some(place) = self.lock().get_mut(shard as usize)
            && place.as_deref() != owner.as_ref()
        {
            *place = owner.map(Arc::new);
        }
    }
}
