//! What may not last too long, or take too much: patience with clients, and memory.

use krarup_units::{Nanos, Stamp};

use super::{Engine, Notice};
use crate::patience::Waited;

/// A client that has been quiet for this long gives back the memory of its replies, when clients are next looked at.
const RESTS_AFTER: Nanos = Nanos::from_secs(2);

impl<N: FnMut(Notice)> Engine<N> {
    /// Disconnects clients that have said nothing for too long, or take too long over one request.
    pub(super) fn lose_patience(&mut self, now: Stamp) {
        if !self.patience.is_due(now) {
            return;
        }
        for id in 0..self.clients.len() as u32 {
            let Some(link) = self.clients[id as usize].as_mut() else { continue };
            let waited = Waited {
                begun: link.begun.filter(|_| !self.core.client_held_back(id)),
                quiet_since: self.core.client_idle(id).then_some(link.received),
            };
            if waited.quiet_since.is_some_and(|since| now.0.saturating_sub(since.0) > RESTS_AFTER.0) {
                self.core.client_rests(id);
            }
            let Some(last_words) = self.patience.ends(&waited, now) else { continue };
            link.inbox.clear();
            link.readable = false;
            link.begun = None;
            self.core.client_timed_out();
            if !last_words.is_empty() {
                self.core.client_told(id, last_words, 0, now, now);
            }
            self.core.client_ended(id);
        }
    }

    /// Adds up what waits in all buffers, now and then, and keeps it within the bound: no more requests are read, and the client
    /// with the most replies is disconnected, of those that do not read them first.
    pub(super) fn relieve(&mut self) {
        let bound = self.config.edge.memory / self.config.threads;
        if !self.full && self.since_counted < bound / 16 {
            return;
        }
        self.since_counted = 0;
        let servers: usize = self
            .servers
            .all()
            .map(|(server, link)| link.inbox.unread().len() + self.core.server_waiting(server))
            .sum();
        let mut total = servers + self.core.queued_bytes();
        let mut waiting = Vec::new();
        for (id, link) in self.clients.iter().enumerate() {
            let Some(link) = link else { continue };
            let replies = self.core.client_waiting(id as u32);
            total += link.inbox.unread().len() + replies;
            if replies > 0 {
                waiting.push((!link.writable, replies, id as u32));
            }
        }
        waiting.sort_unstable();
        while total > bound
            && let Some((_, replies, id)) = waiting.pop()
        {
            self.core.client_cut();
            self.drop_client(id);
            (self.notice)(Notice::Cut(id, replies));
            total -= replies;
        }
        self.full = total > bound - bound / 8;
    }
}
