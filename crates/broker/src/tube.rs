//! One queue: its messages by where they stand, each in the order in which they are taken.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use krarup_units::{Nanos, Stamp};

use crate::books::BooksPlace;
use crate::changes::TubeRow;
use crate::job::{ClientId, Id, TubeId};
use crate::window::{FirstKey, KeyWindow};

/// Messages below this priority are counted as urgent.
pub const URGENT: u32 = 1_024;

/// In the order in which they are taken: by priority, then by age.
pub(crate) type ReadyQueue = KeyWindow<(u32, Id)>;

/// A tube of the protocol.
#[derive(Debug, Default)]
pub(crate) struct Tube {
    pub(crate) name: Arc<str>,
    /// Ready, for any client.
    pub(crate) ready: ReadyQueue,
    /// Ready, for one receiver each.
    pub(crate) addressed: HashMap<Arc<str>, ReadyQueue>,
    /// By the ends of their delays, as a store has them.
    pub(crate) delayed: KeyWindow<(Nanos, Id)>,
    /// By their order of being buried.
    pub(crate) buried: KeyWindow<(u64, Id)>,
    pub(crate) reserved: u64,
    pub(crate) pending: u64,
    pub(crate) urgent: u64,
    /// Clients that wait for a message of it, the longest waiting first.
    pub(crate) waiting: VecDeque<ClientId>,
    pub(crate) using: u32,
    pub(crate) watching: u32,
    /// For how long it is paused, and until when.
    pub(crate) paused: Option<(Nanos, Stamp)>,
    /// What outlives its messages.
    pub(crate) kept: TubeRow,
    pub(crate) total_jobs: u64,
    pub(crate) deletes: u64,
    /// Messages that have waited too long.
    pub(crate) expired: u64,
    pub(crate) pauses: u64,
    /// Where its books were the last time.
    pub(crate) books: Option<BooksPlace>,
}

impl Tube {
    /// Messages ready for any client or for one.
    pub(crate) fn ready_count(&self) -> u64 {
        self.ready.len() + self.addressed.values().map(ReadyQueue::len).sum::<u64>()
    }

    /// Whether it holds no message and no client refers to it.
    pub(crate) fn is_idle(&self) -> bool {
        self.using == 0
            && self.watching == 0
            && self.kept == TubeRow::default()
            && self.paused.is_none()
            && self.holds_nothing()
    }

    pub(crate) fn holds_nothing(&self) -> bool {
        self.ready.is_empty()
            && self.addressed.is_empty()
            && self.delayed.is_empty()
            && self.buried.is_empty()
            && self.reserved == 0
            && self.pending == 0
    }

    /// The lines of which `client` may be given messages.
    pub(crate) fn lines_for(&self, client: Option<&Arc<str>>) -> impl Iterator<Item = &ReadyQueue> {
        [Some(&self.ready), client.and_then(|name| self.addressed.get(name))].into_iter().flatten()
    }

    /// Whether there is a message for `client`, wherever it is.
    pub(crate) fn holds_for(&self, client: Option<&Arc<str>>) -> bool {
        self.lines_for(client).any(|line| !line.is_empty())
    }

    /// The message that `client` would be given.
    pub(crate) fn first_for(&self, client: Option<&Arc<str>>) -> FirstKey<(u32, Id)> {
        first_of(self.lines_for(client))
    }

    pub(crate) fn line_mut(&mut self, receiver: Option<&Arc<str>>) -> &mut ReadyQueue {
        match receiver {
            None => &mut self.ready,
            Some(name) => self.addressed.entry(Arc::clone(name)).or_default(),
        }
    }
}

/// The first of several lines; one that must be read before it is known counts as being there.
pub(crate) fn first_of<'a, K: Ord + Copy + 'a>(lines: impl Iterator<Item = &'a KeyWindow<K>>) -> FirstKey<K> {
    let (mut known, mut beyond) = (None, None);
    for line in lines {
        match line.first() {
            FirstKey::Is(key) => known = known.into_iter().chain([key]).min(),
            FirstKey::Beyond(from) => beyond = beyond.into_iter().chain([from]).min(),
            FirstKey::Nothing => {}
        }
    }
    match (known, beyond) {
        (Some(key), Some(from)) if from <= key => FirstKey::Beyond(from),
        (Some(key), _) => FirstKey::Is(key),
        (None, Some(from)) => FirstKey::Beyond(from),
        (None, None) => FirstKey::Nothing,
    }
}

/// All tubes. One that no client refers to and that holds nothing is no more.
#[derive(Debug, Default)]
pub(crate) struct Tubes {
    places: Vec<Option<Tube>>,
    free: Vec<TubeId>,
    names: HashMap<Arc<str>, TubeId>,
}

impl Tubes {
    pub(crate) fn find(&self, name: &str) -> Option<TubeId> {
        self.names.get(name).copied()
    }

    pub(crate) fn find_or_make(&mut self, name: &str) -> TubeId {
        if let Some(found) = self.find(name) {
            return found;
        }
        let name: Arc<str> = name.into();
        let tube = Tube { name: Arc::clone(&name), ..Tube::default() };
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() as TubeId - 1
        });
        self.places[place as usize] = Some(tube);
        self.names.insert(name, place);
        place
    }

    pub(crate) fn get(&self, tube: TubeId) -> &Tube {
        self.places[tube as usize].as_ref().expect("a tube that is referred to stays")
    }

    pub(crate) fn get_mut(&mut self, tube: TubeId) -> &mut Tube {
        self.places[tube as usize].as_mut().expect("a tube that is referred to stays")
    }

    /// Forgets it if it is idle.
    pub(crate) fn let_go(&mut self, tube: TubeId) {
        if self.places[tube as usize].as_ref().is_some_and(Tube::is_idle) {
            let gone = self.places[tube as usize].take().expect("it is there");
            self.names.remove(&gone.name);
            self.free.push(tube);
        }
    }

    /// In the order of their places.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (TubeId, &Tube)> {
        (0..).zip(&self.places).filter_map(|(place, tube)| Some((place, tube.as_ref()?)))
    }

    pub(crate) fn len(&self) -> usize {
        self.names.len()
    }
}
