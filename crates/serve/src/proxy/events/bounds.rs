//! What may not last too long, or take too much: patience with clients, and memory.

use std::cmp::Reverse;

use krarup_units::{Nanos, Stamp};

use super::{CLIENT_READ, ClientLink, Engine, Notice};
use crate::proxy::memory::{CAREFUL, Change, SMALL};
use crate::proxy::patience::Waited;
use krarup_proxy::core::LARGE_REQUEST;

/// A client that has been quiet for this long gives back the memory of its replies, when clients are next looked at.
const RESTS_AFTER: Nanos = Nanos::from_secs(2);

/// Who has sent less than this of a long request in the second in which nothing got on stands still.
const STANDS_STILL: usize = 4 << 10;

/// What a client hears whose request stood still while others waited for its memory.
const NO_MEMORY: &[u8] =
    b"SERVER_ERROR out of memory: the request did not arrive while others waited; try again\r\n";

impl<N: FnMut(Notice)> Engine<N> {
    /// Disconnects clients that have said nothing for too long, or take too long over one request.
    pub(super) fn lose_patience(&mut self, now: Stamp) {
        if !self.patience.is_due(now) {
            return;
        }
        for id in 0..self.clients.len() as u32 {
            let Some(link) = self.clients[id as usize].as_mut() else { continue };
            let waited = Waited {
                begun: link.begun.filter(|_| !link.waits && !self.core.client_held_back(id)),
                quiet_since: self.core.client_idle(id).then_some(link.received),
            };
            if waited.quiet_since.is_some_and(|since| now.0.saturating_sub(since.0) > RESTS_AFTER.0) {
                self.core.client_rests(id);
            }
            let Some(last_words) = self.patience.ends(&waited, now) else { continue };
            self.core.client_timed_out();
            self.end_of_requests(id, last_words);
        }
    }

    /// How much may be read from a client now; none: it waits for memory, and is not read.
    pub(super) fn room_for(&mut self, id: u32) -> Option<usize> {
        let link = self.clients.get_mut(id as usize).and_then(Option::as_mut)?;
        let have = link.inbox.unread().len();
        let tight = self.memory.is_tight(CLIENT_READ);
        let room = if have == 0 {
            let under_way = tight && self.memory.is_full() && !self.core.client_idle(id);
            match tight {
                _ if under_way => None,
                true => Some(CAREFUL),
                false => Some(CLIENT_READ),
            }
        } else {
            // What is kept of a request that is not whole, and what is still to come of it.
            let wanted = self.core.client_needs(id).max(have + 1);
            if wanted <= SMALL {
                Some(if tight { SMALL - have } else { CLIENT_READ / 4 })
            } else if wanted <= link.reserved {
                Some(link.reserved - have)
            } else {
                // Of a line nobody knows how long it will be.
                let wanted = wanted.max(have + SMALL);
                let copies = if wanted < LARGE_REQUEST { self.core.most_copies() } else { 1 };
                let in_all = wanted * copies;
                let first = link.reserved == 0;
                let more = in_all - link.reserved_in_all;
                self.memory.reserve(id, more, first).then(|| {
                    (link.reserved, link.reserved_in_all) = (wanted, in_all);
                    link.had = have;
                    wanted - have
                })
            }
        };
        if room.is_none() && !std::mem::replace(&mut link.waits, true) {
            self.memory.waiting.push_back(id);
            self.settled_until = Stamp(0);
        }
        room
    }

    /// Nobody will send the rest of what this link holds.
    pub(super) fn free_memory_of(&mut self, link: &mut ClientLink) {
        link.inbox.clear();
        link.inbox.shrink(0);
        if std::mem::take(&mut link.reserved) > 0 {
            self.memory.release(std::mem::take(&mut link.reserved_in_all));
        }
    }

    /// The end of a client has been announced that waits for memory. It goes at once where nothing of it can be answered any more.
    pub(super) fn ends_while_it_waits(&mut self, id: u32, broken: bool) {
        let Some(link) = self.clients.get_mut(id as usize).and_then(Option::as_mut) else { return };
        let missing = self.core.client_needs(id).saturating_sub(link.inbox.unread().len());
        // Where it has only said its last, the request may have come whole, and the client waits for the answer.
        let never_whole = missing > 0 && link.conn.unread().is_some_and(|unread| unread < missing);
        if broken {
            return self.drop_client(id);
        }
        if never_whole {
            self.end_of_requests(id, b"");
            self.write_client(id);
        }
    }

    /// Nothing more is read from this client: the `last_words` follow the replies it is owed, and then the end.
    pub(super) fn end_of_requests(&mut self, id: u32, last_words: &[u8]) {
        let now = self.clock.now();
        let Some(mut link) = self.clients.get_mut(id as usize).and_then(Option::take) else { return };
        self.free_memory_of(&mut link);
        link.readable = false;
        link.begun = None;
        self.clients[id as usize] = Some(link);
        if !last_words.is_empty() {
            self.core.client_told(id, last_words, 0, now, now);
        }
        self.core.client_ended(id);
    }

    /// Adds up what waits in all buffers, now and then, and keeps it within the bound: the client with the most replies is disconnected, of
    /// those that do not read them first.
    pub(super) fn count_memory(&mut self) {
        if self.memory.is_due() {
            self.count_memory_now();
        }
    }

    fn count_memory_now(&mut self) {
        let servers: usize = self
            .servers
            .all()
            .map(|(server, link)| link.inbox.capacity() + self.core.server_waiting(server))
            .sum();
        let mut total = servers + self.core.queued_bytes();
        for (id, link) in self.clients.iter().enumerate() {
            let Some(link) = link else { continue };
            let requests = link.reserved_in_all.max(link.inbox.capacity());
            total += requests + self.core.client_waiting(id as u32);
        }
        self.memory.counted(total);
        if self.memory.excess() == 0 {
            return;
        }
        total -= self.write_what_can_leave(self.memory.excess());
        self.memory.counted(total);
        let mut excess = self.memory.excess();
        let mut holders = if excess > 0 { self.holders_of_replies(|_| true) } else { Vec::new() };
        while excess > 0
            && let Some((_, replies, id)) = holders.pop()
        {
            self.cut(id, replies);
            excess = excess.saturating_sub(replies);
            total -= replies;
        }
        self.memory.counted(total);
    }

    /// Long replies that wait for their turn leave now, until so many bytes are `wanted` no more; how many have left.
    fn write_what_can_leave(&mut self, wanted: usize) -> usize {
        let mut left = 0;
        let mut in_vain = 0;
        while left < wanted && in_vain < self.unwritten.len() {
            let Some(id) = self.unwritten.pop_front() else { break };
            if self.clients.get(id as usize).is_none_or(Option::is_none) {
                continue;
            }
            let before = self.core.client_waiting(id);
            self.write_client(id);
            let there = self.clients.get(id as usize).is_some_and(Option::is_some);
            let gone = before - if there { self.core.client_waiting(id).min(before) } else { 0 };
            left += gone;
            in_vain = if gone > 0 { 0 } else { in_vain + 1 };
        }
        left
    }

    /// Clients with replies that wait for them, with bytes of these: last those that do not read, that wait for much, that have taken nothing for longest.
    fn holders_of_replies(&self, which: impl Fn(&ClientLink) -> bool) -> Vec<(bool, usize, u32)> {
        let links = self.clients.iter().enumerate();
        let links =
            links.filter_map(|(id, link)| Some((id as u32, link.as_ref().filter(|link| which(link))?)));
        let waiting = links.map(|(id, link)| (!link.writable, self.core.client_waiting(id), id));
        // What can leave will: only much of it is worth a connection.
        let holds = |&(blocked, replies, _): &(bool, usize, u32)| replies > if blocked { 0 } else { SMALL };
        let mut waiting: Vec<_> = waiting.filter(holds).collect();
        let wrote = |id: u32| self.clients[id as usize].as_ref().map(|link| link.wrote);
        waiting
            .sort_unstable_by_key(|&(blocked, replies, id)| (blocked, replies > SMALL, Reverse(wrote(id))));
        waiting
    }

    /// A client is disconnected for the memory that it holds.
    fn cut(&mut self, id: u32, bytes: usize) {
        self.core.client_cut();
        self.drop_client(id);
        if self.memory.cut_one() {
            (self.notice)(Notice::Cut(id, bytes));
        }
    }

    /// After each pass: who waits for memory is read on where there is some, and where nothing has got on for a second the largest that
    /// stand still are disconnected.
    pub(super) fn look_after_memory(&mut self) {
        if self.memory.is_due() || !self.memory.waiting.is_empty() && self.memory.has_changed() {
            self.count_memory_now();
        }
        if !self.to_cut.is_empty() {
            self.cut_the_stalled();
        }
        if self.memory.is_quiet() {
            return;
        }
        self.grant_memory();
        let (stalled, change) = self.memory.look(self.clock.now());
        if stalled {
            self.find_the_stalled();
            self.cut_the_stalled();
            self.grant_memory();
        }
        match change {
            Some(Change::Short) => (self.notice)(Notice::MemoryShort(self.config.edge.memory)),
            Some(Change::Enough { cut }) => (self.notice)(Notice::MemoryEnough(cut)),
            None => {}
        }
        self.core.note_memory(self.memory.used(), self.memory.is_short());
    }

    /// Those that wait for memory are read where there is some, first come first served; one that does not fit waits alone.
    fn grant_memory(&mut self) {
        let waiting = std::mem::take(&mut self.memory.waiting);
        let mut first = None;
        for id in waiting {
            let Some(link) = self.clients.get_mut(id as usize).and_then(Option::as_mut) else { continue };
            if !std::mem::take(&mut link.waits) || !link.readable {
                continue;
            }
            let room = self.room_for(id);
            if room.is_none() && first.is_none() && self.core.client_needs(id) > SMALL {
                first = Some(id);
            }
            if room.is_some()
                && let Some(Some(link)) = self.clients.get_mut(id as usize)
                && !self.core.client_held_back(id)
            {
                // While it waited it could send nothing.
                link.begun = link.begun.map(|_| self.clock.now());
                self.read_again(id);
            }
        }
        self.memory.offered(first);
    }

    /// Nothing has got on for a second, and clients wait: those that stand still are to be disconnected, the largest first, until what is waited
    /// for fits.
    fn find_the_stalled(&mut self) {
        let waiting = self.memory.waiting.iter();
        let mut wanted: usize =
            waiting.map(|&id| self.core.client_needs(id).max(SMALL)).fold(0, usize::saturating_add);
        let mut stalled = self.holders_of_replies(|link| !link.writable && link.reserved == 0);
        for (id, link) in self.clients.iter_mut().enumerate() {
            let Some(link) = link.as_mut().filter(|link| link.reserved > 0) else { continue };
            let have = link.inbox.unread().len();
            if have - link.had.min(have) < STANDS_STILL {
                stalled.push((true, link.reserved_in_all, id as u32));
            }
            link.had = have;
        }
        stalled.sort_unstable();
        self.to_cut.clear();
        while wanted > 0
            && let Some((_, bytes, id)) = stalled.pop()
        {
            wanted = wanted.saturating_sub(bytes);
            let half = self.clients[id as usize].as_ref().is_some_and(|link| link.reserved > 0);
            self.to_cut.push((half, bytes, id));
        }
        self.to_cut.reverse();
    }

    /// As many of those are disconnected as there is time for in one pass.
    fn cut_the_stalled(&mut self) {
        self.slice.begin();
        while !self.slice.passes(self.clock.now())
            && let Some((half, bytes, id)) = self.to_cut.pop()
        {
            let Some(Some(link)) = self.clients.get(id as usize) else { continue };
            if half != (link.reserved > 0) || !half && link.writable {
                // It has got on meanwhile.
                continue;
            }
            if half {
                self.core.client_cut();
                if self.memory.cut_one() {
                    (self.notice)(Notice::Cut(id, bytes));
                }
                self.end_of_requests(id, NO_MEMORY);
                self.write_client(id);
            } else {
                self.cut(id, bytes);
            }
        }
        self.count_memory_now();
    }
}
