//! One client, and owners as a script moves them.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc;

use krarup_broker::broker::MOST_UNSENT;
use krarup_net::listen;
use krarup_net::tls::{Acceptor, TlsIdentity};
use krarup_units::Nanos;

use super::*;
use krarup_store::owners::ShardOwner;

const TOO_LONG: Duration = Duration::from_secs(60);

/// An owner that says what it is told to.
struct Played(TcpListener);

impl Played {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // Waiting for a connection has its limit as well.
        socket2::SockRef::from(&listener).set_read_timeout(Some(TOO_LONG)).unwrap();
        Self(listener)
    }

    fn at(&self, epoch: i64) -> Option<ShardOwner> {
        let address: Address = self.0.local_addr().unwrap().into();
        Some(ShardOwner { epoch, address: address.clone(), memcached: Some(address) })
    }

    fn accept(&self) -> Line {
        Line::of(self.0.accept().unwrap().0)
    }
}

struct Line(TcpStream);

impl Line {
    fn of(stream: TcpStream) -> Self {
        stream.set_read_timeout(Some(TOO_LONG)).unwrap();
        Self(stream)
    }

    fn say(&mut self, said: &str) {
        self.0.write_all(said.as_bytes()).unwrap();
    }

    fn line(&mut self) -> String {
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            let mut byte = [0];
            assert_eq!(self.0.read(&mut byte).unwrap(), 1, "the end after {line:?}");
            line.push(byte[0]);
        }
        String::from_utf8(line).unwrap()
    }

    fn hears(&mut self, expected: &str) {
        let mut heard = vec![0; expected.len()];
        let read = self.0.read_exact(&mut heard);
        assert!(read.is_ok() && heard == expected.as_bytes(), "{}", String::from_utf8_lossy(&heard));
    }

    /// What it hears up to the end. A reset is an end as well.
    fn rest(&mut self) -> String {
        let mut rest = Vec::new();
        if let Err(error) = self.0.read_to_end(&mut rest) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "no end after {rest:?}");
        }
        String::from_utf8(rest).unwrap()
    }
}

fn settings() -> FrontSettings {
    FrontSettings {
        largest: 1 << 30,
        secret: None,
        connections: 10,
        connected: Arc::default(),
        tls: None,
        idle: Nanos::ZERO,
        handshake: Nanos::ZERO,
    }
}

fn front(protocol: Protocol, shards: u32) -> (Front, Arc<Owners>) {
    front_with(protocol, shards, settings())
}

fn front_with(protocol: Protocol, shards: u32, settings: FrontSettings) -> (Front, Arc<Owners>) {
    let owners = Arc::new(Owners::unknown(shards));
    let door = listen::listen_with(&"127.0.0.1:0".parse().unwrap(), listen::Options::default()).unwrap();
    let front = Front::begin(door, protocol, settings, Arc::clone(&owners), || Stamp(0), |_| {});
    (front.unwrap(), owners)
}

/// Before one shard that has its owner.
fn front_of_one(protocol: Protocol, settings: FrontSettings) -> (Front, Arc<Owners>, Played) {
    let (front, owners) = front_with(protocol, 1, settings);
    let owner = Played::new();
    owners.set(0, owner.at(1));
    (front, owners, owner)
}

/// Before two shards, each of which has its owner.
fn front_of_two(settings: FrontSettings) -> (Front, [Played; 2]) {
    let (front, owners) = front_with(Protocol::Beanstalkd, 2, settings);
    let played = [Played::new(), Played::new()];
    (0..2).for_each(|shard| owners.set(shard, played[shard as usize].at(1)));
    (front, played)
}

/// A name of this shard of two.
fn name_of(shard: u32) -> String {
    let mut names = (0..).map(|n| format!("t{n}"));
    names.find(|name| krarup_broker::shards::shard_of(name, 2) == shard).unwrap()
}

fn client(of: &Front) -> Line {
    Line::of(TcpStream::connect(krarup_net::resolve(&of.address).unwrap()[0]).unwrap())
}

/// More than any socket takes on its own.
const LARGE: usize = 64 << 20;

#[test]
fn a_client_that_waits_for_an_owner_that_hangs_goes_on_when_another_takes_over() {
    let (front, owners) = front(Protocol::Beanstalkd, 1);
    let (hangs, next) = (Played::new(), Played::new());
    owners.set(0, hangs.at(1));
    let mut it = client(&front);
    let writes = it.0.try_clone().unwrap();
    let body = thread::spawn(move || {
        let mut writes = writes;
        let put =
            [format!("put 1 0 60 {LARGE}\r\n").into_bytes(), vec![b'x'; LARGE], b"\r\n".to_vec()].concat();
        writes.write_all(&put).unwrap();
    });
    // It accepts, and hears nothing.
    let _line = hangs.accept();
    body.join().unwrap();
    owners.set(0, next.at(2));
    // It is not known whether that put was carried out.
    assert_eq!(it.rest(), "");
    // What may be asked twice is asked of the next.
    let mut it = client(&front);
    it.say("peek 5\r\n");
    let mut line = next.accept();
    line.hears("peek 5\r\n");
    line.say("FOUND 5 1\r\nx\r\n");
    it.hears("FOUND 5 1\r\nx\r\n");
}

#[test]
fn an_owner_that_takes_nothing_for_too_long_counts_as_ended() {
    let owners = Arc::new(Owners::unknown(1));
    let inner = Inner::new(Protocol::Beanstalkd, settings(), Arc::clone(&owners)).unwrap();
    let hangs = Played::new();
    owners.set(0, hangs.at(1));
    let mut owner =
        owner_connection::OwnerConnection::connect(owners.of(0).unwrap(), Protocol::Beanstalkd).unwrap();
    let sent = owner.send_within(&inner, 0, &vec![0; LARGE], Duration::from_millis(1));
    assert_eq!(sent, Err(owner_connection::NoReply::Unknown));
}

#[test]
fn a_client_that_is_silent_for_too_long_hears_the_end() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/certificates");
    let identity = TlsIdentity { certificate: folder.join("proxy.pem"), key: folder.join("proxy.key") };
    let tls = Some(Acceptor::new(&identity, None).unwrap());
    let soon = Nanos::from_millis(1);
    let greets_never = FrontSettings { tls, handshake: soon, ..settings() };
    for limited in [greets_never, FrontSettings { idle: soon, ..settings() }] {
        let (front, _) = front_with(Protocol::Beanstalkd, 1, limited);
        assert!(client(&front).0.read_to_end(&mut Vec::new()).is_ok());
    }
}

#[test]
fn the_operator_is_told_of_clients_that_are_turned_away_and_not_of_each() {
    let door = listen::listen_with(&"127.0.0.1:0".parse().unwrap(), listen::Options::default()).unwrap();
    let only_one = FrontSettings { connections: 1, ..settings() };
    let (clock, owners) = (Arc::new(AtomicU64::new(0)), Arc::new(Owners::unknown(1)));
    let (its, (tell, told)) = (Arc::clone(&clock), mpsc::channel());
    let now = move || Stamp(its.load(Ordering::SeqCst));
    let tell = move |why: String| tell.send(why).unwrap();
    let front = Front::begin(door, Protocol::Beanstalkd, only_one, owners, now, tell).unwrap();
    let _served = client(&front);
    let turned_away = || assert_eq!(client(&front).rest(), "");
    (0..3).for_each(|_| turned_away());
    let why = told.try_recv().unwrap();
    assert!(why.contains("1 are connected, as many as may be"), "{why}");
    assert!(told.try_recv().is_err(), "told twice");
    clock.store(Nanos::from_secs(60).0, Ordering::SeqCst);
    turned_away();
    turned_away();
    assert_eq!(told.try_iter().count(), 1);
}

#[test]
fn both_protocols_have_one_bound_on_clients() {
    let only_one = FrontSettings { connections: 1, ..settings() };
    let (first, _) = front_with(Protocol::Beanstalkd, 1, only_one.clone());
    let (second, _) = front_with(Protocol::Memcached, 1, only_one);
    let mut served = client(&first);
    served.say("ping\r\n");
    served.hears("PONG\r\n");
    assert_eq!(client(&second).rest(), "");
}

#[test]
fn long_answers_leave_before_more_is_asked() {
    let body = "x".repeat(MOST_UNSENT);
    for (protocol, asked, told, end) in [
        (Protocol::Beanstalkd, ["peek 1\r\n", "peek 2\r\n"], "FOUND 1", ""),
        (Protocol::Memcached, ["get a\r\n", "get b\r\n"], "VALUE a 0", "END\r\n"),
    ] {
        let told = format!("{told} {MOST_UNSENT}\r\n{body}\r\n{end}");
        let (front, _, owner) = front_of_one(protocol, settings());
        let mut it = client(&front);
        it.say(&asked.concat());
        let mut line = owner.accept();
        line.hears(asked[0]);
        line.say(&told);
        it.hears(&told);
        line.hears(asked[1]);
    }
}

#[test]
fn a_client_that_waits_for_a_message_goes_on_waiting_where_its_shard_moves_to() {
    let (front, owners) = front(Protocol::Memcached, 1);
    let (one, next) = (Played::new(), Played::new());
    owners.set(0, one.at(1));
    let mut it = client(&front);
    it.say("set q 0 0 1\r\nx\r\ngets q/t=3600000\r\n");
    let mut line = one.accept();
    line.hears("set q 0 0 1\r\nx\r\n");
    line.say("STORED\r\n");
    // What it was answered it need not wait for.
    it.hears("STORED\r\n");
    line.hears("gets q/t=3600000\r\n");
    owners.set(0, next.at(2));
    line.say("END\r\nMOVED\r\n");
    drop(line);
    let mut line = next.accept();
    let asked = line.line();
    let left: u64 = asked.strip_prefix("gets q/t=").unwrap().trim_end().parse().unwrap();
    assert!(left > 3_000_000 && left <= 3_600_000, "{left}");
    // It is killed: what is popped may be lost with it, and it must hear of that.
    line.say("VALUE q/t=7 5 1 9\r\nx\r\nEND\r\n");
    it.hears("VALUE q/t=3600000 5 1 9\r\nx\r\nEND\r\n");
    it.say("get q/t=3600000\r\n");
    line.line();
    owners.set(0, None);
    drop(line);
    assert_eq!(it.rest(), "");
}

/// A broker is killed: what its clients ask of it later it cannot have carried out.
#[test]
fn an_owner_that_has_left_before_it_was_asked_has_done_nothing() {
    let opened = "VALUE q/open 0 1\r\nx\r\nEND\r\n";
    for (protocol, put, stored, take, taken) in [
        (
            Protocol::Beanstalkd,
            "put 1 0 60 1\r\nx\r\n",
            "INSERTED 1\r\n",
            "reserve-with-timeout 0\r\n",
            "RESERVED 1 1\r\nx\r\n",
        ),
        (Protocol::Memcached, "set q 0 0 1\r\nx\r\n", "STORED\r\n", "get q/open\r\n", opened),
    ] {
        let (front, owners) = front(protocol, 1);
        let (killed, next) = (Played::new(), Played::new());
        owners.set(0, killed.at(1));
        let mut it = client(&front);
        it.say(put);
        let mut line = killed.accept();
        line.hears(put);
        line.say(stored);
        it.hears(stored);
        drop(line);
        owners.set(0, None);
        it.say(put);
        owners.set(0, next.at(2));
        let mut line = next.accept();
        line.hears(put);
        line.say(stored);
        it.hears(stored);
        // What it holds there is its no more, and it must hear of that.
        it.say(take);
        line.hears(take);
        line.say(taken);
        it.hears(taken);
        drop(line);
        it.say(put);
        assert_eq!(it.rest(), "");
    }
}

#[test]
fn a_client_that_hangs_up_behind_its_requests_keeps_what_it_takes() {
    let value = |key: &str| format!("VALUE {key} 0 1\r\nx\r\nEND\r\n");
    let (own, owners_key) = (value("q/t=9/open"), value("q/t=0/open"));
    let reserve = "reserve-with-timeout 0\r\n";
    let reserved = "RESERVED 1 1\r\nx\r\n";
    let of_beanstalkd = [
        ("peek 1\r\n", "peek 1\r\n", "NOT_FOUND\r\n", "NOT_FOUND\r\n"),
        ("reserve\r\n", reserve, reserved, reserved),
        ("reserve-with-timeout 5\r\n", reserve, "TIMED_OUT\r\n", "TIMED_OUT\r\n"),
        ("bury 1 0\r\n", "bury 1 0\r\n", "BURIED\r\n", "BURIED\r\n"),
    ];
    let of_memcached = [
        ("get q/peek\r\n", "get q/peek\r\n", "END\r\n", "END\r\n"),
        ("get q/t=9/open\r\n", "get q/t=0/open\r\n", &*owners_key, &*own),
        ("get p/t=9\r\n", "get p/t=0\r\n", "END\r\n", "END\r\n"),
        ("get q/close\r\n", "get q/close\r\n", "END\r\n", "END\r\n"),
    ];
    let dialogues = [(Protocol::Beanstalkd, of_beanstalkd), (Protocol::Memcached, of_memcached)];
    for (protocol, dialogue) in dialogues {
        let (front, _, owner) = front_of_one(protocol, settings());
        let mut it = client(&front);
        it.say(&dialogue.map(|(said, ..)| said).concat());
        let mut line = owner.accept();
        it.0.shutdown(Shutdown::Write).unwrap();
        // The same connection hears all of it: with another what it holds would end.
        for (_, asked, answer, _) in dialogue {
            line.hears(asked);
            line.say(answer);
        }
        assert_eq!(it.rest(), dialogue.map(|(.., told)| told).concat());
    }
}

/// Its wait ends with the connection to the owner, and with that what it was given: to say that it
/// has closed it would be untrue.
#[test]
fn what_is_taken_for_a_client_that_hangs_up_while_it_waits_is_not_closed() {
    let (front, _, owner) = front_of_one(Protocol::Memcached, settings());
    let mut it = client(&front);
    it.say("get q/t=3600000/open\r\nget q/close\r\n");
    let mut line = owner.accept();
    line.hears("get q/t=3600000/open\r\n");
    it.0.shutdown(Shutdown::Write).unwrap();
    assert_eq!(line.rest(), "");
    line.say("VALUE q/t=3600000/open 0 1\r\nx\r\nEND\r\n");
    assert_eq!(it.rest(), "VALUE q/t=3600000/open 0 1\r\nx\r\nEND\r\n");
}

#[test]
fn what_is_answered_waits_for_no_shard_without_an_owner() {
    for (protocol, put, stored) in [
        (Protocol::Beanstalkd, "put-in-tube TUBE 1 0 60 1\r\nx\r\n", "INSERTED 2\r\n"),
        (Protocol::Memcached, "set TUBE 0 0 1\r\nx\r\n", "STORED\r\n"),
    ] {
        let (front, owners) = front(protocol, 2);
        let played = [Played::new(), Played::new()];
        owners.set(0, played[0].at(1));
        let puts = [0, 1].map(|shard| put.replace("TUBE", &name_of(shard)));
        let mut it = client(&front);
        it.say(&puts.concat());
        for shard in 0..2 {
            owners.set(shard, played[shard as usize].at(1));
            let mut line = played[shard as usize].accept();
            line.hears(&puts[shard as usize]);
            line.say(stored);
            it.hears(stored);
        }
    }
}

#[test]
fn the_binary_protocol_is_refused_in_its_own_form() {
    let (front, _) = front(Protocol::Memcached, 1);
    let mut it = client(&front);
    let mut asked = [0; 24];
    (asked[0], asked[1]) = (0x80, 0x0a);
    asked[12..16].copy_from_slice(b"opaq");
    it.0.write_all(&asked).unwrap();
    let mut answer = Vec::new();
    it.0.read_to_end(&mut answer).unwrap();
    assert_eq!(answer[..8], [0x81, 0x0a, 0, 0, 0, 0, 0, 0x81]);
    assert_eq!((&answer[12..16], answer.len()), (&b"opaq"[..], 24 + usize::from(answer[11])));
}

#[test]
fn a_get_of_which_one_key_pops_is_not_carried_out_twice() {
    let (front, owners, owner) = front_of_one(Protocol::Memcached, settings());
    let mut it = client(&front);
    it.say("get q/peek q\r\n");
    let mut line = owner.accept();
    line.hears("get q/peek q\r\n");
    // What it popped may be lost with it: the client must hear of that.
    owners.set(0, None);
    drop(line);
    assert_eq!(it.rest(), "");
}

#[test]
fn a_client_that_opens_a_message_and_waits_for_it_has_closed_another_once() {
    let (front, owners) = front(Protocol::Memcached, 1);
    let (one, next) = (Played::new(), Played::new());
    owners.set(0, one.at(1));
    let mut it = client(&front);
    it.say("get q/open\r\nget q/close/open/t=3600000\r\n");
    let mut line = one.accept();
    line.hears("get q/open\r\n");
    line.say("VALUE q/open 0 1\r\nx\r\nEND\r\n");
    line.hears("get q/close/open/t=3600000\r\n");
    owners.set(0, next.at(2));
    line.say("END\r\nMOVED\r\n");
    it.hears("VALUE q/open 0 1\r\nx\r\nEND\r\n");
    let mut line = next.accept();
    assert!(line.line().starts_with("get q/open/t=3"));
    // It holds nothing: where this owner is killed, another is asked.
    let third = Played::new();
    owners.set(0, third.at(3));
    drop(line);
    let mut line = third.accept();
    assert!(line.line().starts_with("get q/open/t=3"));
    line.say("VALUE q/open/t=1 0 1\r\ny\r\nEND\r\n");
    it.hears("VALUE q/close/open/t=3600000 0 1\r\ny\r\nEND\r\n");
    // Who holds something may be told END early, for its time may be nearly over.
    it.say("get p/t=3600000\r\n");
    line.hears("get p/t=3600000\r\n");
    line.say("END\r\n");
    it.hears("END\r\n");
}

fn with_secret() -> FrontSettings {
    FrontSettings { secret: Some("hush".to_owned()), ..settings() }
}

#[test]
fn a_login_without_an_answer_is_one_however_its_line_is_written() {
    for end in ["\r\n", " \r\n", "\n"] {
        let (front, _, owner) = front_of_one(Protocol::Memcached, with_secret());
        let mut it = client(&front);
        it.say(&format!("set a 0 0 6 noreply{end}x hush\r\nversion\r\n"));
        let mut line = owner.accept();
        line.hears("set a 0 0 6\r\nx hush\r\n");
        line.say("STORED\r\n");
        line.hears("version\r\n");
        line.say("VERSION 1\r\n");
        it.hears("VERSION 1\r\n");
    }
}

#[test]
fn before_the_login_each_request_is_refused_in_its_place() {
    let (front, _, owner) = front_of_one(Protocol::Memcached, with_secret());
    let mut it = client(&front);
    let requests = ["verbosity 1 noreply", "delete q noreply", "stats", "get q", "flush q"];
    requests.iter().for_each(|request| it.say(&format!("{request}\r\n")));
    it.say("set a 0 0 6\r\nx hush\r\n");
    let mut line = owner.accept();
    // It hears of nothing but the login.
    line.hears("set a 0 0 6\r\nx hush\r\n");
    line.say("STORED\r\n");
    it.hears(&"CLIENT_ERROR unauthenticated\r\n".repeat(requests.len()));
    it.hears("STORED\r\n");
    // An owner's refusal is told as it is.
    it.say("stats\r\n");
    line.hears("stats\r\n");
    line.say("SERVER_ERROR internal error\r\n");
    it.hears("SERVER_ERROR internal error\r\n");
}

#[test]
fn before_the_login_nothing_large_is_kept() {
    for (protocol, begun, told) in [
        (Protocol::Beanstalkd, "put-batch 1 0 60 4194302\r\n", "NOT_LOGGED_IN\r\n"),
        (Protocol::Beanstalkd, "put 1 0 60 4194304\r\n", "NOT_LOGGED_IN\r\n"),
        (Protocol::Memcached, "set q 0 0 4194304\r\n", "CLIENT_ERROR unauthenticated\r\n"),
    ] {
        let (front, _) = front_with(protocol, 1, with_secret());
        let mut it = client(&front);
        it.say(begun);
        assert_eq!(it.rest(), told, "{begun}");
    }
}

/// What is not read would reset the connection before it has heard why.
#[test]
fn a_client_that_is_refused_may_send_all_that_it_has_begun() {
    for (protocol, begun, refusal) in [
        (Protocol::Beanstalkd, "put 1 0 60 4194304\r\n", "NOT_LOGGED_IN\r\n"),
        (Protocol::Memcached, "set q 0 0 4194304\r\n", "CLIENT_ERROR unauthenticated\r\n"),
    ] {
        let (front, _) = front_with(protocol, 1, with_secret());
        let mut it = client(&front);
        // Its socket holds little of that.
        socket2::SockRef::from(&it.0).set_send_buffer_size(256 << 10).unwrap();
        it.say(&format!("{begun}{}\r\n", "x".repeat(4 << 20)));
        let mut heard = String::new();
        it.0.read_to_string(&mut heard).unwrap();
        assert_eq!(heard, refusal);
    }
}

#[test]
fn a_third_wrong_secret_is_the_last_request() {
    for (protocol, login, told) in [
        (Protocol::Beanstalkd, "login x wrong\r\n", "NOT_LOGGED_IN\r\n"),
        (Protocol::Memcached, "set a 0 0 7\r\nx wrong\r\n", "CLIENT_ERROR authentication failure\r\n"),
    ] {
        let (front, _, owner) = front_of_one(protocol, with_secret());
        let mut it = client(&front);
        it.say(&login.repeat(3));
        let mut line = owner.accept();
        for _ in 0..3 {
            line.hears(login);
            line.say(told);
        }
        assert_eq!(it.rest(), told.repeat(3));
    }
}

#[test]
fn a_message_whose_time_had_run_out_when_it_was_closed_is_not_open() {
    let (front, owners) = front(Protocol::Memcached, 1);
    let (one, next) = (Played::new(), Played::new());
    owners.set(0, one.at(1));
    let mut it = client(&front);
    it.say("get q/open\r\n");
    let mut line = one.accept();
    line.hears("get q/open\r\n");
    line.say("VALUE q/open 0 1\r\nx\r\nEND\r\n");
    it.hears("VALUE q/open 0 1\r\nx\r\nEND\r\n");
    it.say("get q/close\r\n");
    line.hears("get q/close\r\n");
    line.say("CLIENT_ERROR the reservation had run out\r\n");
    it.hears("CLIENT_ERROR the reservation had run out\r\n");
    // It holds nothing: where the shard moves it stays.
    owners.set(0, next.at(2));
    it.say("get q\r\n");
    let mut line = next.accept();
    line.hears("get q\r\n");
    line.say("END\r\n");
    it.hears("END\r\n");
}

/// Serves a client that has said this before it is served, so that it cannot be idle before.
fn client_that_says(said: &str, of: &Front) -> Line {
    let entrance = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut it = Line::of(TcpStream::connect(entrance.local_addr().unwrap()).unwrap());
    it.say(said);
    let served = entrance.accept().unwrap().0;
    served.set_nonblocking(true).unwrap();
    let stream = Stream::Tcp(krarup_net::mio::net::TcpStream::from_std(served));
    serve(stream, 1, &of.inner).unwrap();
    it
}

#[test]
fn a_client_may_be_silent_as_long_as_it_holds_a_message() {
    let idle = Nanos::from_millis(1);
    let states = ["reserved", "reserved", "ready"].map(|state| {
        let text = format!("---\nid: 5\nstate: {state}\n");
        format!("OK {}\r\n{text}\r\n", text.len())
    });
    // An owner of an older build does not say it.
    let open = ["pid 1", "open 1", "open 0"].map(|line| format!("STAT {line}\r\nEND\r\n"));
    let opened = "VALUE q/open 0 1\r\nx\r\nEND\r\n";
    for (protocol, take, taken, asked, answers) in [
        (
            Protocol::Beanstalkd,
            "reserve-with-timeout 0\r\n",
            "RESERVED 5 1\r\nx\r\n",
            "stats-job 5\r\n",
            states,
        ),
        (Protocol::Memcached, "get q/open\r\n", opened, "stats open\r\n", open),
    ] {
        let (front, _, owner) = front_of_one(protocol, FrontSettings { idle, ..settings() });
        let mut it = client_that_says(take, &front);
        let mut line = owner.accept();
        line.hears(take);
        line.say(taken);
        it.hears(taken);
        for answer in answers {
            line.hears(asked);
            line.say(&answer);
        }
        // Its time has run out, and nothing was heard of it.
        assert_eq!(it.rest(), "");
    }
}

/// Answers a client that takes messages and never deletes them; those below `held` are still its.
/// How often it was asked about one.
fn gives_and_forgets(mut line: Line, held: u64) -> JoinHandle<usize> {
    thread::spawn(move || {
        let (mut next, mut asked) = (0, 0);
        loop {
            let mut byte = [0];
            if line.0.peek(&mut byte).unwrap() == 0 {
                return asked;
            }
            let said = line.line();
            if let Some(id) = said.strip_prefix("stats-job ") {
                asked += 1;
                let state = if id.trim_end().parse::<u64>().unwrap() < held { "reserved" } else { "ready" };
                let text = format!("---\nid: 1\nstate: {state}\npri: 1\n");
                line.say(&format!("OK {}\r\n{text}\r\n", text.len()));
            } else {
                assert_eq!(said, "reserve-with-timeout 0\r\n");
                line.say(&format!("RESERVED {next} 1\r\nx\r\n"));
                next += 1;
            }
        }
    })
}

#[test]
fn messages_whose_time_has_run_out_are_forgotten() {
    let (front, owners) = front(Protocol::Beanstalkd, 1);
    let (owner, next) = (Played::new(), Played::new());
    owners.set(0, owner.at(1));
    let mut it = client(&front);
    let reserve = |it: &mut Line, ids: std::ops::Range<u64>| {
        for id in ids {
            it.say("reserve-with-timeout 0\r\n");
            it.hears(&format!("RESERVED {id} 1\r\nx\r\n"));
        }
    };
    it.say("reserve-with-timeout 0\r\n");
    let gives = gives_and_forgets(owner.accept(), 0);
    it.hears("RESERVED 0 1\r\nx\r\n");
    reserve(&mut it, 1..1_000);
    // It holds none of them: where the shard moves it stays.
    owners.set(0, next.at(2));
    it.say("reserve-with-timeout 0\r\n");
    assert_eq!(gives.join().unwrap(), 1_000);
    let gives = gives_and_forgets(next.accept(), 900);
    it.hears("RESERVED 0 1\r\nx\r\n");
    // 900 of a thousand are its: it is asked again when there are twice as many.
    reserve(&mut it, 1..1_900);
    owners.set(0, owner.at(3));
    it.say("reserve-with-timeout 0\r\n");
    // It holds some of them.
    assert_eq!(it.rest(), "");
    assert_eq!(gives.join().unwrap(), 1_000 + 1_800);
}

#[test]
fn a_front_that_goes_leaves_neither_a_door_nor_a_client_behind() {
    let (mut front, owners) = front(Protocol::Beanstalkd, 2);
    let owner = Played::new();
    owners.set(0, owner.at(1));
    let address = krarup_net::resolve(&front.address).unwrap()[0];
    let inner = Arc::downgrade(&front.inner);
    let (mut waits, mut quiet) = (client(&front), client(&front));
    quiet.say("ping\r\n");
    quiet.hears("PONG\r\n");
    // One waits for an answer, one for a shard that no broker owns.
    let mut orphan = client(&front);
    for (it, shard) in [(&mut waits, 0), (&mut orphan, 1)] {
        it.say(&format!("put-in-tube {} 1 0 60 1\r\nx\r\n", name_of(shard)));
    }
    let mut line = owner.accept();
    line.line();
    // And one for a message, of an owner that hangs.
    let mut hopes = client(&front);
    hopes.say(&format!("watch {}\r\nignore default\r\nreserve\r\n", name_of(0)));
    let mut hangs = owner.accept();
    hangs.line();
    // First no broker is heard of any more, then none is waited for.
    front.close();
    assert_eq!(quiet.rest(), "");
    assert!(TcpStream::connect(address).is_err());
    drop(front);
    assert_eq!((waits.rest(), orphan.rest()), (String::new(), String::new()));
    assert_eq!(hopes.rest(), "WATCHING 2\r\nWATCHING 1\r\n");
    assert!(inner.upgrade().is_none_or(|inner| inner.clients().is_empty()));
    let _ = line.0.shutdown(Shutdown::Both);
}

/// Who holds a message of a shard of which it watches nothing hears of its time from there, and is
/// given nothing from there: its owner takes it for watching `default`, which it ignores.
#[test]
fn no_client_is_given_a_message_of_a_tube_that_it_ignores() {
    let (front, played) = front_of_two(settings());
    let home = krarup_broker::shards::shard_of(krarup_beanstalk::DEFAULT_TUBE, 2);
    let (held, watched) = (name_of(home), name_of(1 - home));
    let mut it = client(&front);
    it.say(&format!("watch {held}\r\nwatch {watched}\r\nignore default\r\nreserve-with-timeout 0\r\n"));
    let mut lines = Vec::new();
    for shard in 0..2 {
        let mut line = played[shard as usize].accept();
        let tube = if shard == home { &held } else { &watched };
        line.hears(&format!("watch {tube}\r\nignore default\r\nawait 0\r\n"));
        let found = if shard == home { "READY 1 5" } else { "TIMED_OUT" };
        line.say(&format!("WATCHING 2\r\nWATCHING 1\r\n{found}\r\n"));
        lines.push(line);
    }
    lines[home as usize].hears("reserve-with-timeout 0\r\n");
    lines[home as usize].say("RESERVED 5 1\r\nx\r\n");
    it.hears("WATCHING 2\r\nWATCHING 3\r\nWATCHING 2\r\nRESERVED 5 1\r\nx\r\n");
    it.say(&format!("ignore {held}\r\n"));
    it.hears("WATCHING 1\r\n");
    let first = (format!("watch default\r\nignore {held}\r\n"), "WATCHING 2\r\nWATCHING 1\r\n");
    let second = (String::new(), "");
    // What is ready there hides the owner's warning: it is asked about the message itself.
    for ((asked, answers), left, word) in [(first, 9, "TIMED_OUT"), (second, 0, "DEADLINE_SOON")] {
        it.say("reserve-with-timeout 0\r\n");
        let line = &mut lines[1 - home as usize];
        line.hears("await 0\r\n");
        line.say("TIMED_OUT\r\n");
        let line = &mut lines[home as usize];
        line.hears(&format!("{asked}await 0\r\n"));
        line.say(&format!("{answers}READY 0 7\r\n"));
        line.hears("stats-job 5\r\n");
        let text = format!("---\nid: 5\nstate: reserved\ntime-left: {left}\n");
        line.say(&format!("OK {}\r\n{text}\r\n", text.len()));
        it.hears(&format!("{word}\r\n"));
    }
}

/// Else it would count as one that waits at every owner that had nothing for it.
#[test]
fn a_client_that_has_its_message_waits_at_no_other_owner() {
    let (front, played) = front_of_two(settings());
    let names = [name_of(0), name_of(1)];
    let mut it = client(&front);
    it.say(&format!("watch {}\r\nwatch {}\r\nignore default\r\nreserve\r\n", names[0], names[1]));
    let first = |asked: &str, answer: &str| {
        [0, 1].map(|shard: usize| {
            let mut line = played[shard].accept();
            line.hears(&format!("watch {}\r\nignore default\r\n{asked}\r\n", names[shard]));
            line.say(&format!("WATCHING 2\r\nWATCHING 1\r\n{answer}"));
            line
        })
    };
    // Nothing is there at once, and only then is anything waited for.
    let mut asked = first("await 0", "TIMED_OUT\r\n");
    let mut awaited = first("await 3600", "");
    let mut heard = "WATCHING 2\r\nWATCHING 3\r\nWATCHING 2\r\n".to_owned();
    for number in [5, 7] {
        if number == 7 {
            it.say("reserve\r\n");
            looks(&mut asked, "TIMED_OUT");
            awaited.iter_mut().for_each(|line| line.hears("await 3600\r\n"));
        }
        // Meanwhile a message has come.
        looks(&mut asked, &format!("READY 1 {number}"));
        asked[0].hears("reserve-with-timeout 0\r\n");
        asked[0].say(&format!("RESERVED {number} 1\r\nx\r\n"));
        for line in &mut awaited {
            line.hears("await 0\r\n");
            line.say("TIMED_OUT\r\nTIMED_OUT\r\n");
        }
        heard += &format!("RESERVED {number} 1\r\nx\r\n");
        it.hears(&std::mem::take(&mut heard));
    }
}

/// Two owners are asked what there is, of which the first has this answer.
fn looks(asked: &mut [Line; 2], answer: &str) {
    for (line, answer) in asked.iter_mut().zip([answer, "TIMED_OUT"]) {
        line.hears("await 0\r\n");
        line.say(&format!("{answer}\r\n"));
    }
}

#[test]
fn a_shard_without_an_owner_keeps_no_message_of_another() {
    let (front, owners) = front(Protocol::Beanstalkd, 2);
    let owner = Played::new();
    owners.set(0, owner.at(1));
    let mut it = client(&front);
    let (one, other) = (name_of(0), name_of(1));
    it.say(&format!("watch {one}\r\nwatch {other}\r\nignore default\r\nreserve-with-timeout 0\r\n"));
    let mut line = owner.accept();
    line.hears(&format!("watch {one}\r\nignore default\r\nawait 0\r\n"));
    line.say("WATCHING 2\r\nWATCHING 1\r\nREADY 1 5\r\n");
    line.hears("reserve-with-timeout 0\r\n");
    line.say("RESERVED 5 1\r\nx\r\n");
    it.hears("WATCHING 2\r\nWATCHING 3\r\nWATCHING 2\r\nRESERVED 5 1\r\nx\r\n");
}

#[test]
fn what_one_owner_of_several_could_not_do_is_an_error() {
    const ERROR: &str = "INTERNAL_ERROR\r\n";
    let (front, played) = front_of_two(settings());
    let mut it = client(&front);
    it.say("stats\r\n");
    let mut first = played[0].accept();
    first.hears("stats\r\n");
    first.say("OK 15\r\n---\ncmd-put: 1\n\r\n");
    let mut second = played[1].accept();
    second.hears("stats\r\n");
    second.say(ERROR);
    it.hears(ERROR);
    // The others do it all the same.
    it.say("delete-batch 2 3\r\n");
    first.hears("delete-batch 2\r\n");
    first.say(ERROR);
    second.hears("delete-batch 3\r\n");
    second.say("DELETED 1\r\n");
    it.hears(ERROR);
    // The one whose word counts is asked last.
    let register = format!("register {}\r\n", name_of(0));
    it.say(&register);
    second.hears(&register);
    second.say(ERROR);
    it.hears(ERROR);
    it.say("stats-reset\r\n");
    first.hears("stats-reset\r\n");
    first.say(ERROR);
    it.hears(ERROR);
    it.say("peek-sender x\r\n");
    first.hears("peek-sender x\r\n");
    first.say(ERROR);
    second.hears("peek-sender x\r\n");
    second.say("EMPTY\r\n");
    it.hears(ERROR);
}

#[test]
fn stats_say_that_brokers_drain_where_one_shard_does() {
    let (front, played) = front_of_two(settings());
    let mut it = client(&front);
    let mut lines: Vec<Line> = Vec::new();
    for drains in [[false, true], [true, false]] {
        it.say("stats\r\n");
        for (shard, drains) in drains.into_iter().enumerate() {
            if lines.len() == shard {
                lines.push(played[shard].accept());
            }
            lines[shard].hears("stats\r\n");
            let text = format!("---\ncmd-put: 1\ndraining: {drains}\n");
            lines[shard].say(&format!("OK {}\r\n{text}\r\n", text.len()));
        }
        let text = "---\ncmd-put: 2\ndraining: true\n";
        it.hears(&format!("OK {}\r\n{text}\r\n", text.len()));
    }
}

#[test]
fn an_owner_that_is_new_to_a_client_knows_its_login_before_the_next() {
    let (front, played) = front_of_two(with_secret());
    let mut it = client(&front);
    let (one, other) = (name_of(0), name_of(1));
    it.say(&format!("login {one} hush\r\nuse {other}\r\nlogin {other} hush\r\n"));
    let mut line = played[0].accept();
    line.hears(&format!("login {one} hush\r\n"));
    line.say("LOGGED_IN\r\n");
    let mut line = played[1].accept();
    line.hears(&format!("login {one} hush\r\nuse {other}\r\nlogin {other} hush\r\n"));
    let answers = format!("LOGGED_IN\r\nUSING {other}\r\nLOGGED_IN\r\n");
    line.say(&answers);
    it.hears(&answers);
}

#[test]
fn a_client_whose_thread_panics_is_gone() {
    let (front, _owners) = front(Protocol::Beanstalkd, 1);
    let entrance = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut it = Line::of(TcpStream::connect(entrance.local_addr().unwrap()).unwrap());
    let stream = Stream::Tcp(krarup_net::mio::net::TcpStream::from_std(entrance.accept().unwrap().0));
    let accepted = BlockingClient::accepted(stream, None, Nanos::ZERO).unwrap();
    let handle = accepted.handle().unwrap();
    // As a panic, without its words.
    let session = move |_: &Arc<Inner>| {
        let _client = accepted;
        std::panic::resume_unwind(Box::new("a panic"));
    };
    begin_session(handle, 1, &front.inner, session).unwrap();
    assert_eq!(it.rest(), "");
    let clients = front.inner.clients();
    let waited = front.inner.gone.wait_timeout_while(clients, TOO_LONG, |clients| !clients.is_empty());
    assert!(waited.unwrap().0.is_empty());
}
