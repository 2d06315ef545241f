//! One client of beanstalkd's protocol: which shard each of its requests is for.

use std::collections::BTreeSet;
use std::sync::Arc;

use krarup_beanstalk::{
    DEFAULT_TUBE, Ids, InvalidRequest, LineError, Reply, ReplyWord, Request, RequestSubject, Verb, VerbGroup,
    request, write,
};
use krarup_net::blocking::BlockingClient;
use krarup_units::Parsed;

use super::owner_connection::{AwaitState, NoReply, OwnerConnection, read};
use super::retry::{Attempt, Retry, Tried, lose, until_answered};
use super::serving::{End, Inner};
use crate::broker::engine::Protocol;
use krarup_broker::broker::{MOST_UNSENT, MOST_WRONG_SECRETS, is_awaited};
use krarup_broker::job::Id;
use krarup_broker::queues::TakeMode;
use krarup_broker::shards::shard_of;

/// Puts that are sent on together at most.
const TOGETHER: usize = 256;
/// What one read may bring.
const READ: usize = 64 << 10;
const UNREACHED: &[u8] = ReplyWord::InternalError.line();

pub(super) struct BeanstalkSession<'a> {
    pub(super) client: BlockingClient,
    pub(super) front: &'a Inner,
    pub(super) shards: u32,
    pub(super) used: String,
    pub(super) watched: Vec<String>,
    /// The line with which the client authenticated.
    said: Option<Arc<[u8]>>,
    wrong_secrets: u8,
    owner: Vec<Option<OwnerConnection>>,
    /// Where messages are waited for, each with its own connection.
    pub(super) looking: Vec<Option<(OwnerConnection, AwaitState)>>,
    pub(super) out: Vec<u8>,
    quits: bool,
    /// Whether it was seen to hang up while it waited for a message.
    pub(super) hung_up: bool,
}

/// What there is to do with the bytes at the front.
enum Next {
    Done(usize),
    More,
}

impl<'a> BeanstalkSession<'a> {
    pub(super) fn new(client: BlockingClient, front: &'a Inner) -> Self {
        let shards = front.owners.shards();
        let none = || (0..shards).map(|_| None).collect::<Vec<_>>();
        Self {
            client,
            front,
            shards,
            used: DEFAULT_TUBE.into(),
            watched: vec![DEFAULT_TUBE.into()],
            said: None,
            wrong_secrets: 0,
            owner: none(),
            looking: (0..shards).map(|_| None).collect(),
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
            while !self.quits
                && let Next::Done(count) = self.next(&bytes[done..])?
            {
                done += count;
                if self.out.len() >= MOST_UNSENT {
                    self.flush()?;
                }
            }
            bytes.drain(..done.min(bytes.len()));
            self.flush()?;
            if !self.quits {
                let count = self.receive(&mut buffer)?;
                bytes.extend_from_slice(&buffer[..count]);
            }
        }
        Ok(())
    }

    /// What it says next. While it works at a message it may be idle.
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

    /// Whether it holds a message, as the owners say.
    fn works(&mut self) -> Result<bool, End> {
        for shard in 0..self.shards {
            if self.holds_of(shard)
                && let Some(mut owner) = self.find(shard)?
            {
                // What it held is lost with its owner.
                owner.forget(self.front, shard).map_err(|_| End)?;
                self.owner[shard as usize] = Some(owner);
            }
        }
        Ok((0..self.shards).any(|shard| self.holds_of(shard)))
    }

    pub(super) fn flush(&mut self) -> Result<(), End> {
        let out = std::mem::take(&mut self.out);
        self.client.write(&out).map_err(|_| End)
    }

    fn next(&mut self, bytes: &[u8]) -> Result<Next, End> {
        if bytes.is_empty() {
            return Ok(Next::More);
        }
        match request::parse(bytes, self.front.settings.largest) {
            Parsed::Incomplete { needed } if !is_awaited(self.is_admitted(), needed) => {
                write::line(&mut self.out, ReplyWord::NotLoggedIn);
                Err(End)
            }
            Parsed::Incomplete { .. } => Ok(Next::More),
            Parsed::Invalid(InvalidRequest::Endless) => {
                let end = memchr::memmem::find(bytes, b"\r\n");
                if end.is_none() {
                    self.go_by(bytes, None)?;
                }
                write::line(&mut self.out, LineError::BadFormat.word());
                Ok(Next::Done(end.map_or(bytes.len(), |end| end + 2)))
            }
            Parsed::Invalid(InvalidRequest::Discard { why, discard }) => {
                let there = discard.min(bytes.len() as u64);
                self.go_by(&[], Some(discard - there))?;
                write::line(&mut self.out, why.word());
                Ok(Next::Done(there as usize))
            }
            Parsed::Complete { message: Request::PutBatch(batch), used } => {
                let Some(first) = batch.iter().next() else { return Ok(Next::Done(used)) };
                if self.is_admitted() {
                    let shard = shard_of(first.tube.unwrap_or(&self.used), self.shards);
                    self.ask(shard, &[&bytes[..used]], false)?;
                } else {
                    write::numbered(&mut self.out, ReplyWord::InsertedBatch, batch.len() as u64);
                    batch.iter().for_each(|_| write::line(&mut self.out, ReplyWord::NotLoggedIn));
                }
                Ok(Next::Done(used))
            }
            Parsed::Complete { message: Request::Put(put), used } if self.is_admitted() => {
                let shard = shard_of(put.tube.unwrap_or(&self.used), self.shards);
                let (mut lines, mut end) = (vec![&bytes[..used]], used);
                // Those behind it that are for the same shard go with it.
                while lines.len() < TOGETHER
                    && let Parsed::Complete { message: Request::Put(put), used } =
                        request::parse(&bytes[end..], self.front.settings.largest)
                    && shard_of(put.tube.unwrap_or(&self.used), self.shards) == shard
                {
                    lines.push(&bytes[end..end + used]);
                    end += used;
                }
                self.ask(shard, &lines, false)?;
                Ok(Next::Done(end))
            }
            Parsed::Complete { message: request, used } => {
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
            let count = self.receive(&mut buffer[..most])?;
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
            write::line(&mut self.out, ReplyWord::NotLoggedIn);
            return Ok(());
        }
        let of = |tube: &str| shard_of(tube, self.shards);
        match *request {
            Request::Put(_) | Request::PutBatch(_) => write::line(&mut self.out, ReplyWord::NotLoggedIn),
            Request::Ping => write::line(&mut self.out, ReplyWord::Pong),
            Request::Quit => self.quits = true,
            Request::Use(tube) => {
                self.used = tube.into();
                write::using(&mut self.out, tube);
            }
            Request::Watch(tube) => {
                if !self.watched.iter().any(|other| other == tube) {
                    self.watched.push(tube.into());
                }
                write::numbered(&mut self.out, ReplyWord::Watching, self.watched.len() as u64);
            }
            Request::Ignore(tube) => {
                let place = self.watched.iter().position(|other| other == tube);
                if place.is_some() && self.watched.len() < 2 {
                    write::line(&mut self.out, ReplyWord::NotIgnored);
                    return Ok(());
                }
                place.map(|place| self.watched.remove(place));
                write::numbered(&mut self.out, ReplyWord::Watching, self.watched.len() as u64);
            }
            Request::ListTubeUsed => write::using(&mut self.out, &self.used),
            Request::ListTubesWatched => {
                write::list(&mut self.out, self.watched.iter().map(String::as_str));
            }
            Request::Login { client, .. } => self.log_in(of(client), line)?,
            Request::Reserve => self.reserve(TakeMode::Lease, None, None)?,
            Request::ReserveWithTimeout { timeout } => self.reserve(TakeMode::Lease, None, Some(timeout))?,
            Request::ReserveBatch { most, timeout } => {
                self.reserve(TakeMode::Lease, Some(most), Some(timeout))?;
            }
            Request::Pop { timeout } => self.reserve(TakeMode::Pop, None, Some(timeout))?,
            Request::Await { timeout } => self.reserve(TakeMode::Look, None, Some(timeout))?,
            Request::LimitTube { dead: Some(dead), tube, .. } if of(dead) != of(tube) => {
                write::line(&mut self.out, ReplyWord::OtherShard);
            }
            Request::Register(name) | Request::Unregister(name) => {
                self.of_clients(of(name), request.verb(), line)?;
            }
            Request::PeekSender(_) => self.of_sender(line, line)?,
            Request::PopSender(name) => {
                let mut look = Vec::new();
                write::request(&mut look, &Request::PeekSender(name));
                self.of_sender(&look, line)?;
            }
            Request::ListTubes | Request::ListTubesForMe => self.list(line)?,
            Request::Stats => self.stats(line)?,
            Request::StatsReset => self.of_all(0..self.shards, 0, request.verb(), line)?,
            ref other => self.about(other.verb(), other.subject(), line)?,
        }
        Ok(())
    }

    /// A request goes to the shard that has what it is about.
    fn about(&mut self, verb: Verb, subject: RequestSubject<'_>, line: &[u8]) -> Result<(), End> {
        let repeatable = verb.is_repeatable();
        match subject {
            RequestSubject::Message(id) => self.by_number(id, line, repeatable),
            RequestSubject::Messages(ids) => self.by_numbers(verb, &ids),
            RequestSubject::UsedTube => self.ask(shard_of(&self.used, self.shards), &[line], repeatable),
            RequestSubject::Tube(tube) => self.ask(shard_of(tube, self.shards), &[line], repeatable),
            RequestSubject::Connection
            | RequestSubject::WatchedTubes
            | RequestSubject::Client(_)
            | RequestSubject::Server => {
                unreachable!("`{}` is carried out by itself", verb.name())
            }
        }
    }

    fn log_in(&mut self, shard: u32, line: &[u8]) -> Result<(), End> {
        let answer = self.answer(shard, line, true)?;
        if answer == ReplyWord::LoggedIn.line() {
            self.said = Some(line.into());
            if let Some(owner) = &mut self.owner[shard as usize] {
                owner.said.clone_from(&self.said);
            }
        } else if answer == ReplyWord::NotLoggedIn.line() {
            self.wrong_secrets += 1;
            self.quits = self.wrong_secrets == MOST_WRONG_SECRETS;
        }
        self.out.extend_from_slice(&answer);
        Ok(())
    }

    /// A message by its number: its shard is where it holds it from, or where its number was given;
    /// or, where there were not always so many shards, any.
    fn by_number(&mut self, id: Id, line: &[u8], repeatable: bool) -> Result<(), End> {
        let mut last = Vec::new();
        for shard in self.shards_of(id) {
            last = self.answer(shard, line, repeatable)?;
            if last != ReplyWord::NotFound.line() {
                break;
            }
        }
        self.out.extend_from_slice(&last);
        Ok(())
    }

    fn shards_of(&self, id: Id) -> Vec<u32> {
        let holds =
            |shard: &u32| self.owner[*shard as usize].as_ref().is_some_and(|owner| owner.held.contains(&id));
        let first = (0..self.shards).find(holds).unwrap_or((id % Id::from(self.shards)) as u32);
        std::iter::once(first).chain((0..self.shards).filter(|shard| *shard != first)).collect()
    }

    /// Several messages by their numbers: each shard is asked about its own, and the counts are
    /// added. Where one could not do it the client hears so, when the others have.
    fn by_numbers(&mut self, verb: Verb, ids: &Ids<'_>) -> Result<(), End> {
        let all: BTreeSet<Id> = ids.iter().collect();
        let (well, mut done, mut error) = (verb.replies()[0], 0, None);
        for first in 0..self.shards {
            let its: Vec<Id> = all.iter().copied().filter(|id| self.shards_of(*id)[0] == first).collect();
            let mut left = its.len() as u64;
            let mut line = Vec::new();
            write::request_about(&mut line, verb, &its);
            let others = (0..self.shards).filter(|other| *other != first);
            for shard in std::iter::once(first).chain(others) {
                if left == 0 {
                    break;
                }
                let answer = self.answer(shard, &line, false)?;
                let Some(Reply::Line { number, .. }) = read(&answer).filter(|reply| reply.is(well)) else {
                    error = error.or(Some(answer));
                    break;
                };
                if verb.group() == VerbGroup::Delete
                    && let Some(owner) = &mut self.owner[shard as usize]
                {
                    its.iter().for_each(|id| _ = owner.held.remove(id));
                }
                let count = number.unwrap_or(0);
                done += count;
                left = left.saturating_sub(count);
            }
        }
        match error {
            Some(error) => self.out.extend_from_slice(&error),
            None => write::numbered(&mut self.out, well, done),
        }
        Ok(())
    }

    // ---- the owners behind ----------------------------------------------------------------------

    /// Requests to one shard, whose answers are told to the client.
    pub(super) fn ask(&mut self, shard: u32, lines: &[&[u8]], repeatable: bool) -> Result<(), End> {
        let answers = self.answers(shard, lines, repeatable)?;
        answers.iter().for_each(|answer| self.out.extend_from_slice(answer));
        Ok(())
    }

    /// The answer to one request; `repeatable`: it may be carried out twice.
    pub(super) fn answer(&mut self, shard: u32, line: &[u8], repeatable: bool) -> Result<Vec<u8>, End> {
        Ok(self.answers(shard, &[line], repeatable)?.pop().unwrap_or_default())
    }

    /// The same to a request that may take long, unless the client hangs up meanwhile; none: it is
    /// to be asked again for what is left of its time.
    pub(super) fn answer_in_time(
        &mut self,
        shard: u32,
        line: &[u8],
        repeatable: bool,
        retry: &mut Retry,
    ) -> Result<Option<Vec<u8>>, End> {
        let mut answers = Vec::new();
        Ok(match retry.ask(self.front, || self.try_once(shard, &[line], &mut answers, repeatable, true))? {
            Attempt::Answered(()) => answers.pop(),
            Attempt::Retry => None,
            Attempt::GiveUp => Some(UNREACHED.to_vec()),
        })
    }

    /// Sends requests to the owner of a shard until each has its answer.
    fn answers(&mut self, shard: u32, lines: &[&[u8]], repeatable: bool) -> Result<Vec<Vec<u8>>, End> {
        let front = self.front;
        let mut answers: Vec<Vec<u8>> = Vec::with_capacity(lines.len());
        match until_answered(front, || self.try_once(shard, lines, &mut answers, repeatable, false)) {
            Ok(Some(())) => {}
            Ok(None) => answers.resize(lines.len(), UNREACHED.to_vec()),
            Err(End) => {
                // It hears what is known.
                answers.iter().for_each(|answer| self.out.extend_from_slice(answer));
                return Err(End);
            }
        }
        Ok(answers)
    }

    pub(super) fn try_once(
        &mut self,
        shard: u32,
        lines: &[&[u8]],
        answers: &mut Vec<Vec<u8>>,
        repeatable: bool,
        watching: bool,
    ) -> Result<Tried<()>, End> {
        let Some(mut owner) = self.find(shard)? else {
            // What it was answered before it need not wait for.
            self.flush()?;
            return Ok(Tried::NoOwner);
        };
        match self.exchange(&mut owner, shard, lines, answers, watching) {
            Ok(()) => {
                self.hung_up |= owner.ended;
                self.owner[shard as usize] = Some(owner).filter(|owner| !owner.ended);
                Ok(Tried::Answered(()))
            }
            Err(lost) => {
                self.hung_up |= owner.ended;
                lose(lost, !owner.held.is_empty(), repeatable)
            }
        }
    }

    fn exchange(
        &mut self,
        owner: &mut OwnerConnection,
        shard: u32,
        lines: &[&[u8]],
        answers: &mut Vec<Vec<u8>>,
        watching: bool,
    ) -> Result<(), NoReply> {
        let mut sent = Vec::new();
        let told = self.tell(owner, shard, &mut sent);
        lines[answers.len()..].iter().for_each(|line| sent.extend_from_slice(line));
        owner.send(self.front, shard, &sent)?;
        for _ in 0..told {
            owner.answer(self.front, shard, None)?;
        }
        while answers.len() < lines.len() {
            let client = watching.then_some(&self.client);
            let answer = owner.answer(self.front, shard, client)?;
            note(owner, lines[answers.len()], &answer);
            answers.push(answer);
        }
        owner.forget_of_many(self.front, shard)
    }

    /// The connection to the owner of a shard; none: there is none now.
    fn find(&mut self, shard: u32) -> Result<Option<OwnerConnection>, End> {
        if let Some(mut owner) = self.owner[shard as usize].take() {
            if owner.serves(&self.front.owners, shard) {
                return Ok(Some(owner));
            }
            if !owner.held.is_empty() {
                return Err(End);
            }
        }
        Ok(self.connect(shard))
    }

    pub(super) fn connect(&self, shard: u32) -> Option<OwnerConnection> {
        OwnerConnection::connect(self.front.owners.of(shard)?, Protocol::Beanstalkd).ok()
    }

    /// Appends what an owner does not know of this client yet; how many answers that makes.
    pub(super) fn tell(&self, owner: &mut OwnerConnection, shard: u32, out: &mut Vec<u8>) -> usize {
        let mut count = 0;
        if let Some(said) = &self.said
            && owner.said.as_ref() != Some(said)
        {
            out.extend_from_slice(said);
            count += 1;
            owner.said = Some(Arc::clone(said));
        }
        let mut say = |request: Request<'_>| {
            write::request(out, &request);
            count += 1;
        };
        let is_its = |tube: &str| shard_of(tube, self.shards) == shard;
        let used = if is_its(&self.used) { &self.used } else { DEFAULT_TUBE };
        if owner.used != used {
            say(Request::Use(used));
            owner.used = used.into();
        }
        let wanted = self.watched_at(shard);
        if owner.watched != wanted {
            for tube in wanted.difference(&owner.watched) {
                say(Request::Watch(tube));
            }
            for tube in owner.watched.difference(&wanted) {
                say(Request::Ignore(tube));
            }
            owner.watched = wanted;
        }
        count
    }

    /// What its owner is to take it for watching: one tube at least, of which it has none perhaps.
    pub(super) fn watched_at(&self, shard: u32) -> BTreeSet<String> {
        let its = self.watched.iter().filter(|tube| shard_of(tube, self.shards) == shard);
        let wanted: BTreeSet<String> = its.cloned().collect();
        if wanted.is_empty() { BTreeSet::from([DEFAULT_TUBE.to_owned()]) } else { wanted }
    }

    /// The messages of a shard that it holds, and some whose time has run out.
    pub(super) fn held_of(&self, shard: u32) -> Vec<Id> {
        self.owner[shard as usize].iter().flat_map(|owner| &owner.held).copied().collect()
    }

    /// Whether it holds messages of a shard.
    pub(super) fn holds_of(&self, shard: u32) -> bool {
        self.owner[shard as usize].as_ref().is_some_and(|owner| !owner.held.is_empty())
    }
}

/// What the client holds from then on.
fn note(owner: &mut OwnerConnection, line: &[u8], answer: &[u8]) {
    let mut takes = |reply: Reply<'_>| {
        if let Reply::Message { word: ReplyWord::Reserved, id, .. } = reply {
            owner.held.insert(id);
        }
    };
    match read(answer) {
        Some(Reply::Batch { word: ReplyWord::ReservedBatch, replies }) => replies.iter().for_each(takes),
        Some(Reply::Line {
            word: ReplyWord::Deleted | ReplyWord::Released | ReplyWord::Buried | ReplyWord::NotFound,
            ..
        }) => {
            // It is not its any more, or its time for it had run out.
            if let Some(id) = ended_by(line) {
                owner.held.remove(&id);
            }
        }
        Some(reply) => takes(reply),
        None => {}
    }
}

/// The message that a client that asks so must hold.
fn ended_by(line: &[u8]) -> Option<Id> {
    let Parsed::Complete { message, .. } = request::parse(line, u32::MAX) else { return None };
    match message {
        Request::Delete(id) | Request::Release { id, .. } | Request::Bury { id, .. } | Request::Touch(id) => {
            Some(id)
        }
        _ => None,
    }
}
