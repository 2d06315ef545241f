//! Drives a server of beanstalkd's protocol as fast as it answers, each client asking one thing
//! after the other, round and round.
//!
//! ```text
//! drive ADDRESS CLIENTS SECONDS [BODY-BYTES [WAITING [MIX]]]
//! ```
//!
//! MIX `jobs`: put, reserve, delete. `five`: send, pop, peek, peek by sender, list the queues that
//! hold something for me; half of the messages are for one receiver. With WAITING, so many messages
//! are put first and stay. Prints one line of JSON. `bench/broker.py` compares servers with it.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a tool of the benchmark: it ends where something is wrong"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream as Blocking};
use std::time::{Duration, Instant};

use krarup_beanstalk::{Reply, ReplyWord, reply};
use krarup_net::mio::net::TcpStream;
use krarup_net::mio::{Events, Interest, Poll, Token};
use krarup_units::Parsed;

/// Clients share so many tubes.
const TUBES: usize = 100;
/// What is not counted, at the beginning.
const WARM_UP: Duration = Duration::from_secs(1);

/// What is asked in one round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mix {
    Jobs,
    Five,
}

impl Mix {
    const fn length(self) -> usize {
        match self {
            Self::Jobs => 3,
            Self::Five => 5,
        }
    }

    /// One step of a client's rounds.
    fn write(self, client: &Client, body: &str, out: &mut Vec<u8>) {
        let (step, round) = (client.step % self.length(), client.step / self.length());
        let (tube, peer) = ((client.place + round) % TUBES, (client.place + 1 + round) % RECEIVERS);
        match (self, step) {
            (Self::Jobs, 0) => write!(out, "put 1024 0 120 {}\r\n{body}\r\n", body.len()),
            (Self::Jobs, 1) => write!(out, "reserve\r\n"),
            (Self::Jobs, _) => write!(out, "delete {}\r\n", client.id),
            (Self::Five, 0) if round.is_multiple_of(2) => {
                write!(out, "send t{tube} - {}\r\n{body}\r\n", body.len())
            }
            (Self::Five, 0) => write!(out, "send t{tube} c{peer} {}\r\n{body}\r\n", body.len()),
            (Self::Five, 1) => write!(out, "pop-tube t{tube}\r\n"),
            (Self::Five, 2) => write!(out, "peek-tube t{tube}\r\n"),
            (Self::Five, 3) => write!(out, "peek-sender c{peer}\r\n"),
            (Self::Five, _) => write!(out, "list-tubes-for-me\r\n"),
        }
        .unwrap();
    }
}

/// Clients that messages may be for.
const RECEIVERS: usize = 120;

struct Client {
    stream: TcpStream,
    inbox: Vec<u8>,
    place: usize,
    step: usize,
    /// Of the message in the last answer.
    id: u64,
    sent: Instant,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |place: usize, otherwise: usize| arguments.get(place).map_or(otherwise, |text| text.parse().unwrap());
    let address: SocketAddr = arguments[0].parse().unwrap();
    let (clients, seconds) = (number(1, 10), number(2, 5));
    let body = "x".repeat(number(3, 200));
    let mix = match arguments.get(5).map_or("jobs", String::as_str) {
        "jobs" => Mix::Jobs,
        "five" => Mix::Five,
        other => panic!("`{other}` is neither jobs nor five"),
    };
    lay_down(address, number(4, 0), mix, &body);
    drive(address, clients, Duration::from_secs(seconds as u64), mix, &body);
}

/// Puts messages that stay, many at a time.
fn lay_down(address: SocketAddr, messages: usize, mix: Mix, body: &str) {
    const AT_ONCE: usize = 500;
    let mut stream = Blocking::connect(address).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    let mut ask = |said: &str, answered: usize| {
        stream.write_all(said.as_bytes()).unwrap();
        for _ in 0..answered {
            let mut line = String::new();
            answers.read_line(&mut line).unwrap();
            let good = ["INSERTED", "USING", "REGISTERED", "EXISTS", "CREATED", "LOGGED_IN"];
            assert!(good.iter().any(|word| line.starts_with(word)), "{line}");
        }
    };
    if mix == Mix::Five {
        for place in 0..RECEIVERS {
            ask(&format!("register c{place}\r\n"), 1);
        }
        for place in 0..TUBES {
            ask(&format!("create-tube t{place}\r\n"), 1);
        }
    }
    let mut done = 0;
    while done < messages {
        let (some, turn) = (AT_ONCE.min(messages - done), done / AT_ONCE);
        if mix == Mix::Five {
            ask(&format!("login c{}\r\n", turn % RECEIVERS), 1);
        } else {
            ask(&format!("use t{}\r\n", turn % TUBES), 1);
        }
        let mut said = String::new();
        for place in 0..some {
            let length = body.len();
            said += &match (mix, place % 2) {
                (Mix::Jobs, _) => format!("put 1024 0 120 {length}\r\n{body}\r\n"),
                (Mix::Five, 0) => format!("send t{} - {length}\r\n{body}\r\n", (turn + place) % TUBES),
                (Mix::Five, _) => {
                    let receiver = (done + place) / 2 % RECEIVERS;
                    format!("send t{} c{receiver} {length}\r\n{body}\r\n", (turn + place) % TUBES)
                }
            };
        }
        ask(&said, some);
        done += some;
    }
}

fn drive(address: SocketAddr, clients: usize, length: Duration, mix: Mix, body: &str) {
    if length.is_zero() {
        return println!("{{}}");
    }
    let mut poll = Poll::new().unwrap();
    let mut all: Vec<Client> = (0..clients).map(|place| connect(address, place, mix, &poll)).collect();
    let begun = Instant::now();
    let mut out = Vec::new();
    for client in &mut all {
        ask(client, mix, body, &mut out);
    }
    let mut events = Events::with_capacity(1_024);
    let (mut all_requests, mut requests, mut times) = (0_u64, 0_u64, Vec::new());
    let mut room = vec![0; 64 << 10];
    while begun.elapsed() < WARM_UP + length {
        poll.poll(&mut events, Some(Duration::from_millis(100))).unwrap();
        for event in &events {
            let client = &mut all[event.token().0];
            while let Ok(count) = client.stream.read(&mut room) {
                assert!(count > 0, "the server closed the connection");
                client.inbox.extend_from_slice(&room[..count]);
                // Nothing is left: the next answer will be announced.
                if count < room.len() {
                    break;
                }
            }
            while take_answer(client) {
                let now = Instant::now();
                all_requests += 1;
                if now - begun >= WARM_UP {
                    requests += 1;
                    if client.step.is_multiple_of(mix.length()) {
                        times.push(now - client.sent);
                    }
                }
                client.step += 1;
                ask(client, mix, body, &mut out);
            }
        }
    }
    let measured = (begun.elapsed() - WARM_UP).as_secs_f64();
    times.sort_unstable();
    let quantile = |share: f64| {
        times.get((times.len() as f64 * share) as usize).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    println!(
        "{{\"requests_per_second\": {:.0}, \"requests\": {all_requests}, \"put_p50_ms\": {:.3}, \"put_p99_ms\": {:.3}}}",
        requests as f64 / measured,
        quantile(0.5),
        quantile(0.99),
    );
}

fn connect(address: SocketAddr, place: usize, mix: Mix, poll: &Poll) -> Client {
    let mut stream = Blocking::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let (hello, answers) = match mix {
        Mix::Jobs => (format!("use t{0}\r\nwatch t{0}\r\nignore default\r\n", place % TUBES), 3),
        Mix::Five => (format!("login c{}\r\n", place % RECEIVERS), 1),
    };
    stream.write_all(hello.as_bytes()).unwrap();
    let mut reader = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    for _ in 0..answers {
        reader.read_line(&mut line).unwrap();
    }
    stream.set_nonblocking(true).unwrap();
    let mut stream = TcpStream::from_std(stream);
    poll.registry().register(&mut stream, Token(place), Interest::READABLE).unwrap();
    Client { stream, inbox: Vec::new(), place, step: 0, id: 0, sent: Instant::now() }
}

fn ask(client: &mut Client, mix: Mix, body: &str, out: &mut Vec<u8>) {
    out.clear();
    mix.write(client, body, out);
    client.sent = Instant::now();
    // A request is small beside an empty socket's room.
    assert_eq!(client.stream.write(out).unwrap(), out.len());
}

/// Takes the answer at the front, if it is whole.
fn take_answer(client: &mut Client) -> bool {
    let (id, used) = match reply::parse(&client.inbox) {
        Parsed::Complete { message: Reply::Message { id, .. }, used } => (Some(id), used),
        Parsed::Complete { message, used } => {
            let good = [ReplyWord::Inserted, ReplyWord::Deleted, ReplyWord::Empty, ReplyWord::Ok];
            assert!(good.iter().any(|word| message.is(*word)), "{message:?}");
            (None, used)
        }
        Parsed::Incomplete { .. } => return false,
        Parsed::Invalid(why) => panic!("{why}: {}", client.inbox.escape_ascii()),
    };
    client.id = id.unwrap_or(client.id);
    client.inbox.drain(..used);
    true
}
