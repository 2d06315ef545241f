//! The books of all tubes: [`JobBooks`] for each, in bounded memory.
//!
//! A tube has books from its first message on, as long as there are no more than [`MOST_TUBES`] of
//! them, whether the tube still is or not: clients that come for one message leave its books.
//! Where all are taken, those of a tube in which nothing has happened for ten minutes go to the
//! next; while there are none, a tube shares one set of books with all others that have none.
//! Memory is that many times [`KEPT_BYTES`](krarup_record::jobs::KEPT_BYTES) and once more: 6.5 MB.

use std::collections::HashMap;
use std::sync::Arc;

use krarup_record::{JobBooks, JobSnapshot};
use krarup_units::{Nanos, Stamp};

/// Tubes that have books of their own.
pub(crate) const MOST_TUBES: usize = 256;

/// After this time without an event books say nothing of their tube any more.
const QUIET: Nanos = Nanos::from_secs(600);

/// How often it is looked for such.
const LOOK: Nanos = Nanos::from_secs(1);

/// Where the books of a tube are, as long as they are its.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BooksPlace(u16);

#[derive(Debug)]
struct OwnBooks {
    tube: Arc<str>,
    books: JobBooks,
    /// When something was last written into them.
    used: Stamp,
}

/// The books of all tubes. See the [module](self).
#[derive(Debug, Default)]
pub(crate) struct TubeBooks {
    own: Vec<OwnBooks>,
    places: HashMap<Arc<str>, BooksPlace>,
    /// Those of tubes that have none.
    rest: JobBooks,
    look_at: Stamp,
}

impl TubeBooks {
    /// The books of a tube, to be written into. `known` is where they were the last time.
    #[inline]
    pub(crate) fn of(
        &mut self,
        tube: &Arc<str>,
        known: &mut Option<BooksPlace>,
        now: Stamp,
    ) -> &mut JobBooks {
        let still = known.filter(|place| Arc::ptr_eq(&self.own[place.0 as usize].tube, tube));
        if still.is_none() {
            *known = self.place(tube, now);
        }
        match *known {
            Some(place) => {
                let own = &mut self.own[place.0 as usize];
                own.used = now;
                &mut own.books
            }
            None => &mut self.rest,
        }
    }

    /// Where a tube of this name has its books from now on; none: all are taken.
    #[cold]
    fn place(&mut self, tube: &Arc<str>, now: Stamp) -> Option<BooksPlace> {
        if let Some(&place) = self.places.get(tube) {
            // The same name may be a new tube.
            self.own[place.0 as usize].tube = Arc::clone(tube);
            return Some(place);
        }
        let place = if self.own.len() < MOST_TUBES {
            self.own.push(OwnBooks { tube: Arc::clone(tube), books: JobBooks::new(), used: now });
            BooksPlace(self.own.len() as u16 - 1)
        } else {
            let place = self.quiet(now)?;
            let own = &mut self.own[place.0 as usize];
            own.books.reset();
            let before = std::mem::replace(&mut own.tube, Arc::clone(tube));
            self.places.remove(&before);
            place
        };
        self.places.insert(Arc::clone(tube), place);
        Some(place)
    }

    /// Books into which nothing was written for long.
    fn quiet(&mut self, now: Stamp) -> Option<BooksPlace> {
        if now < self.look_at {
            return None;
        }
        self.look_at = now + LOOK;
        let is_quiet = |own: &OwnBooks| own.used + QUIET <= now;
        let (place, _) =
            self.own.iter().enumerate().filter(|(_, own)| is_quiet(own)).min_by_key(|(_, own)| own.used)?;
        Some(BooksPlace(place as u16))
    }

    /// The books of a tube; none: it has no message yet, or shares its books.
    pub(crate) fn get(&self, tube: &str) -> Option<&JobBooks> {
        self.places.get(tube).map(|place| &self.own[place.0 as usize].books)
    }

    /// What was kept of a tube: nothing where it has had no message; none: it may share its books.
    pub(crate) fn snapshot(&self, tube: &str, now: Stamp) -> Option<JobSnapshot> {
        let own = self.get(tube).map(|books| books.snapshot(now));
        own.or_else(|| (self.own.len() < MOST_TUBES).then(JobSnapshot::default))
    }

    /// Arrivals per second of all tubes but those listed, the tubes without books of their own
    /// among them; none: no slot of any is complete.
    pub(crate) fn rate_beside(&self, listed: impl Fn(&str) -> bool, now: Stamp) -> Option<f64> {
        let others = self.own.iter().filter(|own| !listed(&own.tube)).map(|own| &own.books);
        others.chain([&self.rest]).filter_map(|books| books.rate(now)).reduce(|sum, rate| sum + rate)
    }

    /// The tubes that have books of their own.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &JobBooks)> {
        self.own.iter().map(|own| (&own.tube, &own.books))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Stamp {
        Stamp(Nanos::from_secs(seconds).0)
    }

    fn arrives(books: &mut TubeBooks, tube: &str, now: Stamp) {
        books.of(&tube.into(), &mut None, now).arrived(now);
    }

    #[test]
    fn a_tube_that_comes_back_has_its_books_again() {
        let mut books = TubeBooks::default();
        let (mut known, name) = (None, Arc::from("a"));
        books.of(&name, &mut known, at(1)).arrived(at(1));
        books.of(&name, &mut known, at(2)).arrived(at(2));
        arrives(&mut books, "a", at(3));
        assert_eq!(books.get("a").map(JobBooks::arrivals), Some(3));
        assert_eq!(books.get("b").map(JobBooks::arrivals), None);
    }

    #[test]
    fn beyond_the_bound_tubes_share_one_set_until_another_is_quiet() {
        let mut books = TubeBooks::default();
        for number in 0..MOST_TUBES + 9 {
            arrives(&mut books, &number.to_string(), at(number as u64));
        }
        assert_eq!((books.iter().count(), books.rest.arrivals()), (MOST_TUBES, 9));
        // Each arrived once in the last ten minutes, the nine of the others together: of the first
        // only the slot of its arrival until now is known.
        let rate = |listed: fn(&str) -> bool| books.rate_beside(listed, at(265));
        let of_first = 1.0 / 265.0;
        let beside = rate(|name| name == "0").expect("seconds are complete");
        assert!((rate(|_| false).expect("they are") - beside - of_first).abs() < 1e-9);
        assert_eq!(rate(|_| true), Some(1.0));
        // The first has been quiet for ten minutes now, and is looked for once a second.
        arrives(&mut books, "next", at(600));
        arrives(&mut books, "other", at(600));
        assert_eq!(books.get("next").map(JobBooks::arrivals), Some(1));
        assert_eq!((books.get("0").is_none(), books.rest.arrivals()), (true, 10));
        arrives(&mut books, "other", at(601));
        assert_eq!((books.get("1").is_none(), books.get("other").is_some()), (true, true));
        assert_eq!(books.iter().count(), MOST_TUBES);
    }

    #[test]
    fn a_place_that_another_tube_has_now_is_not_written_into() {
        let mut books = TubeBooks::default();
        let (mut known, name) = (None, Arc::from("0"));
        books.of(&name, &mut known, at(0)).arrived(at(0));
        for number in 1..MOST_TUBES {
            arrives(&mut books, &number.to_string(), at(700));
        }
        arrives(&mut books, "new", at(700));
        books.of(&name, &mut known, at(700)).arrived(at(700));
        assert_eq!(books.get("new").map(JobBooks::arrivals), Some(1));
        assert_eq!((known, books.rest.arrivals()), (None, 1));
    }
}
