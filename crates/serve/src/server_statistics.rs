//! What servers say of themselves with `stats`, where the configuration asks for it: the memory
//! they hold, their connections, and their processor time.

use std::collections::HashMap;
use std::str;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use krarup_memcache::response::statistics;
use krarup_model::headroom::{Allowance, ResourceKind};
use krarup_net::blocking::BlockingConnection;
use krarup_net::snapshots::lock;
use krarup_units::{Address, Nanos};

/// How long a server may take to connect, at all of its addresses together, and to answer.
const LIMIT: Nanos = Nanos::from_millis(500);
/// More bytes than this are no answer to `stats`.
const MOST_BYTES: usize = 64 << 10;
/// How many servers are asked at once.
const AT_ONCE: usize = 16;
/// Over a shorter time processors are not averaged: what was found before is said again.
const SHORTEST: Duration = Duration::from_secs(5);
/// Over a longer time an average says nothing about now. Some monitoring asks once in a minute,
/// and not to the second.
const LONGEST: Duration = Duration::from_secs(65);

/// Asks servers, and knows what they had used before.
#[derive(Debug, Default)]
pub(crate) struct AskedServers {
    /// Of each server.
    last: Mutex<HashMap<String, ProcessorSample>>,
}

/// The moment up to which the processors of a server are averaged.
#[derive(Clone, Copy, Debug)]
struct ProcessorSample {
    /// Processor seconds it had used then.
    seconds: f64,
    at: Instant,
    /// How many processors it used until then; none where the time before is not known.
    used: Option<f64>,
}

impl AskedServers {
    /// What each of these servers uses of what it has. One that does not answer says nothing; its
    /// processors are known once it was asked twice, some seconds apart. What is none of these any
    /// more is forgotten.
    pub(crate) fn allowances(&self, servers: &[String]) -> Vec<Allowance> {
        lock(&self.last).retain(|server, _| servers.contains(server));
        let mut all = Vec::new();
        for some in servers.chunks(AT_ONCE) {
            thread::scope(|scope| {
                let asked = some.iter().map(|server| {
                    // One for which no thread can be had is not asked.
                    (server, thread::Builder::new().spawn_scoped(scope, || ask(server)))
                });
                for (server, answer) in asked.collect::<Vec<_>>() {
                    let answer = answer.ok().and_then(|answer| answer.join().ok()).flatten();
                    let Some(said) = answer else { continue };
                    let seconds = said.processor;
                    let used = seconds.and_then(|seconds| self.processors(server, seconds, Instant::now()));
                    all.extend(said.allowances(server, used));
                }
            });
        }
        all
    }

    /// How many processors a server uses that has used so many seconds of them by `now`.
    fn processors(&self, server: &str, seconds: f64, now: Instant) -> Option<f64> {
        let mut last = lock(&self.last);
        let used = match last.get(server) {
            // One that was started again begins from zero.
            Some(before) if seconds >= before.seconds => {
                let since = now.duration_since(before.at);
                if since < SHORTEST {
                    return before.used;
                }
                (since <= LONGEST).then(|| (seconds - before.seconds) / since.as_secs_f64())
            }
            _ => None,
        };
        last.insert(server.to_owned(), ProcessorSample { seconds, at: now, used });
        used
    }
}

/// What a server said; none where it did not.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct ServerAnswer {
    connections: Option<f64>,
    most_connections: Option<f64>,
    bytes: Option<f64>,
    most_bytes: Option<f64>,
    /// Processor seconds, user and system together.
    processor: Option<f64>,
    threads: Option<f64>,
}

impl ServerAnswer {
    fn of(text: &str) -> Self {
        let numbers: HashMap<&str, f64> =
            statistics(text).filter_map(|(name, value)| Some((name, value.parse().ok()?))).collect();
        let of = |name: &str| numbers.get(name).copied();
        Self {
            connections: of("curr_connections"),
            most_connections: of("max_connections"),
            bytes: of("bytes"),
            most_bytes: of("limit_maxbytes"),
            processor: of("rusage_user").zip(of("rusage_system")).map(|(user, system)| user + system),
            threads: of("threads"),
        }
    }

    /// What is used, `processors` among it, beside what there is.
    fn allowances(self, server: &str, processors: Option<f64>) -> impl Iterator<Item = Allowance> {
        let each = [
            (ResourceKind::Memory, self.bytes, self.most_bytes),
            (ResourceKind::Connections, self.connections, self.most_connections),
            (ResourceKind::Processors, processors, self.threads),
        ];
        let server = server.to_owned();
        each.into_iter().filter_map(move |(resource, used, most)| {
            let (used, most) = used.zip(most).filter(|(_, most)| *most > 0.0)?;
            Some(Allowance { resource, server: Some(server.clone()), used, most, seen: Vec::new() })
        })
    }
}

fn ask(server: &str) -> Option<ServerAnswer> {
    let address: Address = server.parse().ok()?;
    let connection = match address.file() {
        Some(file) => BlockingConnection::connect_file(file, LIMIT, LIMIT).ok()?,
        None => {
            let found = krarup_net::resolve(&address).ok()?;
            let each = Nanos(LIMIT.0 / found.len() as u64);
            BlockingConnection::connect(&found, each, LIMIT).ok()?
        }
    };
    connection.send(b"stats\r\n").ok()?;
    answer(&connection, Instant::now() + LIMIT.as_duration())
}

/// What a server answers; none where its end is not there by `end`, however little comes at once.
fn answer(connection: &BlockingConnection, end: Instant) -> Option<ServerAnswer> {
    let (mut text, mut room) = (Vec::new(), [0; 4096]);
    while !text.ends_with(b"END\r\n") {
        if Instant::now() >= end {
            return None;
        }
        let read = connection.receive(&mut room).ok().filter(|read| *read > 0)?;
        text.extend_from_slice(&room[..read]);
        if text.len() > MOST_BYTES {
            return None;
        }
    }
    Some(ServerAnswer::of(str::from_utf8(&text).ok()?))
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;

    use super::*;

    const SAID: &str = "STAT pid 7\r\nSTAT version 1.6.18\r\nSTAT rusage_user 1.500000\r\n\
        STAT rusage_system 0.500000\r\nSTAT max_connections 1024\r\nSTAT curr_connections 256\r\n\
        STAT limit_maxbytes 1000\r\nSTAT bytes 900\r\nSTAT threads 4\r\nEND\r\n";

    fn shares(answer: ServerAnswer, processors: Option<f64>) -> Vec<(ResourceKind, f64)> {
        answer.allowances("a:1", processors).map(|one| (one.resource, one.used / one.most)).collect()
    }

    #[test]
    fn shares_are_of_what_the_server_says_that_it_has() {
        let answer = ServerAnswer::of(SAID);
        let known = vec![(ResourceKind::Memory, 0.9), (ResourceKind::Connections, 0.25)];
        assert_eq!(shares(answer, None), known);
        assert_eq!(answer.processor, Some(2.0), "user and system together");
        assert_eq!(shares(answer, Some(1.0))[2], (ResourceKind::Processors, 0.25), "one of four");
        assert_eq!(shares(ServerAnswer::of("STAT bytes 5\r\nSTAT limit_maxbytes 0\r\nERROR\r\n"), None), []);
    }

    #[test]
    fn processors_are_averaged_over_some_seconds_and_no_more_than_a_minute() {
        let (servers, begun) = (AskedServers::default(), Instant::now());
        let used = |after, seconds| servers.processors("a:1", seconds, begun + Duration::from_millis(after));
        assert_eq!(used(0, 10.0), None, "nothing was known before");
        assert_eq!(used(2, 10.1), None, "too soon");
        assert_eq!(used(10_000, 20.0), Some(1.0), "from the first question on");
        assert_eq!(used(10_002, 20.1), Some(1.0), "what was found before");
        assert_eq!(used(20_000, 25.0), Some(0.5), "from the third question on");
        assert_eq!(used(90_000, 95.0), None, "too long ago");
        assert_eq!(used(100_000, 100.0), Some(0.5));
        assert_eq!(used(101_000, 1.0), None, "it was started again");
        assert_eq!(used(111_000, 6.0), Some(0.5));
    }

    #[test]
    fn what_is_no_server_any_more_is_forgotten() {
        let (servers, now) = (AskedServers::default(), Instant::now());
        // Files that are not there: a connection to them fails at once.
        let (gone, silent) = ("unix:/nowhere/gone", "unix:/nowhere/silent".to_owned());
        servers.processors(gone, 10.0, now);
        servers.processors(&silent, 10.0, now);
        assert!(servers.allowances(std::slice::from_ref(&silent)).is_empty());
        assert!(lock(&servers.last).keys().eq([&silent]));
    }

    #[test]
    fn an_answer_that_is_not_there_by_the_end_is_none() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connection = BlockingConnection::connect(&[address], LIMIT, LIMIT).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.write_all(SAID.as_bytes()).unwrap();
        let now = Instant::now();
        assert_eq!(answer(&connection, now), None);
        assert_eq!(answer(&connection, now + Duration::from_secs(60)), Some(ServerAnswer::of(SAID)));
    }

    #[test]
    fn a_server_that_answers_in_pieces_is_understood_and_a_lost_one_says_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap().to_string();
        let lost = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        // One that was too slow to answer is asked again.
        thread::spawn(move || {
            for mut connection in listener.incoming().map(Result::unwrap) {
                let mut asked = [0; 7];
                if connection.read_exact(&mut asked).is_ok() {
                    assert_eq!(&asked, b"stats\r\n");
                    let mut pieces = SAID.as_bytes().chunks(50);
                    let _ = pieces.try_for_each(|piece| connection.write_all(piece));
                }
            }
        });
        let statistics = AskedServers::default();
        let servers = [lost, server.clone()];
        let mut answers = (0..100).map(|_| statistics.allowances(&servers));
        let said = answers.find(|said| !said.is_empty()).unwrap();
        assert_eq!(said.len(), 2);
        assert!(said.iter().all(|one| one.server.as_ref() == Some(&server)), "{said:?}");
    }
}
