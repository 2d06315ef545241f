//! What happens when nobody does anything: leases, delays, pauses and patience come to their ends.

use krarup_units::Stamp;

use super::{Due, Queues};
use crate::job::{Id, State};

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
                    self.jobs.get_mut(&id).expect("it is leased").happened.timeouts += 1;
                    self.end_lease(id);
                    self.give_back(id, now);
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
        while let Some((until, _)) = self.keys_by_age.front()
            && *until <= wall
        {
            let (until, key) = self.keys_by_age.pop_front().expect("it was there");
            if self.keys.get(&key).is_some_and(|row| row.until == until) {
                self.keys.remove(&key);
            }
        }
    }

    /// A delayed message in no line is ready. That is not written, unless its sender's line may have to be read from the store again.
    fn end_delay(&mut self, id: Id, now: Stamp) {
        let job = self.jobs.get_mut(&id).expect("it is there");
        job.state = State::Pending;
        job.saved = false;
        if job.sender.is_some() && self.settings.resident.is_some() {
            self.write(id);
        }
        self.make_ready(id, now);
    }
}
