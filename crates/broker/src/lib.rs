//! Durable message queues: the states of a message, drawn.
//!
//! | file | its one idea |
//! |---|---|
//! | [`memcached`] | memcached's protocol in Kestrel's manner: the name of a queue as a key |
//! | [`counts`] | how often each verb was asked for, and what its requests are recorded as |
//! | [`job`] | one message: where it stands, drawn |
//! | [`settings`] | what the broker says about its tubes: settings |
//! | `books` | what is kept of the last minutes of each tube, in bounded memory |
//! | [`report`] | how many workers a tube needs, and what is known of its waits |
//! | `tube` | one queue: its messages in the order in which they are taken |
//! | `window` | one line of messages, of which perhaps only the first are in memory |
//! | [`queues`] | what each operation does to messages, tubes and leases; no socket, clock or disk |
//! | [`changes`] | what must be on disk before it is answered, gathered until the store is free |
//! | `owner` | requests to queues that this process owns |
//! | [`shared`] | requests to queues without an owner: what is asked of the database, and which clients wait |
//! | [`database`] | what is asked of a database that decides for itself |
//! | [`broker`] | the life of a request, without sockets or a clock |
//! | [`visits`] | where what requests took is written: histograms, rows, what a model is given |
//! | [`batches`] | what shared a statement and its commit, and how long that took |
//! | [`statistics`] | the answers to `stats` |
//! | [`metrics`] | the numbers of one moment, and how Prometheus reads them |
//! | [`shards`] | queues divided among several brokers |

#![forbid(unsafe_code)]

pub mod batches;
mod books;
pub mod broker;
pub mod changes;
pub mod counts;
pub mod database;
pub mod job;
pub mod memcached;
pub mod metrics;
mod owner;
pub mod queues;
pub mod report;
pub mod settings;
pub mod shards;
pub mod shared;
pub mod statistics;
pub mod tube;
pub mod visits;
mod window;

pub use broker::Broker;
pub use queues::Queues;
