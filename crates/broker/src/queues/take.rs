//! Taking messages: at once, or by waiting for one.

use std::sync::Arc;

use krarup_beanstalk::request::LARGEST_BATCH;
use krarup_units::{Nanos, Stamp};

use super::reservation::{Reserve, ReserveResult, TakeMode, TakenMessage, WaitingClient};
use super::{Due, Queues};
use crate::job::{ClientId, Id, JobState, TubeId};
use crate::tube::first_of;
use crate::window::FirstKey;

/// The last part of a lease: a client that waits for another message is told that it nears its end.
pub(crate) const SAFETY_MARGIN: Nanos = Nanos::from_secs(1);

impl Queues {
    /// A client wants messages. None: it waits, and will find its answer among
    /// [`Self::take_answers`].
    pub fn reserve(&mut self, client: ClientId, query: Reserve, now: Stamp) -> Option<ReserveResult> {
        if query.how != TakeMode::Look {
            self.is_worker(client);
        }
        let (mut taken, mut bytes) = (Vec::new(), 0);
        let soon = self.deadline_is_soon(client, now);
        if soon && !self.holds_any(client) {
            return Some(ReserveResult::DeadlineSoon);
        }
        if query.how == TakeMode::Look
            && let Some(id) = self.best_of(client)
        {
            return Some(ReserveResult::Ready(self.jobs[&id].priority, id));
        }
        while taken.len() < query.most as usize
            && bytes < LARGEST_BATCH
            && let Some(id) = self.best_of(client)
        {
            let message = self.take(client, id, query.how, now);
            bytes += message.body.len() as u64;
            taken.push(message);
        }
        if !taken.is_empty() {
            return Some(ReserveResult::Taken(taken));
        }
        if query.timeout == Some(Nanos::ZERO) {
            // A client is warned also where all there is is paused.
            return Some(if soon { ReserveResult::DeadlineSoon } else { ReserveResult::TimedOut });
        }
        let until = query.timeout.map(|timeout| Stamp(now.0.saturating_add(timeout.0)));
        self.wait(client, query.how, until);
        None
    }

    /// Takes one message by its number, whatever line it is in; none if it is not there, or a
    /// client has it.
    pub fn reserve_job(&mut self, client: ClientId, id: Id, now: Stamp) -> Option<TakenMessage> {
        let job = self.jobs.get(&id)?;
        if matches!(job.state, JobState::Reserved { .. } | JobState::Pending) || !self.may_have(client, id) {
            return None;
        }
        let stood_aside = matches!(job.state, JobState::Delayed { .. } | JobState::Buried { .. });
        self.is_worker(client);
        let taken = self.take(client, id, TakeMode::Lease, now);
        if stood_aside {
            // Else a new owner would find it there again.
            self.write(id);
        }
        Some(taken)
    }

    /// Takes a message out of the line it is in.
    pub(super) fn take(&mut self, client: ClientId, id: Id, how: TakeMode, now: Stamp) -> TakenMessage {
        self.unlist(id);
        let flags = self.shown_flags(client, self.jobs[&id].flags);
        match how {
            TakeMode::Lease => {
                self.lease(client, id, now);
                TakenMessage { id, flags, body: Arc::clone(&self.jobs[&id].body), after: None }
            }
            TakeMode::Pop => {
                self.handed_out(id, now);
                self.jobs.get_mut(&id).expect("it is there").state = JobState::Pending;
                let job = self.remove(id);
                TakenMessage { id, flags, body: job.body, after: self.after() }
            }
            TakeMode::Look => unreachable!("who only looks takes nothing"),
        }
    }

    fn lease(&mut self, client: ClientId, id: Id, now: Stamp) {
        self.handed_out(id, now);
        let job = self.jobs.get_mut(&id).expect("it is there");
        let until = Stamp(now.0.saturating_add(job.ttr.0));
        job.state = JobState::Reserved { by: client, until };
        job.happened.reserves += 1;
        job.saved = false;
        self.tubes.get_mut(job.tube).reserved += 1;
        self.totals.reserved += 1;
        self.client_mut(client).leases.insert((until, id));
        self.due.insert((until, Due::Lease(id)));
    }

    /// Takes a message away from the client that has it; it is in no line then.
    pub(super) fn end_lease(&mut self, id: Id) {
        let job = &self.jobs[&id];
        let JobState::Reserved { by, until } = job.state else { return };
        self.tubes.get_mut(job.tube).reserved -= 1;
        self.totals.reserved -= 1;
        self.client_mut(by).leases.remove(&(until, id));
        self.due.remove(&(until, Due::Lease(id)));
    }

    /// Whether a client has a message whose time has not run out.
    pub(crate) fn holds_lease(&self, client: ClientId) -> bool {
        !self.client(client).leases.is_empty()
    }

    pub(super) fn deadline_is_soon(&self, client: ClientId, now: Stamp) -> bool {
        let soonest = self.client(client).leases.first();
        soonest.is_some_and(|(until, _)| now.0.saturating_add(SAFETY_MARGIN.0) >= until.0)
    }

    /// Whether it is for every client, or for this one.
    pub(super) fn may_have(&self, client: ClientId, id: Id) -> bool {
        let receiver = &self.jobs[&id].receiver;
        receiver.is_none() || *receiver == self.client(client).name
    }

    /// Whether there is a message for it in a tube it watches, paused ones included.
    fn holds_any(&self, client: ClientId) -> bool {
        let known = self.client(client);
        known.watched.iter().any(|tube| self.tubes.get(*tube).holds_for(known.name.as_ref()))
    }

    /// The most urgent, then oldest message of all tubes it watches that are open.
    fn best_of(&self, client: ClientId) -> Option<Id> {
        let known = self.client(client);
        let tubes = known.watched.iter().map(|tube| self.tubes.get(*tube));
        let open = tubes.filter(|tube| tube.paused.is_none());
        first_of(open.flat_map(|tube| tube.lines_for(known.name.as_ref()))).here().map(|(_, id)| id)
    }

    // ---- waiting --------------------------------------------------------------------------------

    fn wait(&mut self, client: ClientId, how: TakeMode, until: Option<Stamp>) {
        for tube in self.client(client).watched.clone() {
            self.tubes.get_mut(tube).waiting.push_back(client);
        }
        let turn = self.next_turn;
        self.next_turn += 1;
        self.client_mut(client).waiting = Some(WaitingClient { turn, how, until, alarm: None });
        self.set_alarm(client);
        self.totals.waiting += 1;
    }

    /// When to look after a client that waits: when its time is over, or a lease of its nears its
    /// end.
    fn set_alarm(&mut self, client: ClientId) {
        let known = self.client_mut(client);
        let soon = known.leases.first().map(|(end, _)| Stamp(end.0.saturating_sub(SAFETY_MARGIN.0)));
        let Some(waiting) = &mut known.waiting else { return };
        waiting.alarm = waiting.until.into_iter().chain(soon).min();
        if let Some(alarm) = waiting.alarm {
            self.due.insert((alarm, Due::Client(client)));
        }
    }

    /// It waits no longer, whatever for.
    pub(super) fn stop_waiting(&mut self, client: ClientId) -> Option<TakeMode> {
        let waiting = self.client(client).waiting?;
        if let Some(alarm) = waiting.alarm {
            self.due.remove(&(alarm, Due::Client(client)));
        }
        for tube in self.client(client).watched.clone() {
            // A client that was served a moment ago stands behind all that wait for long.
            let line = &self.tubes.get(tube).waiting;
            let place = line.binary_search_by_key(&waiting.turn, |other| self.turn(*other));
            if let Ok(place) = place {
                self.tubes.get_mut(tube).waiting.remove(place);
            }
        }
        self.client_mut(client).waiting = None;
        self.totals.waiting -= 1;
        Some(waiting.how)
    }

    /// When a client that is in a line began to wait, compared with the others.
    fn turn(&self, client: ClientId) -> u64 {
        self.client(client).waiting.expect("he waits").turn
    }

    /// Its side of the connection has ended: it is told that nothing arrived.
    pub fn give_up_waiting(&mut self, client: ClientId) {
        if self.stop_waiting(client).is_some() {
            self.answers.push((client, ReserveResult::TimedOut));
        }
    }

    /// The client that has waited longest for this message.
    pub(super) fn longest_waiting_client(&self, id: Id) -> Option<ClientId> {
        let tube = self.tubes.get(self.jobs[&id].tube);
        if tube.paused.is_some() {
            return None;
        }
        let mut waiting = tube.waiting.iter().copied().filter(|client| self.may_have(*client, id));
        // What is there already goes before it; it is on its way out of the store.
        waiting.find(|client| !tube.holds_for(self.client(*client).name.as_ref()))
    }

    /// Gives a message that is in no line to a client that waits; whether it has taken it, and not
    /// only looked.
    pub(super) fn grant(&mut self, client: ClientId, id: Id, now: Stamp) -> bool {
        let how = self.stop_waiting(client).expect("he waits");
        if how == TakeMode::Look {
            self.answers.push((client, ReserveResult::Ready(self.jobs[&id].priority, id)));
            return false;
        }
        self.jobs.get_mut(&id).expect("it is there").state = JobState::Pending;
        let taken = self.take(client, id, how, now);
        self.answers.push((client, ReserveResult::Taken(vec![taken])));
        true
    }

    /// A tube is open again: those that wait for it are served in turn.
    pub(super) fn serve_waiting(&mut self, tube: TubeId, now: Stamp) {
        let waiting: Vec<ClientId> = self.tubes.get(tube).waiting.iter().copied().collect();
        for client in waiting {
            // A message that one before it only looked at was shown to it as well.
            if self.client(client).waiting.is_none() {
                continue;
            }
            let name = self.client(client).name.clone();
            match self.tubes.get(tube).first_for(name.as_ref()) {
                FirstKey::Is((_, id)) => {
                    self.unlist(id);
                    if !self.grant(client, id, now) {
                        self.offer(id, now);
                    }
                }
                FirstKey::Beyond(_) => self.read_ready(tube, name.as_ref(), 1),
                FirstKey::Nothing => {}
            }
        }
    }

    /// A client has waited until its alarm.
    pub(super) fn wake(&mut self, client: ClientId, now: Stamp) {
        let soon = self.deadline_is_soon(client, now);
        let until = self.client(client).waiting.and_then(|waiting| waiting.until);
        if !soon && until.is_none_or(|until| until > now) {
            // The lease that it was to be woken for is no more.
            return self.set_alarm(client);
        }
        self.stop_waiting(client);
        self.answers.push((client, if soon { ReserveResult::DeadlineSoon } else { ReserveResult::TimedOut }));
    }

    /// The replies to clients that waited, in order.
    pub fn take_answers(&mut self, into: &mut Vec<(ClientId, ReserveResult)>) {
        into.append(&mut self.answers);
    }
}
