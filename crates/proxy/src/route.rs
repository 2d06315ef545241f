//! Who is asked: a pure table from what the request is to which servers take part.
//!
//! Every server holds a copy of everything. What changes values goes to all of them; what reads goes to
//! one. Three commands need more than that:
//!
//! - **cas uniques** belong to one server: each numbers its changes itself. The first server of the list gives them
//!   out (`gets`, `gats`) and decides (`cas`); what it stored is then copied to the others with `set`. No other server ever
//!   stands in for it, because its numbers would mean something else.
//! - **`gat` and `gats`** read at one server and set the expiry time at all.

use krarup_memcache::{MetaCommand, Request, Retrieval, Storage};
use krarup_record::Operation;

/// What to do with a retrieval of several keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MultiGet {
    /// The whole of it goes to one server.
    #[default]
    Whole,
    /// Every server is asked for an even share of the keys.
    Sharded,
}

/// Which servers take part, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// The server that was given the least work.
    Balanced,
    /// All servers, an even share of the keys each.
    Sharded,
    /// The first server.
    First,
    /// All servers, the same to each; all must agree.
    Everyone,
    /// The first server; if it stored, then the others.
    FirstThenOthers,
    /// The server with the least work is asked; at the others the keys are touched.
    BalancedAndTouch,
    /// The first server is asked; at the others the keys are touched.
    FirstAndTouch,
    /// Nobody: the answer is known here.
    Nobody,
}

/// The plan for a request.
pub(crate) fn plan(request: &Request<'_>, multi_get: MultiGet) -> Plan {
    match request {
        Request::Retrieve(retrieve) => match retrieve.command {
            Retrieval::Get if retrieve.keys.len() > 1 && multi_get == MultiGet::Sharded => Plan::Sharded,
            Retrieval::Get => Plan::Balanced,
            Retrieval::Gets => Plan::First,
            Retrieval::Gat => Plan::BalancedAndTouch,
            Retrieval::Gats => Plan::FirstAndTouch,
        },
        Request::Store(store) if store.command == Storage::Cas => Plan::FirstThenOthers,
        Request::Store(_)
        | Request::Delete { .. }
        | Request::Arithmetic { .. }
        | Request::Touch { .. }
        | Request::FlushAll { .. }
        | Request::Verbosity { .. } => Plan::Everyone,
        Request::Meta(meta) => match meta.command {
            MetaCommand::Get | MetaCommand::Debug => Plan::First,
            MetaCommand::Set | MetaCommand::Delete | MetaCommand::Arithmetic => Plan::Everyone,
        },
        Request::NoOp | Request::Stats { .. } | Request::Version | Request::Quit => Plan::Nobody,
    }
}

/// How a request is counted, and how many keys it names.
pub(crate) fn operation(request: &Request<'_>) -> (Operation, u32) {
    use krarup_memcache::Arithmetic;
    match request {
        Request::Retrieve(retrieve) => {
            let keys = retrieve.keys.len();
            let operation = match retrieve.command {
                _ if retrieve.command.touches() => Operation::Gat,
                _ if keys > 1 => Operation::MultiGet,
                _ => Operation::Get,
            };
            (operation, keys as u32)
        }
        Request::Store(store) => (storage(store.command), 1),
        Request::Meta(meta) => {
            let operation = match meta.command {
                MetaCommand::Get if meta.has_any(b"T") => Operation::Gat,
                MetaCommand::Get => Operation::Get,
                MetaCommand::Set => storage(meta.storage()),
                MetaCommand::Delete => Operation::Delete,
                MetaCommand::Arithmetic if matches!(meta.flag(b'M'), Some(b"D" | b"-")) => Operation::Decr,
                MetaCommand::Arithmetic => Operation::Incr,
                MetaCommand::Debug => Operation::Other,
            };
            (operation, 1)
        }
        Request::Delete { .. } => (Operation::Delete, 1),
        Request::Arithmetic { command: Arithmetic::Incr, .. } => (Operation::Incr, 1),
        Request::Arithmetic { command: Arithmetic::Decr, .. } => (Operation::Decr, 1),
        Request::Touch { .. } => (Operation::Touch, 1),
        Request::FlushAll { .. } => (Operation::Flush, 0),
        Request::Verbosity { .. }
        | Request::NoOp
        | Request::Stats { .. }
        | Request::Version
        | Request::Quit => (Operation::Other, 0),
    }
}

fn storage(command: Storage) -> Operation {
    match command {
        Storage::Set => Operation::Set,
        Storage::Add => Operation::Add,
        Storage::Replace => Operation::Replace,
        Storage::Append => Operation::Append,
        Storage::Prepend => Operation::Prepend,
        Storage::Cas => Operation::Cas,
    }
}

#[cfg(test)]
mod tests {
    use krarup_memcache::{Limits, Parsed, request};

    use super::*;

    fn plan_of(line: &str, multi_get: MultiGet) -> (Plan, Operation, u32) {
        match request::parse(line.as_bytes(), &Limits::default()) {
            Parsed::Complete { message, .. } => {
                let (operation, keys) = operation(&message);
                (plan(&message, multi_get), operation, keys)
            }
            other => panic!("{line:?}: {other:?}"),
        }
    }

    #[test]
    fn reads_go_to_one_writes_to_all() {
        use MultiGet::{Sharded, Whole};
        for (line, multi_get, expected) in [
            ("get a\r\n", Sharded, (Plan::Balanced, Operation::Get, 1)),
            ("get a b\r\n", Whole, (Plan::Balanced, Operation::MultiGet, 2)),
            ("get a b\r\n", Sharded, (Plan::Sharded, Operation::MultiGet, 2)),
            ("gets a b\r\n", Sharded, (Plan::First, Operation::MultiGet, 2)),
            ("gat 0 a\r\n", Whole, (Plan::BalancedAndTouch, Operation::Gat, 1)),
            ("gats 0 a\r\n", Whole, (Plan::FirstAndTouch, Operation::Gat, 1)),
            ("set a 0 0 0\r\n\r\n", Whole, (Plan::Everyone, Operation::Set, 1)),
            ("cas a 0 0 0 1\r\n\r\n", Whole, (Plan::FirstThenOthers, Operation::Cas, 1)),
            ("delete a\r\n", Whole, (Plan::Everyone, Operation::Delete, 1)),
            ("incr a 1\r\n", Whole, (Plan::Everyone, Operation::Incr, 1)),
            ("touch a 1\r\n", Whole, (Plan::Everyone, Operation::Touch, 1)),
            ("flush_all\r\n", Whole, (Plan::Everyone, Operation::Flush, 0)),
            ("version\r\n", Whole, (Plan::Nobody, Operation::Other, 0)),
        ] {
            assert_eq!(plan_of(line, multi_get), expected, "{line:?}");
        }
    }
}
