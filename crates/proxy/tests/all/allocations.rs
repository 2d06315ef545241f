//! Once it is warm, the proxy allocates nothing for a request: not for reading it, placing it,
//! asking, merging, replying or recording.

use krarup_proxy::{Config, Core};
use krarup_record::{Recorder, recorder};
use krarup_service::{Service as _, Upstreams as _};
use krarup_units::Stamp;

/// A core with its servers up, and a clock that only moves when it is told to.
struct World {
    core: Core,
    now: u64,
    client: u32,
    servers: usize,
}

impl World {
    fn new(config: &str, servers: usize) -> Self {
        let names: Vec<String> = (1..=servers).map(|port| format!("\"127.0.0.1:{port}\"")).collect();
        let config = Config::parse(&format!("servers = [{}]\n{config}", names.join(", ")), "test").unwrap();
        let recorder = Recorder::new(recorder::RecorderSettings::default()).unwrap();
        let mut core = Core::new(config.settings(), config.topology().unwrap(), recorder, Stamp(0));
        core.keep_live();
        core.sample_keys(1);
        for server in 0..servers {
            core.server_connected(server);
            core.server_written(server, core.server_output(server).unsent().len(), Stamp(1));
            core.server_read(server, b"VERSION 1.6.18\r\n", Stamp(2)).unwrap();
        }
        let client = core.connected(0, Stamp(0));
        Self { core, now: 10, client, servers }
    }

    fn tick(&mut self) -> Stamp {
        self.now += 1_000;
        Stamp(self.now)
    }

    /// One request, from its first byte to its reply.
    fn ask(&mut self, request: &[u8], answer: impl Fn(&[u8]) -> &'static [u8], reply: &[u8]) {
        let now = self.tick();
        assert_eq!(self.core.read(self.client, request, now, now), request.len());
        for server in 0..self.servers {
            let output = self.core.server_output(server).unsent();
            if output.is_empty() {
                continue;
            }
            let (answer, length) = (answer(output), output.len());
            let now = self.tick();
            self.core.server_written(server, length, now);
            let now = self.tick();
            assert_eq!(self.core.server_read(server, answer, now), Ok(answer.len()));
        }
        assert_eq!(self.core.output(self.client).unsent(), reply);
        let now = self.tick();
        self.core.written(self.client, reply.len(), now);
    }

    /// Nine values that make up more than is copied twice.
    fn large_round(&mut self, values: &Values) {
        let now = self.tick();
        self.core.read(self.client, b"get a a a a a a a a a\r\n", now, now);
        for server in 0..self.servers {
            let output = self.core.server_output(server).unsent();
            if output.is_empty() {
                continue;
            }
            let keys = output.iter().filter(|&&byte| byte == b'a').count();
            let (answer, length) = (&values.0[keys], output.len());
            let now = self.tick();
            self.core.server_written(server, length, now);
            let now = self.tick();
            assert_eq!(self.core.server_read(server, answer, now), Ok(answer.len()));
        }
        let (mut written, now) = (0, self.tick());
        while !self.core.output(self.client).unsent().is_empty() {
            let output = self.core.output(self.client).unsent();
            assert!(values.0[9][written..].starts_with(output));
            written += output.len();
            self.core.written(self.client, output.len(), now);
        }
        assert_eq!(written, values.0[9].len());
    }

    fn round(&mut self) {
        const VALUE: &[u8] = b"VALUE a 0 1\r\nx\r\nEND\r\n";
        self.ask(b"get a\r\n", |_| VALUE, VALUE);
        self.ask(b"get nothing\r\n", |_| b"END\r\n", b"END\r\n");
        self.ask(b"set a 0 0 1\r\nx\r\n", |_| b"STORED\r\n", b"STORED\r\n");
        self.ask(b"delete a\r\n", |_| b"NOT_FOUND\r\n", b"NOT_FOUND\r\n");
        self.ask(b"incr a 1\r\n", |_| b"2\r\n", b"2\r\n");
        self.ask(b"mg a v\r\n", |_| b"VA 1\r\nx\r\n", b"VA 1\r\nx\r\n");
        // Every key is found, in whatever parts they are asked for.
        let found = |asked: &[u8]| -> &'static [u8] {
            match asked.split(|&byte| byte == b' ').count() - 1 {
                1 => VALUE,
                2 => b"VALUE a 0 1\r\nx\r\nVALUE a 0 1\r\nx\r\nEND\r\n",
                _ => b"VALUE a 0 1\r\nx\r\nVALUE a 0 1\r\nx\r\nVALUE a 0 1\r\nx\r\nEND\r\n",
            }
        };
        self.ask(
            b"get a a a\r\n",
            found,
            b"VALUE a 0 1\r\nx\r\nVALUE a 0 1\r\nx\r\nVALUE a 0 1\r\nx\r\nEND\r\n",
        );
    }
}

/// Answers with so many values of 4,096 bytes, and their end.
struct Values([Vec<u8>; 10]);

impl Values {
    fn new() -> Self {
        let value = [&b"VALUE a 0 4096\r\n"[..], &[b'x'; 4_096], b"\r\n"].concat();
        Self(std::array::from_fn(|count| [&value.repeat(count)[..], b"END\r\n"].concat()))
    }
}

/// Allocations per 1,000 rounds once a few rounds have gone by.
fn allocations(config: &str, servers: usize) -> u64 {
    let mut world = World::new(config, servers);
    for _ in 0..100 {
        world.round();
    }
    allocation_counter::measure(|| {
        for _ in 0..1_000 {
            world.round();
        }
    })
    .count_total
}

#[test]
fn what_is_new_does_allocate() {
    assert!(allocation_counter::measure(|| World::new("", 1).round()).count_total > 10);
}

#[test]
fn a_warm_proxy_allocates_nothing_for_a_request() {
    for (config, servers) in [
        ("", 1),
        ("", 3),
        ("multi_get = \"sharded\"", 3),
        ("workers = 4", 3),
        ("distribution = \"ketama\"", 3),
    ] {
        assert_eq!(allocations(config, servers), 0, "{config:?} before {servers} servers");
    }
}

#[test]
fn a_reply_of_many_values_is_put_together_in_memory_that_was_there() {
    let values = Values::new();
    for config in ["multi_get = \"sharded\"", "distribution = \"ketama\""] {
        let mut world = World::new(config, 3);
        (0..100).for_each(|_| world.large_round(&values));
        let counted = allocation_counter::measure(|| (0..1_000).for_each(|_| world.large_round(&values)));
        assert_eq!(counted.count_total, 0, "{config}");
    }
}
