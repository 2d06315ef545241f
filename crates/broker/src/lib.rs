//! Durable message queues: the states of a message, drawn.
//!
//! | file | its one idea |
//! |---|---|
//! | [`names`] | what a word must be to name a tube or a client |
//! | [`request`] | beanstalkd's text protocol, as bytes in and values out |
//! | [`verb`] | what is counted of each request, and what its rows are called |
//! | [`reply`] | answers as they are written |
//! | [`job`] | one message: where it stands, drawn |
//! | `tube` | one queue: its messages in the order in which they are taken |
//! | [`queues`] | what each operation does to messages, tubes and leases; no socket, clock or disk |
//! | [`changes`] | what must be on disk before it is answered, gathered until the store is free |
//! | `owner` | requests to queues that this process owns |
//! | [`broker`] | the life of a request, without sockets or a clock |
//! | [`statistics`] | the answers to `stats` |
//! | [`postgres`] | queues in PostgreSQL: who owns them, what is there, how a batch is written |
//! | `journal` | a thread that writes batches and tells what came of each |
//! | [`admin`] | what monitoring asks, beside the loop |
//! | [`engine`] | one event loop: every client on one thread |

#![forbid(unsafe_code)]

pub mod admin;
pub mod broker;
pub mod changes;
pub mod engine;
pub mod job;
mod journal;
pub mod names;
mod owner;
pub mod postgres;
pub mod queues;
pub mod reply;
pub mod request;
pub mod statistics;
mod tube;
pub mod verb;

pub use broker::Broker;
pub use queues::Queues;
