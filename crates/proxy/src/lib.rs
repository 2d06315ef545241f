//! The drawing of one request, in code: a memcached middleware that stamps everything.
//!
//! | file | its one idea |
//! |---|---|
//! | [`config`] | what the proxy is told |
//! | [`core`] | the life of a request, without sockets or a clock |
//! | `books` | what is recorded and counted |
//! | `clients` | clients' connections, without their sockets: requests in order, replies in order |
//! | `upstreams` | servers, and the connections to them, without their sockets |
//! | [`placement`] | which servers a key belongs to: ketama, rendezvous, jump, modulo |
//! | [`topology`] | servers, pools and routes, as plain data |
//! | `routing` `route` | to which pool a key belongs, and which servers hold it |
//! | `pool` | who of a key's holders is asked |
//! | `ids` | identifiers, each a type |
//! | `keys` | the keys of one retrieval and who was asked for each |
//! | `dispatch` | one queue, W workers; readers before a server |
//! | `deadlines` | what is due when |
//! | [`live`] | what a model of the running proxy knows beside its traffic |
//! | [`moves`] | where requests go when a server is lost or added |
//! | `large` | values that are lent instead of copied |
//! | `merge` | how the answers of several servers become one |
//! | `requests` `exchange` `arena` | requests on their way; one of them; places that are used again |
//! | [`slow`] | the slowest requests of each second |
//! | [`hot_keys`] | which requests are sampled for the keys that take most |
//! | `settings` | what the service must know |
//! | `free_buffers` | memory of replies that were put together, for the next ones |
//! | [`stats`] | what `stats` answers |
//! | [`summary`] | what the proxy says of its whole run |
//! | [`edge`] | how the outside is met: who, how long, how much |
//! | [`metrics`] | the numbers of one moment, and how Prometheus reads them |
//! | [`import`] | other programs' configurations as ours |
//! | [`engine`] | which engine moves the bytes |

#![forbid(unsafe_code)]

mod arena;
mod books;
mod clients;
pub mod config;
pub mod core;
mod deadlines;
pub mod dispatch;
pub mod edge;
pub mod engine;
mod exchange;
mod free_buffers;
pub mod hot_keys;
mod ids;
pub mod import;
mod keys;
mod large;
pub mod live;
mod merge;
mod meta;
pub mod metrics;
pub mod moves;
pub mod placement;
mod pool;
mod requests;
mod route;
mod routing;
mod settings;
pub mod slow;
pub mod stats;
pub mod summary;
pub mod topology;
mod upstreams;

pub use config::Config;
pub use core::{Core, CoreSettings, Events, Reconfigured, RowSink};
pub use dispatch::Workers;
pub use edge::Edge;
pub use pool::{PoolCounts, ReadPush};
pub use summary::ProxySummary;
pub use topology::{MultiGet, Topology};
