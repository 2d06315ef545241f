//! Places that are used again: what is put away keeps its memory for the next user.

use crate::ids::Identifier;

/// Numbered places. A place that was given back is handed out again as it was left, so that buffers
/// inside it are allocated once.
#[derive(Debug)]
pub(crate) struct Arena<Id, T> {
    /// The first is not used: an identifier is one more than its number.
    places: Vec<T>,
    free: Vec<Id>,
}

impl<Id: Identifier, T: Default> Arena<Id, T> {
    pub(crate) fn new() -> Self {
        Self { places: vec![T::default()], free: Vec::new() }
    }

    /// A place to use; the caller sets what matters.
    pub(crate) fn take(&mut self) -> Id {
        if let Some(place) = self.free.pop() {
            return place;
        }
        let number = u32::try_from(self.places.len() - 1).expect("fewer than four billion places");
        self.places.push(T::default());
        Id::new(number)
    }

    /// Gives a place back; its number may be handed out again at once.
    pub(crate) fn give_back(&mut self, place: Id) {
        self.free.push(place);
    }

    /// How many places are in use.
    pub(crate) fn used(&self) -> usize {
        self.places.len() - 1 - self.free.len()
    }
}

impl<Id: Identifier, T> std::ops::Index<Id> for Arena<Id, T> {
    type Output = T;

    #[inline]
    fn index(&self, place: Id) -> &T {
        &self.places[place.place()]
    }
}

impl<Id: Identifier, T> std::ops::IndexMut<Id> for Arena<Id, T> {
    #[inline]
    fn index_mut(&mut self, place: Id) -> &mut T {
        &mut self.places[place.place()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::RequestId;

    #[test]
    fn a_place_given_back_is_used_again_with_its_memory() {
        let mut arena: Arena<RequestId, Vec<u8>> = Arena::new();
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
