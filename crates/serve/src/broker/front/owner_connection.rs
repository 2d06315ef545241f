//! A connection to the owner of a shard, on behalf of one client.

use std::collections::{BTreeSet, HashSet};
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use krarup_net::blocking::BlockingClient;
use krarup_net::conn;
use krarup_units::{Address, Nanos};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::serving::Inner;
use crate::broker::engine::Protocol;
use krarup_beanstalk::{DEFAULT_TUBE, Reply, ReplyWord, Request, reply, write};
use krarup_broker::job::Id;
use krarup_store::owners::{Owners, ShardOwner};
use krarup_units::Parsed;

/// How long the owner may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(1);
/// How long it may take nothing of what is sent to it: then it hangs, and the connection counts as
/// ended.
const SEND: Duration = Duration::from_secs(10);
/// An owner's machine is asked whether it is still there after this silence.
const KEEP_ALIVE: Nanos = Nanos::from_secs(5);
/// From so many messages on that the client may hold it is asked which of them it does.
const MANY: usize = 1_000;
/// Of so many at a time.
pub(super) const ASKED_AT_ONCE: usize = 100;
/// How often it is looked whether it still is the owner while it is waited for.
pub(super) const LOOK: Duration = Duration::from_millis(200);
/// The answer of an owner that hands its shard over: the request was not carried out.
pub(super) const MOVED: &[u8] = ReplyWord::Moved.line();

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoReply {
    /// The request was not carried out.
    Moved,
    /// It is not known.
    Unknown,
}

/// Whether an owner was asked to say when there is something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AwaitState {
    /// It was not, or has answered.
    Idle,
    /// Its answer is to come.
    Asked,
    /// It was asked something else since, which ends that: two answers are to come.
    Ended,
}

pub(super) struct OwnerConnection {
    stream: TcpStream,
    pub(super) owner: Arc<ShardOwner>,
    protocol: Protocol,
    unread: Vec<u8>,
    /// Whether the owner was told that no more will be asked by it.
    pub(super) ended: bool,
    /// As the owner knows this connection.
    pub(super) used: String,
    pub(super) watched: BTreeSet<String>,
    pub(super) said: Option<Arc<[u8]>>,
    /// Messages that the client holds through it, and some whose time has run out.
    pub(super) held: HashSet<Id>,
    /// With how many of them it is asked next which they are.
    many: usize,
}

impl OwnerConnection {
    pub(super) fn connect(owner: Arc<ShardOwner>, protocol: Protocol) -> io::Result<Self> {
        let address: Option<&Address> = match protocol {
            Protocol::Beanstalkd => Some(&owner.address),
            Protocol::Memcached => owner.memcached.as_ref(),
        };
        let address = address.ok_or(io::ErrorKind::AddrNotAvailable)?;
        let addresses = krarup_net::resolve(address).map_err(io::Error::other)?;
        let stream = krarup_net::connect_any(&addresses, CONNECT)?;
        stream.set_nodelay(true)?;
        // The caller looks now and then whether it still is the owner.
        stream.set_nonblocking(true)?;
        conn::keep_alive(&stream, KEEP_ALIVE)?;
        let watched = BTreeSet::from([DEFAULT_TUBE.to_owned()]);
        let (used, held) = (DEFAULT_TUBE.to_owned(), HashSet::new());
        Ok(Self {
            stream,
            owner,
            protocol,
            unread: Vec::new(),
            ended: false,
            used,
            watched,
            said: None,
            held,
            many: MANY,
        })
    }

    pub(super) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Whether no other owner is known.
    pub(super) fn is_of(&self, owners: &Owners, shard: u32) -> bool {
        owners.of(shard).is_none_or(|now| now.epoch == self.owner.epoch)
    }

    /// Whether it may be asked: no other owner is known, and this one has not left. Where its end
    /// stands there already, nothing that is sent would be carried out.
    pub(super) fn serves(&mut self, owners: &Owners, shard: u32) -> bool {
        self.is_of(owners, shard) && self.read().is_ok() && !self.unread.starts_with(MOVED)
    }

    /// Sends it all, unless the owner hangs, or another is known to be it.
    pub(super) fn send(&mut self, front: &Inner, shard: u32, bytes: &[u8]) -> Result<(), NoReply> {
        self.send_within(front, shard, bytes, SEND)
    }

    pub(super) fn send_within(
        &mut self,
        front: &Inner,
        shard: u32,
        mut bytes: &[u8],
        most: Duration,
    ) -> Result<(), NoReply> {
        let mut end = Instant::now() + most;
        while !bytes.is_empty() {
            match self.stream.write(bytes) {
                Ok(count) => {
                    bytes = &bytes[count..];
                    end = Instant::now() + most;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if Instant::now() >= end || !self.is_of(&front.owners, shard) || front.is_abandoned() {
                        return Err(NoReply::Unknown);
                    }
                    wait_for(&mut [PollFd::new(&self.stream, PollFlags::OUT)], LOOK.min(most));
                }
                Err(_) => return Err(NoReply::Unknown),
            }
        }
        Ok(())
    }

    /// The next answer, whole. Where the client is given and hangs up, the owner hears the end too:
    /// then it waits no longer, and says what it has given already, which is not to be lost.
    pub(super) fn answer(
        &mut self,
        front: &Inner,
        shard: u32,
        mut client: Option<&BlockingClient>,
    ) -> Result<Vec<u8>, NoReply> {
        loop {
            if let Some(answer) = self.here()? {
                return if answer == MOVED { Err(NoReply::Moved) } else { Ok(answer) };
            }
            match wait(&[&self.stream], client, LOOK) {
                Woken::Client => {
                    // Where it is broken already, reading finds out.
                    let _ = self.stream.shutdown(Shutdown::Write);
                    self.ended = true;
                    client = None;
                }
                Woken::Timeout if !self.is_of(&front.owners, shard) || front.is_abandoned() => {
                    return Err(NoReply::Unknown);
                }
                Woken::Timeout => {}
                Woken::Some => self.read()?,
            }
        }
    }

    /// Sees to it that there are never many more messages that it may hold than it does.
    pub(super) fn forget_of_many(&mut self, front: &Inner, shard: u32) -> Result<(), NoReply> {
        if self.held.len() < self.many || self.ended {
            return Ok(());
        }
        self.forget(front, shard)
    }

    /// Forgets messages that it may hold and does not: which time has run out only the owner knows.
    pub(super) fn forget(&mut self, front: &Inner, shard: u32) -> Result<(), NoReply> {
        let held: Vec<Id> = self.held.iter().copied().collect();
        for some in held.chunks(ASKED_AT_ONCE) {
            let mut asked = Vec::new();
            some.iter().for_each(|id| write::request(&mut asked, &Request::StatsJob(*id)));
            self.send(front, shard, &asked)?;
            for id in some {
                let answer = self.answer(front, shard, None)?;
                if !says(&answer, ("state", "reserved")) {
                    self.held.remove(id);
                }
            }
        }
        self.many = MANY.max(2 * self.held.len());
        Ok(())
    }

    /// An answer that is there already.
    pub(super) fn here(&mut self) -> Result<Option<Vec<u8>>, NoReply> {
        let length = match self.protocol {
            Protocol::Beanstalkd => length(&self.unread)?,
            Protocol::Memcached => memcached_length(&self.unread),
        };
        Ok(length.map(|length| self.unread.drain(..length).collect()))
    }

    /// Reads what has come, if something has.
    pub(super) fn read(&mut self) -> Result<(), NoReply> {
        let mut buffer = [0; 16 << 10];
        match self.stream.read(&mut buffer) {
            Ok(0) => Err(NoReply::Unknown),
            Ok(count) => {
                self.unread.extend_from_slice(&buffer[..count]);
                Ok(())
            }
            Err(error) if matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock) => {
                Ok(())
            }
            Err(_) => Err(NoReply::Unknown),
        }
    }
}

/// Who had something to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    Timeout,
    Some,
    /// The client has hung up.
    Client,
}

/// Waits until an owner has sent something, or the client disconnects, or the time is over.
pub(super) fn wait(owner: &[&TcpStream], client: Option<&BlockingClient>, most: Duration) -> Woken {
    let mut ends: Vec<PollFd<'_>> = owner.iter().map(|end| PollFd::new(end, PollFlags::IN)).collect();
    if let Some(client) = &client {
        ends.push(PollFd::new(client, PollFlags::RDHUP));
    }
    if !wait_for(&mut ends, most) {
        return Woken::Timeout;
    }
    let (owner, client) = ends.split_at(owner.len());
    if client.iter().any(|end| !end.revents().is_empty()) {
        return Woken::Client;
    }
    if owner.iter().any(|end| !end.revents().is_empty()) { Woken::Some } else { Woken::Timeout }
}

/// Whether a client has hung up. It may have sent requests before that, and wants their answers.
pub(super) fn has_hung_up(client: &BlockingClient) -> bool {
    wait(&[], Some(client), Duration::ZERO) == Woken::Client
}

/// Whether one of them is ready in time. Interrupted it is not, at worst: the caller looks
/// again.
pub(super) fn wait_for(ends: &mut [PollFd<'_>], most: Duration) -> bool {
    let limit = Timespec { tv_sec: most.as_secs() as i64, tv_nsec: most.subsec_nanos().into() };
    poll(ends, Some(&limit)).is_ok_and(|ready| ready > 0)
}

/// The length of the answer at the front, if it is whole.
fn length(bytes: &[u8]) -> Result<Option<usize>, NoReply> {
    match reply::parse(bytes) {
        Parsed::Complete { used, .. } => Ok(Some(used)),
        Parsed::Incomplete { .. } => Ok(None),
        // Where the next one begins is not known.
        Parsed::Invalid(_) => Err(NoReply::Unknown),
    }
}

/// What an owner has answered.
pub(super) fn read(answer: &[u8]) -> Option<Reply<'_>> {
    match reply::parse(answer) {
        Parsed::Complete { message, .. } => Some(message),
        _ => None,
    }
}

/// Whether this line is in what an owner has answered.
pub(super) fn says(answer: &[u8], line: (&str, &str)) -> bool {
    read(answer).is_some_and(|reply| reply.pairs().any(|pair| pair == line))
}

/// The length of an answer of memcached's protocol, if it is whole.
fn memcached_length(bytes: &[u8]) -> Option<usize> {
    let mut end = 0;
    loop {
        let rest = &bytes[end..];
        let line = memchr::memmem::find(rest, b"\r\n")?;
        let word = rest[..line].split(|byte| *byte == b' ').next().unwrap_or_default();
        end += line + 2;
        match word {
            b"VALUE" => {
                let body = std::str::from_utf8(rest[..line].split(|byte| *byte == b' ').nth(3)?).ok()?;
                end += body.parse::<usize>().ok()? + 2;
                if bytes.len() < end {
                    return None;
                }
            }
            b"STAT" => {}
            _ => return Some(end),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use socket2::SockRef;

    use super::*;

    #[test]
    fn an_owner_that_vanishes_is_noticed_in_seconds() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string().parse().unwrap();
        let owner = Arc::new(ShardOwner { epoch: 1, address, memcached: None });
        let connection = OwnerConnection::connect(owner, Protocol::Beanstalkd).unwrap();
        let socket = SockRef::from(connection.stream());
        assert_eq!(socket.tcp_keepalive_time().unwrap(), Duration::from_secs(5));
        assert_eq!(socket.tcp_keepalive_interval().unwrap(), Duration::from_secs(1));
        assert_eq!((socket.keepalive().unwrap(), socket.tcp_keepalive_retries().unwrap()), (true, 3));
    }

    #[test]
    fn an_answer_ends_where_its_last_line_or_body_does() {
        for answer in [
            &b"INSERTED 5\r\n"[..],
            b"RESERVED 5 3\r\na\r\n\r\n",
            b"OK 4\r\n---\n\r\n",
            b"RESERVED_BATCH 2\r\nRESERVED 1 1\r\na\r\nRESERVED 2 0\r\n\r\n",
            b"INSERTED_BATCH 2\r\nINSERTED 1\r\nOUT_OF_MEMORY\r\n",
        ] {
            assert_eq!(length(&[answer, b"NEXT"].concat()), Ok(Some(answer.len())));
            for cut in 0..answer.len() {
                assert_eq!(length(&answer[..cut]), Ok(None), "{cut} of {answer:?}");
            }
        }
        for answer in [
            &b"STORED\r\n"[..],
            b"VALUE a 7 3\r\nEND\r\nEND\r\n",
            b"STAT a 1\r\nSTAT b 2\r\nEND\r\n",
            b"END\r\n",
        ] {
            assert_eq!(memcached_length(&[answer, b"NEXT"].concat()), Some(answer.len()));
            for cut in 0..answer.len() {
                assert_eq!(memcached_length(&answer[..cut]), None, "{cut} of {answer:?}");
            }
        }
    }
}
