//! One visit to a station: the row that a request leaves behind.
//!
//! A request's record is a [`Visit`] and a borrowed slice of [`ServerVisit`]s, plain data on the
//! stack.
//!
//! **Measured and simulated visits have one type.** A simulator sets `station` to the number of the
//! station in its network, `received` and `queued` to the arrival, `taken` to the start of service,
//! `replied` to the departure, all in nanoseconds of simulated time; a visit that holds this
//! station while it is served by others (a worker and its servers) names these in the slice. What a
//! simulator does not know stays at its default: [`Visit::at`] is a visit of no length, to be
//! filled in.

use krarup_units::{Nanos, Stamp};

/// Declares an enum with a compact index and a stable name for each of its values; its name is what
/// is serialized.
macro_rules! named {
    ($(#[$about:meta])* $enum:ident { $($(#[$doc:meta])* $value:ident = $name:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[repr(u8)]
        pub enum $enum { $($(#[$doc])* $value,)+ }

        impl $enum {
            /// Every value, in the order of its index.
            pub const ALL: &[Self] = &[$(Self::$value,)+];

            /// How many there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The place in [`Self::ALL`]: dense, for tables in memory. Files hold the name
            /// instead.
            #[inline]
            pub const fn index(self) -> usize {
                self as usize
            }

            /// The name in files, flags and reports. It never changes.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$value => $name,)+ }
            }

            /// All names, for messages and docs.
            pub fn names() -> String {
                Self::ALL.iter().map(|one| one.name()).collect::<Vec<_>>().join(", ")
            }

            /// The value of this name, if there is one.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$value),)+ _ => None }
            }
        }

        impl std::fmt::Display for $enum {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }

        impl serde::Serialize for $enum {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.name())
            }
        }

        impl<'de> serde::Deserialize<'de> for $enum {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let name = <String as serde::Deserialize>::deserialize(deserializer)?;
                Self::from_name(&name).ok_or_else(|| {
                    serde::de::Error::custom(format_args!("`{name}` is not one of: {}", Self::names()))
                })
            }
        }
    };
}

pub(crate) use named;

named! {
    /// What the client asked for.
    Operation {
        /// get, gets with one key.
        Get = "get",
        /// get, gets with several keys.
        MultiGet = "multiget",
        /// set.
        Set = "set",
        /// add.
        Add = "add",
        /// replace.
        Replace = "replace",
        /// append.
        Append = "append",
        /// prepend.
        Prepend = "prepend",
        /// cas.
        Cas = "cas",
        /// delete.
        Delete = "delete",
        /// incr.
        Incr = "incr",
        /// decr.
        Decr = "decr",
        /// touch.
        Touch = "touch",
        /// gat, gats, with any number of keys.
        Gat = "gat",
        /// flush_all.
        Flush = "flush",
        /// A message is put into a queue.
        Put = "put",
        /// Messages are leased, waiting for the first included.
        Reserve = "reserve",
        /// A message is taken for good, waiting for it included.
        Pop = "pop",
        /// A message is given back.
        Release = "release",
        /// A message is set aside.
        Bury = "bury",
        /// Messages that were set aside or delayed are made ready.
        Kick = "kick",
        /// A message is looked at.
        Peek = "peek",
        /// Queues are listed.
        List = "list",
        /// Everything else: version, stats, what was no command at all, a class of simulated
        /// customers.
        Other = "other",
    }
}

named! {
    /// How the request ended.
    Outcome {
        /// With a result of its protocol. A miss, NOT_STORED and EXISTS are results too.
        Ok = "ok",
        /// The client asked for what is not allowed: ERROR, CLIENT_ERROR.
        ClientError = "client_error",
        /// A server answered with an error, or servers did not agree: SERVER_ERROR.
        ServerError = "server_error",
        /// The connection to a server was lost or could not be had.
        ServerLost = "server_lost",
        /// A server did not answer in time.
        Timeout = "timeout",
        /// The station had no room: its queue or memory was full.
        Refused = "refused",
        /// The client had gone before the reply had left.
        ClientGone = "client_gone",
    }
}

impl Operation {
    /// Whether it is asked of a message queue, and not of a cache.
    pub const fn is_of_queue(self) -> bool {
        matches!(
            self,
            Self::Put
                | Self::Reserve
                | Self::Pop
                | Self::Release
                | Self::Bury
                | Self::Kick
                | Self::Peek
                | Self::List
        )
    }
}

impl Outcome {
    /// Whether the request counts as an error.
    #[inline]
    pub const fn is_error(self) -> bool {
        !matches!(self, Self::Ok)
    }
}

/// One server's part in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerVisit {
    /// The server's place in the configuration, from zero.
    pub server: u16,
    /// Which of the connections to this server carried it, from zero.
    pub lane: u16,
    /// How this server's part ended.
    pub outcome: Outcome,
    /// See [`crate::stamps::SENT`].
    pub sent: Stamp,
    /// See [`crate::stamps::ANSWERED`].
    pub answered: Stamp,
}

impl ServerVisit {
    /// A server that answered as its protocol says, on its first connection.
    #[inline]
    pub const fn ok(server: u16, sent: Stamp, answered: Stamp) -> Self {
        Self { server, lane: 0, outcome: Outcome::Ok, sent, answered }
    }

    /// Answered − sent; zero where the stamps are out of order.
    #[inline]
    pub const fn time(&self) -> Nanos {
        between(self.sent, self.answered)
    }
}

/// What a key is known by in records: XXH3 of it, 64 bits. Zero stands for no key, or one that is
/// not known.
///
/// It is the same in every process and on every machine, so that rows of several stations can be
/// joined, and a sample of keys is the same everywhere. A reader that suspects a key can tell
/// whether it was that one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyDigest(pub u64);

impl KeyDigest {
    /// Of no key.
    pub const NONE: Self = Self(0);

    /// Of this key.
    #[inline]
    pub fn of(key: &[u8]) -> Self {
        Self(twox_hash::XxHash3_64::oneshot(key))
    }

    /// Itself where a key is known.
    #[inline]
    pub fn known(self) -> Option<Self> {
        (self != Self::NONE).then_some(self)
    }
}

/// One visit to a station, without the servers' parts, which go along as a slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Which station of the network was visited. A proxy is station 0 of its own records.
    pub station: u16,
    /// What was asked for.
    pub operation: Operation,
    /// How it ended.
    pub outcome: Outcome,
    /// Whether the worker that took the request had been idle. `false` where no worker took it.
    pub worker_was_idle: bool,
    /// See [`crate::stamps::RECEIVED`].
    pub received: Stamp,
    /// See [`crate::stamps::QUEUED`].
    pub queued: Stamp,
    /// See [`crate::stamps::TAKEN`].
    pub taken: Stamp,
    /// See [`crate::stamps::REPLIED`].
    pub replied: Stamp,
    /// Workers busy at `taken`, the one that took this request included. Zero: no worker took it.
    pub busy_workers: u32,
    /// Requests that still waited in the queue at `taken`, this one no longer among them.
    pub queue_length: u32,
    /// Keys the request named.
    pub keys: u32,
    /// Keys that were found. For a request that writes: zero.
    pub hits: u32,
    /// Keys that were asked for and not found.
    pub misses: u32,
    /// Bytes of the request as they came from the client, framing included.
    pub bytes_in: u64,
    /// Bytes of the reply as they went to the client, framing included.
    pub bytes_out: u64,
    /// Its first key, as the servers see it.
    pub key: KeyDigest,
}

/// Where the time of one visit went. `queue + server + own = response`, always.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parts {
    /// See [`crate::stamps::QUEUE_TIME`].
    pub queue: Nanos,
    /// See [`crate::stamps::SERVER_TIME`].
    pub server: Nanos,
    /// See [`crate::stamps::OWN_TIME`].
    pub own: Nanos,
    /// See [`crate::stamps::RESPONSE_TIME`].
    pub response: Nanos,
}

impl Visit {
    /// A visit that begins and ends at `stamp`, without keys, bytes or a worker; outcome
    /// [`Outcome::Ok`].
    pub const fn at(stamp: Stamp, operation: Operation) -> Self {
        Self {
            station: 0,
            operation,
            outcome: Outcome::Ok,
            worker_was_idle: false,
            received: stamp,
            queued: stamp,
            taken: stamp,
            replied: stamp,
            busy_workers: 0,
            queue_length: 0,
            keys: 0,
            hits: 0,
            misses: 0,
            bytes_in: 0,
            bytes_out: 0,
            key: KeyDigest::NONE,
        }
    }

    /// Where the time went. The parts are cut from the whole one after the other and the last is
    /// the rest, so they add up even where stamps are out of order (see [`Visit::is_ordered`]):
    /// then a part is shorter than it should be, never negative and never a panic.
    #[inline]
    pub fn parts(&self, servers: &[ServerVisit]) -> Parts {
        let response = self.response_time();
        let queue = self.queue_time();
        let rest = response.saturating_sub(queue);
        let server = with_servers(servers).min(rest);
        Parts { queue, server, own: rest.saturating_sub(server), response }
    }

    /// See [`crate::stamps::QUEUE_TIME`]; never longer than the response time.
    #[inline]
    pub fn queue_time(&self) -> Nanos {
        between(self.queued, self.taken).min(self.response_time())
    }

    /// See [`crate::stamps::SERVER_TIME`].
    #[inline]
    pub fn server_time(&self, servers: &[ServerVisit]) -> Nanos {
        self.parts(servers).server
    }

    /// See [`crate::stamps::OWN_TIME`].
    #[inline]
    pub fn own_time(&self, servers: &[ServerVisit]) -> Nanos {
        self.parts(servers).own
    }

    /// See [`crate::stamps::RESPONSE_TIME`].
    #[inline]
    pub const fn response_time(&self) -> Nanos {
        between(self.received, self.replied)
    }

    /// See [`crate::stamps::HOLD_TIME`].
    #[inline]
    pub const fn hold_time(&self) -> Nanos {
        between(self.taken, self.replied)
    }

    /// Whether every stamp stands where its definition puts it:
    /// received ≤ queued ≤ taken ≤ every sent ≤ its answered ≤ replied.
    ///
    /// A visit that is not is a bug of the station that stamped it. It is not refused, because a
    /// wrong row is better evidence than none; [`crate::Recorder`] counts it as disordered.
    #[inline]
    pub fn is_ordered(&self, servers: &[ServerVisit]) -> bool {
        self.received <= self.queued
            && self.queued <= self.taken
            && self.taken <= self.replied
            && servers
                .iter()
                .all(|one| self.taken <= one.sent && one.sent <= one.answered && one.answered <= self.replied)
    }
}

/// From the first sent to the last answered; zero without servers.
#[inline]
fn with_servers(servers: &[ServerVisit]) -> Nanos {
    let Some((head, tail)) = servers.split_first() else { return Nanos::ZERO };
    let (first, last) = tail
        .iter()
        .fold((head.sent, head.answered), |(first, last), one| (first.min(one.sent), last.max(one.answered)));
    between(first, last)
}

/// `end - start`, or zero where they are out of order.
#[inline]
const fn between(start: Stamp, end: Stamp) -> Nanos {
    Nanos(end.0.saturating_sub(start.0))
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A visit with any stamps at all, in order or not.
    pub(crate) fn any_visit() -> impl Strategy<Value = (Visit, Vec<ServerVisit>)> {
        visit_with(any::<u64>().prop_map(Stamp).boxed())
    }

    /// A visit whose stamps lie within a few seconds: many share a window, few are in order.
    pub(crate) fn near_visit() -> impl Strategy<Value = (Visit, Vec<ServerVisit>)> {
        visit_with((0_u64..8_000_000_000).prop_map(Stamp).boxed())
    }

    fn visit_with(stamp: BoxedStrategy<Stamp>) -> impl Strategy<Value = (Visit, Vec<ServerVisit>)> {
        let server = (0_u16..5, any::<u16>(), any_of(Outcome::ALL), stamp.clone(), stamp.clone()).prop_map(
            |(server, lane, outcome, sent, answered)| ServerVisit { server, lane, outcome, sent, answered },
        );
        (
            (any::<u16>(), any_of(Operation::ALL), any_of(Outcome::ALL), any::<bool>()),
            [stamp.clone(), stamp.clone(), stamp.clone(), stamp],
            (0_u32..10, 0_u32..10, any::<u32>(), any::<u32>(), any::<u32>(), any::<u64>(), any::<u64>()),
            prop_oneof![Just(KeyDigest::NONE), any::<u64>().prop_map(KeyDigest)],
            prop::collection::vec(server, 0..4),
        )
            .prop_map(|(what, [received, queued, taken, replied], counts, key, servers)| {
                let (station, operation, outcome, worker_was_idle) = what;
                let (busy_workers, queue_length, keys, hits, misses, bytes_in, bytes_out) = counts;
                let visit = Visit {
                    station,
                    operation,
                    outcome,
                    worker_was_idle,
                    received,
                    queued,
                    taken,
                    replied,
                    busy_workers,
                    queue_length,
                    keys,
                    hits,
                    misses,
                    bytes_in,
                    bytes_out,
                    key,
                };
                (visit, servers)
            })
    }

    fn any_of<T: Copy + std::fmt::Debug + 'static>(all: &'static [T]) -> impl Strategy<Value = T> {
        prop::sample::select(all)
    }

    fn between_0_and_100() -> (Visit, [ServerVisit; 2]) {
        let mut visit = Visit::at(Stamp(0), Operation::Set);
        visit.queued = Stamp(5);
        visit.taken = Stamp(25);
        visit.replied = Stamp(100);
        (visit, [ServerVisit::ok(0, Stamp(30), Stamp(70)), ServerVisit::ok(1, Stamp(32), Stamp(90))])
    }

    #[test]
    fn the_parts_are_what_the_definitions_say() {
        let (visit, servers) = between_0_and_100();
        let parts = Parts { queue: Nanos(20), server: Nanos(60), own: Nanos(20), response: Nanos(100) };
        assert_eq!(visit.parts(&servers), parts);
        assert_eq!(visit.hold_time(), Nanos(75));
        assert!(visit.is_ordered(&servers));
    }

    #[test]
    fn without_a_server_the_rest_is_own_time() {
        let (visit, _) = between_0_and_100();
        let parts = Parts { queue: Nanos(20), server: Nanos(0), own: Nanos(80), response: Nanos(100) };
        assert_eq!(visit.parts(&[]), parts);
    }

    #[test]
    fn an_answer_after_the_reply_is_out_of_order() {
        let (visit, mut servers) = between_0_and_100();
        servers[1].answered = Stamp(101);
        assert!(!visit.is_ordered(&servers));
    }

    #[test]
    fn names_and_indices_lead_back_to_their_values() {
        for (place, &operation) in Operation::ALL.iter().enumerate() {
            assert_eq!(operation.index(), place);
            assert_eq!(Operation::from_name(operation.name()), Some(operation));
        }
        for &outcome in Outcome::ALL {
            assert_eq!(Outcome::from_name(outcome.name()), Some(outcome));
        }
        assert_eq!(Operation::from_name("GET"), None);
    }

    proptest! {
        #[test]
        fn the_parts_add_up_to_the_whole_for_any_stamps((visit, servers) in any_visit()) {
            let parts = visit.parts(&servers);
            let sum = u128::from(parts.queue.0) + u128::from(parts.server.0) + u128::from(parts.own.0);
            prop_assert_eq!(sum, u128::from(parts.response.0));
            prop_assert_eq!(parts.queue, visit.queue_time());
        }

        #[test]
        fn in_order_no_part_is_cut_short((visit, servers) in ordered_visit()) {
            prop_assert!(visit.is_ordered(&servers));
            let parts = visit.parts(&servers);
            prop_assert_eq!(parts.queue, visit.taken - visit.queued);
            prop_assert_eq!(parts.response, visit.replied - visit.received);
            let first = servers.iter().map(|one| one.sent).min();
            let last = servers.iter().map(|one| one.answered).max();
            let server = last.zip(first).map_or(Nanos::ZERO, |(last, first)| last - first);
            prop_assert_eq!(parts.server, server);
        }
    }

    /// Sorts the stamps of any visit into the order of their definitions.
    pub(crate) fn ordered_visit() -> impl Strategy<Value = (Visit, Vec<ServerVisit>)> {
        near_visit().prop_map(|(mut visit, mut servers)| {
            let mut stamps = [visit.received, visit.queued, visit.taken, visit.replied];
            stamps.sort_unstable();
            [visit.received, visit.queued, visit.taken, visit.replied] = stamps;
            for one in &mut servers {
                let (a, b) = (one.sent, one.answered);
                one.sent = a.min(b).clamp(visit.taken, visit.replied);
                one.answered = a.max(b).clamp(visit.taken, visit.replied);
            }
            (visit, servers)
        })
    }
}
