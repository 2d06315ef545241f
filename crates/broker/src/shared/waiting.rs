//! Waiting for a message that is not there yet.

use std::sync::Arc;

use krarup_beanstalk::ReplyWord;
use krarup_units::{Nanos, Stamp};

use super::SharedQueues;
use super::pending::{For, PendingReply, Underway, WaitingRequest};
use crate::database::{DatabaseRequest, MessageSelector, QueuedRequest, RequestTimes};
use crate::job::ClientId;
use crate::owner::write_answer;
use crate::queues::{Queues, Reserve, ReserveResult, SAFETY_MARGIN, TakeMode};

/// How often it is looked what others have done, and what has come to its end.
const SWEEP: Nanos = Nanos::from_millis(250);
/// And how long after a sweep that left some of it.
const NEXT_PART: Nanos = Nanos::from_millis(20);
/// A client is woken at once where others have put something; each that finds something wakes the
/// next of that tube.
const WOKEN_AT_ONCE: usize = 16;
/// Tubes of which it is known when something last became ready in them.
const MOST_LATEST: usize = 10_000;

impl SharedQueues {
    pub(super) fn ask_to_wait(
        &mut self,
        queues: &mut Queues,
        client: ClientId,
        query: Reserve,
        shape: ReplyWord,
        now: Stamp,
    ) -> u64 {
        queues.is_worker(client);
        let slot = self.next_number();
        self.turn += 1;
        let wait = WaitingRequest {
            slot,
            turn: self.turn,
            tubes: queues.watched(client),
            most: query.most,
            pops: query.how == TakeMode::Pop,
            shape,
            until: query.timeout.map(|timeout| Stamp(now.0.saturating_add(timeout.0))),
            alarm: None,
            asking: false,
            asked_at: 0,
            wakes: None,
            gives_up: false,
            has_waited: false,
            queried: now,
        };
        self.holder(client).wait = Some(wait);
        self.query_next(queues, client, now);
        slot
    }

    /// Asks for a client that waits.
    fn query_next(&mut self, queues: &Queues, client: ClientId, now: Stamp) {
        let events = self.events;
        let holder = self.holder(client);
        let taker = holder.taker;
        let Some(wait) = holder.wait.as_mut() else { return };
        wait.asking = true;
        wait.queried = now;
        wait.asked_at = events;
        let (slot, shape) = (wait.slot, wait.shape);
        let tube = <&[_; 1]>::try_from(&wait.tubes[..]).ok().map(|[tube]| Arc::clone(tube));
        let query = DatabaseRequest::Take {
            which: MessageSelector::Tubes(wait.tubes.clone()),
            client: queues.name(client),
            taker,
            most: wait.most,
            pops: wait.pops,
        };
        self.send(client, slot, query, For::Take(shape, tube));
    }

    /// There was nothing for it: it goes on waiting, or is told so.
    pub(super) fn found_nothing(
        &mut self,
        queues: &Queues,
        client: ClientId,
        now: Stamp,
        way: &RequestTimes,
    ) {
        let wait = self.holders[client as usize].as_ref().and_then(|holder| holder.wait.as_ref());
        let Some(wait) = wait else { return };
        // What has become ready since the database was asked it may not have seen.
        let missed =
            wait.tubes.iter().any(|tube| self.latest.get(tube).is_some_and(|at| *at > wait.asked_at));
        let soon = self.deadline(client, now);
        let wait = self.holder(client).wait.as_mut().expect("he waits");
        wait.asking = false;
        if soon.is_some_and(|soon| soon <= now) {
            return self.give_answer(client, &ReserveResult::DeadlineSoon, Some(*way));
        }
        if wait.gives_up || wait.until.is_some_and(|until| until <= now) {
            return self.give_answer(client, &ReserveResult::TimedOut, Some(*way));
        }
        wait.has_waited = true;
        self.without_reply.push(*way);
        if missed {
            return self.query_next(queues, client, now);
        }
        let wait = self.holder(client).wait.as_mut().expect("he waits");
        wait.alarm = wait.until.into_iter().chain(soon).min();
        let (turn, alarm) = (wait.turn, wait.alarm);
        for tube in wait.tubes.clone() {
            self.waiting.entry(tube).or_default().insert(turn, client);
        }
        if let Some(alarm) = alarm {
            self.alarms.insert((alarm, client));
        }
    }

    /// When the first of its leases nears its end.
    fn deadline(&mut self, client: ClientId, now: Stamp) -> Option<Stamp> {
        self.forget_expired(client, now);
        let leases = &self.holder(client).leases;
        leases
            .values()
            .map(|lease| lease.until)
            .min()
            .map(|until| Stamp(until.0.saturating_sub(SAFETY_MARGIN.0)))
    }

    fn give_answer(&mut self, client: ClientId, answer: &ReserveResult, way: Option<RequestTimes>) {
        let Some(wait) = self.holder(client).wait.take() else { return };
        let mut bytes = Vec::new();
        write_answer(&mut bytes, wait.shape, answer);
        let (number, repeated) = (wait.slot, wait.repeated());
        self.replies.push(PendingReply { client, number, bytes, way, repeated, stats: None });
    }

    /// It is in no line any more.
    fn leave_lines(&mut self, client: ClientId) {
        let Some(wait) = self.holder(client).wait.as_mut() else { return };
        let (turn, tubes, alarm) = (wait.turn, wait.tubes.clone(), wait.alarm.take());
        if let Some(alarm) = alarm {
            self.alarms.remove(&(alarm, client));
        }
        for tube in tubes {
            if let Some(line) = self.waiting.get_mut(&tube) {
                line.remove(&turn);
                if line.is_empty() {
                    self.waiting.remove(&tube);
                }
            }
        }
    }

    pub(super) fn stop_waiting(&mut self, client: ClientId) {
        self.leave_lines(client);
        self.holder(client).wait = None;
    }

    /// It has found something, or was told that it will not: whether it wakes the next.
    pub(super) fn has_found(&mut self, queues: &Queues, client: ClientId, now: Stamp) {
        let Some(wait) = self.holder(client).wait.take() else { return };
        if let Some(tube) = wait.wakes {
            self.wake(queues, &tube, None, true, now);
        }
    }

    /// Its side of the connection has ended: it waits no longer, nor for the database.
    pub(crate) fn give_up_waiting(&mut self, client: ClientId) {
        let holder = self.holder(client);
        holder.here = Arc::default();
        let Some(wait) = holder.wait.as_mut() else { return };
        wait.gives_up = true;
        if !wait.asking {
            self.leave_lines(client);
            self.give_answer(client, &ReserveResult::TimedOut, None);
        }
    }

    // ---- waking ---------------------------------------------------------------------------------

    /// Something has become ready in a tube, for any client or for one.
    pub(super) fn became_ready(
        &mut self,
        queues: &Queues,
        tube: &Arc<str>,
        receiver: Option<&Arc<str>>,
        now: Stamp,
    ) {
        self.events += 1;
        if self.latest.len() >= MOST_LATEST {
            // The sweep finds what is forgotten here.
            self.latest.clear();
        }
        self.latest.insert(Arc::clone(tube), self.events);
        self.wake(queues, tube, receiver, false, now);
    }

    fn wake(
        &mut self,
        queues: &Queues,
        tube: &Arc<str>,
        receiver: Option<&Arc<str>>,
        wakes: bool,
        now: Stamp,
    ) {
        let Some(line) = self.waiting.get(tube) else { return };
        let may = |client: &ClientId| receiver.is_none() || queues.name(*client).as_ref() == receiver;
        if let Some(client) = line.values().copied().find(may) {
            self.wake_client(queues, client, wakes.then(|| Arc::clone(tube)), now);
        }
    }

    /// Asks once more for a client that waits; of which tube it wakes the next when it finds
    /// something.
    fn wake_client(&mut self, queues: &Queues, client: ClientId, wakes: Option<Arc<str>>, now: Stamp) {
        self.leave_lines(client);
        self.holder(client).wait.as_mut().expect("he waits").wakes = wakes;
        self.query_next(queues, client, now);
    }

    /// Looks soon what there is: something has become ready, and it is not known where.
    pub(super) fn sweep_soon(&mut self) {
        self.events += 1;
        if !self.waiting.is_empty() || self.holders.iter().flatten().any(|holder| holder.wait.is_some()) {
            self.sweep_at = Stamp(0);
        }
    }

    // ---- time -----------------------------------------------------------------------------------

    pub(crate) fn due(&self) -> Option<Stamp> {
        let sweep = (!self.sweeping).then_some(self.sweep_at);
        self.alarms.first().map(|(when, _)| *when).into_iter().chain(sweep).min()
    }

    pub(crate) fn tick(&mut self, queues: &Queues, now: Stamp) {
        while let Some(&(when, client)) = self.alarms.first()
            && when <= now
        {
            self.leave_lines(client);
            // The last look: something may have come that it was not woken for.
            self.query_next(queues, client, now);
        }
        if !self.sweeping && self.sweep_at <= now {
            self.sweeping = true;
            self.sweep_at = now + SWEEP;
            let mut waited: Vec<(Arc<str>, Option<Arc<str>>)> = Vec::new();
            for (tube, line) in &self.waiting {
                let mut names: Vec<_> = line.values().map(|client| queues.name(*client)).collect();
                names.sort_unstable();
                names.dedup();
                waited.extend(names.into_iter().map(|name| (Arc::clone(tube), name)));
            }
            let number = self.next_number();
            let what = For::Sweep(waited.clone());
            self.underway.insert(number, Underway { client: 0, taker: 0, number, what, writes: false });
            let query = DatabaseRequest::Sweep(waited);
            self.asked.push(QueuedRequest { number, query, joins: false, client: None });
            if let Some(backlog) = self.backlog.wanted(queues.tubes_in_metrics(), now) {
                let number = self.next_number();
                let what = For::Backlog;
                self.underway.insert(number, Underway { client: 0, taker: 0, number, what, writes: false });
                let query = DatabaseRequest::Once(backlog);
                self.asked.push(QueuedRequest { number, query, joins: false, client: None });
            }
        }
    }

    pub(super) fn swept(
        &mut self,
        queues: &Queues,
        waited: &[(Arc<str>, Option<Arc<str>>)],
        places: &[usize],
        more: bool,
        now: Stamp,
    ) {
        self.sweeping = false;
        if more {
            self.sweep_at = self.sweep_at.min(now + NEXT_PART);
        }
        for (tube, name) in places.iter().filter_map(|place| waited.get(*place)) {
            let Some(line) = self.waiting.get(tube) else { continue };
            let woken: Vec<ClientId> = line
                .values()
                .copied()
                .filter(|client| queues.name(*client) == *name)
                .take(WOKEN_AT_ONCE)
                .collect();
            for client in woken {
                self.wake_client(queues, client, Some(Arc::clone(tube)), now);
            }
        }
    }
}
