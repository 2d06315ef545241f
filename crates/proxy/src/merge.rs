//! How the answers of several servers become one. Pure: bytes in, bytes out.

use std::sync::Arc;

use krarup_memcache::{ReplyClass, Response, write};
use krarup_units::{Lent, Outbox};

use crate::free_buffers::{FreeBuffers, KEEP};
use crate::keys::KeyList;
use crate::large::{self, BufferMemory, LARGE};

/// What the answer to the client is made of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum How {
    /// Of the one server that was asked.
    #[default]
    One,
    /// Every server was asked the same, and all must agree: the worst answer speaks for all, the
    /// first server's among equally bad ones.
    Worst,
    /// The first server, whose answer has come, has decided, and the others are to do the same: of
    /// theirs only an error counts.
    Decided,
    /// Each was asked for a run of the keys: values in the order of the keys, one end. An error of
    /// any takes the place of all.
    InOrder,
    /// Every server was asked the same; so many that answer alike, and well, are enough. Where one
    /// is enough, it has done what was asked. Where there are never so many, the worst answer
    /// speaks.
    Enough(u16),
    /// Each was asked for some of the keys: values in the order of the keys, one end. An error of
    /// any takes the place of all.
    ByKey,
    /// Whatever they answer, this is said.
    Fixed(&'static [u8]),
}

/// Answers that have come so far.
#[derive(Debug, Default)]
pub(crate) struct Merge {
    how: How,
    /// All bytes that may still be needed, in the order they came.
    bytes: Vec<u8>,
    shell: Shell,
    pieces: Vec<Piece>,
    hits: u32,
    disagreed: bool,
}

/// One part's answer, within the bytes or within the memory that was lent for it.
#[derive(Clone, Debug)]
struct Piece {
    part: u16,
    class: ReplyClass,
    start: usize,
    end: usize,
    lent: Option<Lent>,
}

/// What kind of answer it became.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Merged {
    pub(crate) class: ReplyClass,
    pub(crate) hits: u32,
    /// Whether servers that should have agreed did not.
    pub(crate) disagreed: bool,
}

/// Shorter pieces of it are copied all the same.
const SEVERAL: usize = 1 << 10;
/// What is put together of several parts, or shared by several requests, and has so many bytes
/// leaves as it lies there; less is copied once more, to leave with other replies.
const LENT: usize = 16 << 10;

impl Merge {
    /// Forgets the last request's answers, and gives back the memory of unusually large ones.
    pub(crate) fn end(&mut self, buffers: &mut FreeBuffers) {
        self.pieces.clear();
        // All of it: what is left of a block that shrinks stands in the way of the next large one.
        if self.bytes.capacity() > KEEP {
            buffers.put(self.shell.fill(&mut self.bytes));
        }
    }

    /// Forgets the last request.
    pub(crate) fn begin(&mut self, how: How) {
        self.how = how;
        self.bytes.clear();
        self.pieces.clear();
        self.hits = 0;
        self.disagreed = false;
    }

    /// The answer is known without any server.
    pub(crate) fn local(&mut self, class: ReplyClass, bytes: &[u8]) {
        self.begin(How::One);
        self.push(0, class, bytes);
    }

    /// How many bytes of answers it keeps.
    pub(crate) fn kept(&self) -> usize {
        self.pieces.iter().map(|piece| piece.end - piece.start).sum()
    }

    /// Whether the one answer that is still to come is all there is to say.
    pub(crate) fn is_plain(&self) -> bool {
        self.how == How::One && self.pieces.is_empty()
    }

    /// Changes how answers are taken from now on: a request that was for one has become one for
    /// several.
    pub(crate) fn widen(&mut self, how: How) {
        self.how = how;
    }

    /// A server has answered its part; parts are numbered from zero in the order of the request.
    pub(crate) fn add(
        &mut self,
        part: u16,
        reply: &Response<'_>,
        memory: BufferMemory<'_>,
        buffers: &mut FreeBuffers,
    ) {
        if self.bytes.is_empty()
            && self.bytes.capacity() < reply.bytes.len()
            && matches!(self.how, How::InOrder | How::ByKey)
            && let Some(spare) = buffers.take()
        {
            self.bytes = self.shell.empty(spare);
        }
        match self.how {
            How::InOrder if reply.class == ReplyClass::Values => {
                self.hits += reply.hits;
                self.keep(part, reply.class, reply.blocks(), memory);
            }
            How::Fixed(_) => {}
            How::Worst | How::Decided => self.weigh(part, reply.class, reply.hits, reply.bytes),
            How::One | How::InOrder | How::Enough(_) | How::ByKey => {
                self.hits += reply.hits;
                self.keep(part, reply.class, reply.bytes, memory);
            }
        }
    }

    /// A part that follows the request without being its answer (a copy's expiry time): only its
    /// errors count.
    pub(crate) fn follow(&mut self, part: u16, reply: &Response<'_>) {
        if reply.class.is_error() {
            self.fail(part, reply.class, reply.bytes);
        }
    }

    /// A part will not be answered; `bytes` says why.
    pub(crate) fn fail(&mut self, part: u16, class: ReplyClass, bytes: &[u8]) {
        match self.how {
            How::Fixed(_) => {}
            How::Worst | How::Decided => self.weigh(part, class, 0, bytes),
            How::One | How::InOrder | How::Enough(_) | How::ByKey => self.push(part, class, bytes),
        }
    }

    /// An answer that is known already, as that of another request for the same. A long one is lent
    /// to all that share it.
    pub(crate) fn known(&mut self, class: ReplyClass, hits: u32, answer: &Arc<Vec<u8>>) {
        self.begin(How::One);
        self.hits = hits;
        match Lent::of(answer, answer).filter(|_| answer.len() >= LENT) {
            Some(lent) => {
                self.pieces.push(Piece { part: 0, class, start: 0, end: answer.len(), lent: Some(lent) });
            }
            None => self.push(0, class, answer),
        }
    }

    /// Whether the reply is known although `waiting` answers are still to come.
    pub(crate) fn is_decided(&self, waiting: u32) -> bool {
        let How::Enough(enough) = self.how else { return false };
        let most = self.pieces.iter().map(|piece| self.alike(piece, enough)).max().unwrap_or(0);
        most >= usize::from(enough) || most + (waiting as usize) < usize::from(enough)
    }

    /// How many answered as well and like `piece`, where so many are enough; an error is like
    /// nothing, nor is one alone enough that did nothing.
    fn alike(&self, piece: &Piece, enough: u16) -> usize {
        if piece.class.is_error() || (enough == 1 && piece.class.severity() > 0) {
            return 0;
        }
        self.pieces.iter().filter(|other| self.agree(piece, other)).count()
    }

    /// Whether two servers that were asked the same say the same.
    fn agree(&self, one: &Piece, other: &Piece) -> bool {
        let copied = Copied::Few(&self.bytes);
        one.class == other.class && alike(one.class, one.bytes(&copied), other.bytes(&copied))
    }

    /// Keeps the worst answer, so that the memory needed is that of one.
    fn weigh(&mut self, part: u16, class: ReplyClass, hits: u32, bytes: &[u8]) {
        if let Some(kept) = self.pieces.first().cloned() {
            let counts = self.how != How::Decided || class.is_error();
            let agrees = kept.class == class && alike(class, &self.bytes[kept.start..kept.end], bytes);
            // Who removes what the first has refused does not contradict it.
            self.disagreed |= !agrees && (counts || !kept.class.is_error());
            let worse = (class.severity(), kept.part) > (kept.class.severity(), part);
            if !(worse && counts) {
                return;
            }
            self.pieces.clear();
            self.bytes.clear();
        }
        self.hits = hits;
        self.push(part, class, bytes);
    }

    fn push(&mut self, part: u16, class: ReplyClass, bytes: &[u8]) {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        self.pieces.push(Piece { part, class, start, end: self.bytes.len(), lent: None });
    }

    /// The same for what may be large: that is not copied.
    fn keep(&mut self, part: u16, class: ReplyClass, bytes: &[u8], memory: BufferMemory<'_>) {
        match large::reply(memory, bytes) {
            Some(lent) => {
                self.pieces.push(Piece { part, class, start: 0, end: bytes.len(), lent: Some(lent) });
            }
            None => self.push(part, class, bytes),
        }
    }

    /// Appends the one answer to `out` and says what it is; `keys` are those of [`How::ByKey`].
    pub(crate) fn render(&mut self, keys: &KeyList, out: &mut Outbox) -> Merged {
        if let How::Fixed(bytes) = self.how {
            out.tail().extend_from_slice(bytes);
            return Merged { class: ReplyClass::ServerError, hits: 0, disagreed: false };
        }
        if let How::Enough(enough) = self.how {
            self.disagreed = self.pieces.windows(2).any(|pair| !self.agree(&pair[0], &pair[1]));
            let enough_alike = |piece: &&Piece| self.alike(piece, enough) >= usize::from(enough);
            if let Some(piece) = self.pieces.iter().find(enough_alike) {
                piece.put(&Copied::Few(&self.bytes), out);
                return Merged { class: piece.class, hits: 0, disagreed: self.disagreed };
            }
        }
        // The worst of all, the first among equals: with one piece, or none worse than the others,
        // the first. Where one is enough, of those that did answer.
        let of_answers =
            self.how == How::Enough(1) && self.pieces.iter().any(|piece| !piece.class.is_error());
        let worst = self
            .pieces
            .iter()
            .filter(|piece| !of_answers || !piece.class.is_error())
            .reduce(|kept, next| {
                let worse = (next.class.severity(), kept.part) > (kept.class.severity(), next.part);
                if worse { next } else { kept }
            })
            .expect("a request has at least one answer");
        if self.how == How::InOrder && !worst.class.is_error() {
            self.pieces.sort_by_key(|piece| piece.part);
            let copied = Copied::of(&mut self.bytes, &mut self.shell);
            for piece in &self.pieces {
                piece.put(&copied, out);
            }
            out.tail().extend_from_slice(b"END\r\n");
            return Merged { class: ReplyClass::Values, hits: self.hits, disagreed: false };
        }
        if self.how == How::ByKey && !worst.class.is_error() {
            let hits = self.by_key(keys, out);
            return Merged { class: ReplyClass::Values, hits, disagreed: false };
        }
        worst.put(&Copied::Few(&self.bytes), out);
        let hits = if worst.class == ReplyClass::Values { self.hits } else { 0 };
        Merged { class: worst.class, hits, disagreed: self.disagreed }
    }
}

impl Merge {
    /// The values in the order of the keys, under the keys as the client wrote them. Each server
    /// answers in the order it was asked in and leaves out what it does not have.
    fn by_key(&mut self, keys: &KeyList, out: &mut Outbox) -> u32 {
        // From here on a piece's start moves on from value to value.
        self.pieces.sort_by_key(|piece| piece.part);
        let copied = Copied::of(&mut self.bytes, &mut self.shell);
        let mut hits = 0;
        for key in keys.iter() {
            let Ok(place) = self.pieces.binary_search_by_key(&key.part, |piece| piece.part) else { continue };
            let piece = &mut self.pieces[place];
            let next = Response { class: piece.class, hits: 0, bytes: piece.bytes(&copied) }.values().next();
            if let Some(value) = next.filter(|value| value.key == key.sent) {
                let length = value.block.len();
                if key.sent == key.asked {
                    piece.put_some(value.block, &copied, out);
                } else {
                    write::value_line(out.tail(), key.asked, value.flags, value.unique, value.data.len());
                    piece.put_some(value.data, &copied, out);
                    out.tail().extend_from_slice(b"\r\n");
                }
                hits += 1;
                piece.start += length;
            }
        }
        out.tail().extend_from_slice(b"END\r\n");
        hits
    }
}

/// What spare memory came in, kept while it is filled: it will be lent in it again.
#[derive(Debug, Default)]
struct Shell(Option<Arc<Vec<u8>>>);

impl Shell {
    fn empty(&mut self, mut spare: Arc<Vec<u8>>) -> Vec<u8> {
        let bytes = Arc::get_mut(&mut spare).map(std::mem::take);
        self.0 = Some(spare);
        bytes.unwrap_or_default()
    }

    fn fill(&mut self, bytes: &mut Vec<u8>) -> Arc<Vec<u8>> {
        let mut shell = self.0.take().unwrap_or_default();
        match Arc::get_mut(&mut shell) {
            Some(inside) => std::mem::swap(inside, bytes),
            None => return Arc::new(std::mem::take(bytes)),
        }
        shell
    }
}

/// The bytes of answers that were copied.
enum Copied<'a> {
    /// Copied once more where they leave.
    Few(&'a [u8]),
    /// Left where they are, and lent from there.
    Many(Arc<Vec<u8>>),
}

impl<'a> Copied<'a> {
    /// Takes them where they are many.
    fn of(bytes: &'a mut Vec<u8>, shell: &mut Shell) -> Self {
        if bytes.len() < LENT { Self::Few(bytes) } else { Self::Many(shell.fill(bytes)) }
    }
}

impl Piece {
    /// Its bytes.
    fn bytes<'a>(&'a self, copied: &'a Copied<'_>) -> &'a [u8] {
        let whole: &[u8] = match (&self.lent, copied) {
            (Some(lent), _) => lent.bytes(),
            (None, Copied::Few(bytes)) => bytes,
            (None, Copied::Many(whole)) => whole,
        };
        &whole[self.start..self.end]
    }

    /// Appends it to `out`. What was lent as a whole goes on so, however long it is.
    fn put(&self, copied: &Copied<'_>, out: &mut Outbox) {
        match &self.lent {
            Some(lent) if self.start == 0 => out.lend(lent.clone()),
            _ => self.put_some(self.bytes(copied), copied, out),
        }
    }

    /// Appends some of its bytes, lent where that is worth it.
    fn put_some(&self, bytes: &[u8], copied: &Copied<'_>, out: &mut Outbox) {
        let (whole, least) = match (&self.lent, copied) {
            (Some(lent), _) => (Some(lent.whole()), LARGE),
            (None, Copied::Few(_)) => (None, LARGE),
            (None, Copied::Many(whole)) => (Some(whole), SEVERAL),
        };
        match whole.filter(|_| bytes.len() >= least).and_then(|whole| Lent::of(whole, bytes)) {
            Some(piece) => out.lend(piece),
            None => out.tail().extend_from_slice(bytes),
        }
    }
}

/// The values of two servers that were asked for the same keys, in the order of these, and how many
/// there are.
pub(crate) fn union<'k>(
    keys: impl Iterator<Item = &'k [u8]>,
    one: &Response<'_>,
    other: &Response<'_>,
) -> (u32, Vec<u8>) {
    let (mut one, mut other) = (one.values().peekable(), other.values().peekable());
    let (mut hits, mut bytes) = (0, Vec::new());
    for key in keys {
        let found = [one.next_if(|value| value.key == key), other.next_if(|value| value.key == key)];
        if let Some(value) = found.into_iter().flatten().next() {
            bytes.extend_from_slice(value.block);
            hits += 1;
        }
    }
    bytes.extend_from_slice(b"END\r\n");
    (hits, bytes)
}

/// Whether two answers of a class say the same. The flags of a meta answer are each server's own.
fn alike(class: ReplyClass, one: &[u8], other: &[u8]) -> bool {
    fn value(bytes: &[u8]) -> Option<&[u8]> {
        bytes.iter().position(|&byte| byte == b'\n').map(|end| &bytes[end..])
    }
    match class {
        ReplyClass::MetaDone
        | ReplyClass::MetaMiss
        | ReplyClass::Exists
        | ReplyClass::NotFound
        | ReplyClass::NotStored => true,
        ReplyClass::MetaValue => value(one) == value(other),
        _ => one == other,
    }
}

#[cfg(test)]
mod tests {
    use krarup_memcache::{Expect, Parsed, response};
    use proptest::prelude::*;

    use super::*;

    fn reply(text: &str, expect: Expect) -> Response<'_> {
        match response::parse(text.as_bytes(), expect) {
            Parsed::Complete { message, .. } => message,
            other => panic!("{text:?}: {other:?}"),
        }
    }

    fn merged(how: How, answers: &[(u16, &str)], expect: Expect) -> (String, Merged) {
        let mut merge = Merge::default();
        merge.begin(how);
        for &(part, text) in answers {
            merge.add(part, &reply(text, expect), None, &mut FreeBuffers::default());
        }
        let mut out = Outbox::default();
        let merged = merge.render(&KeyList::default(), &mut out);
        (String::from_utf8(out.unsent().to_vec()).unwrap(), merged)
    }

    #[test]
    fn all_stored_is_stored() {
        let (text, merged) =
            merged(How::Worst, &[(1, "STORED\r\n"), (0, "STORED\r\n"), (2, "STORED\r\n")], Expect::Stored);
        assert_eq!(text, "STORED\r\n");
        assert!(!merged.disagreed);
    }

    #[test]
    fn otherwise_it_is_one_of_the_errors_whatever_their_order() {
        let answers = [
            (0, "STORED\r\n"),
            (1, "SERVER_ERROR out of memory storing object\r\n"),
            (2, "SERVER_ERROR busy\r\n"),
            (3, "NOT_STORED\r\n"),
        ];
        for first in 0..4 {
            let mut turned = answers;
            turned.rotate_left(first);
            let (text, merged) = merged(How::Worst, &turned, Expect::Stored);
            assert_eq!(text, "SERVER_ERROR out of memory storing object\r\n");
            assert!(merged.disagreed);
        }
    }

    #[test]
    fn an_error_of_one_shard_takes_the_place_of_all_values() {
        let expect = Expect::Values { keys: 1, unique: false };
        let answers = [(1, "VALUE b 0 1\r\nb\r\nEND\r\n"), (0, "SERVER_ERROR busy\r\n")];
        let (text, merged) = merged(How::InOrder, &answers, expect);
        assert_eq!(
            (text.as_str(), merged.class, merged.hits),
            ("SERVER_ERROR busy\r\n", ReplyClass::ServerError, 0)
        );
    }

    proptest! {
        /// Any interleaving of the servers' answers gives the client the same bytes.
        #[test]
        fn the_order_of_arrival_does_not_matter(found in proptest::collection::vec(any::<bool>(), 1..6), seed: u64) {
            let answers: Vec<String> = found
                .iter()
                .enumerate()
                .map(|(part, &hit)| if hit { format!("VALUE k{part} 0 1\r\n{part}\r\nEND\r\n") } else { "END\r\n".into() })
                .collect();
            let expected: String = found
                .iter()
                .enumerate()
                .filter(|&(_, &hit)| hit)
                .map(|(part, _)| format!("VALUE k{part} 0 1\r\n{part}\r\n"))
                .chain(["END\r\n".to_owned()])
                .collect();
            let mut order: Vec<(u16, &str)> = answers.iter().enumerate().map(|(part, text)| (part as u16, text.as_str())).collect();
            order.sort_by_key(|&(part, _)| (u64::from(part) + 1).wrapping_mul(seed | 1));
            let (text, merged) = merged(How::InOrder, &order, Expect::Values { keys: 1, unique: false });
            prop_assert_eq!(text, expected);
            prop_assert_eq!(merged.hits as usize, found.iter().filter(|&&hit| hit).count());
        }
    }
}
