//! Bytes that have come but are not understood yet, and bytes that wait to leave.

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
            self.bytes.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            if self.bytes.len() - self.end < least {
                self.bytes.resize(self.end + least, 0);
            }
        }
        &mut self.bytes[self.end..]
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

/// What waits to be sent. Bytes are counted from the connection's first, so that a message's end can be
/// recognised when it leaves.
#[derive(Debug, Default)]
pub struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
    base: u64,
}

impl Outbox {
    /// Where to append what shall be sent next.
    pub fn tail(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// What has not left yet.
    pub fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Whether all has left.
    pub fn is_empty(&self) -> bool {
        self.sent == self.bytes.len()
    }

    /// Bytes that have not left yet.
    pub fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Bytes of memory held.
    pub fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// The position of the next byte to be appended, counted from the connection's first.
    pub fn end(&self) -> u64 {
        self.base + self.bytes.len() as u64
    }

    /// The position up to which everything has left.
    pub fn position(&self) -> u64 {
        self.base + self.sent as u64
    }

    /// The first `count` unsent bytes have left.
    pub fn advance(&mut self, count: usize) {
        assert!(self.sent + count <= self.bytes.len(), "more bytes sent than there were");
        self.sent += count;
        if self.sent == self.bytes.len() {
            self.base += self.sent as u64;
            self.bytes.clear();
            self.sent = 0;
        } else if self.sent >= 1 << 16 && self.sent * 2 >= self.bytes.len() {
            // A reader that never catches up must not make the buffer grow behind it.
            self.bytes.drain(..self.sent);
            self.base += self.sent as u64;
            self.sent = 0;
        }
    }

    /// Bytes that left without ever being appended: written straight from where they were.
    pub fn bypass(&mut self, count: usize) {
        assert!(self.is_empty(), "bytes may not overtake those that wait");
        self.base += count as u64;
    }

    /// Gives memory back where nothing waits in it and there is more than `floor` bytes. All of it: what is left of a block that
    /// shrinks stands in the way of the next large one.
    pub fn shrink(&mut self, floor: usize) {
        if self.is_empty() && self.bytes.capacity() > floor {
            self.base += self.bytes.len() as u64;
            self.sent = 0;
            self.bytes = Vec::new();
        }
    }

    /// Forgets everything that has not left, as when the peer is gone. Positions go on from there.
    pub fn clear(&mut self) {
        self.base += self.bytes.len() as u64;
        self.bytes.clear();
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
