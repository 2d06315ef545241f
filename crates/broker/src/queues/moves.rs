//! What is done to a message that is there: by the client that has it, or by any client.

use krarup_units::{Nanos, Stamp};

use super::{After, Due, Queues};
use crate::job::{ClientId, Id, JobState};

/// Where a message went that was given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// Back.
    Within,
    /// It was reserved too often: aside, or into the tube of the dead.
    Reached,
}

impl Queues {
    /// Whether a client has this message.
    pub(crate) fn holds(&self, client: ClientId, id: Id) -> bool {
        matches!(self.jobs.get(&id), Some(job) if matches!(job.state, JobState::Reserved { by, .. } if by == client))
    }

    /// A message is done; none if it is not there, or another client has it.
    pub fn delete(&mut self, client: ClientId, id: Id, now: Stamp) -> Option<After> {
        match self.jobs.get(&id)?.state {
            JobState::Pending => return None,
            JobState::Reserved { by, .. } if by != client => return None,
            _ => {}
        }
        self.service_ended(id, true, now);
        let tube = self.jobs[&id].tube;
        self.tubes.get_mut(tube).deletes += 1;
        self.remove(id);
        Some(self.after())
    }

    /// Its holder gives a message back; none if it does not hold it.
    pub fn release(
        &mut self,
        client: ClientId,
        id: Id,
        priority: u32,
        delay: Nanos,
        now: Stamp,
    ) -> Option<(Released, After)> {
        if !self.holds(client, id) {
            return None;
        }
        self.service_ended(id, false, now);
        self.end_lease(id);
        let job = self.jobs.get_mut(&id).expect("he holds it");
        job.priority = priority;
        job.delay = delay;
        job.happened.releases += 1;
        let limit = if self.is_dead(id) {
            self.bury_dead(id, now);
            Released::Reached
        } else {
            // Written before any client else may have it: the next to take it may pop it.
            if delay > Nanos::ZERO {
                let until = self.on_the_microsecond(Stamp(now.0.saturating_add(delay.0)));
                let state = self.delayed(until);
                self.jobs.get_mut(&id).expect("he holds it").state = state;
                self.write(id);
                self.delay(id, until);
            } else {
                self.jobs.get_mut(&id).expect("he holds it").state = JobState::Pending;
                self.write(id);
                self.make_ready(id, now);
            }
            Released::Within
        };
        Some((limit, self.after()))
    }

    /// Its holder buries a message; none if it does not hold it.
    pub fn bury(&mut self, client: ClientId, id: Id, priority: u32, now: Stamp) -> Option<After> {
        if !self.holds(client, id) {
            return None;
        }
        self.service_ended(id, false, now);
        self.end_lease(id);
        self.jobs.get_mut(&id).expect("he holds it").priority = priority;
        self.bury_here(id);
        Some(self.after())
    }

    fn bury_here(&mut self, id: Id) {
        self.jobs.get_mut(&id).expect("it is there").happened.buries += 1;
        let order = self.next_order;
        self.next_order += 1;
        self.jobs.get_mut(&id).expect("it is there").state = JobState::Buried { order };
        self.write(id);
        self.set_aside(id, order);
    }

    /// Its holder has a message for a whole lease from now on; whether it holds it.
    pub fn touch(&mut self, client: ClientId, id: Id, now: Stamp) -> bool {
        if !self.holds(client, id) {
            return false;
        }
        let job = self.jobs.get_mut(&id).expect("he holds it");
        let JobState::Reserved { until: before, .. } = job.state else { return false };
        let until = Stamp(now.0.saturating_add(job.ttr.0));
        job.state = JobState::Reserved { by: client, until };
        let leases = &mut self.client_mut(client).leases;
        leases.remove(&(before, id));
        leases.insert((until, id));
        self.due.remove(&(before, Due::Lease(id)));
        self.due.insert((until, Due::Lease(id)));
        true
    }

    /// Makes up to `bound` messages of the tube in use ready: those buried, or where there are
    /// none, those delayed. How many.
    pub fn kick(&mut self, client: ClientId, bound: u32, now: Stamp) -> (u32, After) {
        let tube = self.tubes.get(self.client(client).used);
        let begun = self.heads.kicking.remove(&client);
        let done = begun.map_or(0, |kicking| kicking.done);
        let left = bound.saturating_sub(done) as usize;
        let ids: Vec<Id> = if begun.map_or(!tube.buried.is_empty(), |kicking| kicking.buried) {
            tube.buried.here().take(left).map(|(_, id)| id).collect()
        } else {
            tube.delayed.here().take(left).map(|(_, id)| id).collect()
        };
        for &id in &ids {
            self.kick_one(id, now);
        }
        // A part may be in a batch that is on its way.
        let before = begun.map(|_| self.gathering - 1);
        (ids.len() as u32 + done, self.after().or(before))
    }

    /// Makes one message ready that was buried or is delayed; none if it is neither.
    pub fn kick_job(&mut self, id: Id, now: Stamp) -> Option<After> {
        if !matches!(self.jobs.get(&id)?.state, JobState::Buried { .. } | JobState::Delayed { .. }) {
            return None;
        }
        self.kick_one(id, now);
        Some(self.after())
    }

    pub(super) fn kick_one(&mut self, id: Id, now: Stamp) {
        self.unlist(id);
        let job = self.jobs.get_mut(&id).expect("it is there");
        job.happened.kicks += 1;
        job.state = JobState::Pending;
        self.write(id);
        self.make_ready(id, now);
    }

    /// No client gets a message of this tube for so long; whether there is such a tube.
    pub fn pause_tube(&mut self, name: &str, length: Nanos, now: Stamp) -> bool {
        let Some(tube) = self.tubes.find(name) else { return false };
        // For no time at all is for the shortest there is, so that the end comes to pass.
        let length = length.max(Nanos(1));
        let until = Stamp(now.0.saturating_add(length.0));
        let paused = self.tubes.get_mut(tube);
        paused.pauses += 1;
        let before = paused.paused.replace((length, until));
        if let Some((_, before)) = before {
            self.due.remove(&(before, Due::Pause(tube)));
        }
        self.due.insert((until, Due::Pause(tube)));
        true
    }

    /// A lease ended without a word: the message is ready again, or given up.
    pub(super) fn give_back(&mut self, id: Id, now: Stamp) {
        self.jobs.get_mut(&id).expect("it is there").state = JobState::Pending;
        if self.is_dead(id) {
            self.bury_dead(id, now);
        } else {
            self.make_ready(id, now);
        }
    }

    fn is_dead(&self, id: Id) -> bool {
        let job = &self.jobs[&id];
        let most = self.tubes.get(job.tube).kept.most;
        most > 0 && job.happened.reserves >= most
    }

    /// A message in no line that was reserved too often is buried, or begins anew in the tube of
    /// the dead. That one may be of another owner since the number of shards was changed.
    fn bury_dead(&mut self, id: Id, now: Stamp) {
        let from = self.jobs[&id].tube;
        let dead = self.tubes.get(from).kept.dead.clone();
        let Some(dead) = dead.filter(|dead| self.settings.shard.has(dead)) else {
            return self.bury_here(id);
        };
        let to = self.tubes.find_or_make(&dead);
        let job = self.jobs.get_mut(&id).expect("it is there");
        job.tube = to;
        job.state = JobState::Pending;
        // There it has not been reserved yet.
        job.happened.reserves = 0;
        self.write(id);
        self.make_ready(id, now);
        self.tubes.let_go(from);
    }
}
