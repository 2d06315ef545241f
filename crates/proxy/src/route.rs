//! To which pool a key belongs, and how a request is counted. Pure.

use krarup_memcache::{MetaCommand, Request, Storage};
use krarup_record::Operation;

use crate::topology::Route;

/// Keys that belong elsewhere than where their client connected.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    /// The longest prefix first.
    routes: Vec<Route>,
}

impl Routes {
    pub(crate) fn new(mut routes: Vec<Route>) -> Self {
        routes.sort_by_key(|route| std::cmp::Reverse(route.prefix.len()));
        Self { routes }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// The route with the longest prefix that `key` begins with.
    pub(crate) fn find(&self, key: &[u8]) -> Option<&Route> {
        self.routes.iter().find(|route| key.starts_with(&route.prefix))
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Route> {
        self.routes.iter()
    }
}

impl Route {
    /// How many bytes are taken off the front of a key.
    pub(crate) fn stripped(&self) -> usize {
        if self.strip { self.prefix.len() } else { 0 }
    }

    /// Whether servers see another key than the client wrote.
    pub(crate) fn rewrites(&self) -> bool {
        self.stripped() > 0 || !self.add.is_empty()
    }
}

/// Whether values are asked for.
#[inline]
pub(crate) fn retrieves(request: &Request<'_>) -> bool {
    match request {
        Request::Retrieve(_) => true,
        Request::Meta(meta) => meta.command == MetaCommand::Get,
        _ => false,
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

    #[test]
    fn requests_are_counted_by_what_they_ask() {
        for (line, expected) in [
            ("get a\r\n", (Operation::Get, 1)),
            ("get a b\r\n", (Operation::MultiGet, 2)),
            ("gets a b\r\n", (Operation::MultiGet, 2)),
            ("gat 0 a\r\n", (Operation::Gat, 1)),
            ("set a 0 0 0\r\n\r\n", (Operation::Set, 1)),
            ("cas a 0 0 0 1\r\n\r\n", (Operation::Cas, 1)),
            ("delete a\r\n", (Operation::Delete, 1)),
            ("incr a 1\r\n", (Operation::Incr, 1)),
            ("touch a 1\r\n", (Operation::Touch, 1)),
            ("flush_all\r\n", (Operation::Flush, 0)),
            ("version\r\n", (Operation::Other, 0)),
        ] {
            match request::parse(line.as_bytes(), &Limits::default()) {
                Parsed::Complete { message, .. } => assert_eq!(operation(&message), expected, "{line:?}"),
                other => panic!("{line:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn the_longest_prefix_decides() {
        let route =
            |prefix: &str, pool| Route { prefix: prefix.into(), pool, strip: pool == 2, add: Vec::new() };
        let routes = Routes::new(vec![route("user:", 1), route("user:vip:", 2)]);
        assert_eq!(routes.find(b"user:7").map(|route| route.pool), Some(1));
        let vip = routes.find(b"user:vip:7").unwrap();
        assert_eq!((vip.pool, vip.stripped(), vip.rewrites()), (2, 9, true));
        assert_eq!(routes.find(b"users"), None);
    }
}
