//! Requests that are for several shards: each is asked, and the answers are made one.

use std::collections::BTreeSet;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use krarup_beanstalk::{Reply, ReplyWord, Request, Verb, write};
use krarup_units::Nanos;

use super::owner_connection::{
    ASKED_AT_ONCE, AwaitState, LOOK, MOVED, OwnerConnection, Woken, has_hung_up, read, says, wait,
};
use super::retry::{Attempt, Retry};
use super::serving::End;
use super::session::BeanstalkSession;
use krarup_broker::job::Id;
use krarup_broker::queues::TakeMode;
use krarup_broker::shards::shard_of;

/// Seconds after which a question that no shard has answered is asked again.
const LONG: Nanos = Nanos::from_secs(3_600);
/// The names in `stats` that are sums of the shards' own.
const SUMS: [&str; 6] = ["current-", "cmd-", "total-", "job-", "commits", "binlog-records-written"];

/// What shards say that were asked for a message.
#[derive(Default)]
struct LookAnswers {
    /// The message that is taken next, by its priority and its number, and its shard.
    ready: Option<((u32, Id), u32)>,
    /// Whether a lease of the client ends within a second.
    soon: bool,
    /// Whether a shard has no owner, which may have one soon.
    missing: bool,
    /// Whether a shard had none for too long.
    unreached: bool,
}

impl BeanstalkSession<'_> {
    // ---- waiting --------------------------------------------------------------------------------

    /// Messages out of the tubes that are watched, whatever shards they are of.
    pub(super) fn reserve(
        &mut self,
        how: TakeMode,
        most: Option<u32>,
        timeout: Option<Nanos>,
    ) -> Result<(), End> {
        let end = timeout.map(|timeout| Instant::now() + timeout.as_duration());
        let watched: BTreeSet<u32> = self.watched.iter().map(|tube| shard_of(tube, self.shards)).collect();
        let watched: Vec<u32> = watched.into_iter().collect();
        // A client that holds something must hear in time that it will not hold it for long,
        // wherever it is.
        let held = (0..self.shards).filter(|shard| self.holds_of(*shard) && !watched.contains(shard));
        let held: Vec<u32> = held.collect();
        if timeout != Some(Nanos::ZERO) {
            self.flush()?;
        }
        match (&watched[..], &held[..]) {
            (&[shard], []) => self.reserve_of_one(shard, how, most, end),
            _ => {
                let answered = self.reserve_of_several(&watched, &held, how, most, end);
                self.look_away();
                answered
            }
        }
    }

    fn reserve_of_one(
        &mut self,
        shard: u32,
        how: TakeMode,
        most: Option<u32>,
        end: Option<Instant>,
    ) -> Result<(), End> {
        if end.is_some_and(|end| end <= Instant::now()) || has_hung_up(&self.client) {
            // There is nothing to wait for, and what it holds stays its for what it has sent.
            return self.ask(shard, &[&line(how, most, Nanos::ZERO)[..]], how != TakeMode::Pop);
        }
        let mut retry = Retry::begin();
        loop {
            let left = || end.map(|end| end.saturating_duration_since(Instant::now()).as_millis());
            // Whole seconds, and never fewer than the milliseconds that are left.
            let seconds = left().map(|millis| Nanos::from_secs(millis.div_ceil(1_000) as u64));
            let asked = line(how, most, seconds.unwrap_or(LONG));
            let answer = match self.answer_in_time(shard, &asked, how != TakeMode::Pop, &mut retry)? {
                None if self.hung_up => ReplyWord::TimedOut.line().to_vec(),
                None => continue,
                Some(answer) => answer,
            };
            // An owner that ends tells the clients that wait that nothing came. The last
            // millisecond is not worth another question.
            let early = answer == ReplyWord::TimedOut.line() && left() != Some(0);
            if early && !self.hung_up {
                continue;
            }
            self.out.extend_from_slice(&answer);
            return Ok(());
        }
    }

    /// Out of the shards that it watches something of. Those where it only holds something are
    /// asked for their warning, and for nothing else: an owner takes every client for watching
    /// something. A shard without an owner keeps no message of the others from the client; while
    /// there is none elsewhere it is waited for.
    fn reserve_of_several(
        &mut self,
        watched: &[u32],
        held: &[u32],
        how: TakeMode,
        most: Option<u32>,
        end: Option<Instant>,
    ) -> Result<(), End> {
        let mut asked: Vec<(u32, Retry)> =
            watched.iter().chain(held).map(|shard| (*shard, Retry::begin())).collect();
        // Where there is something at once no owner is asked to tell.
        let mut looks_out = false;
        loop {
            // A client that asks for an answer before it looks misses nothing that comes meanwhile.
            let waits = end.is_none_or(|end| Instant::now() < end);
            if waits && looks_out {
                self.look_out(watched);
            }
            let answers = self.look(watched, &mut asked)?;
            if let Some(((priority, id), shard)) = answers.ready {
                if how == TakeMode::Look {
                    write::ready(&mut self.out, priority, id);
                    return Ok(());
                }
                let answer = self.answer(shard, &line(how, most, Nanos::ZERO), how != TakeMode::Pop)?;
                if answer != ReplyWord::TimedOut.line() {
                    self.out.extend_from_slice(&answer);
                    return Ok(());
                }
                // Another client was quicker.
                continue;
            }
            let word = match answers {
                LookAnswers { soon: true, .. } => ReplyWord::DeadlineSoon,
                LookAnswers { unreached: true, .. } => ReplyWord::InternalError,
                _ => ReplyWord::TimedOut,
            };
            let goes_on = word == ReplyWord::TimedOut && (waits || answers.missing);
            if goes_on && waits && !std::mem::replace(&mut looks_out, true) {
                continue;
            }
            // It ends where the client has hung up.
            if !goes_on || !self.wait_for_any(watched, end.filter(|_| waits)) {
                write::line(&mut self.out, word);
                return Ok(());
            }
        }
    }

    /// Asks each of these shards what there is now.
    fn look(&mut self, watched: &[u32], asked: &mut [(u32, Retry)]) -> Result<LookAnswers, End> {
        let (front, look) = (self.front, line(TakeMode::Look, None, Nanos::ZERO));
        let mut all = LookAnswers::default();
        for (shard, retry) in asked {
            let (shard, mut answers) = (*shard, Vec::new());
            match retry.ask_now(front, || self.try_once(shard, &[&look[..]], &mut answers, true, false))? {
                Attempt::Answered(()) => {}
                Attempt::Retry => all.missing = true,
                Attempt::GiveUp => all.unreached = true,
            }
            let Some(answer) = answers.pop() else { continue };
            match ready(&answer) {
                Some(ready) if watched.contains(&shard) => {
                    all.ready = all.ready.into_iter().chain([(ready, shard)]).min();
                }
                // It is of a tube that the client does not watch, and hides the warning.
                Some(_) => all.soon |= self.ends_soon(shard)?,
                None => all.soon |= answer == ReplyWord::DeadlineSoon.line(),
            }
        }
        Ok(all)
    }

    /// Whether a lease of a message of this shard ends within a second, as its owner says of each.
    fn ends_soon(&mut self, shard: u32) -> Result<bool, End> {
        for some in self.held_of(shard).chunks(ASKED_AT_ONCE) {
            let mut asked = vec![Vec::new(); some.len()];
            for (line, id) in asked.iter_mut().zip(some) {
                write::request(line, &Request::StatsJob(*id));
            }
            let lines: Vec<&[u8]> = asked.iter().map(Vec::as_slice).collect();
            let mut answers = Vec::new();
            // Where the owner is lost meanwhile, the next look finds out.
            self.try_once(shard, &lines, &mut answers, true, false)?;
            if answers.iter().any(|answer| is_nearly_over(answer)) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Sees to it that the owner of each of these shards, and no other, is asked to tell when there
    /// is something.
    fn look_out(&mut self, shards: &[u32]) {
        for (place, shard) in self.looking.iter_mut().zip(0..) {
            if !shards.contains(&shard) {
                *place = None;
            }
        }
        for &shard in shards {
            let place = shard as usize;
            let there = self.looking[place].take();
            let there = there.filter(|(owner, _)| owner.is_of(&self.front.owners, shard));
            let there = there.and_then(|(mut owner, state)| match state {
                AwaitState::Idle => Some((owner, false)),
                AwaitState::Asked => self.knows_watched(&owner, shard).then_some((owner, true)),
                AwaitState::Ended => has_left_off(&mut owner).then_some((owner, false)),
            });
            let Some((mut owner, asked)) = there.or_else(|| Some((self.connect(shard)?, false))) else {
                continue;
            };
            if !asked {
                let mut sent = Vec::new();
                let told = self.tell(&mut owner, shard, &mut sent);
                write::request(&mut sent, &Request::Await { timeout: LONG });
                let heard = owner.send(self.front, shard, &sent).and_then(|()| {
                    (0..told).try_for_each(|_| owner.answer(self.front, shard, None).map(drop))
                });
                if heard.is_err() {
                    continue;
                }
            }
            self.looking[place] = Some((owner, AwaitState::Asked));
        }
    }

    /// The client waits no longer: else it would count as one that waits in each shard that it had
    /// nothing from. An owner ends a wait when it is asked something else.
    fn look_away(&mut self) {
        let (front, other) = (self.front, line(TakeMode::Look, None, Nanos::ZERO));
        for (place, shard) in self.looking.iter_mut().zip(0..) {
            let Some((owner, state)) = place else { continue };
            if *state != AwaitState::Asked {
                continue;
            }
            // No answer waits for an owner that hangs.
            match owner.send_within(front, shard, &other, Duration::ZERO) {
                Ok(()) => *state = AwaitState::Ended,
                Err(_) => *place = None,
            }
        }
    }

    /// Whether an owner knows everything of this client.
    fn knows_watched(&self, owner: &OwnerConnection, shard: u32) -> bool {
        owner.watched == self.watched_at(shard)
    }

    /// Waits until there may be something; false: the client has hung up.
    fn wait_for_any(&mut self, shards: &[u32], end: Option<Instant>) -> bool {
        // A client that holds something hears from its owner when it asks; and an owner may have
        // gone.
        let holds = (0..self.shards).any(|shard| self.holds_of(shard));
        let looks = shards.iter().all(|shard| self.looking[*shard as usize].is_some());
        let most = if holds || !looks { LOOK } else { LOOK * 5 };
        let left = end.map_or(most, |end| end.saturating_duration_since(Instant::now()).min(most));
        let awaited = self.looking.iter().flatten().filter(|(_, state)| *state != AwaitState::Ended);
        let ends: Vec<&TcpStream> = awaited.map(|(owner, _)| owner.stream()).collect();
        match wait(&ends, Some(&self.client), left.max(Duration::from_millis(1))) {
            Woken::Client => return false,
            Woken::Timeout => return true,
            Woken::Some => {}
        }
        for place in &mut self.looking {
            let Some((owner, state)) = place else { continue };
            if *state == AwaitState::Ended {
                continue;
            }
            match owner.read().and_then(|()| owner.here()) {
                Ok(None) => {}
                Ok(Some(answer)) if answer != MOVED => *state = AwaitState::Idle,
                _ => *place = None,
            }
        }
        true
    }

    // ---- lists and sums -------------------------------------------------------------------------

    /// Names, each once, whichever shards they are of.
    pub(super) fn list(&mut self, line: &[u8]) -> Result<(), End> {
        let mut names = BTreeSet::new();
        for shard in 0..self.shards {
            let answer = self.answer(shard, line, true)?;
            let Some(reply @ Reply::Data(_)) = read(&answer) else {
                self.out.extend_from_slice(&answer);
                return Ok(());
            };
            names.extend(reply.names().map(str::to_owned));
        }
        write::list(&mut self.out, names.iter().map(String::as_str));
        Ok(())
    }

    /// What can be added up is, and `draining` is true where one of them drains; the rest is the
    /// first shard's.
    pub(super) fn stats(&mut self, line: &[u8]) -> Result<(), End> {
        let mut all: Vec<(String, String)> = Vec::new();
        for shard in 0..self.shards {
            let answer = self.answer(shard, line, true)?;
            let Some(reply @ Reply::Data(_)) = read(&answer) else {
                self.out.extend_from_slice(&answer);
                return Ok(());
            };
            if shard == 0 {
                all = reply.pairs().map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
                continue;
            }
            for (key, value) in reply.pairs() {
                let Some((_, sum)) = all.iter_mut().find(|(other, _)| other == key) else { continue };
                if (key, value) == ("draining", "true") {
                    value.clone_into(sum);
                } else if SUMS.iter().any(|sum| key.starts_with(sum))
                    && let (Ok(one), Ok(other)) = (sum.parse::<u64>(), value.parse::<u64>())
                {
                    // The tube `default` is in every shard.
                    let twice = u64::from(key == "current-tubes");
                    *sum = (one + other - twice).to_string();
                }
            }
        }
        let mut text = String::from("---\n");
        all.iter().for_each(|(key, value)| text.push_str(&format!("{key}: {value}\n")));
        write::data(&mut self.out, text.as_bytes());
        Ok(())
    }

    /// Every owner does it in this order, up to the first that cannot; the client hears the answer
    /// of that one, or where all could the answer of the one that counts.
    pub(super) fn of_all(
        &mut self,
        order: impl IntoIterator<Item = u32>,
        counts: u32,
        verb: Verb,
        line: &[u8],
    ) -> Result<(), End> {
        let mut told = Vec::new();
        for shard in order {
            let answer = self.answer(shard, line, true)?;
            let word = read(&answer).and_then(|reply| reply.word());
            if word.is_none_or(|word| !verb.replies().contains(&word)) {
                told = answer;
                break;
            }
            if shard == counts {
                told = answer;
            }
        }
        self.out.extend_from_slice(&told);
        Ok(())
    }

    // ---- clients --------------------------------------------------------------------------------

    /// Every owner must know who is registered; the one whose word counts hears of a new client
    /// last, and of one that goes first.
    pub(super) fn of_clients(&mut self, shard: u32, verb: Verb, line: &[u8]) -> Result<(), End> {
        let mut order: Vec<u32> = (0..self.shards).filter(|other| *other != shard).collect();
        order.insert(if verb == Verb::Register { order.len() } else { 0 }, shard);
        self.of_all(order, shard, verb, line)
    }

    /// The message of a sender that has the smallest number, whichever shard it is of. Where there
    /// is none, an owner that could not say so is heard before those that could.
    pub(super) fn of_sender(&mut self, look: &[u8], line: &[u8]) -> Result<(), End> {
        loop {
            let (mut best, mut nothing): (Option<(Id, u32)>, Vec<u8>) = (None, Vec::new());
            for shard in 0..self.shards {
                let answer = self.answer(shard, look, true)?;
                if let Some(Reply::Message { word: ReplyWord::Found, id, .. }) = read(&answer) {
                    best = best.into_iter().chain([(id, shard)]).min();
                } else if nothing.is_empty() || nothing == ReplyWord::Empty.line() {
                    nothing = answer;
                }
            }
            let Some((_, shard)) = best else {
                self.out.extend_from_slice(&nothing);
                return Ok(());
            };
            let answer = self.answer(shard, line, look == line)?;
            if answer != ReplyWord::Empty.line() {
                self.out.extend_from_slice(&answer);
                return Ok(());
            }
        }
    }
}

/// Whether an owner has answered both what it was asked to tell and what ended that. One that does
/// not end a wait so has not.
fn has_left_off(owner: &mut OwnerConnection) -> bool {
    owner.read().is_ok() && (0..2).all(|_| matches!(owner.here(), Ok(Some(answer)) if answer != MOVED))
}

/// A request for messages.
fn line(how: TakeMode, most: Option<u32>, timeout: Nanos) -> Vec<u8> {
    let mut line = Vec::new();
    let request = match (how, most) {
        (TakeMode::Pop, _) => Request::Pop { timeout },
        (TakeMode::Look, _) => Request::Await { timeout },
        (TakeMode::Lease, None) => Request::ReserveWithTimeout { timeout },
        (TakeMode::Lease, Some(most)) => Request::ReserveBatch { most, timeout },
    };
    write::request(&mut line, &request);
    line
}

/// Whether what `stats-job` answers is of a lease in its last second.
fn is_nearly_over(answer: &[u8]) -> bool {
    says(answer, ("state", "reserved")) && says(answer, ("time-left", "0"))
}

/// The priority and the number of a message that is ready.
fn ready(answer: &[u8]) -> Option<(u32, Id)> {
    match read(answer)? {
        Reply::Ready { priority, id } => Some((priority, id)),
        _ => None,
    }
}
