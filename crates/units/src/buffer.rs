//! Bytes that have come but are not understood yet, and bytes that wait to leave.

use std::collections::VecDeque;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::Arc;

/// What has been received and not consumed. Reads go to the end, messages are taken from the front.
///
/// The memory is given back to its floor when it is empty, so that one large message does not cost
/// for ever.
#[derive(Debug, Default)]
pub struct Inbox {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Inbox {
    /// Room for `capacity` bytes at once; more when a message needs it.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { bytes: vec![0; capacity], start: 0, end: 0 }
    }

    /// What has come, in order.
    pub fn unread(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// Whether nothing waits to be understood.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }

    /// Bytes of memory held.
    pub fn capacity(&self) -> usize {
        self.bytes.len()
    }

    /// Room to read into, at least `least` bytes; say with [`Self::filled`] how many came.
    pub fn room(&mut self, least: usize) -> &mut [u8] {
        if self.bytes.len() - self.end < least {
            if self.start > 0 {
                self.bytes.copy_within(self.start..self.end, 0);
                self.end -= self.start;
                self.start = 0;
            }
            if self.bytes.len() - self.end < least {
                self.bytes.resize(self.end + least, 0);
            }
        }
        &mut self.bytes[self.end..]
    }

    /// Room to read into, not more than `most` bytes. The memory grows by what has come, and never
    /// beyond what `most` asks for: that is how much is to come of one message.
    pub fn room_up_to(&mut self, most: usize, least: usize) -> &mut [u8] {
        let room = most.min(self.unread().len().max(least));
        if self.bytes.len() - self.end < room {
            let more = self.unread().len() + room - self.bytes.len().min(self.unread().len() + room);
            self.bytes.reserve_exact(more);
        }
        &mut self.room(room)[..room]
    }

    /// The first `count` bytes of the room have been filled.
    pub fn filled(&mut self, count: usize) {
        assert!(self.end + count <= self.bytes.len(), "more bytes filled than there was room");
        self.end += count;
    }

    /// The first `count` unread bytes are understood.
    pub fn consume(&mut self, count: usize) {
        assert!(self.start + count <= self.end, "more bytes consumed than there were");
        self.start += count;
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        }
    }

    /// Hands out what has come together with its memory, so that pieces of it can be lent;
    /// [`Self::give_back`] is to be called next. Nothing is copied.
    pub fn hand_out(&mut self) -> (Arc<Vec<u8>>, Range<usize>) {
        let unread = self.start..self.end;
        self.clear();
        (Arc::new(std::mem::take(&mut self.bytes)), unread)
    }

    /// The memory comes back, or what is still to be understood of it, where another holder keeps a
    /// piece.
    pub fn give_back(&mut self, memory: Arc<Vec<u8>>, unread: Range<usize>) {
        match Arc::try_unwrap(memory) {
            Ok(bytes) => {
                self.bytes = bytes;
                if !unread.is_empty() {
                    (self.start, self.end) = (unread.start, unread.end);
                }
            }
            Err(lent) => self.append(&lent[unread]),
        }
    }

    /// Adds bytes that were received elsewhere.
    pub fn append(&mut self, bytes: &[u8]) {
        self.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.filled(bytes.len());
    }

    /// Gives memory beyond `floor` bytes back, where nothing waits in it.
    pub fn shrink(&mut self, floor: usize) {
        if self.is_empty() && self.bytes.len() > floor {
            self.bytes.truncate(floor);
            self.bytes.shrink_to_fit();
        }
    }

    /// Forgets everything received.
    pub fn clear(&mut self) {
        self.start = 0;
        self.end = 0;
    }
}

/// A piece of memory that several may have at once, as a large value that goes to many.
#[derive(Clone, Debug)]
pub struct Lent {
    whole: Arc<Vec<u8>>,
    from: usize,
    to: usize,
}

impl Lent {
    /// The piece of `whole` that `bytes` are; none if they lie elsewhere.
    pub fn of(whole: &Arc<Vec<u8>>, bytes: &[u8]) -> Option<Self> {
        let from = (bytes.as_ptr() as usize).checked_sub(whole.as_ptr() as usize)?;
        let to = from.checked_add(bytes.len()).filter(|&to| to <= whole.len())?;
        Some(Self { whole: Arc::clone(whole), from, to })
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.whole[self.from..self.to]
    }

    /// The same with so many bytes more behind it, if there are these.
    pub fn longer(self, more: usize) -> Option<Self> {
        let to = self.to + more;
        (to <= self.whole.len()).then_some(Self { to, ..self })
    }

    /// The memory, where no other holder has a piece of it.
    pub fn into_whole(mut self) -> Option<Arc<Vec<u8>>> {
        Arc::get_mut(&mut self.whole).is_some().then_some(self.whole)
    }

    /// All of the memory that it is a piece of.
    pub fn whole(&self) -> &Arc<Vec<u8>> {
        &self.whole
    }
}

/// What waits to be sent. Bytes are counted from the connection's first, so that a message's end
/// can be recognised when it leaves. Large pieces may be lent instead of copied.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
    /// The position of the first of `bytes`, were there nothing lent between what is unsent.
    base: u64,
    /// What is lent, in order: where in `bytes` it stands, and how many bytes that have left are
    /// kept with it, because it is a piece of the same memory.
    lent: VecDeque<(usize, Lent, usize)>,
    /// Bytes lent that have not left.
    lent_bytes: usize,
    /// Bytes lent that have left and are kept.
    kept_bytes: usize,
}

/// The next piece of the same memory is looked for among so many: pieces of other servers' answers
/// stand between.
const NEAR: usize = 64;

impl Outbox {
    /// Where to append what shall be sent next.
    pub fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends a piece without copying it.
    pub fn lend(&mut self, piece: Lent) {
        if piece.from == piece.to {
            return;
        }
        self.lent_bytes += piece.to - piece.from;
        match self.lent.back_mut() {
            Some((place, last, _))
                if *place == self.bytes.len()
                    && last.to == piece.from
                    && Arc::ptr_eq(&last.whole, &piece.whole) =>
            {
                last.to = piece.to;
            }
            _ => self.lent.push_back((self.bytes.len(), piece, 0)),
        }
    }

    /// Whether all that has not left lies together, so that [`Self::unsent`] is all of it.
    #[inline]
    pub fn is_whole(&self) -> bool {
        self.lent.is_empty()
    }

    /// The first of the pieces that have not left, in order, as many as there is room for; how
    /// many, and how many bytes they have.
    pub fn pieces<'a>(&'a self, into: &mut [IoSlice<'a>]) -> (usize, usize) {
        let (mut count, mut bytes, mut at) = (0, 0, self.sent);
        let mut add = |piece: &'a [u8]| {
            let fits = piece.is_empty() || count < into.len();
            if fits && !piece.is_empty() {
                into[count] = IoSlice::new(piece);
                count += 1;
                bytes += piece.len();
            }
            fits
        };
        for (place, piece, _) in &self.lent {
            if !add(&self.bytes[at..*place]) || !add(piece.bytes()) {
                return (count, bytes);
            }
            at = *place;
        }
        add(&self.bytes[at..]);
        (count, bytes)
    }

    /// What is to be sent next: all that has not left, unless something lent stands between.
    pub fn unsent(&self) -> &[u8] {
        match self.lent.front() {
            None => &self.bytes[self.sent..],
            Some((place, piece, _)) if *place == self.sent => piece.bytes(),
            Some((place, ..)) => &self.bytes[self.sent..*place],
        }
    }

    /// Whether all has left.
    pub fn is_empty(&self) -> bool {
        self.sent == self.bytes.len() && self.lent.is_empty()
    }

    /// Bytes that have not left yet.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent + self.lent_bytes
    }

    /// Bytes of memory held for what has not left, with what is lent, and with what has left of
    /// that: memory is given back when nothing of it waits any more.
    pub fn held(&self) -> usize {
        self.bytes.capacity() + self.lent_bytes + self.kept_bytes
    }

    /// The same by what waits: memory that is kept for what comes next is not held by that.
    pub fn held_by_waiting(&self) -> usize {
        if self.is_empty() { 0 } else { self.held() }
    }

    /// Bytes of memory held, those lent left out.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// The position of the next byte to be appended, counted from the connection's first.
    pub fn end(&self) -> u64 {
        self.base + (self.bytes.len() + self.lent_bytes) as u64
    }

    /// The position up to which everything has left.
    pub fn position(&self) -> u64 {
        self.base + self.sent as u64
    }

    /// The first `count` unsent bytes have left.
    pub fn advance(&mut self, count: usize) {
        self.advance_and(count, |_| {});
    }

    /// The same; `gone` hears of each piece that was lent and has left.
    #[inline]
    pub fn advance_and(&mut self, count: usize, mut gone: impl FnMut(Lent)) {
        assert!(count <= self.len(), "more bytes sent than there were");
        let mut left = count;
        while let Some((place, piece, kept)) = self.lent.front_mut() {
            let before = left.min(*place - self.sent);
            self.sent += before;
            left -= before;
            let of_it = left.min(piece.to - piece.from);
            if self.sent < *place || of_it == 0 {
                break;
            }
            piece.from += of_it;
            left -= of_it;
            *kept += of_it;
            self.lent_bytes -= of_it;
            self.kept_bytes += of_it;
            self.base += of_it as u64;
            if piece.from < piece.to {
                break;
            }
            if let Some((_, piece, kept)) = self.lent.pop_front() {
                let mut near = self.lent.iter_mut().take(NEAR);
                match near.find(|(_, next, _)| Arc::ptr_eq(&next.whole, &piece.whole)) {
                    Some((.., with_next)) => *with_next += kept,
                    None => self.kept_bytes -= kept,
                }
                gone(piece);
            }
        }
        self.sent += left;
        if self.sent == self.bytes.len() && self.lent.is_empty() {
            self.base += self.sent as u64;
            self.bytes.clear();
            self.sent = 0;
        } else if self.sent >= 1 << 16 && self.sent * 2 >= self.bytes.len() {
            // A reader that never catches up must not make the buffer grow behind it.
            self.bytes.drain(..self.sent);
            self.lent.iter_mut().for_each(|(place, ..)| *place -= self.sent);
            self.base += self.sent as u64;
            self.sent = 0;
        }
    }

    /// Takes back what was appended since [`Self::end`] was `end`, none of which has left.
    pub fn take_back(&mut self, end: u64) {
        while let surplus = (self.end() - end) as usize
            && surplus > 0
        {
            let last = self.lent.back().map_or(self.sent, |(place, ..)| *place);
            let owned = (self.bytes.len() - last).min(surplus);
            self.bytes.truncate(self.bytes.len() - owned);
            if owned < surplus {
                let (_, piece, _) = self.lent.back_mut().expect("what is not kept here is lent");
                // It may have become one with what was lent before.
                let lent = (surplus - owned).min(piece.to - piece.from);
                piece.to -= lent;
                self.lent_bytes -= lent;
                if piece.from == piece.to
                    && let Some((.., kept)) = self.lent.pop_back()
                {
                    self.kept_bytes -= kept;
                }
            }
        }
    }

    /// Gives memory back where nothing waits in it and there is more than `floor` bytes. All of it:
    /// what is left of a block that shrinks stands in the way of the next large one.
    pub fn shrink(&mut self, floor: usize) {
        if self.is_empty() && self.bytes.capacity() > floor {
            self.base += self.bytes.len() as u64;
            self.sent = 0;
            self.bytes = Vec::new();
        }
    }

    /// Forgets everything that has not left, as when the peer is gone. Positions go on from there.
    pub fn clear(&mut self) {
        self.base = self.end();
        self.bytes.clear();
        self.lent.clear();
        (self.lent_bytes, self.kept_bytes) = (0, 0);
        self.sent = 0;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        /// What goes in comes out, in order, whatever the sizes of the reads and the messages.
        #[test]
        fn an_inbox_keeps_every_byte_in_order(steps in proptest::collection::vec((0_usize..50, 0_usize..60), 0..50)) {
            let mut inbox = Inbox::with_capacity(16);
            let (mut written, mut read) = (0_u8, 0_u8);
            for (fill, take) in steps {
                let room = inbox.room(fill);
                for byte in &mut room[..fill] {
                    *byte = written;
                    written = written.wrapping_add(1);
                }
                inbox.filled(fill);
                let take = take.min(inbox.unread().len());
                for &byte in &inbox.unread()[..take] {
                    prop_assert_eq!(byte, read);
                    read = read.wrapping_add(1);
                }
                inbox.consume(take);
            }
            prop_assert_eq!(written.wrapping_sub(read) as usize, inbox.unread().len() % 256);
        }

        #[test]
        fn an_outbox_counts_from_the_first_byte(steps in proptest::collection::vec((0_usize..100_000, 0_usize..100_000), 0..12)) {
            let mut outbox = Outbox::default();
            let (mut appended, mut left) = (0_u64, 0_u64);
            for (add, send) in steps {
                outbox.tail().extend((0..add).map(|at| (appended + at as u64) as u8));
                appended += add as u64;
                let send = send.min(outbox.len());
                let expected: Vec<u8> = (left..left + send as u64).map(|at| at as u8).collect();
                prop_assert_eq!(&outbox.unsent()[..send], &expected[..]);
                outbox.advance(send);
                left += send as u64;
                prop_assert_eq!((outbox.end(), outbox.position()), (appended, left));
            }
        }
    }

    proptest! {
        /// Whether a piece is copied or lent makes no difference to what leaves and how it is
        /// counted.
        #[test]
        fn what_is_lent_stands_in_its_place(steps in proptest::collection::vec((0_u8..5, 0_usize..40_000), 0..20)) {
            let whole = Arc::new((0..100_000_u32).map(|at| (at * 7) as u8).collect::<Vec<u8>>());
            let (mut outbox, mut plain) = (Outbox::default(), VecDeque::<u8>::new());
            let (mut appended, mut left) = (0_u64, 0_u64);
            for (what, size) in steps {
                match what {
                    0 => {
                        outbox.tail().extend_from_slice(&whole[..size]);
                        plain.extend(&whole[..size]);
                        appended += size as u64;
                    }
                    1 => {
                        let piece = Lent::of(&whole, &whole[5..size + 5]).unwrap();
                        prop_assert_eq!(piece.bytes(), &whole[5..size + 5]);
                        outbox.lend(piece);
                        plain.extend(&whole[5..size + 5]);
                        appended += size as u64;
                    }
                    2 if size % 2 == 0 => {
                        // What is lent last may be one with what was lent before it.
                        outbox.lend(Lent::of(&whole, &whole[..size]).unwrap());
                        plain.extend(&whole[..size]);
                        appended += size as u64;
                        let before = outbox.end();
                        outbox.lend(Lent::of(&whole, &whole[size..size + 300]).unwrap());
                        outbox.take_back(before);
                    }
                    2 => {
                        let before = outbox.end();
                        outbox.tail().extend_from_slice(b"head");
                        outbox.lend(Lent::of(&whole, &whole[..size]).unwrap());
                        outbox.tail().extend_from_slice(b"tail");
                        outbox.take_back(before);
                    }
                    _ => {
                        let mut to_go = size;
                        let mut pieces = [IoSlice::new(&[]); 3];
                        let (count, bytes) = outbox.pieces(&mut pieces);
                        let together: Vec<u8> = pieces[..count].iter().flat_map(|piece| piece.iter().copied()).collect();
                        prop_assert_eq!(together.len(), bytes);
                        prop_assert!(bytes > 0 || outbox.is_empty());
                        prop_assert!(count == pieces.len() || bytes == outbox.len());
                        prop_assert!(plain.range(..bytes).eq(&together));
                        while to_go > 0 && !outbox.is_empty() {
                            let unsent = outbox.unsent();
                            let count = unsent.len().min(to_go);
                            prop_assert!(count > 0);
                            prop_assert!(plain.drain(..count).eq(unsent[..count].iter().copied()));
                            outbox.advance(count);
                            left += count as u64;
                            to_go -= count;
                        }
                    }
                }
                prop_assert_eq!(outbox.len(), plain.len());
                prop_assert_eq!((outbox.end(), outbox.position()), (appended, left));
                prop_assert_eq!(outbox.is_empty(), plain.is_empty());
            }
            let mut rest = outbox.len();
            outbox.advance(rest);
            prop_assert!(outbox.is_empty());
            rest += left as usize;
            prop_assert_eq!(outbox.position(), rest as u64);
            prop_assert_eq!(outbox.held(), outbox.capacity());
        }
    }

    #[test]
    fn memory_that_is_lent_is_held_until_nothing_of_it_waits() {
        const HALF: usize = 1 << 19;
        let [one, other] = [(); 2].map(|()| Arc::new(vec![b'v'; 2 * HALF]));
        let mut outbox = Outbox::default();
        // As two servers' answers are put together.
        for half in [0..HALF, HALF..2 * HALF] {
            for whole in [&one, &other] {
                outbox.lend(Lent::of(whole, &whole[half.clone()]).unwrap());
            }
        }
        for (sent, held) in [(0, 4), (3 * HALF - 1, 4), (1, 2), (HALF - 1, 2), (1, 0)] {
            outbox.advance(sent);
            assert_eq!(outbox.held(), held * HALF);
        }
        outbox.lend(Lent::of(&one, &one[..HALF]).unwrap());
        let end = outbox.end();
        outbox.lend(Lent::of(&one, &one[HALF..]).unwrap());
        outbox.advance(HALF);
        assert_eq!((outbox.len(), outbox.held()), (HALF, 2 * HALF));
        outbox.take_back(end);
        assert_eq!(outbox.held(), 0);
        outbox.lend(Lent::of(&one, &one[..HALF]).unwrap());
        outbox.advance(1);
        outbox.clear();
        assert_eq!(outbox.held(), 0);
    }

    #[test]
    fn memory_handed_out_comes_back_unless_a_piece_is_kept() {
        let mut inbox = Inbox::default();
        inbox.append(b"onetwothree");
        inbox.consume(3);
        let (memory, unread) = inbox.hand_out();
        assert_eq!(&memory[unread.clone()], b"twothree");
        let kept = Lent::of(&memory, &memory[unread.start..unread.start + 3]).unwrap();
        assert!(Lent::of(&memory, b"elsewhere").is_none());
        inbox.give_back(memory, unread.start + 3..unread.end);
        assert_eq!((inbox.unread(), kept.bytes()), (&b"three"[..], &b"two"[..]));
        drop(kept);
        let (memory, unread) = inbox.hand_out();
        let place = memory.as_ptr();
        inbox.give_back(memory, unread);
        assert_eq!((inbox.unread(), inbox.bytes.as_ptr()), (&b"three"[..], place));
    }

    #[test]
    fn memory_is_given_back_when_nothing_waits() {
        let mut inbox = Inbox::default();
        inbox.append(&[0; 100_000]);
        inbox.shrink(1_000);
        assert_eq!(inbox.capacity(), 100_000);
        inbox.consume(100_000);
        inbox.shrink(1_000);
        assert_eq!(inbox.capacity(), 1_000);
    }
}
