//! Requests: what is read was there, what is written reads back, and no cut matters.

use krarup_memcache::request::{self, LONGEST_NAME, Meta, MetaCommand, Refusal, Request, StorageRequest};
use krarup_memcache::{Limits, Parsed, write};

/// The first byte chooses the limits, the rest is what a client sends.
pub fn check(bytes: &[u8]) {
    let Some((first, bytes)) = bytes.split_first() else { return };
    let limits = match first % 2 {
        0 => Limits { value: 4_096, ..Limits::default() },
        _ => Limits { key: 5, value: 20, line: 30, retrieval_line: 40 },
    };
    crate::cuts_decide_nothing(bytes, |bytes| request::parse(bytes, &limits));
    match request::parse(bytes, &limits) {
        Parsed::Complete { message, used } => {
            assert!(used > 0 && used <= bytes.len());
            within(&message, &limits);
            reads_back(&message, &limits);
        }
        Parsed::Invalid(Refusal::Answer { reply, used }) => {
            assert!(used > 0 && used <= bytes.len());
            assert!(reply.is_empty() || reply.ends_with(b"\r\n"));
        }
        Parsed::Invalid(Refusal::TooLarge { key, used, discard, .. }) => {
            assert!(used > 0 && used <= bytes.len());
            assert!(key.len() <= limits.key && discard > limits.value as u64);
        }
        Parsed::Invalid(Refusal::Discard { reply, used, discard }) => {
            assert!(used > 0 && used <= bytes.len() && discard >= 2 && reply.ends_with(b"\r\n"));
        }
        Parsed::Invalid(Refusal::Close { .. }) | Parsed::Incomplete { .. } => {}
    }
}

fn within(message: &Request<'_>, limits: &Limits) {
    match message {
        Request::Retrieve(retrieve) => {
            assert_eq!(retrieve.keys.iter().count(), retrieve.keys.len());
            assert!(retrieve.keys.iter().all(|key| !key.is_empty() && key.len() <= limits.key));
        }
        Request::Store(store) => {
            assert!(!store.key.is_empty() && store.key.len() <= limits.key);
            assert!(store.data.len() <= limits.value);
        }
        Request::Meta(meta) => {
            assert!(!meta.key.is_empty() && meta.key.len() <= limits.key);
            assert!(meta.data.len() <= limits.value);
            let mut buffer = [0; LONGEST_NAME];
            assert!(!meta.name(&mut buffer).is_empty());
        }
        _ => {}
    }
}

/// A request written for a server is the same request, and asks for an answer.
fn reads_back(message: &Request<'_>, limits: &Limits) {
    let (mut out, mut anew) = (Vec::new(), Vec::new());
    match message {
        Request::Retrieve(retrieve) => {
            write::retrieve(&mut out, retrieve.command, retrieve.exptime, retrieve.keys.iter());
        }
        Request::Store(store) => {
            write::store(&mut out, store);
            write::store(&mut anew, &StorageRequest { verbatim: None, ..store.clone() });
        }
        Request::Delete { key, .. } => write::delete(&mut out, key),
        Request::Arithmetic { command, key, delta, .. } => write::arithmetic(&mut out, *command, key, *delta),
        Request::Touch { key, exptime, .. } => write::touch(&mut out, key, *exptime),
        Request::FlushAll { delay, .. } => write::flush_all(&mut out, *delay),
        Request::Verbosity { level, .. } => write::verbosity(&mut out, *level),
        Request::Meta(meta) => {
            write::meta(&mut out, meta);
            write::meta(&mut anew, &Meta { verbatim: None, ..meta.clone() });
        }
        Request::NoOp | Request::Stats { .. } | Request::Version | Request::Quit => return,
    }
    assert!(anew.is_empty() || anew == out, "`{}` is sent as it is", out.escape_ascii());
    // A line may grow when it is written anew (a sign, `bget`): a server has its own limits.
    let limits = Limits { line: usize::MAX, ..*limits };
    let Parsed::Complete { message: read, used } = request::parse(&out, &limits) else {
        panic!("`{}` is no request any more", out.escape_ascii());
    };
    assert_eq!(used, out.len());
    assert!(!read.noreply());
    let same = match (message, &read) {
        (Request::Retrieve(one), Request::Retrieve(other)) => {
            one.command == other.command
                && one.exptime == other.exptime
                && one.keys.iter().eq(other.keys.iter())
        }
        (Request::Store(one), Request::Store(other)) => {
            assert_eq!(other.verbatim, Some(&out[..]), "a server could be sent these bytes as they are");
            (one.command, one.key, one.flags, one.exptime, one.unique, one.data)
                == (other.command, other.key, other.flags, other.exptime, other.unique, other.data)
        }
        (Request::Delete { key, .. }, Request::Delete { key: other, .. }) => key == other,
        (
            Request::Arithmetic { command, key, delta, .. },
            Request::Arithmetic { command: c, key: k, delta: d, .. },
        ) => (command, key, delta) == (c, k, d),
        (Request::Touch { key, exptime, .. }, Request::Touch { key: k, exptime: e, .. }) => {
            (key, exptime) == (k, e)
        }
        (Request::FlushAll { delay, .. }, Request::FlushAll { delay: d, .. }) => delay == d,
        (Request::Meta(one), Request::Meta(other)) => {
            assert_eq!(other.verbatim, Some(&out[..]), "a server could be sent these bytes as they are");
            assert!(!other.quiet, "a server always answers");
            let told = |&(letter, _): &(u8, &[u8])| one.command == MetaCommand::Debug || letter != b'q';
            (one.command, one.key, one.base64, one.data)
                == (other.command, other.key, other.base64, other.data)
                && one.flags.iter().filter(told).eq(other.flags.iter())
        }
        (Request::Verbosity { level, .. }, Request::Verbosity { level: l, .. }) => level == l,
        _ => false,
    };
    assert!(same, "{message:?} reads back as {read:?}");
}
