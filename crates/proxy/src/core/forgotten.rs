//! What was counted before `stats reset`. A client may begin its own statistics anew; what monitoring is told never goes back.

use std::borrow::Cow;

use krarup_record::Recorder;
use krarup_units::Stamp;

use super::{Core, Events};
use crate::pool::Counts;

/// What `stats` has forgotten, kept for monitoring.
#[derive(Clone, Debug)]
pub(super) struct Forgotten {
    recorder: Recorder,
    events: Events,
    /// By the pool's number.
    pools: Vec<Counts>,
}

impl Forgotten {
    pub(super) fn absorb(&mut self, other: &Self) {
        self.recorder.merge(&other.recorder).expect("all cores of a process keep the same windows");
        self.events.absorb(&other.events);
        if self.pools.len() < other.pools.len() {
            self.pools.resize_with(other.pools.len(), Counts::default);
        }
        for (ours, theirs) in self.pools.iter_mut().zip(&other.pools) {
            ours.absorb(theirs);
        }
    }
}

impl Core {
    /// `stats` begins anew; what is under way is counted when it ends.
    pub fn reset(&mut self, now: Stamp) {
        self.settle_books();
        let counted = Forgotten {
            recorder: self.recorder.clone(),
            events: self.events,
            pools: self.pools.iter().map(|pool| pool.counts).collect(),
        };
        match &mut self.forgotten {
            Some(forgotten) => forgotten.absorb(&counted),
            None => self.forgotten = Some(Box::new(counted)),
        }
        self.recorder.reset();
        self.recorder.advance(now);
        self.events = Events::default();
        for pool in &mut self.pools {
            pool.counts = Counts::default();
        }
        self.slowest.reset();
        self.dispatch.forget_longest();
        self.counting_since = now;
    }

    /// Everything recorded since the start.
    pub(crate) fn recorder_since_start(&self) -> Cow<'_, Recorder> {
        match &self.forgotten {
            None => Cow::Borrowed(self.recorder()),
            Some(forgotten) => {
                let mut all = forgotten.recorder.clone();
                all.merge(self.recorder()).expect("they keep the same windows");
                Cow::Owned(all)
            }
        }
    }

    /// Everything that happened since the start.
    pub(crate) fn events_since_start(&self) -> Events {
        let mut all = self.events;
        if let Some(forgotten) = &self.forgotten {
            all.absorb(&forgotten.events);
        }
        all
    }

    /// What the pool of this number did since the start.
    pub(crate) fn counts_since_start(&self, pool: usize) -> Counts {
        let mut all = self.pools[pool].counts;
        if let Some(before) = self.forgotten.as_ref().and_then(|forgotten| forgotten.pools.get(pool)) {
            all.absorb(before);
        }
        all
    }
}
