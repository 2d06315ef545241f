//! What servers say of themselves with `stats`, where the configuration asks for it: the memory
//! they hold, their connections, and their processor time.

use std::collections::HashMap;
use std::str;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use krarup_memcache::response::statistics;
use krarup_model::headroom::{Allowance, ResourceKind};
use krarup_net::blocking::BlockingConnection;
use krarup_net::snapshots::lock;
use krarup_units::{Address, Nanos};

/// How long a server may take to connect, and to answer.
const LIMIT: Nanos = Nanos::from_millis(500);
/// More bytes than this are no answer to `stats`.
const MOST_BYTES: usize = 64 << 10;
/// How many servers are asked at once.
const AT_ONCE: usize = 16;

/// Asks servers, and knows what they had used before.
#[derive(Debug, Default)]
pub(crate) struct AskedServers {
    /// Processor seconds of each server when it was last asked, and when that was.
    last: Mutex<HashMap<String, (f64, Instant)>>,
}

impl AskedServers {
    /// What each of these servers uses of what it has. One that does not answer says nothing; its
    /// processors are known from the second time on.
    pub(crate) fn allowances(&self, servers: &[String]) -> Vec<Allowance> {
        let mut all = Vec::new();
        for some in servers.chunks(AT_ONCE) {
            thread::scope(|scope| {
                let asked = some.iter().map(|server| (server, scope.spawn(|| ask(server))));
                for (server, answer) in asked.collect::<Vec<_>>() {
                    let Some(said) = answer.join().ok().flatten() else { continue };
                    let last = said.processor.and_then(|processor| {
                        lock(&self.last).insert(server.clone(), (processor, Instant::now()))
                    });
                    let since = last.map(|(processor, at)| (processor, at.elapsed().as_secs_f64()));
                    all.extend(said.allowances(server, since));
                }
            });
        }
        all
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

    /// What is used, beside what there is; `since` are the processor seconds that it said before,
    /// and how many seconds ago.
    fn allowances(self, server: &str, since: Option<(f64, f64)>) -> impl Iterator<Item = Allowance> {
        let processors = since.zip(self.processor).and_then(|((before, seconds), now)| {
            // One that was started again begins from zero.
            (now >= before && seconds > 0.0).then(|| (now - before) / seconds)
        });
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
            BlockingConnection::connect(*krarup_net::resolve(&address).ok()?.first()?, LIMIT, LIMIT).ok()?
        }
    };
    connection.send(b"stats\r\n").ok()?;
    let (mut text, mut room) = (Vec::new(), [0; 4096]);
    while !text.ends_with(b"END\r\n") {
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

    fn shares(answer: ServerAnswer, since: Option<(f64, f64)>) -> Vec<(ResourceKind, f64)> {
        answer.allowances("a:1", since).map(|one| (one.resource, one.used / one.most)).collect()
    }

    #[test]
    fn shares_are_of_what_the_server_says_that_it_has() {
        let answer = ServerAnswer::of(SAID);
        let known = vec![(ResourceKind::Memory, 0.9), (ResourceKind::Connections, 0.25)];
        assert_eq!(shares(answer, None), known);
        // Two of four processors for half of two seconds.
        let busy = shares(answer, Some((0.0, 2.0)));
        assert_eq!(busy[2], (ResourceKind::Processors, 0.25));
        assert_eq!(shares(answer, Some((3.0, 2.0))), known, "it was started again");
        assert_eq!(shares(ServerAnswer::of("STAT bytes 5\r\nSTAT limit_maxbytes 0\r\nERROR\r\n"), None), []);
    }

    #[test]
    fn a_server_that_answers_in_pieces_is_understood_and_a_lost_one_says_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = listener.local_addr().unwrap().to_string();
        let lost = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
        let answers = thread::spawn(move || {
            let (mut connection, _) = listener.accept().unwrap();
            let mut asked = [0; 7];
            connection.read_exact(&mut asked).unwrap();
            for piece in SAID.as_bytes().chunks(50) {
                connection.write_all(piece).unwrap();
            }
            asked
        });
        let statistics = AskedServers::default();
        let said = statistics.allowances(&[lost, server.clone()]);
        assert_eq!(&answers.join().unwrap(), b"stats\r\n");
        assert_eq!(said.len(), 2);
        assert!(said.iter().all(|one| one.server.as_ref() == Some(&server)), "{said:?}");
    }
}
