//! What happens to messages is written into the books of their tubes, and read out again.
//!
//! Times are differences of the time on the wall, because a message may have become ready before
//! this process began.

use std::collections::HashSet;

use krarup_model::headroom::ResponseTarget;
use krarup_units::{Nanos, Stamp};

use super::Queues;
use crate::job::{ClientId, Id, JobState, TubeId};
use crate::report::{OtherTubes, TubeReport, TubeState, TubesState};
use crate::tube::{ReadyQueue, Tube};

/// Priorities, and receivers, among which the oldest message of a tube is looked for, the most
/// urgent first.
const LOOKED_AT: usize = 64;

/// Tubes that are not listed one by one in which the oldest of their messages is looked for, those
/// with the most messages first.
const LOOKED_INTO: usize = 1_000;

impl Queues {
    /// A message in no line becomes ready now.
    pub(super) fn became_ready(&mut self, id: Id, now: Stamp) {
        let since = self.wall(now);
        let job = self.jobs.get_mut(&id).expect("it is there");
        job.since = Some(since);
        let tube = self.tubes.get_mut(job.tube);
        self.books.of(&tube.name, &mut tube.books, now).arrived(now);
    }

    /// A message that was ready, or waited otherwise, is handed out.
    pub(super) fn handed_out(&mut self, id: Id, now: Stamp) {
        let wall = self.wall(now);
        let job = self.jobs.get_mut(&id).expect("it is there");
        let waited = job.since.map(|since| wall.saturating_sub(since));
        job.since = Some(wall);
        let tube = self.tubes.get_mut(job.tube);
        self.books.of(&tube.name, &mut tube.books, now).handed_out(waited, job.happened.reserves > 0);
    }

    /// The lease of a message ends, if it has one: with the message done or not.
    pub(super) fn service_ended(&mut self, id: Id, done: bool, now: Stamp) {
        let wall = self.wall(now);
        let job = &self.jobs[&id];
        if let (JobState::Reserved { .. }, Some(since)) = (job.state, job.since) {
            let tube = self.tubes.get_mut(job.tube);
            self.books.of(&tube.name, &mut tube.books, now).ended(wall.saturating_sub(since), done);
        }
    }

    /// What is known of a tube's waits; none: it has had no message, or shares its books with
    /// others.
    pub fn report(&self, name: &str, now: Stamp) -> Option<TubeReport> {
        let place = self.tubes.find(name)?;
        self.books.get(name)?;
        Some(TubeReport::of(&self.state_of(place, now), self.waiting_target()))
    }

    /// How soon messages shall be handed out.
    pub fn waiting_target(&self) -> ResponseTarget {
        self.settings.tubes.waiting_target
    }

    /// How many tubes are listed one by one.
    pub(crate) fn tubes_in_metrics(&self) -> usize {
        self.settings.tubes.tubes_in_metrics
    }

    /// All tubes: those with the most messages that wait one by one, the others as a sum.
    pub fn tubes_state(&self, now: Stamp) -> TubesState {
        let mut all: Vec<(u64, u64, TubeId)> =
            self.tubes.iter().map(|(place, tube)| (tube.ready_count(), tube.reserved, place)).collect();
        // Among equals those that are worked on, then those that are there longest.
        all.sort_unstable_by_key(|&(ready, busy, place)| (std::cmp::Reverse((ready, busy)), place));
        let first = all.len().min(self.tubes_in_metrics());
        let others = all[first..].iter().map(|(.., place)| self.tubes.get(*place));
        let sum = |of: fn(&Tube) -> u64| others.clone().map(of).sum();
        let listed: HashSet<&str> =
            all[..first].iter().map(|(.., place)| &*self.tubes.get(*place).name).collect();
        TubesState {
            first: all[..first].iter().map(|(.., place)| self.state_of(*place, now)).collect(),
            others: OtherTubes {
                tubes: (all.len() - first) as u64,
                ready: Some(sum(Tube::ready_count)),
                busy_consumers: sum(|tube| tube.reserved),
                waiting_consumers: sum(|tube| tube.waiting.len() as u64),
                arrivals_per_s: self.books.rate_beside(|name| listed.contains(name), now),
                oldest_s: others
                    .clone()
                    .take(LOOKED_INTO)
                    .filter_map(|tube| self.oldest(tube, now))
                    .max()
                    .map(Nanos::as_seconds),
            },
        }
    }

    fn state_of(&self, place: TubeId, now: Stamp) -> TubeState {
        let tube = self.tubes.get(place);
        let ready = tube.ready_count();
        TubeState {
            name: tube.name.to_string(),
            ready: Some(ready),
            alone: true,
            busy: tube.reserved,
            waiting: tube.waiting.len() as u64,
            blocked: ready > 0 && self.is_blocked(tube),
            oldest: self.oldest(tube, now),
            jobs: self.books.snapshot(&tube.name, now),
        }
    }

    /// Whether a tube is paused, or consumers wait of which none may take what is ready.
    fn is_blocked(&self, tube: &Tube) -> bool {
        let may_take = |client: &ClientId| tube.holds_for(self.client(*client).name.as_ref());
        tube.paused.is_some() || (!tube.waiting.is_empty() && !tube.waiting.iter().any(may_take))
    }

    /// Time since the put of the oldest message that is ready and in memory: among equally urgent
    /// ones that with the smallest number.
    fn oldest(&self, tube: &Tube, now: Stamp) -> Option<Nanos> {
        let lines = std::iter::once(&tube.ready).chain(tube.addressed.values());
        let firsts = lines.flat_map(firsts_by_priority).take(LOOKED_AT);
        let created = firsts.filter_map(|id| self.jobs.get(&id)).map(|job| job.created).min()?;
        Some(self.wall(now).saturating_sub(created))
    }
}

/// The first message of each priority, the most urgent first.
fn firsts_by_priority(line: &ReadyQueue) -> impl Iterator<Item = Id> + '_ {
    let mut next = line.first_here();
    std::iter::from_fn(move || {
        let (priority, id) = next?;
        next = priority.checked_add(1).and_then(|priority| line.first_from((priority, 0)));
        Some(id)
    })
}

#[cfg(test)]
mod tests {
    use krarup_beanstalk::Put;

    use super::*;
    use crate::queues::{QueueSettings, Reserve, ReserveResult, TakeMode};
    use crate::report::DrainTime;

    fn at(seconds: u64) -> Stamp {
        Stamp(Nanos::from_secs(seconds).0)
    }

    /// A message for any client or for one.
    fn message(receiver: Option<&str>) -> Put<'_> {
        Put { priority: 10, ttr: 60, body: b"x", receiver, ..Put::default() }
    }

    /// Ten messages have taken a second each, and five wait, for any client or for one; then a
    /// client comes that waits. With the queues in how long no message waits.
    fn five_wait(receiver: Option<&str>, pause: Nanos) -> (Queues, DrainTime) {
        let wall = Nanos::from_secs(1_000);
        let mut queues = Queues::new(QueueSettings { memory: 1 << 20, wall, ..QueueSettings::default() });
        queues.register("anna");
        let [producer, worker] = [(); 2].map(|()| queues.open());
        let lease = |timeout| Reserve { how: TakeMode::Lease, most: 1, timeout };
        for second in 0..10 {
            queues.put(producer, &message(None), at(second)).unwrap();
            let taken = queues.reserve(worker, lease(Some(Nanos::ZERO)), at(second));
            let Some(ReserveResult::Taken(taken)) = taken else { panic!("it is there") };
            assert!(queues.delete(worker, taken[0].id, at(second + 1)).is_some());
        }
        for _ in 0..5 {
            queues.put(producer, &message(receiver), at(10)).unwrap();
        }
        if pause > Nanos::ZERO {
            queues.pause_tube("default", pause, at(10));
        }
        queues.reserve(worker, lease(None), at(100));
        let drained_in = queues.report("default", at(100)).unwrap().drained_in;
        (queues, drained_in)
    }

    #[test]
    fn a_tube_of_which_no_waiting_consumer_may_take_has_no_known_time_to_drain() {
        let (_, taken) = five_wait(None, Nanos::ZERO);
        assert!(matches!(taken, DrainTime::Seconds(_)), "{taken:?}");
        let (_, for_another) = five_wait(Some("anna"), Nanos::ZERO);
        assert_eq!(for_another, DrainTime::Unknown);
        let (mut queues, paused) = five_wait(None, Nanos::from_secs(3_600));
        assert_eq!(paused, DrainTime::Unknown);
        queues.tick(at(3_610));
        let open = queues.report("default", at(3_610)).unwrap();
        assert_eq!((open.ready, open.busy_consumers), (Some(4), 1));
        assert!(matches!(open.drained_in, DrainTime::Seconds(_)), "{open:?}");
    }
}
