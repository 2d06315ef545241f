//! One client of beanstalkd's protocol: which shard each of his requests is for.

use std::collections::BTreeSet;
use std::sync::Arc;

use krarup_net::blocking::Guest;

use super::Inner;
use super::behind::{Behind, Lost, Spoken};
use super::patience::{Heard, Patience, Tried, lose, until_answered};
use krarup_broker::job::Id;
use krarup_broker::queues::{DEFAULT_TUBE, How};
use krarup_broker::reply;
use krarup_broker::request::{self, Ids, Parsed, Request};
use krarup_broker::shards::shard_of;

/// The client's connection ends.
#[derive(Debug)]
pub(super) struct End;

/// Puts that are sent on together at most.
const TOGETHER: usize = 256;
/// What one read may bring.
const READ: usize = 64 << 10;
const UNREACHED: &[u8] = b"INTERNAL_ERROR\r\n";

pub(super) struct Session<'a> {
    pub(super) client: Guest,
    pub(super) front: &'a Inner,
    pub(super) shards: u32,
    pub(super) used: String,
    pub(super) watched: Vec<String>,
    /// The line by which he has said who he is.
    said: Option<Arc<[u8]>>,
    behind: Vec<Option<Behind>>,
    /// Where messages are waited for, each with its own connection, and whether an answer is to come.
    pub(super) looking: Vec<Option<(Behind, bool)>>,
    pub(super) out: Vec<u8>,
    quits: bool,
    /// Whether he was seen to hang up while he waited for a message.
    pub(super) hung_up: bool,
}

/// What there is to do with the bytes at the front.
enum Next {
    Done(usize),
    More,
}

impl<'a> Session<'a> {
    pub(super) fn new(client: Guest, front: &'a Inner) -> Self {
        let shards = front.owners.shards();
        let none = || (0..shards).map(|_| None).collect::<Vec<_>>();
        Self {
            client,
            front,
            shards,
            used: DEFAULT_TUBE.into(),
            watched: vec![DEFAULT_TUBE.into()],
            said: None,
            behind: none(),
            looking: (0..shards).map(|_| None).collect(),
            out: Vec::new(),
            quits: false,
            hung_up: false,
        }
    }

    /// Serves him until he goes.
    pub(super) fn run(mut self) {
        // What was answered before is told in any case.
        let _ = self.serve();
        let _ = self.flush();
        self.client.finish();
    }

    fn serve(&mut self) -> Result<(), End> {
        let mut bytes = Vec::new();
        let mut buffer = vec![0; READ];
        while !self.quits {
            let mut done = 0;
            while !self.quits
                && let Next::Done(count) = self.next(&bytes[done..])?
            {
                done += count;
            }
            bytes.drain(..done.min(bytes.len()));
            self.flush()?;
            if !self.quits {
                let count = self.client.receive(&mut buffer).ok().filter(|count| *count > 0).ok_or(End)?;
                bytes.extend_from_slice(&buffer[..count]);
            }
        }
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<(), End> {
        let out = std::mem::take(&mut self.out);
        self.client.say(&out).map_err(|_| End)
    }

    fn next(&mut self, bytes: &[u8]) -> Result<Next, End> {
        if bytes.is_empty() {
            return Ok(Next::More);
        }
        match request::parse(bytes, self.front.settings.largest) {
            Parsed::Incomplete { .. } => Ok(Next::More),
            Parsed::Endless => {
                self.go_by(bytes, None)?;
                self.out.extend_from_slice(request::Wrong::BadFormat.line());
                Ok(Next::Done(bytes.len()))
            }
            Parsed::Invalid { why, swallow } => {
                let there = swallow.min(bytes.len() as u64);
                self.go_by(&[], Some(swallow - there))?;
                self.out.extend_from_slice(why.line());
                Ok(Next::Done(there as usize))
            }
            Parsed::Batch { batch, used } => {
                let Some(first) = batch.iter().next() else { return Ok(Next::Done(used)) };
                if self.is_admitted() {
                    let shard = shard_of(first.tube.unwrap_or(&self.used), self.shards);
                    self.ask(shard, &[&bytes[..used]], false)?;
                } else {
                    reply::numbered(&mut self.out, "INSERTED_BATCH", batch.len() as u64);
                    batch.iter().for_each(|_| reply::line(&mut self.out, "NOT_LOGGED_IN"));
                }
                Ok(Next::Done(used))
            }
            Parsed::Complete { request: Request::Put(put), used } if self.is_admitted() => {
                let shard = shard_of(put.tube.unwrap_or(&self.used), self.shards);
                let (mut lines, mut end) = (vec![&bytes[..used]], used);
                // Those behind it that are for the same shard go with it.
                while lines.len() < TOGETHER
                    && let Parsed::Complete { request: Request::Put(put), used } =
                        request::parse(&bytes[end..], self.front.settings.largest)
                    && shard_of(put.tube.unwrap_or(&self.used), self.shards) == shard
                {
                    lines.push(&bytes[end..end + used]);
                    end += used;
                }
                self.ask(shard, &lines, false)?;
                Ok(Next::Done(end))
            }
            Parsed::Complete { request, used } => {
                self.carry_out(&request, &bytes[..used])?;
                Ok(Next::Done(used))
            }
        }
    }

    /// So many bytes more go by, or all up to the next end of line, of which some may be there.
    fn go_by(&mut self, there: &[u8], count: Option<u64>) -> Result<(), End> {
        let mut last = there.last().copied();
        let mut left = count;
        let mut buffer = vec![0; READ];
        while left != Some(0) {
            // What comes behind the end of a line is the next request.
            let most = left.map_or(1, |left| left.min(READ as u64) as usize);
            let count = match self.client.receive(&mut buffer[..most]) {
                Ok(count) if count > 0 => count,
                _ => return Err(End),
            };
            match &mut left {
                Some(left) => *left -= count as u64,
                None if last == Some(b'\r') && buffer[0] == b'\n' => return Ok(()),
                None => last = Some(buffer[0]),
            }
        }
        Ok(())
    }

    fn is_admitted(&self) -> bool {
        self.front.settings.secret.is_none() || self.said.is_some()
    }

    fn carry_out(&mut self, request: &Request<'_>, line: &[u8]) -> Result<(), End> {
        let open = matches!(request, Request::Quit | Request::Ping | Request::Login { .. });
        if !open && !self.is_admitted() {
            reply::line(&mut self.out, "NOT_LOGGED_IN");
            return Ok(());
        }
        let of = |tube: &str| shard_of(tube, self.shards);
        match *request {
            Request::Put(_) => reply::line(&mut self.out, "NOT_LOGGED_IN"),
            Request::Ping => reply::line(&mut self.out, "PONG"),
            Request::Quit => self.quits = true,
            Request::Use(tube) => {
                self.used = tube.into();
                reply::line(&mut self.out, &format!("USING {tube}"));
            }
            Request::Watch(tube) => {
                if !self.watched.iter().any(|other| other == tube) {
                    self.watched.push(tube.into());
                }
                reply::numbered(&mut self.out, "WATCHING", self.watched.len() as u64);
            }
            Request::Ignore(tube) => {
                let place = self.watched.iter().position(|other| other == tube);
                if place.is_some() && self.watched.len() < 2 {
                    reply::line(&mut self.out, "NOT_IGNORED");
                    return Ok(());
                }
                place.map(|place| self.watched.remove(place));
                reply::numbered(&mut self.out, "WATCHING", self.watched.len() as u64);
            }
            Request::ListTubeUsed => reply::line(&mut self.out, &format!("USING {}", self.used)),
            Request::ListTubesWatched => {
                let names: Vec<Arc<str>> = self.watched.iter().map(|name| name.as_str().into()).collect();
                reply::list(&mut self.out, &names);
            }
            Request::Login { client, .. } => self.log_in(of(client), line)?,
            Request::Reserve { timeout } => self.reserve(How::Lease, None, timeout)?,
            Request::ReserveBatch { most, timeout } => {
                self.reserve(How::Lease, Some(most), Some(timeout))?;
            }
            Request::Pop { timeout } => self.reserve(How::Pop, None, Some(timeout))?,
            Request::Await { timeout } => self.reserve(How::Look, None, Some(timeout))?,
            Request::Delete(id)
            | Request::Release { id, .. }
            | Request::Bury { id, .. }
            | Request::Touch(id)
            | Request::KickJob(id) => self.by_number(id, line, false)?,
            Request::ReserveJob(id) | Request::Peek(id) | Request::StatsJob(id) => {
                self.by_number(id, line, true)?;
            }
            Request::DeleteBatch(ids) => self.delete_batch(&ids)?,
            Request::PeekReady | Request::PeekDelayed | Request::PeekBuried => {
                self.ask(of(&self.used), &[line], true)?;
            }
            Request::Kick(_) => self.ask(of(&self.used), &[line], false)?,
            Request::StatsTube(tube) | Request::PeekTube(tube) => self.ask(of(tube), &[line], true)?,
            Request::PauseTube { tube, .. }
            | Request::CreateTube(tube)
            | Request::ExpireTube { tube, .. }
            | Request::ArchiveTube { tube, .. } => self.ask(of(tube), &[line], true)?,
            Request::DeleteTube(tube) | Request::PopTube(tube) => self.ask(of(tube), &[line], false)?,
            Request::LimitTube { dead: Some(dead), tube, .. } if of(dead) != of(tube) => {
                reply::line(&mut self.out, "OTHER_SHARD");
            }
            Request::LimitTube { tube, .. } => self.ask(of(tube), &[line], true)?,
            Request::Register(name) => self.of_clients(of(name), line, true)?,
            Request::Unregister(name) => self.of_clients(of(name), line, false)?,
            Request::PeekSender(_) => self.of_sender(line, line)?,
            Request::PopSender(name) => self.of_sender(format!("peek-sender {name}\r\n").as_bytes(), line)?,
            Request::ListTubes | Request::ListTubesForMe => self.list(line)?,
            Request::Stats => self.stats(line)?,
        }
        Ok(())
    }

    fn log_in(&mut self, shard: u32, line: &[u8]) -> Result<(), End> {
        let before = self.said.take();
        let answer = self.answer(shard, line, true)?;
        self.said = if answer == b"LOGGED_IN\r\n" { Some(line.into()) } else { before };
        if let Some(behind) = &mut self.behind[shard as usize]
            && self.said.as_deref() == Some(line)
        {
            behind.said.clone_from(&self.said);
        }
        self.out.extend_from_slice(&answer);
        Ok(())
    }

    /// A message by its number: its shard is where he holds it from, or where its number was given; or, where there were not always so many shards,
    /// any.
    fn by_number(&mut self, id: Id, line: &[u8], again: bool) -> Result<(), End> {
        let mut last = Vec::new();
        for shard in self.shards_of(id) {
            last = self.answer(shard, line, again)?;
            if last != b"NOT_FOUND\r\n" {
                break;
            }
        }
        self.out.extend_from_slice(&last);
        Ok(())
    }

    fn shards_of(&self, id: Id) -> Vec<u32> {
        let holds = |shard: &u32| {
            self.behind[*shard as usize].as_ref().is_some_and(|behind| behind.held.contains(&id))
        };
        let first = (0..self.shards).find(holds).unwrap_or((id % Id::from(self.shards)) as u32);
        std::iter::once(first).chain((0..self.shards).filter(|shard| *shard != first)).collect()
    }

    fn delete_batch(&mut self, ids: &Ids<'_>) -> Result<(), End> {
        let all: BTreeSet<Id> = ids.iter().collect();
        let mut deleted = 0;
        for first in 0..self.shards {
            let its: Vec<Id> = all.iter().copied().filter(|id| self.shards_of(*id)[0] == first).collect();
            let mut left = its.len() as u64;
            let mut line = String::from("delete-batch");
            its.iter().for_each(|id| line.push_str(&format!(" {id}")));
            line.push_str("\r\n");
            let others = (0..self.shards).filter(|other| *other != first);
            for shard in std::iter::once(first).chain(others) {
                if left == 0 {
                    break;
                }
                let answer = self.answer(shard, line.as_bytes(), false)?;
                let count = second(&answer);
                if let Some(behind) = &mut self.behind[shard as usize] {
                    its.iter().for_each(|id| _ = behind.held.remove(id));
                }
                deleted += count;
                left = left.saturating_sub(count);
            }
        }
        reply::numbered(&mut self.out, "DELETED", deleted);
        Ok(())
    }

    // ---- the owners behind ------------------------------------------------------------------------------

    /// Requests to one shard, whose answers are told to the client.
    pub(super) fn ask(&mut self, shard: u32, lines: &[&[u8]], again: bool) -> Result<(), End> {
        let answers = self.answers(shard, lines, again)?;
        answers.iter().for_each(|answer| self.out.extend_from_slice(answer));
        Ok(())
    }

    /// The answer to one request; `again`: it may be carried out twice.
    pub(super) fn answer(&mut self, shard: u32, line: &[u8], again: bool) -> Result<Vec<u8>, End> {
        Ok(self.answers(shard, &[line], again)?.pop().unwrap_or_default())
    }

    /// The same to a request that may take long, unless the client hangs up meanwhile; none: it is to be asked again for what is left of its time.
    pub(super) fn answer_in_time(
        &mut self,
        shard: u32,
        line: &[u8],
        again: bool,
        patience: &mut Patience,
    ) -> Result<Option<Vec<u8>>, End> {
        let mut answers = Vec::new();
        Ok(match patience.ask(self.front, || self.try_once(shard, &[line], &mut answers, again, true))? {
            Heard::Answered(()) => answers.pop(),
            Heard::Ask => None,
            Heard::GiveUp => Some(UNREACHED.to_vec()),
        })
    }

    /// Sends requests to the owner of a shard until each has its answer.
    fn answers(&mut self, shard: u32, lines: &[&[u8]], again: bool) -> Result<Vec<Vec<u8>>, End> {
        let front = self.front;
        let mut answers: Vec<Vec<u8>> = Vec::with_capacity(lines.len());
        match until_answered(front, || self.try_once(shard, lines, &mut answers, again, false)) {
            Ok(Some(())) => {}
            Ok(None) => answers.resize(lines.len(), UNREACHED.to_vec()),
            Err(End) => {
                // He hears what is known.
                answers.iter().for_each(|answer| self.out.extend_from_slice(answer));
                return Err(End);
            }
        }
        Ok(answers)
    }

    fn try_once(
        &mut self,
        shard: u32,
        lines: &[&[u8]],
        answers: &mut Vec<Vec<u8>>,
        again: bool,
        watching: bool,
    ) -> Result<Tried<()>, End> {
        let Some(mut behind) = self.find(shard)? else { return Ok(Tried::Nobody) };
        match self.exchange(&mut behind, shard, lines, answers, watching) {
            Ok(()) => {
                self.hung_up |= behind.ended;
                self.behind[shard as usize] = Some(behind).filter(|behind| !behind.ended);
                Ok(Tried::Answered(()))
            }
            Err(lost) => {
                self.hung_up |= behind.ended;
                lose(lost, !behind.held.is_empty(), again)
            }
        }
    }

    fn exchange(
        &mut self,
        behind: &mut Behind,
        shard: u32,
        lines: &[&[u8]],
        answers: &mut Vec<Vec<u8>>,
        watching: bool,
    ) -> Result<(), Lost> {
        let mut sent = Vec::new();
        let told = self.tell(behind, shard, &mut sent);
        lines[answers.len()..].iter().for_each(|line| sent.extend_from_slice(line));
        behind.send(self.front, shard, &sent)?;
        for _ in 0..told {
            behind.answer(self.front, shard, None)?;
        }
        while answers.len() < lines.len() {
            let client = watching.then_some(&self.client);
            let answer = behind.answer(self.front, shard, client)?;
            note(behind, lines[answers.len()], &answer);
            answers.push(answer);
        }
        behind.forget(self.front, shard)
    }

    /// The connection to the owner of a shard; none: there is none now.
    fn find(&mut self, shard: u32) -> Result<Option<Behind>, End> {
        if let Some(behind) = self.behind[shard as usize].take() {
            if behind.is_of(&self.front.owners, shard) {
                return Ok(Some(behind));
            }
            if !behind.held.is_empty() {
                return Err(End);
            }
        }
        Ok(self.connect(shard))
    }

    pub(super) fn connect(&self, shard: u32) -> Option<Behind> {
        Behind::connect(self.front.owners.of(shard)?, Spoken::Beanstalkd).ok()
    }

    /// Appends what an owner does not know of this client yet; how many answers that makes.
    pub(super) fn tell(&self, behind: &mut Behind, shard: u32, out: &mut Vec<u8>) -> usize {
        let mut count = 0;
        let mut say = |line: &[u8]| {
            out.extend_from_slice(line);
            count += 1;
        };
        if let Some(said) = &self.said
            && behind.said.as_ref() != Some(said)
        {
            say(said);
            behind.said = Some(Arc::clone(said));
        }
        let is_its = |tube: &str| shard_of(tube, self.shards) == shard;
        let used = if is_its(&self.used) { &self.used } else { DEFAULT_TUBE };
        if behind.used != used {
            say(format!("use {used}\r\n").as_bytes());
            behind.used = used.into();
        }
        let wanted = self.watched_at(shard);
        if behind.watched != wanted {
            for tube in wanted.difference(&behind.watched) {
                say(format!("watch {tube}\r\n").as_bytes());
            }
            for tube in behind.watched.difference(&wanted) {
                say(format!("ignore {tube}\r\n").as_bytes());
            }
            behind.watched = wanted;
        }
        count
    }

    /// What its owner is to take him for watching: one tube at least, of which it has none perhaps.
    pub(super) fn watched_at(&self, shard: u32) -> BTreeSet<String> {
        let its = self.watched.iter().filter(|tube| shard_of(tube, self.shards) == shard);
        let wanted: BTreeSet<String> = its.cloned().collect();
        if wanted.is_empty() { BTreeSet::from([DEFAULT_TUBE.to_owned()]) } else { wanted }
    }

    /// Whether he holds messages of a shard.
    pub(super) fn holds_of(&self, shard: u32) -> bool {
        self.behind[shard as usize].as_ref().is_some_and(|behind| !behind.held.is_empty())
    }
}

/// Requests about a message that he holds.
const ENDING: [&[u8]; 4] = [b"delete ", b"release ", b"bury ", b"touch "];

/// What he holds from then on.
fn note(behind: &mut Behind, line: &[u8], answer: &[u8]) {
    let word = answer.split(|byte| matches!(byte, b' ' | b'\r')).next().unwrap_or_default();
    match word {
        b"RESERVED" => _ = behind.held.insert(second(answer)),
        b"RESERVED_BATCH" => {
            let mut rest = answer;
            while let Some(end) = memchr::memmem::find(rest, b"\r\n") {
                let mut skipped = end + 2;
                let words: Vec<&[u8]> = rest[..end].split(|byte| *byte == b' ').collect();
                if let [b"RESERVED", id, size] = words[..] {
                    behind.held.insert(number(id));
                    skipped += number(size) as usize + 2;
                }
                rest = rest.get(skipped..).unwrap_or_default();
            }
        }
        b"DELETED" | b"RELEASED" | b"BURIED" => _ = behind.held.remove(&second(line)),
        // His time for it had run out.
        b"NOT_FOUND" if ENDING.iter().any(|verb| line.starts_with(verb)) => {
            behind.held.remove(&second(line));
        }
        _ => {}
    }
}

/// The number that a line has as its second word; 0: none.
pub(super) fn second(line: &[u8]) -> u64 {
    number(line.split(|byte| matches!(byte, b' ' | b'\r')).nth(1).unwrap_or_default())
}

fn number(text: &[u8]) -> u64 {
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
}
