//! Places that are used again: what is put away keeps its memory for the next user.

/// The number of no place.
pub(crate) const NOBODY: u32 = u32::MAX;

/// In place of a request: one that nobody waits for.
pub(crate) const DETACHED: u32 = u32::MAX - 1;

/// Numbered places. A place that was given back is handed out again as it was left, so that buffers
/// inside it are allocated once.
#[derive(Debug)]
pub(crate) struct Arena<T> {
    places: Vec<T>,
    free: Vec<u32>,
}

impl<T: Default> Arena<T> {
    pub(crate) fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    /// A place to use; whoever takes it sets what matters.
    pub(crate) fn take(&mut self) -> u32 {
        if let Some(place) = self.free.pop() {
            return place;
        }
        let place = u32::try_from(self.places.len()).expect("fewer than four billion places");
        assert!(place < DETACHED, "fewer than four billion places");
        self.places.push(T::default());
        place
    }

    /// Gives a place back; its number may be handed out again at once.
    pub(crate) fn give_back(&mut self, place: u32) {
        self.free.push(place);
    }

    /// How many places are in use.
    pub(crate) fn used(&self) -> usize {
        self.places.len() - self.free.len()
    }
}

impl<T> std::ops::Index<u32> for Arena<T> {
    type Output = T;
    fn index(&self, place: u32) -> &T {
        &self.places[place as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Arena<T> {
    fn index_mut(&mut self, place: u32) -> &mut T {
        &mut self.places[place as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_given_back_is_used_again_with_its_memory() {
        let mut arena: Arena<Vec<u8>> = Arena::new();
        let first = arena.take();
        arena[first].reserve(100);
        arena[first].clear();
        let second = arena.take();
        assert_ne!(first, second);
        arena.give_back(first);
        assert_eq!(arena.used(), 1);
        let again = arena.take();
        assert_eq!(again, first);
        assert!(arena[again].capacity() >= 100);
    }
}
