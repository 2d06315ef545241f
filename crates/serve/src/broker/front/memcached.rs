//! One client of memcached's protocol: the name of a queue, which stands where a key stands, says
//! which shard a request is for.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use krarup_memcache::request::{Refusal, Request, Retrieve, StorageRequest};
use krarup_memcache::write;
use krarup_net::blocking::BlockingClient;

use super::owner_connection::{OwnerConnection, has_hung_up};
use super::retry::{Attempt, Retry, Tried, lose, until_answered};
use super::serving::{End, Inner};
use crate::broker::engine::Protocol;
use krarup_broker::broker::{MOST_UNSENT, MOST_WRONG_SECRETS, is_awaited};
use krarup_broker::memcached::{
    self, NONE_OPEN, ONE_KEY, QueueGet, QueueRequest, RAN_OUT, STATS_OPEN, TakeOption, UNAUTHENTICATED,
    WRONG_SECRET,
};
use krarup_broker::shards::shard_of;

/// What one read may bring.
const READ: usize = 64 << 10;
const UNREACHED: &[u8] = b"SERVER_ERROR no broker owns this queue now\r\n";

pub(super) struct MemcachedSession<'a> {
    client: BlockingClient,
    front: &'a Inner,
    shards: u32,
    /// The request with which the client said the secret.
    said: Option<Vec<u8>>,
    wrong_secrets: u8,
    owner: Vec<Option<OwnerConnection>>,
    /// Queues of which the client has a message open.
    open: BTreeSet<String>,
    out: Vec<u8>,
    quits: bool,
    /// Whether it was seen to hang up while it waited for a message.
    hung_up: bool,
}

/// Which shard a request is for, and what else is to be known of it.
struct To {
    shard: u32,
    repeatable: bool,
    answers: bool,
    waits: Option<Waits>,
    /// What is open then, or no longer.
    opens: Option<(String, bool)>,
}

impl To {
    fn one(shard: u32) -> Self {
        Self { shard, repeatable: false, answers: true, waits: None, opens: None }
    }
}

/// A `get` that waits for a message.
struct Waits {
    length: Duration,
    /// Its key, by which the message is told.
    key: Vec<u8>,
    /// What is asked of the next owner, up to the time: the rest of it is no more to be done.
    rest: String,
    /// Whether that may be carried out twice.
    repeatable: bool,
}

impl Waits {
    fn of(retrieve: &Retrieve<'_>, key: &[u8], query: &QueueGet<'_>) -> Option<Self> {
        let command = if retrieve.command.with_unique() { "gets" } else { "get" };
        let repeatable = query.take == Some(TakeOption::Open);
        let open = if repeatable { "/open" } else { "" };
        (query.wait.0 > 0).then(|| Self {
            length: query.wait.as_duration(),
            key: key.to_vec(),
            rest: format!("{command} {}{open}/t=", query.queue),
            repeatable,
        })
    }

    /// The answer with the key as the client has written it.
    fn with_own_key(&self, answer: Vec<u8>) -> Vec<u8> {
        let Some(value) = answer.strip_prefix(b"VALUE ") else { return answer };
        let end = value.iter().position(|byte| *byte == b' ').unwrap_or(value.len());
        [b"VALUE ", &self.key[..], &value[end..]].concat()
    }
}

impl<'a> MemcachedSession<'a> {
    pub(super) fn new(client: BlockingClient, front: &'a Inner) -> Self {
        let shards = front.owners.shards();
        Self {
            client,
            front,
            shards,
            said: None,
            wrong_secrets: 0,
            owner: (0..shards).map(|_| None).collect(),
            open: BTreeSet::new(),
            out: Vec::new(),
            quits: false,
            hung_up: false,
        }
    }

    /// Serves the client until it goes; nothing is said to it any more then, and it holds nothing.
    pub(super) fn run(mut self) -> BlockingClient {
        // What was answered before is told in any case.
        let _ = self.serve();
        let _ = self.flush();
        self.client.finish();
        self.client
    }

    fn serve(&mut self) -> Result<(), End> {
        let mut bytes = Vec::new();
        let mut buffer = vec![0; READ];
        while !self.quits {
            let mut done = 0;
            while !self.quits && done < bytes.len() {
                match self.next(&bytes[done..])? {
                    0 => break,
                    count => done += count,
                }
                if self.out.len() >= MOST_UNSENT {
                    self.flush()?;
                }
            }
            bytes.drain(..done);
            self.flush()?;
            if !self.quits {
                let count = self.receive(&mut buffer)?;
                bytes.extend_from_slice(&buffer[..count]);
            }
        }
        Ok(())
    }

    /// What it says next. While it has a message open it may be idle.
    fn receive(&mut self, room: &mut [u8]) -> Result<usize, End> {
        loop {
            if let Some(count) = self.front.receive(&mut self.client, room)? {
                return Ok(count);
            }
            if !self.works()? {
                return Err(End);
            }
        }
    }

    /// Whether it has a message open, as the owners say.
    fn works(&mut self) -> Result<bool, End> {
        let shards = self.shards;
        for shard in 0..shards {
            // What it had open is lost with its owner.
            if self.holds_of(shard) && self.answer(shard, STATS_OPEN, true)? == NONE_OPEN {
                self.open.retain(|queue| shard_of(queue, shards) != shard);
            }
        }
        Ok(!self.open.is_empty())
    }

    fn flush(&mut self) -> Result<(), End> {
        let out = std::mem::take(&mut self.out);
        self.client.write(&out).map_err(|_| End)
    }

    /// Carries out the request at the front; how many bytes are done with.
    fn next(&mut self, bytes: &[u8]) -> Result<usize, End> {
        match memcached::parse(bytes, self.front.settings.largest) {
            QueueRequest::Incomplete(needed) if !is_awaited(self.is_admitted(), needed) => {
                self.out.extend_from_slice(UNAUTHENTICATED);
                Err(End)
            }
            QueueRequest::Incomplete(_) => Ok(0),
            QueueRequest::Request(Request::Quit, used) => {
                self.quits = true;
                Ok(used)
            }
            QueueRequest::Request(request, used) => {
                self.carry_out(&request, &bytes[..used])?;
                Ok(used)
            }
            QueueRequest::Flush(key, used) => {
                match memcached::queue(key) {
                    _ if !self.is_admitted() => self.out.extend_from_slice(UNAUTHENTICATED),
                    Ok(queue) => {
                        let to = To::one(shard_of(queue, self.shards));
                        self.send(&to, &bytes[..used])?;
                    }
                    Err(line) => self.out.extend_from_slice(line),
                }
                Ok(used)
            }
            QueueRequest::Refused(Refusal::Answer { reply, used }) => {
                self.out.extend_from_slice(reply);
                Ok(used)
            }
            QueueRequest::Refused(Refusal::TooLarge { used, discard, noreply, .. }) => {
                let reply = if noreply { b"" } else { krarup_memcache::request::TOO_LARGE };
                self.go_by(bytes, used, discard, reply)
            }
            QueueRequest::Refused(Refusal::Discard { reply, used, discard }) => {
                self.go_by(bytes, used, discard, reply)
            }
            QueueRequest::Refused(Refusal::Close { reply }) => {
                write::closing_reply(&mut self.out, bytes, reply);
                self.quits = true;
                Ok(bytes.len())
            }
        }
    }

    fn go_by(&mut self, bytes: &[u8], used: usize, discard: u64, reply: &[u8]) -> Result<usize, End> {
        let there = discard.min((bytes.len() - used) as u64);
        let mut left = discard - there;
        let mut buffer = vec![0; READ];
        while left > 0 {
            left -= self.receive(&mut buffer[..left.min(READ as u64) as usize])? as u64;
        }
        self.out.extend_from_slice(reply);
        Ok(used + there as usize)
    }

    fn is_admitted(&self) -> bool {
        self.front.settings.secret.is_none() || self.said.is_some()
    }

    fn carry_out(&mut self, request: &Request<'_>, line: &[u8]) -> Result<(), End> {
        if !self.is_admitted() {
            match request {
                Request::Store(store) => return self.log_in(store),
                Request::Version => {}
                _ => {
                    // As the broker itself, also where no answer is wanted.
                    self.out.extend_from_slice(UNAUTHENTICATED);
                    return Ok(());
                }
            }
        }
        let answers = !request.noreply();
        let to = match request {
            Request::Store(store) => memcached::put_of_key(store.key)
                .map(|put| To { answers, ..To::one(shard_of(put.tube.unwrap_or_default(), self.shards)) }),
            Request::Retrieve(retrieve) => {
                let queries: Result<Vec<_>, _> = retrieve.keys.iter().map(memcached::queue_get).collect();
                queries.and_then(|queries| {
                    let shards: BTreeSet<u32> =
                        queries.iter().map(|query| shard_of(query.queue, self.shards)).collect();
                    let Some(first) = queries.first().filter(|_| shards.len() == 1) else {
                        return Err(ONE_KEY);
                    };
                    let opens = (first.take == Some(TakeOption::Open)).then_some(true);
                    let opens =
                        opens.or(first.end.map(|_| false)).map(|opens| (first.queue.to_owned(), opens));
                    // What a lost owner may have opened comes back.
                    let repeatable = queries.iter().all(|query| match query.take {
                        Some(TakeOption::Peek) => true,
                        Some(TakeOption::Open) => query.end.is_none(),
                        _ => false,
                    });
                    let key = retrieve.keys.iter().next().unwrap_or_default();
                    let waits = Waits::of(retrieve, key, first);
                    Ok(To { repeatable, waits, opens, ..To::one(shard_of(first.queue, self.shards)) })
                })
            }
            Request::Delete { key, .. } => {
                memcached::queue(key).map(|queue| To { answers, ..To::one(shard_of(queue, self.shards)) })
            }
            Request::Stats { .. } => return self.stats(line),
            _ => Ok(To { answers, repeatable: true, ..To::one(0) }),
        };
        match to {
            Ok(to) => self.send(&to, line),
            Err(why) => {
                if answers {
                    self.out.extend_from_slice(why);
                }
                Ok(())
            }
        }
    }

    /// Whether it may is asked of one owner, and told to the others as it needs them.
    fn log_in(&mut self, store: &StorageRequest<'_>) -> Result<(), End> {
        // The owner must answer in any case.
        let mut asked = Vec::new();
        write::store(&mut asked, store);
        let answer = self.answer(0, &asked, true)?;
        if answer == b"STORED\r\n" {
            self.said = Some(asked);
        } else if answer == WRONG_SECRET {
            self.wrong_secrets += 1;
            self.quits = self.wrong_secrets == MOST_WRONG_SECRETS;
        }
        if !store.noreply {
            self.out.extend_from_slice(&answer);
        }
        Ok(())
    }

    fn stats(&mut self, line: &[u8]) -> Result<(), End> {
        let mut all: Vec<(String, String)> = Vec::new();
        for shard in 0..self.shards {
            let answer = self.answer(shard, line, true)?;
            if !answer.ends_with(b"END\r\n") {
                self.out.extend_from_slice(&answer);
                return Ok(());
            }
            let text = String::from_utf8_lossy(&answer).into_owned();
            for (key, value) in krarup_memcache::response::statistics(&text) {
                let known = all.iter_mut().find(|(other, _)| other == key);
                let sums = !["pid", "uptime", "item_size_max"].contains(&key);
                match known.map(|(_, sum)| sum) {
                    None => all.push((key.to_owned(), value.to_owned())),
                    Some(sum) if sums => {
                        if let (Ok(one), Ok(other)) = (sum.parse::<u64>(), value.parse::<u64>()) {
                            *sum = (one + other).to_string();
                        }
                    }
                    Some(_) => {}
                }
            }
        }
        for (key, value) in all {
            self.out.extend_from_slice(format!("STAT {key} {value}\r\n").as_bytes());
        }
        self.out.extend_from_slice(b"END\r\n");
        Ok(())
    }

    fn send(&mut self, to: &To, line: &[u8]) -> Result<(), End> {
        if !to.answers {
            // No client is promised anything.
            if let Some(mut owner) = self.find(to.shard)?
                && owner.send(self.front, to.shard, line).is_ok()
            {
                self.owner[to.shard as usize] = Some(owner);
            }
            return Ok(());
        }
        let answer = match &to.waits {
            Some(waits) => self.wait(to, line, waits)?,
            None => self.answer(to.shard, line, to.repeatable)?,
        };
        // What was refused has opened nothing, and closed nothing that was still open.
        let error = answer.starts_with(b"CLIENT_ERROR") || answer.starts_with(b"SERVER_ERROR");
        let refused = error && answer != RAN_OUT;
        if let Some((queue, opens)) = to.opens.as_ref().filter(|_| !refused) {
            self.open.remove(queue);
            if *opens && answer.starts_with(b"VALUE ") {
                self.open.insert(queue.clone());
            }
        }
        self.out.extend_from_slice(&answer);
        Ok(())
    }

    /// Waits for a message, at one owner after the other where its shard moves.
    fn wait(&mut self, to: &To, line: &[u8], waits: &Waits) -> Result<Vec<u8>, End> {
        self.flush()?;
        if has_hung_up(&self.client) {
            // There is nothing to wait for, and what it has open stays so for what it has sent.
            let answer = self.answer(to.shard, &with_time(line, 0), to.repeatable)?;
            return Ok(waits.with_own_key(answer));
        }
        let end = Instant::now() + waits.length;
        let (mut line, mut repeatable) = (Cow::Borrowed(line), to.repeatable);
        let mut retry = Retry::begin();
        loop {
            let answer = self.answer_in_time(to.shard, &line, repeatable, &mut retry)?;
            let left = end.saturating_duration_since(Instant::now());
            // Whole milliseconds, and never fewer than are left.
            let millis = left.as_micros().div_ceil(1_000);
            if let Some(answer) = answer {
                let nothing = answer == b"END\r\n";
                if let Some((queue, _)) = to.opens.as_ref().filter(|_| nothing) {
                    // What was open of it is so no more.
                    self.open.remove(queue);
                }
                // An owner that ends tells the clients that wait that nothing came. Who has
                // something open may be told so by any, when its time is nearly over.
                if !nothing || left.is_zero() || self.hung_up || self.holds_of(to.shard) {
                    return Ok(waits.with_own_key(answer));
                }
            } else if self.hung_up {
                return Ok(b"END\r\n".to_vec());
            } else if !repeatable {
                // It was not carried out, and is asked as it was but for its time.
                line = with_time(&line, millis).into();
                continue;
            }
            line = format!("{}{millis}\r\n", waits.rest).into_bytes().into();
            repeatable = waits.repeatable;
        }
    }

    /// Whether it has a message of a shard open.
    fn holds_of(&self, shard: u32) -> bool {
        self.open.iter().any(|queue| shard_of(queue, self.shards) == shard)
    }

    fn find(&mut self, shard: u32) -> Result<Option<OwnerConnection>, End> {
        if let Some(mut owner) = self.owner[shard as usize].take()
            && owner.serves(&self.front.owners, shard)
        {
            return Ok(Some(owner));
        }
        // What was open is so no more.
        if self.holds_of(shard) {
            return Err(End);
        }
        let Some(owner) = self.front.owners.of(shard) else { return Ok(None) };
        let Ok(mut owner) = OwnerConnection::connect(owner, Protocol::Memcached) else { return Ok(None) };
        if let Some(said) = &self.said {
            let answered =
                owner.send(self.front, shard, said).and_then(|()| owner.answer(self.front, shard, None));
            if answered.is_err() {
                return Ok(None);
            }
        }
        Ok(Some(owner))
    }

    /// The answer to one request; `repeatable`: it may be carried out twice.
    fn answer(&mut self, shard: u32, line: &[u8], repeatable: bool) -> Result<Vec<u8>, End> {
        let front = self.front;
        let came = until_answered(front, || self.exchange(shard, line, repeatable, false))?;
        Ok(came.unwrap_or_else(|| UNREACHED.to_vec()))
    }

    /// The same to a request that may take long, unless the client hangs up meanwhile; none: it is
    /// to be asked again for what is left of its time.
    fn answer_in_time(
        &mut self,
        shard: u32,
        line: &[u8],
        repeatable: bool,
        retry: &mut Retry,
    ) -> Result<Option<Vec<u8>>, End> {
        Ok(match retry.ask(self.front, || self.exchange(shard, line, repeatable, true))? {
            Attempt::Answered(answer) => Some(answer),
            Attempt::Retry => None,
            Attempt::GiveUp => Some(UNREACHED.to_vec()),
        })
    }

    fn exchange(
        &mut self,
        shard: u32,
        line: &[u8],
        repeatable: bool,
        watching: bool,
    ) -> Result<Tried<Vec<u8>>, End> {
        let front = self.front;
        let Some(mut owner) = self.find(shard)? else {
            // What it was answered before it need not wait for.
            self.flush()?;
            return Ok(Tried::NoOwner);
        };
        let client = watching.then_some(&self.client);
        match owner.send(front, shard, line).and_then(|()| owner.answer(front, shard, client)) {
            Ok(answer) => {
                self.hung_up |= owner.ended;
                self.owner[shard as usize] = Some(owner).filter(|owner| !owner.ended);
                Ok(Tried::Answered(answer))
            }
            Err(lost) => {
                self.hung_up |= owner.ended;
                lose(lost, self.holds_of(shard), repeatable)
            }
        }
    }
}

/// The same `get` with so many milliseconds to wait.
fn with_time(line: &[u8], millis: u128) -> Vec<u8> {
    const TIME: &[u8] = b"/t=";
    let Some(at) = memchr::memmem::rfind(line, TIME) else { return line.to_vec() };
    let (before, after) = line.split_at(at + TIME.len());
    let digits = after.iter().take_while(|byte| byte.is_ascii_digit()).count();
    [before, millis.to_string().as_bytes(), &after[digits..]].concat()
}
