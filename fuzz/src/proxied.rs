//! A whole conversation through the proxy, its pool and its servers being of any kind: every
//! request is answered, where the network cuts the bytes does not matter, and whatever servers say
//! no client waits for ever.

use std::sync::{Arc, Mutex};

use krarup_cache::{About, Bounds, CacheSession, ItemStore, State, Traffic};
use krarup_proxy::{Config, Core, RowSink};
use krarup_record::{Recorder, ServerVisit, Visit, recorder};
use krarup_service::{ConnectionLoss, Service as _, Upstreams as _};
use krarup_units::{Nanos, Stamp};

const NOW: Nanos = Nanos::from_secs(1_700_000_000);
const SERVERS: usize = 2;

/// The first four bytes choose the pool and the cuts. Where the second is odd servers are caches
/// and the rest is what a client sends; else what servers say stands behind two bytes 255.
pub fn check(bytes: &[u8]) {
    let [pool, more, cut, there, bytes @ ..] = bytes else { return };
    // Statistics tell times, which depend on how the bytes came.
    if more & 1 == 1 && !bytes.windows(5).any(|word| word == b"stats") {
        // What is asked again elsewhere may see what the client sent behind it: one at a time.
        let whole = World::new(*pool, *more).converse(bytes, usize::MAX);
        let pieces = World::new(*pool, *more).converse(bytes, usize::from(*cut) + 1);
        assert_eq!(whole.escape_ascii().to_string(), pieces.escape_ascii().to_string());
        return;
    }
    let end = bytes.windows(2).position(|two| two == [255, 255]).unwrap_or(bytes.len());
    let said = bytes.get(end + 2..).unwrap_or_default();
    World::new(*pool, *more).endure(&bytes[..end], usize::from(*cut) + 1, said, usize::from(*there) + 1);
}

/// Counts what is recorded.
struct Rows(Arc<Mutex<usize>>);

impl RowSink for Rows {
    fn row(&mut self, visit: &Visit, servers: &[ServerVisit], _: usize) {
        assert!(visit.is_ordered(servers), "{visit:?} {servers:?}");
        *self.0.lock().expect("no thread panics with it") += 1;
    }
}

struct World {
    core: Core,
    time: u64,
    client: u32,
    rows: Arc<Mutex<usize>>,
    replies: Vec<u8>,
}

impl World {
    fn new(pool: u8, more: u8) -> Self {
        let bit = |place: u8| pool >> place & 1 == 1;
        let mut text = String::from(
            "servers = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\nmax_value = 600\npipeline = 1\nretry_budget = 1.0\n",
        );
        let mut add = |wanted: bool, line: &str| {
            if wanted {
                text.push_str(line);
            }
        };
        add(bit(0), "distribution = \"ketama\"\n");
        add(bit(1), "replicas = 1\n");
        add(bit(2), "fall_back = [\"error\", \"miss\"]\nrefill_ttl = \"60s\"\n");
        add(bit(3), "coalesce = true\n");
        add(bit(4), "readers = 1\n");
        add(bit(5), "writes = \"quorum\"\n");
        add(bit(6), "reads = \"primary\"\nhedge_after = 0.5\n");
        add(bit(7), "ttl_cap = \"1h\"\n");
        add(more >> 1 & 1 == 1, "workers = 1\nqueue = 2\n");
        add(more >> 2 & 1 == 1, "multi_get = \"sharded\"\n");
        add(more >> 3 & 1 == 1, "when_down = \"next\"\n");
        add(more >> 4 & 1 == 1, "writes = \"async\"\n");
        add(more >> 5 & 1 == 1, "[[routes]]\nprefix = \"r\"\npool = \"main\"\nstrip = true\nadd = \"zz\"\n");
        let usable = Config::parse(&text, "pool").ok().filter(|config| config.check().is_ok());
        // Not all of it goes together.
        let config = usable.unwrap_or_else(|| {
            let plain = "servers = [\"127.0.0.1:1\", \"127.0.0.1:2\"]\nmax_value = 600\npipeline = 1\n";
            Config::parse(plain, "pool").expect("that much is right")
        });
        let recorder = Recorder::new(recorder::RecorderSettings::default()).expect("the defaults are valid");
        let topology = config.topology().expect("it was checked");
        let mut core = Core::new(config.settings(), topology, recorder, Stamp(0));
        let rows = Arc::new(Mutex::new(0));
        core.keep_rows(Box::new(Rows(rows.clone())), 0, 1);
        let mut world = Self { core, time: 1, client: 0, rows, replies: Vec::new() };
        (0..SERVERS).for_each(|server| world.bring_up(server));
        world.client = world.core.connected(0, Stamp(0));
        world
    }

    fn now(&mut self) -> Stamp {
        self.time += 1_000;
        Stamp(self.time)
    }

    fn bring_up(&mut self, server: usize) {
        self.core.server_connected(server);
        self.sent(server);
        let now = self.now();
        self.core.server_read(server, b"VERSION 1.6.18\r\n", now).expect("that is what it was asked");
    }

    /// What a server has been sent.
    fn sent(&mut self, server: usize) -> Vec<u8> {
        let output = self.core.server_output(server).unsent().to_vec();
        let now = self.now();
        self.core.server_written(server, output.len(), now);
        output
    }

    fn read(&mut self) {
        let output = self.core.output(self.client).unsent().to_vec();
        let now = self.now();
        self.core.written(self.client, output.len(), now);
        self.core.tick(now);
        self.replies.extend_from_slice(&output);
    }

    /// Offers what the client has sent; whether anything of it was used.
    fn offer(&mut self, unread: &mut Vec<u8>) -> bool {
        let now = self.now();
        let used = self.core.read(self.client, unread, now, now);
        unread.drain(..used);
        used > 0
    }

    /// Everything is done: a row for each request, and no client waits.
    fn end(mut self) -> Vec<u8> {
        let now = self.now();
        self.core.ended(self.client, now);
        self.read();
        assert_eq!((self.core.unfinished(), self.core.in_flight()), (0, 0));
        assert_eq!(*self.rows.lock().expect("no thread panics with it") as u64, self.core.events().requests);
        self.replies
    }

    /// Before caches, the client's bytes in pieces.
    fn converse(mut self, bytes: &[u8], cut: usize) -> Vec<u8> {
        let mut caches: Vec<_> = (0..SERVERS).map(|_| cache()).collect();
        let mut unread = Vec::new();
        for piece in bytes.chunks(cut.min(bytes.len().max(1))) {
            unread.extend_from_slice(piece);
            loop {
                let mut moved = self.offer(&mut unread);
                for (server, (service, session)) in caches.iter_mut().enumerate() {
                    let asked = self.sent(server);
                    moved |= !asked.is_empty();
                    let mut said = Vec::new();
                    session.serve(service, NOW, &asked, &mut said, usize::MAX / 2);
                    let now = self.now();
                    match self.core.server_read(server, &said, now) {
                        Ok(used) => assert_eq!(used, said.len(), "{}", said.escape_ascii()),
                        // It rejected a value: it is not known what it took that for.
                        Err(why) => {
                            self.core.server_lost(server, why.why, ConnectionLoss::Untrusted, now);
                            self.bring_up(server);
                        }
                    }
                }
                self.read();
                if !moved {
                    break;
                }
            }
        }
        // Versions, times and process numbers may be told, and are the same in both conversations.
        self.end()
    }

    /// Before servers that say what they like.
    fn endure(mut self, bytes: &[u8], cut: usize, said: &[u8], there: usize) {
        let mut unread = Vec::new();
        let mut said = said.chunks(there).enumerate();
        // What a server said and was not used is offered again, with more behind it.
        let mut unused = [const { Vec::new() }; SERVERS];
        for piece in bytes.chunks(cut) {
            unread.extend_from_slice(piece);
            self.offer(&mut unread);
            for server in 0..SERVERS {
                self.sent(server);
            }
            if let Some((turn, words)) = said.next() {
                let (server, now) = (turn % SERVERS, self.now());
                unused[server].extend_from_slice(words);
                match self.core.server_read(server, &unused[server], now) {
                    Ok(used) => drop(unused[server].drain(..used)),
                    Err(why) => {
                        unused[server].clear();
                        let now = self.now();
                        self.core.server_lost(server, why.why, ConnectionLoss::Untrusted, now);
                        self.bring_up(server);
                    }
                }
            }
            self.read();
        }
        // Whatever they still owe they will not give.
        for _ in 0..2 * bytes.len() + 8 {
            let owed = self.core.in_flight();
            for server in 0..SERVERS {
                let now = self.now();
                self.core.server_lost(server, "gone", ConnectionLoss::Broken, now);
            }
            self.read();
            if !self.offer(&mut unread) && owed == 0 && self.core.in_flight() == 0 {
                break;
            }
        }
        self.end();
    }
}

fn cache() -> (State, CacheSession) {
    let about = About {
        pid: 1,
        version: "0.1.0".to_owned(),
        started: NOW,
        host: "127.0.0.1".to_owned(),
        port: 11_211,
        connections: 1,
    };
    let store = ItemStore::new(Bounds { memory: 1 << 20, item: 1 << 10 });
    (State { store, traffic: Traffic::default(), about, verbosity: 0 }, CacheSession::default())
}
