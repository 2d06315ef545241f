//! Questions that change nothing. None of them counts anything: the counts are kept.

use std::sync::Arc;

use krarup_units::{Nanos, Stamp};

use super::Queues;
use super::reservation::{TakeMode, TakenMessage};
use super::store::FromTo;
use super::view::{JobView, Nothing, Totals, TubeView};
use crate::job::{ClientId, Id, JobState};

impl Queues {
    /// What is counted over all tubes.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// How many tubes there are.
    pub fn tube_count(&self) -> usize {
        self.tubes.len()
    }

    /// Bytes of memory that messages, and keys that are remembered, are counted with.
    pub fn memory_used(&self) -> u64 {
        self.used + self.key_bytes
    }

    /// A message by its number.
    pub fn peek(&self, id: Id) -> Option<Arc<[u8]>> {
        let job = self.jobs.get(&id).filter(|job| job.state != JobState::Pending)?;
        Some(Arc::clone(&job.body))
    }

    /// Whether it was put and is not committed yet.
    pub fn is_pending(&self, id: Id) -> bool {
        self.jobs.get(&id).is_some_and(|job| job.state == JobState::Pending)
    }

    fn found(&self, id: Id) -> (Id, Arc<[u8]>) {
        (id, Arc::clone(&self.jobs[&id].body))
    }

    /// The message of the tube in use that is next.
    pub fn peek_ready(&self, client: ClientId) -> Option<(Id, Arc<[u8]>)> {
        let known = self.client(client);
        let (_, id) = self.tubes.get(known.used).first_for(known.name.as_ref()).here()?;
        Some(self.found(id))
    }

    /// The same, with its flags if it is sent them.
    pub(crate) fn peek_ready_flagged(&self, client: ClientId) -> Option<(Id, Option<u32>, Arc<[u8]>)> {
        let (id, body) = self.peek_ready(client)?;
        Some((id, self.shown_flags(client, self.jobs[&id].flags), body))
    }

    /// The message of the tube in use whose delay ends first.
    pub fn peek_delayed(&self, client: ClientId) -> Option<(Id, Arc<[u8]>)> {
        let (_, id) = self.tubes.get(self.client(client).used).delayed.first_here()?;
        Some(self.found(id))
    }

    /// The message of the tube in use that was buried first.
    pub fn peek_buried(&self, client: ClientId) -> Option<(Id, Arc<[u8]>)> {
        let (_, id) = self.tubes.get(self.client(client).used).buried.first_here()?;
        Some(self.found(id))
    }

    /// The most urgent, then oldest message of a created tube that is its or no client's.
    ///
    /// # Errors
    /// Why there is none.
    pub fn peek_tube(&self, client: ClientId, name: &str) -> Result<(Id, Arc<[u8]>), Nothing> {
        let tube = self.tubes.find(name).map(|tube| self.tubes.get(tube)).filter(|tube| tube.kept.created);
        let tube = tube.ok_or(Nothing::UnknownTube)?;
        let (_, id) = tube.first_for(self.client(client).name.as_ref()).here().ok_or(Nothing::Empty)?;
        Ok(self.found(id))
    }

    /// The oldest message of a sender, in any tube, that is its or no client's.
    ///
    /// # Errors
    /// Why there is none.
    pub fn peek_sender(&self, client: ClientId, sender: &str) -> Result<(Id, Arc<[u8]>), Nothing> {
        let id = self.first_sent(client, sender)?;
        Ok(self.found(id))
    }

    /// The lines of a sender's messages that are the client's or no client's; none if no client is
    /// registered under that name. A client that has not said its name has one line twice.
    pub(super) fn sent_lines(&self, client: ClientId, sender: &str) -> Option<[FromTo; 2]> {
        let sender = self.registered.get(sender)?;
        Some([None, self.client(client).name.clone()].map(|receiver| (Arc::clone(sender), receiver)))
    }

    /// Takes what [`Self::peek_tube`] shows.
    ///
    /// # Errors
    /// Why there is none.
    pub fn pop_tube(&mut self, client: ClientId, name: &str, now: Stamp) -> Result<TakenMessage, Nothing> {
        let (id, _) = self.peek_tube(client, name)?;
        Ok(self.take(client, id, TakeMode::Pop, now))
    }

    /// Takes what [`Self::peek_sender`] shows.
    ///
    /// # Errors
    /// Why there is none.
    pub fn pop_sender(
        &mut self,
        client: ClientId,
        sender: &str,
        now: Stamp,
    ) -> Result<TakenMessage, Nothing> {
        let (id, _) = self.peek_sender(client, sender)?;
        Ok(self.take(client, id, TakeMode::Pop, now))
    }

    /// The tubes that hold a ready message which is its or no client's; none if it has not said its
    /// name.
    pub fn tubes_for(&self, client: ClientId) -> Option<Vec<Arc<str>>> {
        let name = self.client(client).name.as_ref()?;
        let holding = self.tubes.iter().filter(|(_, tube)| tube.holds_for(Some(name)));
        Some(holding.map(|(_, tube)| Arc::clone(&tube.name)).collect())
    }

    /// Every tube.
    pub fn tube_names(&self) -> Vec<Arc<str>> {
        self.tubes.iter().map(|(_, tube)| Arc::clone(&tube.name)).collect()
    }

    /// The tube that it uses.
    pub fn used(&self, client: ClientId) -> &str {
        &self.tubes.get(self.client(client).used).name
    }

    /// The tubes that it watches, in the order in which it said so.
    pub fn watched(&self, client: ClientId) -> Vec<Arc<str>> {
        self.client(client).watched.iter().map(|tube| Arc::clone(&self.tubes.get(*tube).name)).collect()
    }

    /// How many these are.
    pub(crate) fn watched_count(&self, client: ClientId) -> usize {
        self.client(client).watched.len()
    }

    /// Whether it waits for a message.
    pub fn is_waiting(&self, client: ClientId) -> bool {
        self.client(client).waiting.is_some()
    }

    /// One message, as `stats-job` tells of it.
    pub fn view_job(&self, id: Id, now: Stamp) -> Option<JobView> {
        let job = self.jobs.get(&id).filter(|job| job.state != JobState::Pending)?;
        let time_left = match job.state {
            JobState::Reserved { until, .. } | JobState::Delayed { until, .. } => {
                Nanos(until.0.saturating_sub(now.0))
            }
            _ => Nanos::ZERO,
        };
        Some(JobView {
            id,
            tube: Arc::clone(&self.tubes.get(job.tube).name),
            state: job.state.word(),
            priority: job.priority,
            age: Nanos(self.wall(now).0.saturating_sub(job.created.0)),
            delay: job.delay,
            ttr: job.ttr,
            time_left,
            happened: job.happened,
            sender: job.sender.clone(),
            receiver: job.receiver.clone(),
        })
    }

    /// Whether other brokers own some of the tubes, and all clients are brokers.
    pub(crate) fn is_divided(&self) -> bool {
        !self.settings.shard.is_whole()
    }

    /// Whether a tube of this name is there.
    pub(crate) fn has_tube(&self, name: &str) -> bool {
        self.tubes.find(name).is_some()
    }

    /// One tube, as `stats-tube` tells of it.
    pub fn view_tube(&self, name: &str, now: Stamp) -> Option<TubeView> {
        let place = self.tubes.find(name)?;
        let tube = self.tubes.get(place);
        // The default tube is held by the queues themselves.
        let held = u64::from(&*tube.name == krarup_beanstalk::DEFAULT_TUBE);
        Some(TubeView {
            name: Arc::clone(&tube.name),
            urgent: tube.urgent,
            ready: tube.ready_count(),
            reserved: tube.reserved,
            delayed: tube.delayed.len(),
            buried: tube.buried.len(),
            jobs: tube.total_jobs,
            using: u64::from(tube.using) - held,
            watching: tube.watching.into(),
            waiting: tube.waiting.len() as u64,
            deletes: tube.deletes,
            expired: Some(tube.expired),
            expires: Nanos::from_secs(tube.kept.expires.into()),
            keeps: Nanos::from_secs(tube.kept.keeps.into()),
            pauses: tube.pauses,
            pause: tube.paused.map_or(Nanos::ZERO, |(length, _)| length),
            pause_left: tube.paused.map_or(Nanos::ZERO, |(_, until)| Nanos(until.0.saturating_sub(now.0))),
        })
    }
}
