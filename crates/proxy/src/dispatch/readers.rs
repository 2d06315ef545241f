//! Readers: of a pool that limits them, each server is read by so many requests at once, and the
//! others wait in a queue of its own.

use std::collections::VecDeque;

use crate::ids::{PoolId, RequestId, ServerId};

/// A part of a read that waits for one of its server's readers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) exchange: RequestId,
    pub(crate) part: u16,
}

/// The readers of all pools, by the pools' numbers.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    pools: Vec<OfPool>,
    /// Parts of reads that wait, for all servers together.
    waiting: usize,
    /// Pools and servers whose readers have become free and not looked for the next.
    freed: Vec<(PoolId, ServerId)>,
}

#[derive(Debug, Default)]
struct OfPool {
    /// How many each server has; none: as many as there are reads.
    limit: Option<u32>,
    servers: Vec<ServerId>,
    /// One for each of these.
    members: Vec<OfServer>,
    /// Busy readers of servers that are not in the pool any more: they may be again before these
    /// are done.
    left: Vec<(ServerId, u32)>,
}

#[derive(Debug, Default)]
struct OfServer {
    /// Readers that are busy, and what waits for one.
    busy: u32,
    queue: VecDeque<Waiting>,
    longest: usize,
}

impl OfPool {
    fn of(&mut self, server: ServerId) -> Option<&mut OfServer> {
        let place = self.servers.iter().position(|&one| one == server)?;
        Some(&mut self.members[place])
    }

    fn empty(&mut self) -> Vec<Waiting> {
        self.members.iter_mut().flat_map(|member| std::mem::take(&mut member.queue)).collect()
    }
}

impl Readers {
    /// From now on the pool has these servers, and at most `limit` readers for each. Returns the
    /// parts whose queue is no more.
    pub(crate) fn set(&mut self, pool: PoolId, servers: &[ServerId], limit: Option<u32>) -> Vec<Waiting> {
        if self.pools.len() <= pool.index() {
            self.pools.resize_with(pool.index() + 1, OfPool::default);
        }
        let this = &mut self.pools[pool.index()];
        let mut stranded = if limit.is_none() { this.empty() } else { Vec::new() };
        let members = std::mem::take(&mut this.members);
        let mut before: Vec<(ServerId, OfServer)> = this.servers.iter().copied().zip(members).collect();
        for &server in servers {
            let known = before.iter().position(|&(other, _)| other == server);
            this.members.push(known.map_or_else(
                || {
                    let left = this.left.iter().position(|&(other, _)| other == server);
                    let busy = left.map_or(0, |left| this.left.swap_remove(left).1);
                    OfServer { busy, ..OfServer::default() }
                },
                |known| before.swap_remove(known).1,
            ));
        }
        for (server, member) in before {
            stranded.extend(member.queue);
            if member.busy > 0 {
                this.left.push((server, member.busy));
            }
        }
        this.limit = limit;
        this.servers = servers.to_vec();
        self.waiting -= stranded.len();
        stranded
    }

    /// The parts in all the queues of a pool that is no more, which are empty then.
    pub(crate) fn empty(&mut self, pool: PoolId) -> Vec<Waiting> {
        let stranded = self.pools.get_mut(pool.index()).map(OfPool::empty).unwrap_or_default();
        self.waiting -= stranded.len();
        stranded
    }

    /// Whether one of the server's readers is free for a read that has just come; then it is taken.
    /// Requests that wait go first.
    pub(crate) fn take(&mut self, pool: PoolId, server: ServerId) -> bool {
        let this = &mut self.pools[pool.index()];
        let limit = this.limit;
        let (Some(limit), Some(member)) = (limit, this.of(server)) else { return true };
        let free = member.busy < limit && member.queue.is_empty();
        member.busy += u32::from(free);
        free
    }

    /// A part waits for one of the server's readers.
    pub(crate) fn wait(&mut self, pool: PoolId, server: ServerId, part: Waiting) {
        let member = self.pools[pool.index()].of(server).expect("a server of this pool");
        member.queue.push_back(part);
        member.longest = member.longest.max(member.queue.len());
        self.waiting += 1;
    }

    /// One of the server's readers is free again: [`Self::next_freed`] will say so.
    pub(crate) fn release(&mut self, pool: PoolId, server: ServerId) {
        let this = &mut self.pools[pool.index()];
        if let Some(member) = this.of(server) {
            member.busy -= 1;
        } else if let Some(left) = this.left.iter().position(|&(other, _)| other == server) {
            this.left[left].1 -= 1;
            if this.left[left].1 == 0 {
                this.left.swap_remove(left);
            }
        }
        self.freed.push((pool, server));
    }

    /// Every server may have free readers: [`Self::next_freed`] will name each.
    pub(crate) fn release_all(&mut self) {
        for (pool, this) in self.pools.iter().enumerate() {
            self.freed.extend(this.servers.iter().map(|&server| (PoolId::new(pool), server)));
        }
    }

    /// A pool and a server whose readers have become free.
    #[inline]
    pub(crate) fn next_freed(&mut self) -> Option<(PoolId, ServerId)> {
        self.freed.pop()
    }

    /// The next part that waits for the server, with a reader for it, if both exist.
    pub(crate) fn take_next(&mut self, pool: PoolId, server: ServerId) -> Option<Waiting> {
        let this = &mut self.pools[pool.index()];
        let limit = this.limit?;
        let member = this.of(server)?;
        if member.busy >= limit {
            return None;
        }
        let next = member.queue.pop_front()?;
        member.busy += 1;
        self.waiting -= 1;
        Some(next)
    }

    /// Everything that waits for the server, which is down.
    pub(crate) fn take_all(&mut self, pool: PoolId, server: ServerId) -> VecDeque<Waiting> {
        let queue = self.pools[pool.index()].of(server).map(|member| std::mem::take(&mut member.queue));
        let queue = queue.unwrap_or_default();
        self.waiting -= queue.len();
        queue
    }

    /// Parts of reads that wait, for all servers together.
    #[inline]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// Parts of reads that wait for one of the server's readers; none where there is no bound.
    pub(crate) fn waiting_before(&self, pool: PoolId, server: ServerId) -> usize {
        self.of(pool, server).map_or(0, |(_, waiting, _)| waiting)
    }

    /// Readers busy, parts waiting, and the most that ever waited, of one server in a pool that
    /// limits them.
    pub(crate) fn of(&self, pool: PoolId, server: ServerId) -> Option<(u32, usize, usize)> {
        let this = self.pools.get(pool.index())?;
        this.limit?;
        let place = this.servers.iter().position(|&one| one == server)?;
        let member = &this.members[place];
        Some((member.busy, member.queue.len(), member.longest))
    }
}
