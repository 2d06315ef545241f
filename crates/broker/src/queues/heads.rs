//! Messages that are only in the store: which are left out of memory, what must be read before a
//! request can be carried out, and what was read.
//!
//! A message that stands in a line and is not among those that the line keeps here is forgotten, as
//! soon as the store has it as it is: until then it is a guest, known by its number though its line
//! only counts it. A store is asked one thing at a time, while nothing is written, so that what it
//! answers is what was committed, and differs from what is true by what is still being gathered
//! alone.

use std::sync::Arc;

use krarup_beanstalk::Request;
use krarup_units::{Nanos, Stamp};

use super::reservation::MOST_AT_ONCE;
use super::store::{Fetch, FetchRequest, Fetched, FromTo, Kicking, Resident, StoredQueue};
use super::view::Nothing;
use super::{Due, Queues};
use crate::changes::{MessageChange, MessageRow, StoredState};
use crate::job::{ClientId, Id, Job, JobState};
use crate::window::KeyWindow;

/// Messages that are read by their numbers at a time.
const SOUGHT_AT_ONCE: usize = 1_000;

/// Lines that were only counted, the longest, of which the first messages are read before a client
/// asks for them: else the age of the oldest would not be known of a tube that is left alone.
const MOST_UNREAD: usize = 1_000;

impl Queues {
    // ---- leaving out ----------------------------------------------------------------------------

    /// A message stands in its line, among those that are here or not. Of a line that is too long
    /// the last are left out: as many bytes as it brings, so that no more stay.
    pub(super) fn settle(&mut self, id: Id, here: bool) {
        let Some(resident) = self.settings.resident else { return };
        if !here {
            return self.leave_out(id);
        }
        if self.used <= resident.bytes {
            return;
        }
        let kept = self.kept_of_line(resident);
        let job = &self.jobs[&id];
        let (tube, state, receiver) = (job.tube, job.state, job.receiver.clone());
        let mut over = job.cost();
        while over > 0 {
            let tube = self.tubes.get_mut(tube);
            let cut = match state {
                JobState::Ready => cut(tube.line_mut(receiver.as_ref()), kept).map(|(_, id)| id),
                JobState::Delayed { .. } => cut(&mut tube.delayed, kept).map(|(_, id)| id),
                JobState::Buried { .. } => cut(&mut tube.buried, kept).map(|(_, id)| id),
                JobState::Pending | JobState::Reserved { .. } => None,
            };
            let Some(cut) = cut else { return };
            over = over.saturating_sub(self.jobs[&cut].cost());
            self.leave_out(cut);
        }
    }

    /// How many messages of a line stay here. A number alone would bound neither many lines nor
    /// large messages: they are fewer, down to one, the nearer all that is here comes to the middle
    /// between what may wait and all memory. What is on its way has the other half.
    fn kept_of_line(&self, resident: Resident) -> usize {
        let most = resident.bytes.midpoint(self.settings.memory);
        let step = (most.saturating_sub(resident.bytes) / resident.heads as u64).max(1);
        let kept = most.saturating_sub(self.used).div_ceil(step);
        (kept as usize).clamp(1, resident.heads)
    }

    /// The line of a sender keeps no more numbers than it must.
    pub(super) fn settle_sent(&mut self, line: &FromTo) {
        let Some(resident) = self.settings.resident else { return };
        let short = self.heads.begun || self.used > resident.bytes;
        if short
            && let Some(line) = self.sent.get_mut(line)
            && cut(line, resident.heads).is_some()
        {
            self.begin();
        }
    }

    fn begin(&mut self) {
        if !std::mem::replace(&mut self.heads.begun, true) {
            self.heads.wanted.push_front(FetchRequest::Begin);
        }
    }

    fn leave_out(&mut self, id: Id) {
        self.begin();
        if !self.jobs[&id].saved {
            self.write(id);
        }
        let written = self.batch.messages.contains_key(&id);
        let last = if written { self.gathering } else { self.gathering - 1 };
        if last <= self.heads.committed && self.heads.fetching.is_none() {
            self.forget(id);
        } else {
            self.heads.leaving.insert(id, last);
        }
    }

    fn forget(&mut self, id: Id) {
        self.unwatch_expiry(id);
        let job = self.jobs.remove(&id).expect("it is here");
        self.used -= job.cost();
        if let JobState::Delayed { until, .. } = job.state {
            self.due.remove(&(until, Due::Delay(id)));
        }
    }

    /// A message leaves the line it is in, or has been read into it.
    pub(super) fn is_needed(&mut self, id: Id) {
        if !self.heads.leaving.is_empty() {
            self.heads.leaving.remove(&id);
        }
    }

    /// All batches up to this one are in the store.
    pub(super) fn heads_committed(&mut self, number: u64) {
        self.heads.committed = self.heads.committed.max(number);
        self.release_committed();
    }

    /// What was to be written with this batch waits for the next.
    pub(super) fn heads_refused(&mut self, number: u64) {
        let ids = self.heads.leaving.iter_mut().filter(|(id, _)| self.batch.messages.contains_key(id));
        ids.for_each(|(_, last)| *last = self.gathering);
        self.heads.committed = self.heads.committed.max(number);
    }

    fn release_committed(&mut self) {
        if self.heads.leaving.is_empty() || self.heads.fetching.is_some() {
            return;
        }
        let committed = self.heads.committed;
        // Of what a refused batch had, the next has the rest.
        let gathered = |id: &Id| self.batch.messages.contains_key(id);
        let known = self.heads.leaving.iter().filter(|(id, last)| **last <= committed && !gathered(id));
        let gone: Vec<Id> = known.map(|(id, _)| *id).collect();
        self.heads.generation += u64::from(!gone.is_empty());
        for id in gone {
            self.heads.leaving.remove(&id);
            self.forget(id);
        }
    }

    /// Messages that are only in the store.
    pub fn outside(&self) -> u64 {
        let all = self.totals.ready + self.totals.reserved + self.totals.delayed + self.totals.buried;
        (all + self.pending.len() as u64).saturating_sub(self.jobs.len() as u64)
    }

    // ---- what a request needs -------------------------------------------------------------------

    /// Whether a request needs messages that are not here. They will be read, and it is to be
    /// offered again then; until then it has done nothing, or a part of what it is to do.
    pub fn lacks(&mut self, client: ClientId, request: &Request<'_>, now: Stamp) -> bool {
        if !self.heads.begun {
            return false;
        }
        // Whether what it sought was looked for, and is here if it is anywhere.
        let sought = self.heads.sought.remove(&client) == Some(self.heads.generation);
        match *request {
            Request::Reserve
            | Request::ReserveWithTimeout { .. }
            | Request::Pop { .. }
            | Request::Await { .. } => self.lacks_any_of_watched(client, 1),
            Request::ReserveBatch { most, .. } => {
                self.lacks_any_of_watched(client, most.min(MOST_AT_ONCE) as usize)
            }
            Request::PeekReady => {
                let tube = Arc::clone(&self.tubes.get(self.client(client).used).name);
                self.lacks_first_of(client, &tube, 1)
            }
            Request::PeekTube(tube) | Request::PopTube(tube) => self.lacks_first_of(client, tube, 1),
            Request::PeekSender(sender) | Request::PopSender(sender) => {
                self.lacks_sent(client, sender, sought)
            }
            Request::PeekDelayed => self.lacks_of_used(client, false),
            Request::PeekBuried => self.lacks_of_used(client, true),
            Request::Kick(bound) => self.lacks_for_kick(client, bound, now),
            Request::DeleteTube(tube) => self.lacks_for_the_end(tube),
            Request::Peek(id)
            | Request::StatsJob(id)
            | Request::Delete(id)
            | Request::ReserveJob(id)
            | Request::KickJob(id) => self.lacks_named(client, [id], sought),
            Request::DeleteBatch(ids) => self.lacks_named(client, ids.iter(), sought),
            _ => false,
        }
    }

    fn lacks_any_of_watched(&mut self, client: ClientId, count: usize) -> bool {
        let known = self.client(client);
        let tubes = known.watched.iter().map(|tube| self.tubes.get(*tube));
        let short = |line: &crate::tube::ReadyQueue| !line.has(count);
        let lacking: Vec<Arc<str>> = tubes
            .filter(|tube| tube.paused.is_none() && tube.lines_for(known.name.as_ref()).any(short))
            .map(|tube| Arc::clone(&tube.name))
            .collect();
        for tube in &lacking {
            self.lacks_first_of(client, tube, count);
        }
        !lacking.is_empty()
    }

    /// Whether the first so many of this tube that it may have are not here.
    pub(crate) fn lacks_first_of(&mut self, client: ClientId, tube: &str, count: usize) -> bool {
        let Some(tube) = self.tubes.find(tube) else { return false };
        let name = self.client(client).name.clone();
        let lacks = self.tubes.get(tube).lines_for(name.as_ref()).any(|line| !line.has(count));
        if lacks {
            self.read_ready(tube, name.as_ref(), count);
        }
        lacks
    }

    /// The lines of which this client is served are read until the first so many are here.
    pub(super) fn read_ready(&mut self, tube: crate::job::TubeId, client: Option<&Arc<str>>, count: usize) {
        let tube = self.tubes.get(tube);
        let mut wanted = Vec::new();
        if !tube.ready.has(count) {
            wanted.push(StoredQueue::Ready(Arc::clone(&tube.name), None));
        }
        if let Some(name) = client
            && tube.addressed.get(name).is_some_and(|line| !line.has(count))
        {
            wanted.push(StoredQueue::Ready(Arc::clone(&tube.name), Some(Arc::clone(name))));
        }
        for line in wanted {
            self.want(line);
        }
    }

    pub(super) fn want(&mut self, line: StoredQueue) {
        let wanted = FetchRequest::Line(line);
        if self.heads.fetching.as_ref() != Some(&wanted) && !self.heads.wanted.contains(&wanted) {
            self.heads.wanted.push_back(wanted);
        }
    }

    fn lacks_of_used(&mut self, client: ClientId, buried: bool) -> bool {
        let tube = self.tubes.get(self.client(client).used);
        let name = Arc::clone(&tube.name);
        let (lacks, line) = if buried {
            (!tube.buried.has(1), StoredQueue::Buried(name))
        } else {
            (!tube.delayed.has(1), StoredQueue::Delayed(name))
        };
        if lacks {
            self.want(line);
        }
        lacks
    }

    /// A kick does what it can at once, and goes on when more has been read.
    fn lacks_for_kick(&mut self, client: ClientId, bound: u32, now: Stamp) -> bool {
        let begun = self.heads.kicking.get(&client).copied();
        let tube = self.tubes.get(self.client(client).used);
        let buried = begun.map_or(!tube.buried.is_empty(), |kicking| kicking.buried);
        let left = bound.saturating_sub(begun.map_or(0, |kicking| kicking.done)) as usize;
        let has = if buried { tube.buried.has(left) } else { tube.delayed.has(left) };
        if has {
            return false;
        }
        let name = Arc::clone(&tube.name);
        let here: Vec<Id> = if buried {
            tube.buried.here().map(|(_, id)| id).collect()
        } else {
            tube.delayed.here().map(|(_, id)| id).collect()
        };
        for &id in &here {
            self.kick_one(id, now);
        }
        let done = begun.map_or(0, |kicking| kicking.done) + here.len() as u32;
        self.heads.kicking.insert(client, Kicking { buried, done });
        self.want(if buried { StoredQueue::Buried(name) } else { StoredQueue::Delayed(name) });
        true
    }

    /// The messages of a tube that is to be deleted go part by part.
    fn lacks_for_the_end(&mut self, tube: &str) -> bool {
        let Some(tube) = self.tubes.find(tube) else { return false };
        let (mut lines, mut here) = (Vec::new(), Vec::new());
        let of = self.tubes.get(tube);
        let name = || Arc::clone(&of.name);
        let ready =
            std::iter::once((None, &of.ready)).chain(of.addressed.iter().map(|(to, line)| (Some(to), line)));
        for (to, line) in ready.filter(|(_, line)| line.rest().is_some()) {
            lines.push(StoredQueue::Ready(name(), to.cloned()));
            here.extend(line.here().map(|(_, id)| id));
        }
        if of.delayed.rest().is_some() {
            lines.push(StoredQueue::Delayed(name()));
            here.extend(of.delayed.here().map(|(_, id)| id));
        }
        if of.buried.rest().is_some() {
            lines.push(StoredQueue::Buried(name()));
            here.extend(of.buried.here().map(|(_, id)| id));
        }
        for id in here {
            self.remove(id);
        }
        let lacks = !lines.is_empty();
        for line in lines {
            self.want(line);
        }
        lacks
    }

    fn is_outside(&self, id: Id) -> bool {
        let gone = || matches!(self.batch.messages.get(&id), Some(MessageChange::Delete));
        !self.jobs.contains_key(&id) && id < self.next_id && self.outside() > 0 && !gone()
    }

    fn lacks_named(&mut self, client: ClientId, ids: impl IntoIterator<Item = Id>, sought: bool) -> bool {
        let ids: Vec<Id> = ids.into_iter().collect();
        let lacks = !sought && ids.iter().any(|id| self.is_outside(*id));
        if lacks {
            // A guest may be gone when the others are here.
            let sought =
                ids.into_iter().filter(|id| self.is_outside(*id) || self.heads.leaving.contains_key(id));
            self.heads.seekers.push_back((client, sought.collect()));
        }
        lacks
    }

    fn lacks_sent(&mut self, client: ClientId, sender: &str, mut sought: bool) -> bool {
        let Some(lines) = self.sent_lines(client, sender) else { return false };
        let mut lacks = false;
        for line in &lines {
            if self.sent.get(line).is_some_and(|line| !line.has(1)) {
                self.want(StoredQueue::Sent(line.clone()));
                lacks = true;
            }
        }
        if lacks {
            return true;
        }
        loop {
            let Ok(id) = self.first_sent(client, sender) else { return false };
            if self.jobs.contains_key(&id) {
                return false;
            }
            if !std::mem::take(&mut sought) {
                self.heads.seekers.push_back((client, vec![id]));
                return true;
            }
            // A client has changed the table under us.
            for line in &lines {
                if let Some(line) = self.sent.get_mut(line).filter(|line| line.holds(id)) {
                    line.remove(id);
                }
            }
        }
    }

    /// It is gone: what it sought is free.
    pub(super) fn heads_left(&mut self, client: ClientId) {
        self.heads.seekers.retain(|(other, _)| *other != client);
        // What is being read for it is no answer to who has its place next.
        if let Some(FetchRequest::Seekers(some)) = &mut self.heads.fetching {
            some.retain(|(other, _)| *other != client);
        }
        self.heads.sought.remove(&client);
        self.heads.kicking.remove(&client);
    }

    // ---- reading --------------------------------------------------------------------------------

    /// Whether something is to be read from the store.
    pub fn has_fetch(&self) -> bool {
        let wants = !(self.heads.wanted.is_empty() && self.heads.seekers.is_empty());
        self.heads.fetching.is_none() && (wants || self.has_unread())
    }

    /// Whether there are lines of which nothing was read since they were counted, and room. No
    /// client waits for them: what is to be written goes first.
    fn has_unread(&self) -> bool {
        let has_room = self.settings.resident.is_some_and(|resident| self.used < resident.bytes);
        has_room && !self.has_batch() && !self.heads.unread.is_empty()
    }

    /// The longest of them.
    fn next_unread(&mut self) -> Option<FetchRequest> {
        while self.has_unread()
            && let Some((count, line)) = self.heads.unread.pop_last()
        {
            if self.place_of(&line) == Some((0, 0)) {
                return Some(FetchRequest::First(count, line));
            }
        }
        None
    }

    /// What is to be read next, while nothing is written; its answer comes to [`Self::fetched`]
    /// before anything else is asked of the store.
    pub fn take_fetch(&mut self) -> Option<Fetch> {
        if self.heads.fetching.is_some() {
            return None;
        }
        if !self.heads.seekers.is_empty() && self.heads.wanted.front() != Some(&FetchRequest::Begin) {
            let (mut some, mut ids) = (Vec::new(), Vec::new());
            while ids.len() < SOUGHT_AT_ONCE
                && let Some(next) = self.heads.seekers.pop_front()
            {
                ids.extend_from_slice(&next.1);
                some.push(next);
            }
            self.heads.fetching = Some(FetchRequest::Seekers(some));
            return Some(Fetch::Named(ids));
        }
        while let Some(wanted) = self.heads.wanted.pop_front().or_else(|| self.next_unread()) {
            let fetch = match &wanted {
                FetchRequest::Line(line) => self.place_of(line).map(|from| Fetch::Heads(line.clone(), from)),
                FetchRequest::First(_, line) => Some(Fetch::First(line.clone())),
                _ => Some(Fetch::Begin),
            };
            if fetch.is_some() {
                self.heads.fetching = Some(wanted);
                return fetch;
            }
        }
        None
    }

    /// Where the rest of a line begins; none if there is no rest any more.
    fn place_of(&self, line: &StoredQueue) -> Option<(u64, Id)> {
        let tube = |name: &Arc<str>| self.tubes.find(name).map(|tube| self.tubes.get(tube));
        match line {
            StoredQueue::Ready(name, to) => {
                let tube = tube(name)?;
                let line = to.as_ref().map_or(Some(&tube.ready), |to| tube.addressed.get(to))?;
                line.rest().map(|(priority, id)| (priority.into(), id))
            }
            StoredQueue::Delayed(name) => tube(name)?.delayed.rest().map(|(due, id)| (due.0, id)),
            StoredQueue::Buried(name) => tube(name)?.buried.rest(),
            StoredQueue::Sent(line) => self.sent.get(line)?.rest().map(|id| (0, id)),
        }
    }

    /// The store could not be asked: it will be again.
    pub fn not_fetched(&mut self) {
        match self.heads.fetching.take() {
            Some(FetchRequest::Seekers(some)) => {
                some.into_iter().rev().for_each(|one| self.heads.seekers.push_front(one));
            }
            Some(FetchRequest::First(count, line)) => {
                self.heads.unread.insert((count, line));
            }
            Some(wanted) => self.heads.wanted.push_front(wanted),
            None => {}
        }
        self.release_committed();
    }

    /// What the store has answered to the latest [`Self::take_fetch`].
    pub fn fetched(&mut self, fetched: Fetched, now: Stamp) {
        match self.heads.fetching.take() {
            Some(FetchRequest::Line(StoredQueue::Sent(line))) => self.numbers_fetched(&line, &fetched),
            Some(FetchRequest::Line(line) | FetchRequest::First(_, line)) => {
                self.heads_fetched(&line, fetched);
                if let StoredQueue::Ready(name, _) = &line
                    && let Some(tube) = self.tubes.find(name)
                    && self.tubes.get(tube).paused.is_none()
                {
                    self.serve_waiting(tube, now);
                }
            }
            Some(FetchRequest::Seekers(some)) => {
                self.release_committed();
                for row in fetched.rows {
                    // The store is asked by number alone, and has those of other shards too.
                    if self.settings.shard.has(&row.tube) && self.is_outside(row.id) {
                        let id = row.id;
                        self.admit(row);
                        self.heads.leaving.insert(id, self.heads.committed);
                    }
                }
                for (client, _) in some {
                    self.heads.sought.insert(client, self.heads.generation);
                }
                return;
            }
            Some(FetchRequest::Begin) | None => {}
        }
        self.release_committed();
        // What was read may have waited too long.
        if self.expiring {
            self.tick(now);
        }
    }

    fn numbers_fetched(&mut self, line: &FromTo, fetched: &Fetched) {
        let end = fetched.ids.last().filter(|_| !fetched.complete).map(|id| id + 1);
        let Some(from) = self.sent.get(line).and_then(KeyWindow::rest) else { return };
        let is_of = |id: &Id| {
            let of = |job: &Job| {
                job.state == JobState::Ready && job.sender.as_ref() == Some(&line.0) && job.receiver == line.1
            };
            let gone = || matches!(self.batch.messages.get(id), Some(MessageChange::Delete));
            self.jobs.get(id).map_or_else(|| !gone(), of)
        };
        // What is ready since the last batch is not so in the store.
        let since = self.batch.messages.keys().filter(|id| **id >= from && end.is_none_or(|end| **id < end));
        let since = since.filter(|id| self.jobs.contains_key(id));
        let ids: Vec<Id> = fetched.ids.iter().chain(since).copied().filter(is_of).collect();
        let window = self.sent.get_mut(line).expect("it is there");
        for id in ids {
            window.read(id);
        }
        window.read_up_to(end, fetched.ids.len());
    }

    fn heads_fetched(&mut self, line: &StoredQueue, fetched: Fetched) {
        let fetched_count = fetched.rows.len();
        let mut last = None;
        let (mut keys, mut leaving) = (Vec::with_capacity(fetched_count), Vec::new());
        for row in fetched.rows {
            let place = (Self::place(&row), row.id);
            last = Some(place);
            if self.jobs.contains_key(&row.id)
                || matches!(self.batch.messages.get(&row.id), Some(MessageChange::Delete))
            {
                continue;
            }
            keys.push(place);
            self.admit(row);
        }
        let end = last.filter(|_| !fetched.complete).map(|(place, id)| (place, id + 1));
        for &id in self.heads.leaving.keys() {
            if let Some(place) = self.place_in(line, id)
                && end.is_none_or(|end| place < end)
            {
                leaving.push(place);
            }
        }
        for (_, id) in &leaving {
            self.heads.leaving.remove(id);
        }
        keys.extend(leaving);
        let (name, to) = match line {
            StoredQueue::Ready(name, to) => (name, to.as_ref()),
            StoredQueue::Delayed(name) | StoredQueue::Buried(name) => (name, None),
            StoredQueue::Sent(_) => return,
        };
        let place = self.tubes.find_or_make(name);
        let tube = self.tubes.get_mut(place);
        let missing = match line {
            StoredQueue::Ready(..) => {
                read(tube.line_mut(to), &keys, end, fetched_count, |(priority, id)| (priority as u32, id))
            }
            StoredQueue::Delayed(_) => {
                read(&mut tube.delayed, &keys, end, fetched_count, |(due, id)| (Nanos(due), id))
            }
            _ => read(&mut tube.buried, &keys, end, fetched_count, |place| place),
        };
        let count = match line {
            StoredQueue::Ready(..) => &mut self.totals.ready,
            StoredQueue::Delayed(_) => &mut self.totals.delayed,
            _ => &mut self.totals.buried,
        };
        *count = count.saturating_sub(missing);
        if let Some(to) = to
            && tube.addressed.get(to).is_some_and(KeyWindow::is_empty)
        {
            tube.addressed.remove(to);
        }
        self.look_ahead(line);
        self.tubes.let_go(place);
    }

    /// A line that nears the end of what is here is read on, and one of delays is never left
    /// unread.
    pub(super) fn look_ahead(&mut self, line: &StoredQueue) {
        let tube = |name: &Arc<str>| self.tubes.find(name).map(|tube| self.tubes.get(tube));
        let low = match line {
            StoredQueue::Ready(name, to) => tube(name).is_some_and(|tube| {
                let line = to.as_ref().map_or(Some(&tube.ready), |to| tube.addressed.get(to));
                let goes_on = |line: &crate::tube::ReadyQueue| line.count_here() > 0 || tube.kept.expires > 0;
                line.is_some_and(|line| line.is_low() && goes_on(line))
            }),
            StoredQueue::Delayed(name) => tube(name).is_some_and(|tube| tube.delayed.is_low()),
            StoredQueue::Buried(_) | StoredQueue::Sent(_) => false,
        };
        if low {
            self.want(line.clone());
        }
    }

    /// What a row's line is ordered by.
    fn place(row: &MessageRow) -> u64 {
        match row.standing {
            StoredState::Ready => row.priority.into(),
            StoredState::Delayed(due) => due.0,
            StoredState::Buried(order) => order,
        }
    }

    /// Where a message stands in a line, if it does.
    fn place_in(&self, line: &StoredQueue, id: Id) -> Option<(u64, Id)> {
        let job = &self.jobs[&id];
        let in_tube = |name: &Arc<str>| self.tubes.get(job.tube).name == *name;
        match (line, job.state) {
            (StoredQueue::Ready(name, to), JobState::Ready) if in_tube(name) && job.receiver == *to => {
                Some((job.priority.into(), id))
            }
            (StoredQueue::Delayed(name), JobState::Delayed { due, .. }) if in_tube(name) => Some((due.0, id)),
            (StoredQueue::Buried(name), JobState::Buried { order }) if in_tube(name) => Some((order, id)),
            _ => None,
        }
    }

    /// A message is in memory again, as the store has it; its line knows of it already.
    fn admit(&mut self, row: MessageRow) {
        let state = match row.standing {
            StoredState::Ready => JobState::Ready,
            StoredState::Delayed(due) => JobState::Delayed { until: self.stamp(self.own_time(due)), due },
            StoredState::Buried(order) => JobState::Buried { order },
        };
        let row = self.with_own_times(row);
        let tube = self.tubes.find_or_make(&row.tube);
        self.expiring |= row.lives_until.is_some();
        let (id, job) = (row.id, row.into_job(tube, state));
        self.used += job.cost();
        self.jobs.insert(id, job);
        if let JobState::Delayed { until, .. } = state {
            self.due.insert((until, Due::Delay(id)));
        }
        if matches!(state, JobState::Ready | JobState::Delayed { .. }) {
            self.watch_expiry(id);
        }
    }

    pub(super) fn stamp(&self, wall: Nanos) -> Stamp {
        Stamp(wall.0.saturating_sub(self.settings.wall.0))
    }

    /// The oldest message of a sender that is the client's or no client's.
    pub(super) fn first_sent(&self, client: ClientId, sender: &str) -> Result<Id, Nothing> {
        let lines = self.sent_lines(client, sender).ok_or(Nothing::UnknownClient)?;
        let lines = lines.iter().filter_map(|line| self.sent.get(line));
        crate::tube::first_of(lines).here().ok_or(Nothing::Empty)
    }

    // ---- taking over ----------------------------------------------------------------------------

    /// So many messages of a line are in the store, `urgent` of them below the priority that counts
    /// as urgent; they will be read when they are needed.
    pub fn load_line(&mut self, line: StoredQueue, count: u64, urgent: u64) {
        self.heads.begun = true;
        match &line {
            StoredQueue::Ready(name, to) => {
                let tube = self.tubes.find_or_make(name);
                let tube = self.tubes.get_mut(tube);
                tube.line_mut(to.as_ref()).unread((0, 0), count);
                let expires = tube.kept.expires > 0;
                tube.urgent += urgent;
                self.totals.urgent += urgent;
                self.totals.ready += count;
                if expires {
                    self.want(line);
                } else {
                    self.heads.unread.insert((count, line));
                    if self.heads.unread.len() > MOST_UNREAD {
                        self.heads.unread.pop_first();
                    }
                }
            }
            StoredQueue::Delayed(name) => {
                let tube = self.tubes.find_or_make(name);
                self.tubes.get_mut(tube).delayed.unread((Nanos::ZERO, 0), count);
                self.totals.delayed += count;
                self.want(line);
            }
            StoredQueue::Buried(name) => {
                let tube = self.tubes.find_or_make(name);
                self.tubes.get_mut(tube).buried.unread((0, 0), count);
                self.totals.buried += count;
            }
            StoredQueue::Sent(from_to) => self.sent.entry(from_to.clone()).or_default().unread(0, count),
        }
    }

    /// Messages are buried behind this place from now on.
    pub fn set_aside_from(&mut self, order: u64) {
        self.next_order = self.next_order.max(order);
    }
}

fn cut<K: Ord + Copy>(line: &mut KeyWindow<K>, heads: usize) -> Option<K> {
    if line.count_here() > heads { line.cut() } else { None }
}

fn read<K: Ord + Copy>(
    line: &mut KeyWindow<K>,
    places: &[(u64, Id)],
    end: Option<(u64, Id)>,
    fetched_count: usize,
    key: impl Fn((u64, Id)) -> K,
) -> u64 {
    for place in places {
        line.read(key(*place));
    }
    line.read_up_to(end.map(key), fetched_count)
}

#[cfg(test)]
mod tests;
