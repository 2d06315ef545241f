//! One client of memcached's protocol: the name of a queue, which stands where a key stands, says which shard a request is for.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use krarup_memcache::request::{Refusal, Request};

use super::behind::{Behind, Lost, Spoken};
use super::session::End;
use super::{PATIENCE, Settings};
use crate::memcached::{self, Asked, ONE_KEY, Take};
use crate::shards::{Owners, shard_of};

/// How soon to look again for an owner.
const AGAIN: Duration = Duration::from_millis(10);
/// An answer that takes longer than this was waited for.
const LONG: Duration = Duration::from_secs(1);
/// What one read may bring.
const READ: usize = 64 << 10;
const UNREACHED: &[u8] = b"SERVER_ERROR nobody owns this queue now\r\n";

pub(super) struct Session<'a> {
    client: TcpStream,
    settings: &'a Settings,
    owners: &'a Owners,
    /// Whether this broker ends: then nobody waits for a shard to have an owner again.
    over: &'a AtomicBool,
    shards: u32,
    /// The request by which he has said the secret.
    said: Option<Vec<u8>>,
    behind: Vec<Option<Behind>>,
    /// Queues of which he has a message open.
    open: BTreeSet<String>,
    out: Vec<u8>,
    quits: bool,
}

/// For whom a request is, and what else is to be known of it.
struct To {
    shard: u32,
    again: bool,
    answers: bool,
    waits: bool,
    /// What is open then, or no longer.
    opens: Option<(String, bool)>,
}

impl To {
    fn one(shard: u32) -> Self {
        Self { shard, again: false, answers: true, waits: false, opens: None }
    }
}

impl<'a> Session<'a> {
    pub(super) fn new(
        client: TcpStream,
        settings: &'a Settings,
        owners: &'a Owners,
        over: &'a AtomicBool,
    ) -> Self {
        let shards = owners.shards();
        Self {
            client,
            settings,
            owners,
            over,
            shards,
            said: None,
            behind: (0..shards).map(|_| None).collect(),
            open: BTreeSet::new(),
            out: Vec::new(),
            quits: false,
        }
    }

    /// Serves him until he goes.
    pub(super) fn run(mut self) {
        let mut bytes = Vec::new();
        let mut buffer = vec![0; READ];
        loop {
            let mut done = 0;
            while !self.quits && done < bytes.len() {
                match self.next(&bytes[done..]) {
                    Ok(0) => break,
                    Ok(count) => done += count,
                    Err(End) => {
                        // What was answered before is told.
                        let _ = self.flush();
                        return;
                    }
                }
            }
            bytes.drain(..done);
            if self.flush().is_err() || self.quits {
                return;
            }
            match self.client.read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            }
        }
    }

    fn flush(&mut self) -> Result<(), End> {
        let out = std::mem::take(&mut self.out);
        self.client.write_all(&out).map_err(|_| End)
    }

    /// Carries out the request at the front; how many bytes are done with.
    fn next(&mut self, bytes: &[u8]) -> Result<usize, End> {
        match memcached::parse(bytes, self.settings.largest) {
            Asked::Incomplete(_) => Ok(0),
            Asked::Request(Request::Quit, used) => {
                self.quits = true;
                Ok(used)
            }
            Asked::Request(request, used) => {
                self.carry_out(&request, &bytes[..used])?;
                Ok(used)
            }
            Asked::Flush(key, used) => {
                match memcached::queue(key) {
                    Ok(queue) => {
                        let to = To::one(shard_of(queue, self.shards));
                        self.send(&to, &bytes[..used])?;
                    }
                    Err(line) => self.out.extend_from_slice(line),
                }
                Ok(used)
            }
            Asked::Refused(Refusal::Answer { reply, used }) => {
                self.out.extend_from_slice(reply);
                Ok(used)
            }
            Asked::Refused(Refusal::TooLarge { used, swallow, noreply, .. }) => {
                let reply = if noreply { b"" } else { krarup_memcache::request::TOO_LARGE };
                self.go_by(bytes, used, swallow, reply)
            }
            Asked::Refused(Refusal::Swallow { reply, used, swallow }) => {
                self.go_by(bytes, used, swallow, reply)
            }
            Asked::Refused(Refusal::Close { reply }) => {
                self.out.extend_from_slice(reply);
                self.quits = true;
                Ok(bytes.len())
            }
        }
    }

    fn go_by(&mut self, bytes: &[u8], used: usize, swallow: u64, reply: &[u8]) -> Result<usize, End> {
        let there = swallow.min((bytes.len() - used) as u64);
        let mut left = swallow - there;
        let mut buffer = vec![0; READ];
        while left > 0 {
            match self.client.read(&mut buffer[..left.min(READ as u64) as usize]) {
                Ok(count) if count > 0 => left -= count as u64,
                _ => return Err(End),
            }
        }
        self.out.extend_from_slice(reply);
        Ok(used + there as usize)
    }

    fn carry_out(&mut self, request: &Request<'_>, line: &[u8]) -> Result<(), End> {
        let answers = !request.noreply();
        let to = match request {
            Request::Store(store) if self.settings.secret.is_some() && self.said.is_none() => {
                return self.log_in(line, store.noreply);
            }
            Request::Store(store) => memcached::letter(store.key)
                .map(|put| To { answers, ..To::one(shard_of(put.tube.unwrap_or_default(), self.shards)) }),
            Request::Retrieve(retrieve) => {
                let wishes: Result<Vec<_>, _> = retrieve.keys.iter().map(memcached::wish).collect();
                wishes.and_then(|wishes| {
                    let shards: BTreeSet<u32> =
                        wishes.iter().map(|wish| shard_of(wish.queue, self.shards)).collect();
                    let Some(first) = wishes.first().filter(|_| shards.len() == 1) else {
                        return Err(ONE_KEY);
                    };
                    let opens = (first.take == Some(Take::Open)).then_some(true);
                    let opens =
                        opens.or(first.end.map(|_| false)).map(|opens| (first.queue.to_owned(), opens));
                    let reads = first.take == Some(Take::Peek);
                    let waits = first.wait.0 > 0;
                    Ok(To { again: reads, waits, opens, ..To::one(shard_of(first.queue, self.shards)) })
                })
            }
            Request::Delete { key, .. } => {
                memcached::queue(key).map(|queue| To { answers, ..To::one(shard_of(queue, self.shards)) })
            }
            Request::Stats { .. } => return self.stats(line),
            _ => Ok(To { answers, again: true, ..To::one(0) }),
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

    /// Whether he may is asked of one owner, and told to the others as he needs them.
    fn log_in(&mut self, line: &[u8], noreply: bool) -> Result<(), End> {
        // The owner must answer in any case.
        let asked = if noreply { without_noreply(line) } else { line.to_vec() };
        let answer = self.answer(0, &asked, true, false)?;
        if answer == b"STORED\r\n" {
            self.said = Some(asked);
        }
        if !noreply {
            self.out.extend_from_slice(&answer);
        }
        Ok(())
    }

    fn stats(&mut self, line: &[u8]) -> Result<(), End> {
        let mut all: Vec<(String, String)> = Vec::new();
        for shard in 0..self.shards {
            let answer = self.answer(shard, line, true, false)?;
            let text = String::from_utf8_lossy(&answer).into_owned();
            for (key, value) in text.lines().filter_map(|line| line.strip_prefix("STAT ")?.split_once(' ')) {
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
        if to.waits {
            self.flush()?;
        }
        if !to.answers {
            // Nobody is promised anything.
            if let Some(mut behind) = self.find(to.shard)?
                && behind.send(line).is_ok()
            {
                self.behind[to.shard as usize] = Some(behind);
            }
            return Ok(());
        }
        let answer = self.answer(to.shard, line, to.again, to.waits)?;
        // What was refused has opened nothing, and closed nothing.
        let refused = answer.starts_with(b"CLIENT_ERROR") || answer.starts_with(b"SERVER_ERROR");
        if let Some((queue, opens)) = to.opens.as_ref().filter(|_| !refused) {
            self.open.remove(queue);
            if *opens && answer.starts_with(b"VALUE ") {
                self.open.insert(queue.clone());
            }
        }
        self.out.extend_from_slice(&answer);
        Ok(())
    }

    /// Whether he has a message of a shard open.
    fn holds_of(&self, shard: u32) -> bool {
        self.open.iter().any(|queue| shard_of(queue, self.shards) == shard)
    }

    fn find(&mut self, shard: u32) -> Result<Option<Behind>, End> {
        if let Some(behind) = self.behind[shard as usize].take() {
            if behind.is_of(self.owners, shard) {
                return Ok(Some(behind));
            }
            if self.holds_of(shard) {
                return Err(End);
            }
        }
        let Some(owner) = self.owners.of(shard) else { return Ok(None) };
        let Ok(mut behind) = Behind::connect(owner, Spoken::Memcached) else { return Ok(None) };
        if let Some(said) = &self.said {
            let answered = behind.send(said).and_then(|()| behind.answer(self.owners, shard, None));
            if answered.is_err() {
                return Ok(None);
            }
        }
        Ok(Some(behind))
    }

    fn answer(&mut self, shard: u32, line: &[u8], again: bool, waits: bool) -> Result<Vec<u8>, End> {
        let mut end = Instant::now() + PATIENCE;
        loop {
            if let Some(mut behind) = self.find(shard)? {
                let begun = Instant::now();
                let client = waits.then_some(&self.client);
                let came = behind.send(line).and_then(|()| behind.answer(self.owners, shard, client));
                if begun.elapsed() > LONG {
                    // He waited for a message until now, and for an owner only from now on.
                    end = Instant::now() + PATIENCE;
                }
                match came {
                    Ok(answer) => {
                        self.behind[shard as usize] = Some(behind).filter(|behind| !behind.ended);
                        return Ok(answer);
                    }
                    Err(_) if self.holds_of(shard) => return Err(End),
                    Err(Lost::Moved) => {}
                    Err(Lost::Unknown) if again => {}
                    Err(Lost::Unknown) => return Err(End),
                }
            } else if self.over.load(Ordering::Relaxed) {
                return Err(End);
            }
            if Instant::now() >= end {
                return Ok(UNREACHED.to_vec());
            }
            thread::sleep(AGAIN);
        }
    }
}

/// The same request, whose answer is told.
fn without_noreply(line: &[u8]) -> Vec<u8> {
    let end = memchr::memmem::find(line, b"\r\n").unwrap_or(line.len());
    let (first, rest) = line.split_at(end);
    let first = first.strip_suffix(b" noreply").unwrap_or(first);
    [first, rest].concat()
}
