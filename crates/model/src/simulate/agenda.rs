//! What happens next: a heap of due times.
//!
//! One entry is one number of 128 bits, so that comparing two entries is comparing two numbers:
//!
//! ```text
//!  127            64 63         26 25   24 23          0
//! | time, f64 bits  | sequence     | kind  | place      |
//! ```
//!
//! The bits of a float that is not negative order as the float does. Equal times keep the order in which they were
//! entered, which makes a run repeatable. Four children per node: half the levels of a binary heap, and the
//! four lie in one cache line.

/// What is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Event {
    /// The next request of an open class arrives; the class.
    Arrival(u32),
    /// A client has thought long enough; its request.
    Begin(u32),
    /// A service that has its server to itself is complete; the request.
    Done(u32),
    /// The first of the services that share a station is complete; the station.
    Shared(u32),
}

/// Bits of an entry that number the things an event may be about.
const PLACE_BITS: u32 = 24;
/// Bits for the place and the kind of event.
const WHAT_BITS: u32 = PLACE_BITS + 2;

/// Most requests, classes or stations that an event can name.
pub(super) const PLACES: usize = 1 << PLACE_BITS;
/// Most entries over a whole run.
pub(super) const ENTRIES: u64 = 1 << (64 - WHAT_BITS);

const CHILDREN: usize = 4;

/// Entries by time.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    /// A heap, smallest first; its root is void while `taken`.
    heap: Vec<u128>,
    /// The root has been handed out and nothing put in its place yet: most events enter another one, which then
    /// sinks from the root instead of being appended and a last one moved up.
    taken: bool,
    sequence: u64,
}

impl Agenda {
    /// Enters an event at `time` (≥ 0, finite) and returns the number of the entry.
    pub(super) fn enter(&mut self, time: f64, event: Event) -> u64 {
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
        let entry = time | u128::from(low);
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
        self.fill();
        self.heap.first().map(|entry| time_of(*entry))
    }

    /// Takes out the next event, with its time and the number of its entry.
    pub(super) fn take(&mut self) -> Option<(f64, u64, Event)> {
        self.fill();
        let entry = *self.heap.first()?;
        self.taken = true;
        let low = entry as u64;
        let place = (low & (PLACES as u64 - 1)) as u32;
        let event = match low >> PLACE_BITS & 3 {
            0 => Event::Arrival(place),
            1 => Event::Begin(place),
            2 => Event::Done(place),
            _ => Event::Shared(place),
        };
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

fn time_of(entry: u128) -> f64 {
    f64::from_bits((entry >> 64) as u64)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn events_come_by_time_and_equal_times_in_the_order_they_were_entered(
            steps in prop::collection::vec(prop::option::weighted(0.6, 0_u8..20), 0..300),
        ) {
            let mut agenda = Agenda::default();
            let mut expected: Vec<(u8, u64)> = Vec::new();
            let take = |agenda: &mut Agenda, expected: &mut Vec<(u8, u64)>| {
                expected.sort_unstable();
                let due = agenda.next_time();
                let taken = agenda.take();
                assert_eq!(due, taken.map(|(time, ..)| time));
                if expected.is_empty() {
                    assert_eq!(taken, None);
                } else {
                    let (time, number) = expected.remove(0);
                    assert_eq!(taken, Some((f64::from(time), number, Event::Begin(u32::from(time)))));
                }
            };
            for step in steps {
                match step {
                    Some(time) => {
                        let number = agenda.enter(f64::from(time), Event::Begin(u32::from(time)));
                        expected.push((time, number));
                    }
                    None => take(&mut agenda, &mut expected),
                }
            }
            while !expected.is_empty() {
                take(&mut agenda, &mut expected);
            }
        }
    }

    #[test]
    fn an_event_keeps_its_kind_and_place() {
        let mut agenda = Agenda::default();
        let events = [Event::Arrival(0), Event::Begin(PLACES as u32 - 1), Event::Done(7), Event::Shared(3)];
        for event in events {
            agenda.enter(-0.0, event);
        }
        for event in events {
            assert_eq!(agenda.take().map(|(time, _, event)| (time, event)), Some((0.0, event)));
        }
        assert_eq!(agenda.take(), None);
    }
}
