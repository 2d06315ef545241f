//! Drives a server of beanstalkd's protocol as fast as it answers: each client puts a message, reserves one, deletes it, and begins anew.
//!
//! ```text
//! drive ADDRESS CLIENTS SECONDS [BODY-BYTES [WAITING]]
//! ```
//!
//! With WAITING, so many messages are put first and stay. Prints one line of JSON. `bench/broker.py` compares servers with it.

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a tool of the benchmark: it ends where something is wrong"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream as Blocking};
use std::time::{Duration, Instant};

use krarup_net::mio::net::TcpStream;
use krarup_net::mio::{Events, Interest, Poll, Token};

/// Clients share so many tubes.
const TUBES: usize = 100;
/// What is not counted, at the beginning.
const WARM_UP: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Put,
    Reserve,
    Delete,
}

struct Client {
    stream: TcpStream,
    inbox: Vec<u8>,
    stage: Stage,
    sent: Instant,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |place: usize, otherwise: usize| arguments.get(place).map_or(otherwise, |text| text.parse().unwrap());
    let address: SocketAddr = arguments[0].parse().unwrap();
    let (clients, seconds) = (number(1, 10), number(2, 5));
    let body = "x".repeat(number(3, 200));
    let put = format!("put 1024 0 120 {}\r\n{body}\r\n", body.len()).into_bytes();
    lay_down(address, number(4, 0), &put);
    drive(address, clients, Duration::from_secs(seconds as u64), &put);
}

/// Puts messages that stay, many at a time.
fn lay_down(address: SocketAddr, messages: usize, put: &[u8]) {
    const AT_ONCE: usize = 500;
    let stream = Blocking::connect(address).unwrap();
    let (mut answers, mut stream) = (BufReader::new(stream.try_clone().unwrap()), stream);
    let mut line = String::new();
    let mut done = 0;
    while done < messages {
        let some = AT_ONCE.min(messages - done);
        stream.write_all(format!("use t{}\r\n", done / AT_ONCE % TUBES).as_bytes()).unwrap();
        stream.write_all(&put.repeat(some)).unwrap();
        for _ in 0..=some {
            line.clear();
            answers.read_line(&mut line).unwrap();
            assert!(line.starts_with("INSERTED") || line.starts_with("USING"), "{line}");
        }
        done += some;
    }
}

fn drive(address: SocketAddr, clients: usize, length: Duration, put: &[u8]) {
    let mut poll = Poll::new().unwrap();
    let mut all: Vec<Client> = (0..clients).map(|place| connect(address, place, &poll)).collect();
    let begun = Instant::now();
    for client in &mut all {
        send(client, put);
    }
    let mut events = Events::with_capacity(1_024);
    let (mut requests, mut messages, mut times) = (0_u64, 0_u64, Vec::new());
    let mut room = vec![0; 64 << 10];
    while begun.elapsed() < WARM_UP + length {
        poll.poll(&mut events, Some(Duration::from_millis(100))).unwrap();
        for event in &events {
            let client = &mut all[event.token().0];
            while let Ok(count) = client.stream.read(&mut room) {
                assert!(count > 0, "the server closed the connection");
                client.inbox.extend_from_slice(&room[..count]);
            }
            while let Some(id) = take_answer(client) {
                let now = Instant::now();
                let counts = now - begun >= WARM_UP;
                requests += u64::from(counts);
                match client.stage {
                    Stage::Put => {
                        if counts {
                            times.push(now - client.sent);
                        }
                        client.stage = Stage::Reserve;
                        send(client, b"reserve\r\n");
                    }
                    Stage::Reserve => {
                        client.stage = Stage::Delete;
                        send(client, format!("delete {id}\r\n").as_bytes());
                    }
                    Stage::Delete => {
                        messages += u64::from(counts);
                        client.stage = Stage::Put;
                        send(client, put);
                    }
                }
            }
        }
    }
    let measured = (begun.elapsed() - WARM_UP).as_secs_f64();
    times.sort_unstable();
    let quantile = |share: f64| {
        times.get((times.len() as f64 * share) as usize).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    println!(
        "{{\"requests_per_second\": {:.0}, \"messages_per_second\": {:.0}, \"put_p50_ms\": {:.3}, \"put_p99_ms\": {:.3}}}",
        requests as f64 / measured,
        messages as f64 / measured,
        quantile(0.5),
        quantile(0.99),
    );
}

fn connect(address: SocketAddr, place: usize, poll: &Poll) -> Client {
    let mut stream = Blocking::connect(address).unwrap();
    stream.set_nodelay(true).unwrap();
    let tube = place % TUBES;
    stream.write_all(format!("use t{tube}\r\nwatch t{tube}\r\nignore default\r\n").as_bytes()).unwrap();
    let mut answers = BufReader::new(stream.try_clone().unwrap());
    let mut line = String::new();
    for _ in 0..3 {
        answers.read_line(&mut line).unwrap();
    }
    stream.set_nonblocking(true).unwrap();
    let mut stream = TcpStream::from_std(stream);
    poll.registry().register(&mut stream, Token(place), Interest::READABLE).unwrap();
    Client { stream, inbox: Vec::new(), stage: Stage::Put, sent: Instant::now() }
}

fn send(client: &mut Client, bytes: &[u8]) {
    client.sent = Instant::now();
    // A request is small beside an empty socket's room.
    assert_eq!(client.stream.write(bytes).unwrap(), bytes.len());
}

/// The number in the answer at the front, if it is whole; zero where it has none.
fn take_answer(client: &mut Client) -> Option<u64> {
    let end = client.inbox.windows(2).position(|two| two == b"\r\n")?;
    let line = std::str::from_utf8(&client.inbox[..end]).unwrap();
    let mut words = line.split(' ');
    let (word, id) = (words.next(), words.next().and_then(|id| id.parse().ok()).unwrap_or(0));
    let used = match (word, client.stage) {
        (Some("RESERVED"), Stage::Reserve) => end + 2 + words.next()?.parse::<usize>().ok()? + 2,
        (Some("INSERTED"), Stage::Put) | (Some("DELETED"), Stage::Delete) => end + 2,
        _ => panic!("{line}"),
    };
    if client.inbox.len() < used {
        return None;
    }
    client.inbox.drain(..used);
    Some(id)
}
