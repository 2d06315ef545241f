//! What comes of reading one message from the front of a byte slice.

/// What came of reading one message from the front of a byte slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parsed<T, E> {
    /// A whole message, made of the first `used` bytes.
    Complete {
        /// The message.
        message: T,
        /// How many bytes it took; at least 1.
        used: usize,
    },
    /// The bytes so far begin a message that ends later.
    Incomplete {
        /// The message has at least this many bytes, counted from the front; more than are there.
        /// Reading less than this cannot complete it.
        needed: usize,
    },
    /// No message begins like this.
    Invalid(E),
}
