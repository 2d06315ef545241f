//! Messages on their way in, and the numbers that stand in one line.

use crate::number::number;

/// Seconds a lease lasts where the verb has no word for it.
pub const DEFAULT_TTR: u32 = 120;

/// A message on its way in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Put<'a> {
    /// Where to; the tube in use if none is named.
    pub tube: Option<&'a str>,
    /// The only client that may have it.
    pub receiver: Option<&'a str>,
    /// Under this key a second message is none.
    pub key: Option<&'a str>,
    /// Whether the tube must have been created and the sender be logged in: a `send`, which has a
    /// tube, [`DEFAULT_TTR`] and nothing else.
    pub strict: bool,
    /// The smaller, the sooner.
    pub priority: u32,
    /// Seconds before it is ready.
    pub delay: u32,
    /// Seconds a lease of it lasts; zero counts as one.
    pub ttr: u32,
    /// What comes back with it to clients of memcached's protocol; not in a request of this one.
    pub flags: u32,
    /// When it is gone if it still waits, in whole seconds counted from the put; none: never. Not
    /// in a request of this protocol.
    pub lives: Option<u32>,
    /// The message.
    pub body: &'a [u8],
}

/// Messages that come together, each with a body of its own and all else alike.
#[derive(Clone, Copy, Debug)]
pub struct PutBatch<'a> {
    /// What they have in common.
    put: Put<'a>,
    bodies: Bodies<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Bodies<'a> {
    /// As they were received: their lengths, and all of them, each with its end of line.
    Received { sizes: Ids<'a>, bytes: &'a [u8] },
    /// As they are to be sent.
    Apart(&'a [&'a [u8]]),
}

impl<'a> PutBatch<'a> {
    /// Messages to be sent.
    pub const fn of(put: Put<'a>, bodies: &'a [&'a [u8]]) -> Self {
        Self { put, bodies: Bodies::Apart(bodies) }
    }

    /// Messages that were received: `bytes` are their bodies, each with its end of line, as long as
    /// `sizes` says.
    pub(crate) const fn received(put: Put<'a>, sizes: Ids<'a>, bytes: &'a [u8]) -> Self {
        Self { put, bodies: Bodies::Received { sizes, bytes } }
    }

    /// What they have in common.
    pub const fn common(&self) -> &Put<'a> {
        &self.put
    }

    /// How many they are; at least one if they were received.
    pub fn len(&self) -> usize {
        match self.bodies {
            Bodies::Received { sizes, .. } => sizes.iter().count(),
            Bodies::Apart(bodies) => bodies.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = Put<'a>> {
        let (sizes, bytes, apart) = match self.bodies {
            Bodies::Received { sizes, bytes } => (sizes, bytes, &[][..]),
            Bodies::Apart(bodies) => (Ids::of(&[]), &[][..], bodies),
        };
        let put = self.put;
        let mut begin = 0;
        let received = sizes.iter().map(move |size| {
            let end = begin + size as usize;
            let body = &bytes[begin..end];
            begin = end + 2;
            body
        });
        received.chain(apart.iter().copied()).map(move |body| Put { body, ..put })
    }
}

impl PartialEq for PutBatch<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for PutBatch<'_> {}

/// Numbers of messages, or lengths, one behind the other.
#[derive(Clone, Copy, Debug)]
pub struct Ids<'a>(Numbers<'a>);

#[derive(Clone, Copy, Debug)]
enum Numbers<'a> {
    /// As they stand in a line, checked to be numbers.
    Line(&'a [u8]),
    Values(&'a [u64]),
}

impl<'a> Ids<'a> {
    /// Those.
    pub const fn of(ids: &'a [u64]) -> Self {
        Self(Numbers::Values(ids))
    }

    /// Those in a line that was checked to hold nothing but numbers.
    pub(crate) const fn checked(line: &'a [u8]) -> Self {
        Self(Numbers::Line(line))
    }

    /// One after the other.
    pub fn iter(&self) -> impl Iterator<Item = u64> + use<'a> {
        let (line, values) = match self.0 {
            Numbers::Line(line) => (line, &[][..]),
            Numbers::Values(values) => (&[][..], values),
        };
        let words = line.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
        let read = |word| number(word, u64::MAX).expect("checked when the line was read").0;
        words.map(read).chain(values.iter().copied())
    }
}

impl PartialEq for Ids<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.iter().eq(other.iter())
    }
}

impl Eq for Ids<'_> {}
