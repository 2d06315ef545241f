//! Memory in which replies of several parts were put together, for the next ones: a reply of some
//! ten thousand bytes would otherwise ask the system for as many, touch them for the first time and
//! give them back.
//!
//! What was not needed for a second is given back then; one hundred kilobytes is the most that one
//! has, a few megabytes all of them.

use std::sync::Arc;

use krarup_units::{Nanos, Stamp};

/// Smaller memory is kept where it was used.
pub(crate) const KEEP: usize = 16 << 10;
/// Larger memory is given back at once.
const MOST: usize = 128 << 10;
const COUNT: usize = 32;
const UNUSED_FOR: Nanos = Nanos::from_secs(1);

/// Memory that is not in use just now.
#[derive(Debug, Default)]
pub(crate) struct FreeBuffers {
    free: Vec<Arc<Vec<u8>>>,
    /// The fewest that there were since it was last looked.
    fewest: usize,
    due: Stamp,
}

impl FreeBuffers {
    /// Empty memory with room, if there is any. It has no other holder.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<Arc<Vec<u8>>> {
        let spare = self.free.pop();
        self.fewest = self.fewest.min(self.free.len());
        spare
    }

    /// Memory that is not needed any more, and that has no other holder; what was in it is
    /// forgotten.
    #[inline]
    pub(crate) fn put(&mut self, mut memory: Arc<Vec<u8>>) {
        if let Some(bytes) = Arc::get_mut(&mut memory)
            && (KEEP..=MOST).contains(&bytes.capacity())
            && self.free.len() < COUNT
        {
            bytes.clear();
            self.free.push(memory);
        }
    }

    /// Gives back what was not needed for a while.
    #[inline]
    pub(crate) fn tick(&mut self, now: Stamp) {
        if now < self.due {
            return;
        }
        self.due = now + UNUSED_FOR;
        self.free.truncate(self.free.len() - self.fewest);
        self.fewest = self.free.len();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_put_away_is_taken_again_and_empty() {
        let mut buffers = FreeBuffers::default();
        assert!(buffers.take().is_none());
        let memory = |bytes: usize| Arc::new(vec![1; bytes]);
        buffers.put(memory(20_000));
        let memory_again = buffers.take().unwrap();
        assert!(memory_again.is_empty() && memory_again.capacity() >= 20_000);
        for other in [100, MOST + 1] {
            buffers.put(memory(other));
        }
        buffers.put(Arc::clone(&memory_again));
        assert!(buffers.take().is_none(), "it is not worth it, or too much, or another holder has it too");
        for _ in 0..2 * COUNT {
            buffers.put(memory(KEEP));
        }
        assert_eq!(buffers.free.len(), COUNT);
    }

    #[test]
    fn what_is_not_needed_for_a_second_is_given_back() {
        let mut buffers = FreeBuffers::default();
        let second = |number: u64| Stamp(number * 1_000_000_000);
        (0..5).for_each(|_| buffers.put(Arc::new(vec![0; KEEP])));
        buffers.tick(second(1));
        assert_eq!(buffers.free.len(), 5, "they were put away in this second");
        let used: Vec<_> = (0..2).filter_map(|_| buffers.take()).collect();
        used.into_iter().for_each(|memory| buffers.put(memory));
        buffers.tick(second(1) + Nanos::from_millis(500));
        assert_eq!(buffers.free.len(), 5, "the second is not over");
        buffers.tick(second(2));
        assert_eq!(buffers.free.len(), 2, "three of them have never been taken");
        buffers.tick(second(3));
        assert_eq!(buffers.free.len(), 0);
    }
}
