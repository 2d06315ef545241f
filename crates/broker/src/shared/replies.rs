//! What a reply of the database is in the protocol's words.

use std::sync::Arc;

use krarup_beanstalk::{ReplyWord, write};
use krarup_units::Stamp;

use super::pending::{For, HeldLease, MOST_LEASES, PendingReply, Underway, WaitingRequest, after};
use super::{PartCount, SharedQueues};
use crate::database::{DatabaseReply, RequestTimes, ResultCode, ResultRow, Taker, TubeFacts};
use crate::job::{ClientId, Id};
use crate::owner::write_taken;
use crate::queues::{Queues, TakenMessage, TubeView};
use crate::statistics;

const NOT_FOUND: ReplyWord = ReplyWord::NotFound;

impl SharedQueues {
    /// Replies to clients.
    pub(crate) fn take_replies(&mut self) -> Vec<PendingReply> {
        std::mem::take(&mut self.replies)
    }

    /// Trips that looked for messages and of which no client is told.
    pub(crate) fn take_without_reply(&mut self) -> Vec<RequestTimes> {
        std::mem::take(&mut self.without_reply)
    }

    /// A request has come back.
    #[expect(clippy::too_many_lines, reason = "a table: one arm for each kind of request")]
    pub(crate) fn answered(
        &mut self,
        queues: &mut Queues,
        number: u64,
        reply: DatabaseReply,
        way: &RequestTimes,
        now: Stamp,
    ) {
        let Some(asked) = self.underway.remove(&number) else { return };
        if let DatabaseReply::Part { done, rest } = reply {
            return self.ask_rest(asked, done, rest);
        }
        let Underway { client, taker, number: slot, what, .. } = asked;
        if let For::Put(_, _, size, _) = what {
            self.used -= size;
        }
        if let For::Sweep(waited) = what {
            let (places, expired, more) = if let DatabaseReply::Places { places, expired, more } = reply {
                (places, expired, more)
            } else {
                (Vec::new(), 0, false)
            };
            queues.have_expired(expired);
            return self.swept(queues, &waited, &places, more, now);
        }
        if let For::Backlog = what {
            return self.backlog.answered(reply, now);
        }
        if let (For::DeleteTube(tube, asked), DatabaseReply::Yes(true)) = (&what, &reply) {
            self.forget_deleted(tube, *asked);
        }
        // What was not asked has no times.
        let asked = (reply != DatabaseReply::NotAsked).then_some(*way);
        let there = self.holders.get(client as usize).and_then(Option::as_ref);
        if matches!(what, For::GiveBack(..)) || there.is_none_or(|holder| holder.taker != taker) {
            if matches!(what, For::Take(..)) {
                self.without_reply.extend(asked);
            }
            self.part_answered(slot, false);
            return self.answered_too_late(queues, what, reply, taker, now);
        }
        let holder = self.holder(client);
        holder.out = holder.out.and_then(|(kind, count)| (count > 1).then_some((kind, count - 1)));
        let wait = holder.wait.as_ref().filter(|wait| wait.slot == slot);
        let repeated = wait.and_then(WaitingRequest::repeated);
        let mut bytes = Vec::new();
        let mut stats = None;
        match (what, reply) {
            (For::Put(..), DatabaseReply::Failed(_)) => write::line(&mut bytes, ReplyWord::OutOfMemory),
            (_, DatabaseReply::Failed(_) | DatabaseReply::NotAsked) => {
                self.stop_waiting(client);
                if self.several.contains_key(&slot) {
                    return self.one_of_several(client, slot, false, way);
                }
                write::line(&mut bytes, ReplyWord::InternalError);
            }
            (For::Put(tube, receiver, _, delay), DatabaseReply::Lines(lines)) => {
                let line = first(&lines);
                match line.word {
                    ResultCode::Done => {
                        write::numbered(&mut bytes, ReplyWord::Inserted, line.id);
                        self.was_put(queues, line.id, (&tube, receiver.as_ref()), delay, now);
                    }
                    ResultCode::None => write::numbered(&mut bytes, ReplyWord::Exists, line.id),
                    word => write::line(&mut bytes, unknown(word)),
                }
            }
            (For::Take(shape, tube), DatabaseReply::Lines(lines)) => {
                let word = first(&lines).word;
                if word == ResultCode::None && self.holder(client).wait.is_some() {
                    return self.found_nothing(queues, client, now, way);
                }
                if word == ResultCode::Done {
                    let leased = shape != ReplyWord::Popped;
                    let taken = lines
                        .into_iter()
                        .map(|line| {
                            let flags = queues.shown_flags(client, line.flags);
                            self.taken(client, line, (flags, tube.clone()), leased, now)
                        })
                        .collect::<Vec<_>>();
                    write_taken(&mut bytes, shape, &taken);
                    self.has_found(queues, client, now);
                } else {
                    let nothing = if shape == ReplyWord::Popped { ReplyWord::Empty } else { NOT_FOUND };
                    write::line(&mut bytes, if word == ResultCode::None { nothing } else { unknown(word) });
                }
            }
            (For::Delete(id), DatabaseReply::Lines(lines)) => {
                let gone = first(&lines).word == ResultCode::Done;
                if gone {
                    self.no_longer_holds(client, id, true, now);
                }
                if self.several.contains_key(&slot) {
                    return self.one_of_several(client, slot, gone, way);
                }
                write::line(&mut bytes, if gone { ReplyWord::Deleted } else { NOT_FOUND });
            }
            (For::Release(id, delay), DatabaseReply::Lines(lines)) => {
                let word = first(&lines).word;
                if word != ResultCode::None
                    && let Some(tube) = self.no_longer_holds(client, id, false, now)
                    && word == ResultCode::Done
                {
                    self.waits.arrived(id, &tube, delay, true, now);
                }
                let given_up = if word == ResultCode::Tube { ReplyWord::Buried } else { ReplyWord::Released };
                write::line(&mut bytes, if word == ResultCode::None { NOT_FOUND } else { given_up });
                self.sweep_soon();
            }
            (For::Bury(id), DatabaseReply::Lines(lines)) => {
                let done = first(&lines).word != ResultCode::None;
                if done {
                    self.no_longer_holds(client, id, false, now);
                }
                write::line(&mut bytes, if done { ReplyWord::Buried } else { NOT_FOUND });
            }
            (For::Touch(id), DatabaseReply::Lines(lines)) => {
                let done = first(&lines).word == ResultCode::Done;
                if done && let Some(lease) = self.holder(client).leases.get_mut(&id) {
                    lease.until = after(now, lease.ttr);
                }
                if self.several.contains_key(&slot) {
                    return self.one_of_several(client, slot, done, way);
                }
                write::line(&mut bytes, if done { ReplyWord::Touched } else { NOT_FOUND });
            }
            (For::KickJob, DatabaseReply::Lines(lines)) => {
                let done = first(&lines).word == ResultCode::Done;
                write::line(&mut bytes, if done { ReplyWord::Kicked } else { NOT_FOUND });
                self.sweep_soon();
            }
            (For::Kick(before), DatabaseReply::Count(count)) => {
                write::numbered(&mut bytes, ReplyWord::Kicked, before + count);
                self.sweep_soon();
            }
            (For::Look, DatabaseReply::Lines(lines)) => {
                let line = first(&lines);
                match line.word {
                    ResultCode::Done => {
                        let flags = queues.shown_flags(client, line.flags);
                        write::message(&mut bytes, ReplyWord::Found, line.id, flags, &line.body);
                    }
                    ResultCode::None => write::line(&mut bytes, NOT_FOUND),
                    word => write::line(&mut bytes, unknown(word)),
                }
            }
            (For::Seek, DatabaseReply::Lines(lines)) => {
                let line = first(&lines);
                match line.word {
                    ResultCode::Done => {
                        write::message(&mut bytes, ReplyWord::Found, line.id, None, &line.body);
                    }
                    ResultCode::None => write::line(&mut bytes, ReplyWord::Empty),
                    word => write::line(&mut bytes, unknown(word)),
                }
            }
            (For::List, DatabaseReply::Names(names)) => {
                write::list(&mut bytes, names.iter().map(|name| &**name));
            }
            (For::Tubes, DatabaseReply::Names(names)) => {
                let mut all = queues.tube_names();
                all.extend(names.into_iter().filter(|name| !queues.has_tube(name)));
                write::list(&mut bytes, all.iter().map(|name| &**name));
            }
            (For::StatsJob, DatabaseReply::Job(view)) => match view {
                None => write::line(&mut bytes, NOT_FOUND),
                Some(view) => write::data(&mut bytes, statistics::job(&view).as_bytes()),
            },
            (For::StatsTube(name), DatabaseReply::Tube(facts)) => {
                match self.view_tube(queues, &name, &facts, now) {
                    None => write::line(&mut bytes, NOT_FOUND),
                    Some(view) => {
                        let report = self.report(queues, &name, now);
                        let text = statistics::tube(&view, report.as_ref(), queues.waiting_target());
                        write::data(&mut bytes, text.as_bytes());
                    }
                }
            }
            (For::Stats, DatabaseReply::Totals(totals, tubes)) => stats = Some((totals, tubes)),
            (For::Login(name), DatabaseReply::Yes(known)) => {
                if known {
                    queues.call(client, &name);
                }
                write::line(&mut bytes, if known { ReplyWord::LoggedIn } else { ReplyWord::UnknownClient });
            }
            (what, DatabaseReply::Yes(yes)) => write::line(&mut bytes, in_a_word(&what, yes)),
            (what, reply) => unreachable!("{what:?} is never answered with {reply:?}"),
        }
        self.replies.push(PendingReply { client, number: slot, bytes, way: asked, repeated, stats });
    }

    /// The client is gone; what was leased to it is given back.
    fn answered_too_late(
        &mut self,
        queues: &mut Queues,
        what: For,
        reply: DatabaseReply,
        taker: Taker,
        now: Stamp,
    ) {
        match (what, reply) {
            (
                For::Take(ReplyWord::Reserved | ReplyWord::ReservedBatch, tube),
                DatabaseReply::Lines(lines),
            ) => {
                for line in lines.iter().filter(|line| line.word == ResultCode::Done) {
                    self.give_back(line.id, taker, tube.clone().or_else(|| line.tube.clone()));
                }
            }
            (For::Put(tube, receiver, _, delay), DatabaseReply::Lines(lines)) => {
                let line = first(&lines);
                if line.word == ResultCode::Done {
                    self.was_put(queues, line.id, (&tube, receiver.as_ref()), delay, now);
                }
            }
            (For::GiveBack(id, tube), reply) => {
                if let (Some(tube), DatabaseReply::Lines(lines)) = (tube, reply)
                    && first(&lines).word == ResultCode::Done
                {
                    self.waits.arrived(id, &tube, 0, true, now);
                }
                self.sweep_soon();
            }
            (_, DatabaseReply::NotAsked) => {}
            _ => self.sweep_soon(),
        }
    }

    /// A message is in the database, in this tube, for one client alone, after so many seconds. One
    /// that is over at once (none) is seen by no client, and arrives for none.
    fn was_put(
        &mut self,
        queues: &Queues,
        id: Id,
        (tube, receiver): (&Arc<str>, Option<&Arc<str>>),
        delay: Option<u32>,
        now: Stamp,
    ) {
        self.put += 1;
        if let Some(delay) = delay {
            self.waits.arrived(id, tube, delay, false, now);
            self.became_ready(queues, tube, receiver, now);
        }
    }

    fn taken(
        &mut self,
        client: ClientId,
        line: ResultRow,
        (flags, tube): (Option<u32>, Option<Arc<str>>),
        leased: bool,
        now: Stamp,
    ) -> TakenMessage {
        let tube = self.waits.handed_out(line.id, tube.or(line.tube), now);
        if leased {
            let holder = self.holder(client);
            if holder.leases.len() >= holder.look_at {
                self.forget_expired(client, now);
                // All of them are looked at, so that it is done the more rarely the more they are.
                let holder = self.holder(client);
                holder.look_at = MOST_LEASES.max(2 * holder.leases.len());
            }
            let lease = HeldLease { until: after(now, line.ttr), ttr: line.ttr, since: now, tube };
            self.holder(client).leases.insert(line.id, lease);
        }
        TakenMessage { id: line.id, flags, body: line.body, after: None }
    }

    /// A lease is over, with the message done or not; its tube, if it was held here and that is
    /// known.
    fn no_longer_holds(&mut self, client: ClientId, id: u64, done: bool, now: Stamp) -> Option<Arc<str>> {
        let lease = self.holder(client).leases.remove(&id)?;
        self.waits.ended(&lease, done, now);
        lease.tube
    }

    fn one_of_several(&mut self, client: ClientId, slot: u64, well: bool, way: &RequestTimes) {
        if let Some(PartCount { done, word, .. }) = self.part_answered(slot, well) {
            let mut bytes = Vec::new();
            write::numbered(&mut bytes, word, done);
            let way = Some(*way);
            self.replies.push(PendingReply { client, number: slot, bytes, way, repeated: None, stats: None });
        }
    }

    /// One query of a request that is several has come back; the request, if it was the last.
    fn part_answered(&mut self, slot: u64, well: bool) -> Option<PartCount> {
        let count = self.several.get_mut(&slot)?;
        count.left -= 1;
        count.done += u64::from(well);
        if count.left == 0 { self.several.remove(&slot) } else { None }
    }

    /// A tube as the database and its connections here make it; none: there is none of this name.
    fn view_tube(&self, queues: &Queues, name: &Arc<str>, facts: &TubeFacts, now: Stamp) -> Option<TubeView> {
        let here = queues.view_tube(name, now);
        let totals = &facts.totals;
        let there = totals.ready + totals.reserved + totals.delayed + totals.buried;
        if here.is_none() && there == 0 && !facts.kept {
            return None;
        }
        Some(TubeView {
            name: Arc::clone(name),
            urgent: totals.urgent,
            ready: totals.ready,
            reserved: totals.reserved,
            delayed: totals.delayed,
            buried: totals.buried,
            jobs: totals.jobs,
            using: here.as_ref().map_or(0, |here| here.using),
            watching: here.as_ref().map_or(0, |here| here.watching),
            waiting: self.waiting_for(name),
            deletes: 0,
            expired: None,
            expires: facts.expires,
            keeps: facts.keeps,
            pauses: u64::from(facts.pause.0 > 0),
            pause: facts.pause,
            pause_left: facts.pause_left,
        })
    }
}

fn first(lines: &[ResultRow]) -> ResultRow {
    lines.first().cloned().unwrap_or_else(|| ResultRow {
        word: ResultCode::None,
        id: 0,
        ttr: 0,
        flags: 0,
        tube: None,
        body: Arc::default(),
    })
}

const fn unknown(word: ResultCode) -> ReplyWord {
    match word {
        ResultCode::Client => ReplyWord::UnknownClient,
        _ => ReplyWord::UnknownTube,
    }
}

fn in_a_word(what: &For, yes: bool) -> ReplyWord {
    match (what, yes) {
        (For::Pause, true) => ReplyWord::Paused,
        (For::Pause, false) => NOT_FOUND,
        (For::Register, true) => ReplyWord::Registered,
        (For::Unregister, true) => ReplyWord::Unregistered,
        (For::Unregister, false) => ReplyWord::UnknownClient,
        (For::Create, true) => ReplyWord::Created,
        (For::DeleteTube(..), true) => ReplyWord::Deleted,
        (For::DeleteTube(..), false) => ReplyWord::UnknownTube,
        (For::Limit, _) => ReplyWord::Limited,
        (For::Expire, _) => ReplyWord::Expiring,
        (For::Archive, _) => ReplyWord::Archiving,
        // A client is registered already, a tube was created before.
        _ => ReplyWord::Exists,
    }
}
