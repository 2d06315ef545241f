//! The textbook's queue server, to measure against: clients over TCP, one queue of requests, a pool
//! of connections to the database, one statement for each request. It knows `use`, `watch`,
//! `ignore`, `put`, `reserve` and `delete` of beanstalkd's protocol, and promises nothing that a
//! benchmark does not need: no answer is resolved after a broken connection, nothing is bounded,
//! and no client waits for a message.
//!
//! ```text
//! pool ADDRESS DATABASE CONNECTIONS
//! ```
//! The table is that of `bench/broker.py`, which compares with it:
//! `pool (id, tube, pri, vt, body)`.

#![allow(clippy::unwrap_used, reason = "a tool of the benchmark: it ends where something is wrong")]

use std::cell::RefCell;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::rc::Rc;

use krarup_beanstalk::{ReplyWord, Request, request, write};
use krarup_units::Parsed;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::{LocalSet, spawn_local};
use tokio_postgres::{Client, NoTls, Statement};

const PUT: &str = "INSERT INTO pool (tube, pri, body) VALUES ($1, $2, $3) RETURNING id";
const RESERVE: &str = "UPDATE pool SET vt = now() + interval '120 s' WHERE id = (SELECT id FROM pool WHERE tube = $1 AND vt <= now() \
                       ORDER BY pri, id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id, body";
const DELETE: &str = "DELETE FROM pool WHERE id = $1";

/// A connection to the database, its statements prepared.
struct Session {
    client: Client,
    put: Statement,
    reserve: Statement,
    delete: Statement,
}

struct Pool {
    free: RefCell<Vec<Session>>,
    permits: Semaphore,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [address, database, connections] = &arguments[..] else {
        panic!("pool ADDRESS DATABASE CONNECTIONS")
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    LocalSet::new()
        .block_on(&runtime, serve(address.parse().unwrap(), database, connections.parse().unwrap()));
}

async fn serve(address: SocketAddr, database: &str, connections: usize) {
    let mut sessions = Vec::new();
    for _ in 0..connections {
        let (client, connection) = tokio_postgres::connect(database, NoTls).await.unwrap();
        spawn_local(connection);
        let put = client.prepare(PUT).await.unwrap();
        let reserve = client.prepare(RESERVE).await.unwrap();
        let delete = client.prepare(DELETE).await.unwrap();
        sessions.push(Session { client, put, reserve, delete });
    }
    let pool = Rc::new(Pool { free: RefCell::new(sessions), permits: Semaphore::new(connections) });
    let listener = TcpListener::bind(address).await.unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        spawn_local(attend(stream, Rc::clone(&pool)));
    }
}

/// Answers a client's requests one after the other, until it hangs up.
async fn attend(stream: TcpStream, pool: Rc<Pool>) {
    let (mut inbox, mut room, mut tube) = (Vec::new(), vec![0; 16 << 10], 0);
    loop {
        while let Parsed::Complete { message, used } = request::parse(&inbox, u32::MAX) {
            let mut answer = Vec::new();
            match message {
                Request::Use(name) | Request::Watch(name) => {
                    tube = name.trim_start_matches('t').parse().unwrap_or(0);
                    match message {
                        Request::Use(_) => write::using(&mut answer, name),
                        _ => write::numbered(&mut answer, ReplyWord::Watching, 1),
                    }
                }
                Request::Ignore(_) => write::numbered(&mut answer, ReplyWord::Watching, 1),
                _ => ask(&pool, &message, tube, &mut answer).await,
            }
            inbox.drain(..used);
            if !say(&stream, &answer).await {
                return;
            }
        }
        if stream.readable().await.is_err() {
            return;
        }
        match stream.try_read(&mut room) {
            Ok(0) => return,
            Ok(count) => inbox.extend_from_slice(&room[..count]),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return,
        }
    }
}

/// One statement on one connection of the pool.
async fn ask(pool: &Pool, request: &Request<'_>, tube: i32, answer: &mut Vec<u8>) {
    let _permit = pool.permits.acquire().await.unwrap();
    let session = pool.free.borrow_mut().pop().unwrap();
    let Session { client, put: put_one, reserve, delete } = &session;
    match request {
        Request::Put(put) => {
            let row = client.query_one(put_one, &[&tube, &i64::from(put.priority), &put.body]).await.unwrap();
            write::numbered(answer, ReplyWord::Inserted, row.get::<_, i64>(0) as u64);
        }
        Request::Reserve => match client.query_opt(reserve, &[&tube]).await.unwrap() {
            Some(row) => {
                let (id, body) = (row.get::<_, i64>(0), row.get::<_, &[u8]>(1));
                write::message(answer, ReplyWord::Reserved, id as u64, None, body);
            }
            None => write::line(answer, ReplyWord::TimedOut),
        },
        Request::Delete(id) => {
            let gone = client.execute(delete, &[&(*id as i64)]).await.unwrap();
            write::line(answer, if gone == 1 { ReplyWord::Deleted } else { ReplyWord::NotFound });
        }
        _ => write::line(answer, ReplyWord::UnknownCommand),
    }
    pool.free.borrow_mut().push(session);
}

async fn say(stream: &TcpStream, answer: &[u8]) -> bool {
    let mut said = 0;
    while said < answer.len() {
        if stream.writable().await.is_err() {
            return false;
        }
        match stream.try_write(&answer[said..]) {
            Ok(count) => said += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(_) => return false,
        }
    }
    true
}
