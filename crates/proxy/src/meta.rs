//! Who is asked for a meta command where several servers hold the key, and what each of them is
//! asked. Pure.
//!
//! A client shall not see that there are several. Each server numbers its changes itself, so that a
//! cas unique means something only where it was given out, and each hands out its own tokens to
//! recache. Hence:
//!
//! | command | who is asked |
//! |---|---|
//! | `mg` | one holder, by the pool's policy. If it says that the client has won (`W`), the first holder is asked instead, and its answer counts: there is one winner |
//! | `mg` that asks for or compares what each server has of its own (`c C h l`), or has a flag we do not know; `me` | the first holder |
//! | `mg` that changes something (`N R T E`), and has no flag that some server would refuse | the first holder; the others are told the same without having to answer more than that it is done |
//! | `ms md ma` | all holders, the worst answer speaks, the first one's among equals |
//! | `ms md ma` that compare (`C`) or want to know (`c`) a unique | the first holder decides; if it has done it, the others are told to, without the condition, and of their answers only errors count |
//!
//! A comparing `ms` that may store a stale value (`I`) says the same whether it did: the others
//! forget the item instead. With `E` (memcached 1.6.27 and later) all holders give the change the
//! same unique, the client's own.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use krarup_memcache::request::LONGEST_NAME;
use krarup_memcache::write::{self, FlagRewrite};
use krarup_memcache::{Expect, Meta, MetaCommand, ReplyClass, Request, Response, Storage};

use crate::placement::KeyHash;
use crate::pool::{self, Lifetimes};

/// Who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// One holder; the first if that one lets the client win.
    AnyHolder,
    /// The first holder.
    First,
    /// The first holder; the others are told.
    FirstThenOthers,
    /// All holders.
    Everyone,
    /// The first holder decides, the others follow.
    FirstDecides,
}

/// For which server a request is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MetaRole {
    /// Who answers the client.
    Answers,
    /// A holder that is told what a read changes.
    Other,
    /// A holder that follows a decision.
    Follows,
}

/// What every server takes a change by `mg` for: the others are told less of it, and would do what
/// the first one refuses.
fn is_sound(meta: &Meta<'_>) -> bool {
    /// As many flags as every memcached takes.
    const MOST: usize = 17;
    let letters = || meta.flags.iter().map(|(letter, _)| letter);
    letters().count() <= MOST
        && letters().enumerate().all(|(place, letter)| !letters().take(place).any(|before| before == letter))
        // That an opaque token is too long is found when all has been done.
        && letters().all(|letter| b"bcEfhklNOqRsTtuv".contains(&letter))
}

/// The rule for a request.
pub(crate) fn rule(meta: &Meta<'_>) -> Rule {
    match meta.command {
        MetaCommand::Get if meta.has_any(b"NRTE") && is_sound(meta) => Rule::FirstThenOthers,
        MetaCommand::Get if meta.has_any(b"NRTE") => Rule::First,
        MetaCommand::Get if meta.flags.iter().all(|(letter, _)| b"vkOqfstbuPL".contains(&letter)) => {
            Rule::AnyHolder
        }
        MetaCommand::Get | MetaCommand::Debug => Rule::First,
        _ if meta.has_any(b"Cc") => Rule::FirstDecides,
        _ => Rule::Everyone,
    }
}

/// Whether the first holder decides about a request, so that it has two steps.
pub(crate) fn one_decides(request: &Request<'_>) -> bool {
    match request {
        Request::Store(store) => store.command == Storage::Cas,
        Request::Meta(meta) => rule(meta) == Rule::FirstDecides,
        _ => false,
    }
}

/// The expiry time that a flag's token is, where it is one.
fn exptime_of(token: &[u8]) -> Option<i32> {
    std::str::from_utf8(token).ok()?.parse().ok()
}

/// Whether the item's time is over as soon as it is set, at this time of day. It may be where the
/// token is no number of 32 bits: servers refuse that, or take 32 bits of it.
pub(crate) fn expires_at_once(meta: &Meta<'_>, unix: u64) -> bool {
    let at_once = |exptime| pool::expires_at_once(exptime, unix);
    meta.flag(b'T').is_some_and(|token| exptime_of(token).is_none_or(at_once))
}

/// Whether what follows a decision is to forget the item.
pub(crate) fn forgets(meta: &Meta<'_>) -> bool {
    meta.command == MetaCommand::Set && meta.has_any(b"I") && meta.has_any(b"C")
}

/// A name as a key in base64.
pub(crate) fn encoded(name: &[u8]) -> Vec<u8> {
    STANDARD.encode(name).into_bytes()
}

/// Whether a server takes a name of so many bytes as a key in base64.
pub(crate) fn fits_encoded(length: usize) -> bool {
    (1..=LONGEST_NAME).contains(&length)
}

/// The key as a request writes it to a server that knows the item by `name`. One that is no base64,
/// though it should be, stays as it is: a route must not make the key of another item of it.
pub(crate) fn wire<'a>(meta: &'a Meta<'_>, name: &'a [u8]) -> Cow<'a, [u8]> {
    if !meta.base64 {
        return Cow::Borrowed(name);
    }
    let mut buffer = [0; LONGEST_NAME];
    let asked = meta.name(&mut buffer);
    let stays = asked == name || asked == meta.key;
    if stays { Cow::Borrowed(meta.key) } else { Cow::Owned(encoded(name)) }
}

/// Whether a key would be taken apart where it stands by its bytes in a line of an answer.
fn breaks_lines(name: &[u8]) -> bool {
    name.iter().any(|byte| b" \n".contains(byte))
}

/// Whether servers are not asked for the key although the client is told it. A server tells that of
/// an item by its bytes unless a set with `b` has stored it: not where `mg` itself has made it.
pub(crate) fn withholds_key(meta: &Meta<'_>) -> bool {
    meta.base64
        && meta.command == MetaCommand::Get
        && meta.has_any(b"k")
        && breaks_lines(meta.name(&mut [0; LONGEST_NAME]))
}

/// The key by which a client is shown an item.
#[derive(Debug)]
pub(crate) struct ShownKey {
    name: Vec<u8>,
    /// The flags that the client has written before `k`, by their letters: what is answered to them
    /// stands before the key, too.
    before: Vec<u8>,
}

impl ShownKey {
    pub(crate) fn of(meta: &Meta<'_>, name: &[u8]) -> Self {
        let letters = meta.flags.iter().map(|(letter, _)| letter);
        Self { name: name.to_vec(), before: letters.take_while(|&letter| letter != b'k').collect() }
    }
}

/// Writes the request for one of its holders, with the name by which that one knows the key and the
/// lifetimes the pool allows.
pub(crate) fn write(out: &mut Vec<u8>, meta: &Meta<'_>, name: &[u8], role: MetaRole, lifetimes: Lifetimes) {
    write_line(out, meta, name, role, lifetimes);
    if meta.command == MetaCommand::Set && !(role == MetaRole::Follows && forgets(meta)) {
        out.extend_from_slice(meta.data);
        out.extend_from_slice(b"\r\n");
    }
}

/// The same without a set's value.
pub(crate) fn write_line(
    out: &mut Vec<u8>,
    meta: &Meta<'_>,
    name: &[u8],
    role: MetaRole,
    lifetimes: Lifetimes,
) {
    let key = &*wire(meta, name);
    if role == MetaRole::Follows && forgets(meta) {
        return write::meta_delete(out, key, meta.base64);
    }
    let stores = meta.command == MetaCommand::Set && !meta.has_any(b"T");
    let capped = lifetimes.of(0);
    let more = (stores && capped != 0).then_some((b'T', capped));
    let withholds = withholds_key(meta);
    if role == MetaRole::Answers && lifetimes.cap.is_none() && key == meta.key && !withholds {
        return match meta.verbatim {
            // All but the value and its line end.
            Some(bytes) if meta.command == MetaCommand::Set => {
                out.extend_from_slice(&bytes[..bytes.len() - meta.data.len() - 2]);
            }
            Some(bytes) => out.extend_from_slice(bytes),
            None => write::meta_line(out, meta, key, None, |_, _| FlagRewrite::Keep),
        };
    }
    let adds_to = matches!(meta.storage(), Storage::Append | Storage::Prepend);
    write::meta_line(out, meta, key, more, |letter, token| match (role, letter) {
        (MetaRole::Other, _) if !b"bNRTEu".contains(&letter) => FlagRewrite::LeaveOut,
        (_, b'k') if withholds => FlagRewrite::LeaveOut,
        (MetaRole::Follows, b'C') => FlagRewrite::LeaveOut,
        // Whether it may be stored has been decided.
        (MetaRole::Follows, b'M') if meta.command == MetaCommand::Set && !adds_to => FlagRewrite::LeaveOut,
        (_, b'T' | b'N') if lifetimes.cap.is_some() => {
            exptime_of(token).map_or(FlagRewrite::Keep, |asked| FlagRewrite::Number(lifetimes.of(asked)))
        }
        _ => FlagRewrite::Keep,
    });
}

/// Whether the client that gets this answer is the one to fetch a new value: a server says so once.
pub(crate) fn wins(reply: &Response<'_>) -> bool {
    says(reply, b"W")
}

/// Whether the answer is about an item that is to be fetched anew, so that not every client that
/// asks gets the same one.
pub(crate) fn is_stale(reply: &Response<'_>) -> bool {
    says(reply, b"WXZ")
}

fn says(reply: &Response<'_>, letters: &[u8]) -> bool {
    matches!(reply.class, ReplyClass::MetaDone | ReplyClass::MetaValue)
        && reply.meta_flags().any(|(letter, _)| letters.contains(&letter))
}

/// Whether a read tells the value and not its flags, without which it cannot be stored elsewhere,
/// and has room for asking for them.
pub(crate) fn lacks_flags(meta: &Meta<'_>) -> bool {
    /// As many flags as every memcached takes, less one.
    const ROOM: usize = 16;
    meta.has_any(b"v") && !meta.has_any(b"f") && meta.flags.iter().count() <= ROOM
}

/// Whether a set that says nothing of its lifetime has room for one more flag that does.
pub(crate) fn has_room_for_lifetime(meta: &Meta<'_>) -> bool {
    /// As many flags as every memcached takes, less one; a quiet one is not sent.
    const ROOM: usize = 15;
    meta.has_any(b"T") || meta.flags.iter().filter(|&(letter, _)| letter != b'q').count() <= ROOM
}

/// Asks for the value's flags too, in a read that ends `out`.
pub(crate) fn ask_for_flags(out: &mut Vec<u8>) {
    out.truncate(out.len() - 2);
    out.extend_from_slice(b" f\r\n");
}

/// The value's flags in an answer, where they were asked for.
pub(crate) fn flags_of(reply: &Response<'_>) -> Option<u32> {
    let (_, token) = reply.meta_flags().find(|&(letter, _)| letter == b'f')?;
    std::str::from_utf8(token).ok()?.parse().ok()
}

/// The answer without the value's flags, which the client did not ask for.
pub(crate) fn without_flags(reply: &Response<'_>) -> Vec<u8> {
    // Before the flags stand the code and the length.
    with_words(
        reply,
        |place, word| if place >= 2 && word.starts_with(b"f") { None } else { Some(word.into()) },
    )
}

/// The answer that was expected so, with the key that is `shown` in the place of the one that the
/// server knows, whose hash is `asked`: plain or in base64, as the server tells it. In base64 where
/// the server was [not asked](withholds_key) for it, and where the client asked for it: answers to
/// flags stand in their order.
pub(crate) fn with_key(reply: &Response<'_>, expect: Expect, shown: &ShownKey, asked: u64) -> Vec<u8> {
    let ShownKey { name, before } = shown;
    let shown = |key: &[u8]| if KeyHash::Xxh3.number(key) == asked { name.clone() } else { encoded(name) };
    let flags_from = if reply.class == ReplyClass::MetaValue { 2 } else { 1 };
    let key_at = flags_from + reply.meta_flags().take_while(|(letter, _)| before.contains(letter)).count();
    let lacks_key = matches!(expect, Expect::Meta { command: MetaCommand::Get, .. })
        && breaks_lines(name)
        && !reply.class.is_error()
        && reply.meta_flags().all(|(letter, _)| letter != b'k');
    with_words(reply, |place, word| {
        Some(match (reply.class, word) {
            (ReplyClass::MetaDebug, key) if place == 1 => shown(key).into(),
            (class, [b'k', key @ ..]) if place >= flags_from && !class.is_error() => {
                [b"k", &shown(key)[..]].concat().into()
            }
            _ if lacks_key && place + 1 == key_at => [word, b" k", &encoded(name)[..], b" b"].concat().into(),
            _ => word.into(),
        })
    })
}

/// The answer with other words in its line, or without some of them, by their place.
fn with_words<'a>(
    reply: &Response<'a>,
    mut change: impl FnMut(usize, &'a [u8]) -> Option<Cow<'a, [u8]>>,
) -> Vec<u8> {
    let line = reply.line();
    let mut out = Vec::with_capacity(reply.bytes.len());
    for (place, word) in line.split(|&byte| byte == b' ').enumerate() {
        let Some(word) = change(place, word) else { continue };
        if place > 0 {
            out.push(b' ');
        }
        out.extend_from_slice(&word);
    }
    out.extend_from_slice(&reply.bytes[line.len()..]);
    out
}

#[cfg(test)]
mod tests {
    use krarup_memcache::{Limits, Parsed, request};

    use super::*;

    fn with<T>(text: &str, look: impl FnOnce(&Meta<'_>) -> T) -> T {
        match request::parse(text.as_bytes(), &Limits::default()) {
            Parsed::Complete { message: Request::Meta(meta), .. } => look(&meta),
            other => panic!("{text:?}: {other:?}"),
        }
    }

    #[test]
    fn which_server_is_asked_follows_from_what_each_has_of_its_own() {
        for (text, wanted) in [
            ("mg k\r\n", Rule::AnyHolder),
            ("mg k v t s f k O7 q\r\n", Rule::AnyHolder),
            ("mg k v c\r\n", Rule::First),
            ("mg k h\r\n", Rule::First),
            ("mg k v C7\r\n", Rule::First),
            ("mg k z\r\n", Rule::First),
            ("mg k v N30\r\n", Rule::FirstThenOthers),
            ("mg k v T30 c\r\n", Rule::FirstThenOthers),
            // What the first one refuses must not be done by the others.
            ("mg k T30 z\r\n", Rule::First),
            ("mg k v T30 v\r\n", Rule::First),
            ("mg k N30 P\r\n", Rule::First),
            ("me k\r\n", Rule::First),
            ("ms k 1\r\nx\r\n", Rule::Everyone),
            ("ms k 1 ME c\r\nx\r\n", Rule::FirstDecides),
            ("ms k 1 C7\r\nx\r\n", Rule::FirstDecides),
            ("ms k 1 MA C7\r\nx\r\n", Rule::FirstDecides),
            ("md k\r\n", Rule::Everyone),
            ("md k C7\r\n", Rule::FirstDecides),
            ("ma k\r\n", Rule::Everyone),
            ("ma k C7\r\n", Rule::FirstDecides),
        ] {
            assert_eq!(with(text, rule), wanted, "{text:?}");
        }
    }

    #[test]
    fn a_key_is_rewritten_in_base64_and_stays_where_it_is_none() {
        for (asked, sent) in [
            ("md user:7\r\n", "7"),
            ("md dXNlcjo3 b\r\n", "Nw=="),
            // A client forgot to encode it.
            ("md user:7 b\r\n", "user:7"),
        ] {
            assert_eq!(with(asked, |meta| wire(meta, b"7").into_owned()), sent.as_bytes(), "{asked:?}");
        }
    }

    #[test]
    fn an_item_is_gone_at_once_where_its_time_is_past() {
        for (text, at_once) in [
            ("mg k v\r\n", false),
            ("mg k T0\r\n", false),
            ("mg k T30\r\n", false),
            ("mg k T-1\r\n", true),
            ("ms k 1 T1700000001\r\nx\r\n", false),
            ("ms k 1 T1700000000\r\nx\r\n", true),
            // The lower 32 bits of both are negative.
            ("mg k T-2147483649999\r\n", true),
            ("mg k T4294967295\r\n", true),
        ] {
            assert_eq!(with(text, |meta| expires_at_once(meta, 1_700_000_000)), at_once, "{text:?}");
        }
    }

    #[test]
    fn each_holder_is_asked_what_its_role_needs() {
        let free = Lifetimes { cap: None, unix: 0 };
        let capped = Lifetimes { cap: Some(60), unix: 0 };
        for (asked, role, lifetimes, sent) in [
            ("mg k v c T30 O7 q\r\n", MetaRole::Answers, free, "mg k v c T30 O7\r\n"),
            ("mg k v c T30 O7 q\r\n", MetaRole::Other, free, "mg k T30\r\n"),
            ("mg aw== b v N30 R5\r\n", MetaRole::Other, free, "mg aw== b N30 R5\r\n"),
            ("mg aw== b k v\r\n", MetaRole::Answers, free, "mg aw== b k v\r\n"),
            // A blank, and a line feed.
            ("mg YSBj b k v\r\n", MetaRole::Answers, free, "mg YSBj b v\r\n"),
            ("mg YQpj b N900 k\r\n", MetaRole::Answers, capped, "mg YQpj b N60\r\n"),
            ("ma YSBj b k\r\n", MetaRole::Answers, free, "ma YSBj b k\r\n"),
            ("ms k 1 C7 c O7 T9\r\nx\r\n", MetaRole::Follows, free, "ms k 1 c O7 T9\r\nx\r\n"),
            ("ms k 1 MR C7\r\nx\r\n", MetaRole::Follows, free, "ms k 1\r\nx\r\n"),
            ("ms k 1 ME c\r\nx\r\n", MetaRole::Follows, free, "ms k 1 c\r\nx\r\n"),
            ("ms k 1 ME I\r\nx\r\n", MetaRole::Follows, free, "ms k 1 I\r\nx\r\n"),
            ("ms k 1 MA C7\r\nx\r\n", MetaRole::Follows, free, "ms k 1 MA\r\nx\r\n"),
            ("ms k 1 C7 I\r\nx\r\n", MetaRole::Follows, free, "md k\r\n"),
            ("ms aw== 1 b C7 I\r\nx\r\n", MetaRole::Follows, free, "md aw== b\r\n"),
            ("md k C7 I T9\r\n", MetaRole::Follows, free, "md k I T9\r\n"),
            ("ma k C7 MD D2\r\n", MetaRole::Follows, free, "ma k MD D2\r\n"),
            ("ms k 1 T100\r\nx\r\n", MetaRole::Answers, capped, "ms k 1 T60\r\nx\r\n"),
            ("ms k 1 T30 q\r\nx\r\n", MetaRole::Answers, capped, "ms k 1 T30\r\nx\r\n"),
            ("ms k 1 F5\r\nx\r\n", MetaRole::Answers, capped, "ms k 1 F5 T60\r\nx\r\n"),
            ("mg k T0 v\r\n", MetaRole::Answers, capped, "mg k T60 v\r\n"),
            ("ma k N900\r\n", MetaRole::Answers, capped, "ma k N60\r\n"),
            ("mg k T0x\r\n", MetaRole::Answers, capped, "mg k T0x\r\n"),
        ] {
            let mut out = Vec::new();
            with(asked, |meta| write(&mut out, meta, meta.name(&mut [0; LONGEST_NAME]), role, lifetimes));
            assert_eq!(String::from_utf8(out).unwrap(), sent, "{asked:?} for {role:?}");
        }
    }
}
