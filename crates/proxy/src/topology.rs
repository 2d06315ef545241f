//! Where requests can go: servers, pools of servers, and which keys belong to which pool. Plain
//! data.

use crate::placement::Placement;

/// Everything the core knows of the world behind it.
#[derive(Clone, Debug, Default)]
pub struct Topology {
    /// The servers' names, `host:port`. A server that stands in several pools stands here once.
    pub servers: Vec<String>,
    /// The pools; clients belong to one of them by the address they connect to, the first by
    /// default.
    pub pools: Vec<PoolSpec>,
    /// Keys that belong elsewhere.
    pub routes: Vec<Route>,
}

impl Topology {
    /// One pool, every server of which holds a copy of everything.
    pub fn replicated(servers: Vec<String>, multi_get: MultiGet) -> Self {
        let pool = PoolSpec { multi_get, ..PoolSpec::of("main", (0..servers.len()).collect()) };
        Self { servers, pools: vec![pool], routes: Vec::new() }
    }
}

/// A pool: some servers, which of them holds a key, and which of the holders is asked.
#[derive(Clone, Debug)]
pub struct PoolSpec {
    /// Its name in the configuration.
    pub name: String,
    /// Its servers, as places in [`Topology::servers`].
    pub servers: Vec<usize>,
    /// Whether clients connect at an address whose keys belong to it.
    pub listens: bool,
    /// Who holds a key; none: every server of the pool holds every key.
    pub placement: Option<Placement>,
    /// How many servers hold a key, 1 to all.
    pub copies: usize,
    /// When a write is done.
    pub writes: Writes,
    /// Who of a key's holders is read from.
    pub reads: Reads,
    /// What to do with retrievals of several keys where every server holds every key.
    pub multi_get: MultiGet,
    /// What to do where a key's holders are down.
    pub when_down: WhenDown,
    /// The pool that stands in where a key's holders are all down.
    pub gutter: Option<StandIn>,
    /// Whether a read that failed is tried at the next holder.
    pub fall_back_on_error: bool,
    /// Whether a key that was not found is looked for at the next holder.
    pub fall_back_on_miss: bool,
    /// Reads tried again, as a share of all reads; what is beyond fails.
    pub retry_budget: f64,
    /// Seconds for which a value found elsewhere is stored where it was missed; none: it is not.
    pub refill: Option<i32>,
    /// The pool that is asked for what is not found here; what it has is stored here.
    pub warm: Option<StandIn>,
    /// The pool that gets a copy of requests, and whose answers are dropped.
    pub shadow: Option<Shadow>,
    /// Whether a get waits for the answer to the same get already under way.
    pub coalesce: bool,
    /// Requests per second; more are refused.
    pub rate: Option<f64>,
    /// Requests at once; more are refused.
    pub concurrency: Option<u32>,
    /// How many event loops have an even share of both each.
    pub loops: u32,
    /// The longest time a value may live, in seconds; longer ones, and those without end, are
    /// shortened.
    pub ttl_cap: Option<i32>,
    /// When a read is sent to a second holder while the first has not answered.
    pub hedge: Option<Hedge>,
    /// A holder that takes so many times as long as the others is given no reads for a while; none:
    /// never.
    pub eject_slower: Option<f64>,
    /// Reads that each server of the pool may be asked for at once, the others wait in its own
    /// queue; none: reads and writes alike take one of the proxy's workers.
    pub readers: Option<u32>,
    /// Pools of the configuration before, by name, whose clients belong to it where these are no
    /// more.
    pub successor_of: Vec<String>,
}

impl PoolSpec {
    /// A pool every server of which holds everything, and no more than that.
    pub fn of(name: &str, servers: Vec<usize>) -> Self {
        Self {
            name: name.to_owned(),
            copies: servers.len(),
            servers,
            listens: true,
            placement: None,
            writes: Writes::default(),
            reads: Reads::default(),
            multi_get: MultiGet::default(),
            when_down: WhenDown::default(),
            gutter: None,
            fall_back_on_error: false,
            fall_back_on_miss: false,
            retry_budget: 0.2,
            refill: None,
            warm: None,
            shadow: None,
            coalesce: false,
            rate: None,
            concurrency: None,
            loops: 1,
            ttl_cap: None,
            hedge: None,
            eject_slower: None,
            readers: None,
            successor_of: Vec::new(),
        }
    }
}

impl PoolSpec {
    /// Where its keys lie, in words: `each key on 1 of 3 servers by ketama`.
    pub fn in_words(&self) -> String {
        let servers = self.servers.len();
        match &self.placement {
            _ if servers == 1 => "every key on the one server".to_owned(),
            None => format!(
                "every server holds a copy of everything: a write goes to all {servers}, a read to one of them"
            ),
            Some(placement) => {
                let hash = placement.hash();
                let hashed = if hash == placement.distribution().usual_hash() {
                    String::new()
                } else {
                    format!(", hashed by {}", hash.name())
                };
                format!(
                    "each key on {} of {servers} servers by {}{hashed}",
                    self.copies,
                    placement.distribution().name()
                )
            }
        }
    }
}

/// What to do with a retrieval of several keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MultiGet {
    /// The whole of it goes to one server.
    #[default]
    Whole,
    /// Every server is asked for an even share of the keys.
    Sharded,
}

/// When a write is done. It always goes to all holders of its key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Writes {
    /// When all have answered; the worst answer speaks for all.
    #[default]
    All,
    /// When more than half have answered alike.
    Quorum,
    /// At the first good answer.
    First,
    /// When the key's primary has answered; the others get copies then, and no client waits for
    /// these.
    Async,
}

/// Who of a key's holders is read from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Reads {
    /// The one that was given the least work so far, counted in keys.
    #[default]
    LeastWork,
    /// The one that owes the fewest answers.
    LeastOutstanding,
    /// Of two drawn at random the one that owes fewer answers.
    TwoChoices,
    /// One after the other.
    RoundRobin,
    /// The first that is up, in the order of placement.
    Primary,
}

/// What to do where a key's holder is down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenDown {
    /// Say so.
    #[default]
    Error,
    /// The next server in the order of placement takes its place until it is back. What was stored
    /// there in the meantime is then not found, and what the holder kept from before is.
    Next,
}

/// Another pool that is asked in place of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandIn {
    /// Its place in [`Topology::pools`].
    pub pool: usize,
    /// Seconds for which values are stored on its account.
    pub ttl: i32,
}

/// A pool that gets copies of requests.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shadow {
    /// Its place in [`Topology::pools`].
    pub pool: usize,
    /// How many of the requests, 0 to 1.
    pub share: f64,
}

/// When a read is sent to a second holder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Hedge {
    /// After this quantile of recent server times of reads, 0 to 1.
    pub quantile: f64,
    /// Second requests as a share of all reads, at most.
    pub budget: f64,
}

/// Keys with this prefix belong to that pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    /// What the key begins with.
    pub prefix: Vec<u8>,
    /// The pool, as a place in [`Topology::pools`].
    pub pool: usize,
    /// Whether the prefix is taken off before a server sees the key.
    pub strip: bool,
    /// What is put before the key then.
    pub add: Vec<u8>,
}
