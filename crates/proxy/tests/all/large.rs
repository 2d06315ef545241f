//! A large value on its way through is held once: in the memory it was read into, however many
//! servers get it and whatever is done with it.

use krarup_service::{Service as _, Upstreams as _};
use std::sync::Arc;

use allocation_counter::measure;
use krarup_proxy::{Config, Core};
use krarup_record::{Recorder, recorder};
use krarup_units::Stamp;

/// The largest value that a configuration allows is 1 GiB; what holds for this many bytes holds for
/// it.
const LENGTH: usize = 64 << 20;
/// What may be allocated besides, as for the histograms that a first request opens: far less than a
/// second copy.
const BESIDES: u64 = 4 << 20;

struct World {
    core: Core,
    now: u64,
    client: u32,
}

impl World {
    fn new(config: &str) -> Self {
        let text = format!(
            "servers = [\"127.0.0.1:1\", \"127.0.0.1:2\", \"127.0.0.1:3\"]\nmax_value = \"1GiB\"\n{config}"
        );
        let config = Config::parse(&text, "test").unwrap();
        config.check().unwrap();
        let recorder = Recorder::new(recorder::RecorderSettings::default()).unwrap();
        let mut core = Core::new(config.settings(), config.topology().unwrap(), recorder, Stamp(0));
        for server in 0..3 {
            core.server_connected(server);
            core.server_written(server, core.server_output(server).unsent().len(), Stamp(1));
            core.server_read(server, b"VERSION 1.6.18\r\n", Stamp(2)).unwrap();
        }
        let client = core.connected(0, Stamp(0));
        Self { core, now: 10, client }
    }

    fn tick(&mut self) -> Stamp {
        self.now += 1_000;
        Stamp(self.now)
    }

    /// Offers the client's bytes; all of them are used.
    fn send(&mut self, memory: &Arc<Vec<u8>>) {
        let now = self.tick();
        assert!(self.core.begins_large(memory));
        let used = self.core.read_lent(self.client, memory, 0..memory.len(), now, now);
        assert_eq!(used, memory.len());
    }

    /// The server takes what it is sent, in pieces; the last bytes and how many there were.
    fn take(&mut self, server: usize) -> usize {
        let mut count = 0;
        while !self.core.server_output(server).is_empty() {
            let now = self.tick();
            let piece = self.core.server_output(server).unsent().len().min(100_000);
            self.core.server_written(server, piece, now);
            count += piece;
        }
        count
    }

    fn answer(&mut self, server: usize, words: &[u8]) {
        let now = self.tick();
        assert_eq!(self.core.server_read(server, words, now), Ok(words.len()));
    }

    /// The client takes its replies, in pieces; how many bytes these were and how they end.
    fn reply(&mut self) -> (usize, Vec<u8>) {
        let (mut count, mut end) = (0, Vec::new());
        while !self.core.output(self.client).unsent().is_empty() {
            let now = self.tick();
            let output = self.core.output(self.client).unsent();
            let piece = output.len().min(100_000);
            end = output[piece.saturating_sub(5)..piece].to_vec();
            self.core.written(self.client, piece, now);
            count += piece;
        }
        (count, end)
    }
}

fn message(line: &str, end: &str) -> Arc<Vec<u8>> {
    let mut bytes = Vec::with_capacity(LENGTH + line.len() + end.len());
    bytes.extend_from_slice(line.as_bytes());
    bytes.resize(line.len() + LENGTH, b'v');
    bytes.extend_from_slice(end.as_bytes());
    Arc::new(bytes)
}

#[test]
fn a_large_value_goes_to_all_its_servers_without_being_copied() {
    for (config, line, word) in [
        ("", "set a 0 0 67108864\r\n", "STORED\r\n"),
        ("ttl_cap = \"1h\"\n", "set a 0 0 67108864\r\n", "STORED\r\n"),
        ("workers = 1\n", "set a 0 0 67108864 \r\n", "STORED\r\n"),
        ("writes = \"async\"\n", "set a 0 0 67108864\r\n", "STORED\r\n"),
        ("", "cas a 0 0 67108864 7\r\n", "STORED\r\n"),
        ("", "ms a 67108864 T60 q\r\n", "HD\r\n"),
        ("", "ms a 67108864 C7\r\n", "HD\r\n"),
        ("ttl_cap = \"1h\"\n", "ms a 67108864\r\n", "HD\r\n"),
        (
            "[[routes]]\nprefix = \"a\"\npool = \"main\"\nadd = \"zz\"\n",
            "set a 0 0 67108864\r\n",
            "STORED\r\n",
        ),
    ] {
        let memory = message(line, "\r\n");
        let mut world = World::new(config);
        let mut counts = [0; 3];
        let what = measure(|| {
            world.send(&memory);
            // What follows a decision follows when the first has answered.
            for _ in 0..2 {
                for (server, count) in counts.iter_mut().enumerate() {
                    let taken = world.take(server);
                    *count += taken;
                    if taken > 0 {
                        world.answer(server, word.as_bytes());
                    }
                }
            }
        });
        assert!(counts.iter().all(|&count| count > LENGTH && count < LENGTH + 100), "{line:?}: {counts:?}");
        assert!(what.bytes_max < BESIDES, "{config:?} {line:?}: {} bytes", what.bytes_max);
        let quiet = line.contains(" q");
        assert_eq!(world.reply().0, if quiet { 0 } else { word.len() }, "{line:?}");
        assert_eq!(Arc::strong_count(&memory), 1, "{line:?}: what has left is not kept");
    }
}

#[test]
fn a_large_value_that_waits_for_a_worker_is_not_copied_either() {
    let memory = message("set a 0 0 67108864\r\n", "\r\n");
    let mut world = World::new("workers = 1\n");
    let now = world.tick();
    // It is with the servers, and its answer is short: behind what is long, or may be, a large
    // value would wait at its client.
    world.core.read(world.client, b"touch b 0\r\n", now, now);
    assert!((0..3).all(|server| world.take(server) > 0));
    let what = measure(|| {
        world.send(&memory);
        assert_eq!(world.core.queued_bytes(), memory.len());
        for server in 0..3 {
            world.answer(server, b"TOUCHED\r\n");
        }
        assert_eq!(world.reply().0, 9);
        for server in 0..3 {
            assert!(world.take(server) > LENGTH);
            world.answer(server, b"STORED\r\n");
        }
    });
    assert!(what.bytes_max < BESIDES, "{} bytes", what.bytes_max);
    assert_eq!((world.reply().0, Arc::strong_count(&memory)), (8, 1));
}

#[test]
fn a_large_answer_goes_to_its_client_without_being_copied() {
    let route = "[[routes]]\nprefix = \"a\"\npool = \"main\"\nadd = \"zz\"\n";
    for (config, asked, key) in [
        ("", "get a\r\n", "a"),
        ("fall_back = [\"error\"]\n", "get a\r\n", "a"),
        ("fall_back = [\"error\"]\n", "mg a v\r\n", ""),
        ("", "mg a v\r\n", ""),
        ("", "gat 5 a\r\n", "a"),
        (route, "get a\r\n", "zza"),
        ("multi_get = \"sharded\"\n", "get a b\r\n", "a"),
    ] {
        let memory = match key {
            "" => message("VA 67108864\r\n", "\r\n"),
            key => message(&format!("VALUE {key} 0 67108864\r\n"), "\r\nEND\r\n"),
        };
        let mut world = World::new(config);
        let now = world.tick();
        world.core.read(world.client, asked.as_bytes(), now, now);
        let what = measure(|| {
            for server in 0..3 {
                let output = world.core.server_output(server).unsent().to_vec();
                if output.is_empty() {
                    continue;
                }
                world.take(server);
                if output.starts_with(b"touch") {
                    world.answer(server, b"TOUCHED\r\n");
                } else if output.ends_with(b" b\r\n") {
                    world.answer(server, b"END\r\n");
                } else {
                    let now = world.tick();
                    assert!(world.core.server_begins_large(server, &memory));
                    let used = world.core.server_read_lent(server, &memory, 0..memory.len(), now);
                    assert_eq!(used, Ok(memory.len()));
                }
            }
            let (count, end) = world.reply();
            assert!(count > LENGTH && count < LENGTH + 100, "{asked:?}: {count}");
            assert!(end.ends_with(b"\r\n"), "{asked:?}");
        });
        assert!(what.bytes_max < BESIDES, "{config:?} {asked:?}: {} bytes", what.bytes_max);
        assert_eq!(Arc::strong_count(&memory), 1, "{asked:?}: what has left is not kept");
    }
}
