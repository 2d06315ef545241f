//! All clients of one cache: the service that a driver moves the bytes of.

use std::collections::VecDeque;

use krarup_service::{ClientId, Service};
use krarup_units::{Nanos, Outbox, Stamp};

use crate::session::{CacheSession, SessionProgress};
use crate::statistics::{About, State};
use crate::{Bounds, ItemCounts, ItemStore, Traffic};

/// With this many bytes unsent a client gets no more answers until it takes some.
const MOST_UNSENT: usize = 256 << 10;
/// Memory that a quiet client's answers keep.
const KEEP: usize = 16 << 10;
/// memcached's answer to a client beyond the limit.
const TOO_MANY: &[u8] = b"ERROR Too many open connections\r\n";

/// One client.
#[derive(Debug)]
struct Client {
    session: CacheSession,
    /// What its session waits for.
    progress: SessionProgress,
    outbox: Outbox,
    ended: bool,
    /// Whether it stands among those that something may be written to.
    dirty: bool,
}

/// Items, and the clients that ask for them. See the module.
#[derive(Debug)]
pub struct Cache {
    state: State,
    clients: Vec<Option<Client>>,
    free: Vec<ClientId>,
    dirty: Vec<ClientId>,
    runnable: VecDeque<ClientId>,
    /// Bytes of answers that the driver was not told of yet.
    growth: usize,
}

impl Cache {
    /// An empty one. Its stamps count from [`About::started`].
    pub fn new(bounds: Bounds, about: About) -> Self {
        let state = State { store: ItemStore::new(bounds), traffic: Traffic::default(), about, verbosity: 0 };
        Self {
            state,
            clients: Vec::new(),
            free: Vec::new(),
            dirty: Vec::new(),
            runnable: VecDeque::new(),
            growth: 0,
        }
    }

    /// What was done to the items.
    pub fn counts(&self) -> ItemCounts {
        self.state.store.counts()
    }

    /// What went over the connections.
    pub fn traffic(&self) -> Traffic {
        self.state.traffic
    }

    fn client(&self, id: ClientId) -> &Client {
        self.clients[id as usize].as_ref().expect("it is connected")
    }

    fn client_mut(&mut self, id: ClientId) -> &mut Client {
        self.clients[id as usize].as_mut().expect("it is connected")
    }

    fn touch(&mut self, id: ClientId) {
        self.clients[id as usize].as_mut().expect("it is connected").touch(id, &mut self.dirty);
    }
}

impl Client {
    /// Something may be written to it, which has this number: it is named once, however often that
    /// happens, because it may be gone when it has been written to.
    fn touch(&mut self, id: ClientId, dirty: &mut Vec<ClientId>) {
        if !std::mem::replace(&mut self.dirty, true) {
            dirty.push(id);
        }
    }
}

impl Service for Cache {
    fn connected(&mut self, _listener: usize, _now: Stamp) -> ClientId {
        self.state.traffic.total_connections += 1;
        self.state.traffic.curr_connections += 1;
        let id = self.free.pop().unwrap_or_else(|| {
            self.clients.push(None);
            self.clients.len() as ClientId - 1
        });
        self.clients[id as usize] = Some(Client {
            session: CacheSession::default(),
            progress: SessionProgress::Hungry { needed: 1 },
            outbox: Outbox::default(),
            ended: false,
            dirty: false,
        });
        id
    }

    fn turned_away(&mut self) -> &'static [u8] {
        self.state.traffic.rejected_connections += 1;
        TOO_MANY
    }

    fn out_of_sockets(&mut self) {
        self.state.traffic.listen_disabled_num += 1;
    }

    fn read(&mut self, id: ClientId, bytes: &[u8], _received: Stamp, now: Stamp) -> usize {
        let Self { state, clients, dirty, growth, .. } = self;
        let client = clients[id as usize].as_mut().expect("it is connected");
        if client.progress == SessionProgress::Close {
            return bytes.len();
        }
        let allowance = MOST_UNSENT.saturating_sub(client.outbox.len());
        if allowance == 0 {
            client.progress = SessionProgress::Full;
            return 0;
        }
        let unix = state.about.started + Nanos(now.0);
        let before = client.outbox.end();
        let (used, progress) = client.session.serve(state, unix, bytes, client.outbox.tail(), allowance);
        client.progress = progress;
        *growth += (client.outbox.end() - before) as usize;
        state.traffic.bytes_read += used as u64;
        client.touch(id, dirty);
        used
    }

    fn needed(&self, id: ClientId) -> usize {
        match self.client(id).progress {
            SessionProgress::Hungry { needed } => needed,
            SessionProgress::Full | SessionProgress::Close => 0,
        }
    }

    fn paused(&self, id: ClientId) -> bool {
        self.client(id).progress == SessionProgress::Full
    }

    fn ended(&mut self, id: ClientId, _now: Stamp) {
        self.client_mut(id).ended = true;
        self.touch(id);
    }

    fn dismissed(&mut self, id: ClientId, now: Stamp) {
        // What has arrived is answered; no client waits here for anything else.
        self.ended(id, now);
    }

    fn gone(&mut self, id: ClientId, _now: Stamp) {
        self.clients[id as usize] = None;
        self.dirty.retain(|&other| other != id);
        self.runnable.retain(|&other| other != id);
        self.free.push(id);
        self.state.traffic.curr_connections -= 1;
    }

    fn output(&self, id: ClientId) -> &Outbox {
        &self.client(id).outbox
    }

    fn written(&mut self, id: ClientId, count: usize, _now: Stamp) {
        self.state.traffic.bytes_written += count as u64;
        let client = self.client_mut(id);
        client.outbox.advance(count);
        client.outbox.shrink(KEEP);
        if count > 0 && client.progress == SessionProgress::Full && client.outbox.len() < MOST_UNSENT {
            self.runnable.push_back(id);
        }
    }

    fn finished(&self, id: ClientId) -> bool {
        let client = self.client(id);
        let over = client.progress == SessionProgress::Close
            || client.ended && client.progress != SessionProgress::Full;
        over && client.outbox.is_empty()
    }

    fn clients(&self) -> usize {
        self.state.traffic.curr_connections as usize
    }

    fn deadline(&self) -> Option<Stamp> {
        None
    }

    fn tick(&mut self, _now: Stamp) {}

    fn runnable(&self) -> usize {
        self.runnable.len()
    }

    fn next_runnable(&mut self) -> Option<ClientId> {
        self.runnable.pop_front()
    }

    fn take_dirty(&mut self, into: &mut Vec<ClientId>) {
        into.clear();
        std::mem::swap(&mut self.dirty, into);
        for &id in &*into {
            self.client_mut(id).dirty = false;
        }
    }

    fn take_growth(&mut self) -> usize {
        std::mem::take(&mut self.growth)
    }

    fn respond(&mut self, id: ClientId, reply: &[u8], _length: usize, _received: Stamp, _now: Stamp) {
        self.client_mut(id).outbox.tail().extend_from_slice(reply);
        self.growth += reply.len();
        self.touch(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache() -> Cache {
        let about = About {
            pid: 7,
            version: "0.1.0".to_owned(),
            started: Nanos::from_secs(1_700_000_000),
            host: "127.0.0.1".to_owned(),
            port: 11_211,
            connections: 2,
        };
        Cache::new(Bounds { memory: 1 << 20, item: 1 << 19 }, about)
    }

    const NOW: Stamp = Stamp(5);

    /// A client that takes nothing is answered up to the bound, and goes on where it stopped once
    /// it has taken some.
    #[test]
    fn a_client_that_takes_nothing_is_paused_and_goes_on_where_it_stopped() {
        let mut cache = cache();
        let (slow, other) = (cache.connected(0, NOW), cache.connected(0, NOW));
        let value = vec![b'y'; 100_000];
        let set = [b"set big 0 0 100000\r\n", &value[..], b"\r\n"].concat();
        assert_eq!(cache.read(other, &set, NOW, NOW), set.len());
        let asked = b"get big\r\n".repeat(9);
        let mut used = cache.read(slow, &asked, NOW, NOW);
        assert!(used < asked.len() && cache.paused(slow) && !cache.paused(other));
        cache.ended(slow, NOW);
        let mut answered = 0;
        while !cache.finished(slow) {
            let count = cache.output(slow).len();
            assert!((1..=MOST_UNSENT + 100_100).contains(&count));
            answered += count;
            cache.written(slow, count, NOW);
            if cache.next_runnable() == Some(slow) {
                used += cache.read(slow, &asked[used..], NOW, NOW);
            }
        }
        assert_eq!(
            (used, answered),
            (asked.len(), 9 * (100_000 + "VALUE big 0 100000\r\n\r\nEND\r\n".len()))
        );
        cache.gone(slow, NOW);
        assert_eq!((cache.clients(), cache.traffic().bytes_read), (1, (set.len() + asked.len()) as u64));
    }

    #[test]
    fn a_client_that_is_read_twice_in_one_pass_is_named_once() {
        let mut cache = cache();
        let (twice, other) = (cache.connected(0, NOW), cache.connected(0, NOW));
        for (client, asked) in [(twice, &b"version\r\n"[..]), (other, b"version\r\n"), (twice, b"quit\r\n")] {
            cache.read(client, asked, NOW, NOW);
        }
        cache.ended(twice, NOW);
        let mut named = Vec::new();
        cache.take_dirty(&mut named);
        assert_eq!(named, [twice, other]);
        cache.read(other, b"version\r\n", NOW, NOW);
        cache.take_dirty(&mut named);
        assert_eq!(named, [other]);
    }

    #[test]
    fn a_client_that_is_gone_is_named_no_more_and_its_number_is_given_once_more() {
        let mut cache = cache();
        let id = cache.connected(0, NOW);
        cache.read(id, b"version\r\n", NOW, NOW);
        cache.gone(id, NOW);
        let mut named = vec![9];
        cache.take_dirty(&mut named);
        assert!(named.is_empty());
        assert_eq!(cache.connected(0, NOW), id);
        assert!(cache.output(id).is_empty());
        assert_eq!(cache.turned_away(), TOO_MANY);
        assert_eq!((cache.traffic().total_connections, cache.traffic().rejected_connections), (2, 1));
    }
}
