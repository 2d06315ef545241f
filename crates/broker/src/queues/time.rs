//! What happens when no client does anything: leases, delays, pauses and waits come to their ends.

use krarup_units::{Nanos, Stamp};

use super::{Due, Queues};
use crate::job::{Id, JobState, TubeId};

impl Queues {
    /// When something comes to its end next.
    pub fn due(&self) -> Option<Stamp> {
        self.due.first().map(|(when, _)| *when)
    }

    /// Everything that ends by now has ended.
    pub fn tick(&mut self, now: Stamp) {
        while let Some(&(when, what)) = self.due.first()
            && when <= now
        {
            self.due.pop_first();
            match what {
                Due::Lease(id) => {
                    self.totals.timeouts += 1;
                    let job = self.jobs.get_mut(&id).expect("it is leased");
                    job.happened.timeouts += 1;
                    job.saved = false;
                    self.service_ended(id, false, now);
                    self.end_lease(id);
                    self.give_back(id, now);
                }
                Due::Expiry(id) => {
                    self.unlist(id);
                    self.expire(id);
                }
                Due::Delay(id) => {
                    self.unlist(id);
                    self.end_delay(id, now);
                }
                Due::Pause(tube) => {
                    self.tubes.get_mut(tube).paused = None;
                    self.serve_waiting(tube, now);
                    self.tubes.let_go(tube);
                }
                Due::Client(client) => self.wake(client, now),
            }
        }
        let wall = self.wall(now);
        while let Some((until, _)) = self.keys_by_age.first()
            && *until <= wall
        {
            let (until, key) = self.keys_by_age.pop_first().expect("it was there");
            self.forget_key(&key, |row| row.until == until);
        }
    }

    /// When a message is gone if it still waits then, by its tube or by itself.
    pub(super) fn expiry(&self, id: Id) -> Option<Stamp> {
        if !self.expiring {
            return None;
        }
        let job = &self.jobs[&id];
        let seconds = self.tubes.get(job.tube).kept.expires;
        let of_tube = (seconds > 0).then(|| job.created + Nanos::from_secs(seconds.into()));
        of_tube.into_iter().chain(job.lives_until).min().map(|end| self.stamp(end))
    }

    /// Whether it has waited too long.
    pub(super) fn has_expired(&self, id: Id, now: Stamp) -> bool {
        self.expiry(id).is_some_and(|end| end <= now)
    }

    /// A message has come into a line.
    pub(super) fn watch_expiry(&mut self, id: Id) {
        if let Some(end) = self.expiry(id) {
            self.jobs.get_mut(&id).expect("it is there").expires = Some(end);
            self.due.insert((end, Due::Expiry(id)));
        }
    }

    /// It leaves its line, or the memory.
    pub(super) fn unwatch_expiry(&mut self, id: Id) {
        if self.expiring
            && let Some(end) = self.jobs.get_mut(&id).expect("it is there").expires.take()
        {
            self.due.remove(&(end, Due::Expiry(id)));
        }
    }

    /// How long the messages of a tube may wait is not what it was.
    pub(super) fn watch_expiries(&mut self, tube: TubeId) {
        for id in self.messages_here(tube) {
            if matches!(self.jobs[&id].state, JobState::Ready | JobState::Delayed { .. }) {
                self.unwatch_expiry(id);
                self.watch_expiry(id);
            }
        }
    }

    /// A message in no line has waited too long.
    pub(super) fn expire(&mut self, id: Id) {
        let job = self.jobs.get_mut(&id).expect("it is there");
        job.state = JobState::Pending;
        self.tubes.get_mut(job.tube).expired += 1;
        self.totals.expired += 1;
        self.remove(id);
    }

    /// A delayed message in no line is ready. That is not written, unless its sender's line may
    /// have to be read from the store again.
    fn end_delay(&mut self, id: Id, now: Stamp) {
        let job = self.jobs.get_mut(&id).expect("it is there");
        job.state = JobState::Pending;
        job.saved = false;
        if job.sender.is_some() && self.settings.resident.is_some() {
            self.write(id);
        }
        self.make_ready(id, now);
    }
}
