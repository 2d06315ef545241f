//! What happens next: a heap of due times, and beside it one due time of each station whose
//! requests share its speed.
//!
//! One entry is one number of 128 bits, so that comparing two entries is comparing two numbers:
//!
//! ```text
//!  127            64 63         26 25   24 23          0
//! | time, f64 bits  | sequence     | kind  | place      |
//! ```
//!
//! The bits of a float that is not negative order as the float does. Equal times keep the order in
//! which they were entered, which makes a run repeatable. Four children per node: half the levels
//! of a binary heap, and the four lie in one cache line.
//!
//! Where requests share a station's speed, each one that comes or goes moves the next completion.
//! In the heap that would leave an entry behind each time, to be sorted and thrown away; so these
//! stations have a place of their own, which is overwritten, and a tournament ([`Turns`]) knows the
//! earliest of them.

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The next request of an open class arrives; the class.
    Arrival(u32),
    /// A client has thought long enough; its request.
    Begin(u32),
    /// A service that has its server to itself is complete; the request.
    Done(u32),
    /// The first of the services that share a station is complete; the station. Entered by
    /// [`Calendar::enter_shared`].
    Shared(u32),
}

/// Bits of an entry that number the things an event may be about.
pub(super) const PLACE_BITS: u32 = 24;
/// Bits for the place and the kind of event.
const WHAT_BITS: u32 = PLACE_BITS + 2;

/// Most requests, classes or stations that an event can name.
pub(super) const PLACES: usize = 1 << PLACE_BITS;
/// Most entries over a whole run.
pub(super) const ENTRIES: u64 = 1 << (64 - WHAT_BITS);

const CHILDREN: usize = 4;

/// Entries by time.
#[derive(Debug)]
pub(super) struct Calendar {
    /// A heap, smallest first; its root is void while `taken`.
    heap: Vec<u128>,
    /// The root has been handed out and nothing put in its place yet: most events enter another
    /// one, which then sinks from the root instead of being appended and a last one moved up.
    taken: bool,
    sequence: u64,
    shared: Turns,
}

impl Calendar {
    /// An empty calendar of a network with so many stations, if any of them shares its speed.
    pub(super) fn new(stations: usize, shared: bool) -> Self {
        let shared = Turns::new(if shared { stations } else { 0 });
        Self { heap: Vec::new(), taken: false, sequence: 0, shared }
    }

    /// The next entry, at `time` (≥ 0, finite).
    #[inline]
    fn entry(&mut self, time: f64, event: Event) -> u128 {
        debug_assert!(time >= 0.0 && time.is_finite(), "due at {time}");
        let (kind, place) = match event {
            Event::Arrival(place) => (0, place),
            Event::Begin(place) => (1, place),
            Event::Done(place) => (2, place),
            Event::Shared(place) => (3, place),
        };
        self.sequence += 1;
        // Zero may be negative: its sign bit would sort it last.
        let time = u128::from((time + 0.0).to_bits()) << 64;
        let low = self.sequence << WHAT_BITS | kind << PLACE_BITS | u64::from(place);
        time | u128::from(low)
    }

    /// Enters the next completion at a station whose requests share its speed, in place of the one
    /// that was entered before; `None` while nothing is in service.
    #[inline]
    pub(super) fn enter_shared(&mut self, station: u32, time: Option<f64>) {
        let entry = time.map_or(VOID, |time| self.entry(time, Event::Shared(station)));
        self.shared.set(station as usize, entry);
    }

    /// Enters any other event at `time` (≥ 0, finite) and returns the number of the entry.
    pub(super) fn enter(&mut self, time: f64, event: Event) -> u64 {
        debug_assert!(!matches!(event, Event::Shared(_)), "it has a place of its own");
        let entry = self.entry(time, event);
        if self.taken {
            self.taken = false;
            self.sink(entry);
        } else {
            self.heap.push(entry);
            self.rise(entry);
        }
        self.sequence
    }

    /// When the next event is due.
    pub(super) fn next_time(&mut self) -> Option<f64> {
        let first = self.first();
        (first != VOID).then(|| time_of(first))
    }

    /// The earliest entry.
    #[inline]
    fn first(&mut self) -> u128 {
        self.fill();
        self.heap.first().copied().unwrap_or(VOID).min(self.shared.first())
    }

    /// Takes out the next event, with its time and the number of its entry.
    pub(super) fn take(&mut self) -> Option<(f64, u64, Event)> {
        let entry = self.first();
        if entry == VOID {
            return None;
        }
        let low = entry as u64;
        let place = (low & (PLACES as u64 - 1)) as u32;
        let event = match low >> PLACE_BITS & 3 {
            0 => Event::Arrival(place),
            1 => Event::Begin(place),
            2 => Event::Done(place),
            _ => Event::Shared(place),
        };
        if let Event::Shared(station) = event {
            self.shared.set(station as usize, VOID);
        } else {
            self.taken = true;
        }
        Some((time_of(entry), low >> WHAT_BITS, event))
    }

    /// Puts the last entry into a void root.
    fn fill(&mut self) {
        if self.taken {
            self.taken = false;
            let last = self.heap.pop().expect("a void root is an entry");
            if !self.heap.is_empty() {
                self.sink(last);
            }
        }
    }

    fn sink(&mut self, entry: u128) {
        let heap = &mut self.heap[..];
        let mut hole = 0;
        loop {
            let first = hole * CHILDREN + 1;
            let least = if let Some(four) = heap.get(first..first + CHILDREN) {
                let left = usize::from(four[1] < four[0]);
                let right = 2 + usize::from(four[3] < four[2]);
                first + if four[right] < four[left] { right } else { left }
            } else {
                let Some(least) = (first..heap.len()).min_by_key(|&child| heap[child]) else { break };
                least
            };
            if entry < heap[least] {
                break;
            }
            heap[hole] = heap[least];
            hole = least;
        }
        heap[hole] = entry;
    }

    fn rise(&mut self, entry: u128) {
        let heap = &mut self.heap[..];
        let mut hole = heap.len() - 1;
        while hole > 0 {
            let parent = (hole - 1) / CHILDREN;
            if heap[parent] < entry {
                break;
            }
            heap[hole] = heap[parent];
            hole = parent;
        }
        heap[hole] = entry;
    }
}

/// No entry: later than all of them, which are finite.
const VOID: u128 = u128::MAX;

/// One entry for each station, and the earliest of them: the leaves of a binary tree, in which each
/// node is the earlier one of its two children.
#[derive(Debug)]
struct Turns {
    /// The root at 1, the children of `node` at 2·`node` and 2·`node` + 1; the leaves are the
    /// second half.
    tree: Vec<u128>,
}

impl Turns {
    fn new(stations: usize) -> Self {
        Self { tree: vec![VOID; 2 * stations.next_power_of_two()] }
    }

    #[inline]
    fn first(&self) -> u128 {
        self.tree[1]
    }

    #[inline]
    fn set(&mut self, station: usize, entry: u128) {
        let tree = &mut self.tree[..];
        let mut node = tree.len() / 2 + station;
        tree[node] = entry;
        while node > 1 {
            node /= 2;
            tree[node] = tree[2 * node].min(tree[2 * node + 1]);
        }
    }
}

fn time_of(entry: u128) -> f64 {
    f64::from_bits((entry >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Asked {
        Enter(u8),
        Share(u8, Option<u8>),
        Take,
    }

    const STATIONS: u8 = 5;

    fn asked() -> impl Strategy<Value = Asked> {
        prop_oneof![
            3 => (0_u8..20).prop_map(Asked::Enter),
            3 => (0..STATIONS, prop::option::weighted(0.8, 0_u8..20)).prop_map(|(s, t)| Asked::Share(s, t)),
            3 => Just(Asked::Take),
        ]
    }

    proptest! {
        #[test]
        fn events_come_by_time_and_equal_times_in_the_order_they_were_entered(
            steps in prop::collection::vec(asked(), 0..300),
        ) {
            let mut calendar = Calendar::new(usize::from(STATIONS), true);
            let mut expected: Vec<(u8, u64, Event)> = Vec::new();
            let mut entered = 0;
            let take = |calendar: &mut Calendar, expected: &mut Vec<(u8, u64, Event)>| {
                expected.sort_unstable_by_key(|(time, number, _)| (*time, *number));
                let due = calendar.next_time();
                let taken = calendar.take();
                assert_eq!(due, taken.map(|(time, ..)| time));
                if expected.is_empty() {
                    assert_eq!(taken, None);
                } else {
                    let (time, number, event) = expected.remove(0);
                    assert_eq!(taken, Some((f64::from(time), number, event)));
                }
            };
            for step in steps {
                match step {
                    Asked::Enter(time) => {
                        let event = Event::Begin(u32::from(time));
                        entered += 1;
                        assert_eq!(calendar.enter(f64::from(time), event), entered);
                        expected.push((time, entered, event));
                    }
                    Asked::Share(station, time) => {
                        // What was entered for the station before holds no longer.
                        let event = Event::Shared(u32::from(station));
                        expected.retain(|(.., other)| *other != event);
                        calendar.enter_shared(u32::from(station), time.map(f64::from));
                        if let Some(time) = time {
                            entered += 1;
                            expected.push((time, entered, event));
                        }
                    }
                    Asked::Take => take(&mut calendar, &mut expected),
                }
            }
            while !expected.is_empty() {
                take(&mut calendar, &mut expected);
            }
        }
    }

    #[test]
    fn an_event_keeps_its_kind_and_place() {
        let mut calendar = Calendar::new(4, true);
        let events = [Event::Arrival(0), Event::Begin(PLACES as u32 - 1), Event::Done(7), Event::Shared(3)];
        for event in events {
            match event {
                Event::Shared(station) => calendar.enter_shared(station, Some(-0.0)),
                event => _ = calendar.enter(-0.0, event),
            }
        }
        for event in events {
            assert_eq!(calendar.take().map(|(time, _, event)| (time, event)), Some((0.0, event)));
        }
        assert_eq!(calendar.take(), None);
    }
}
