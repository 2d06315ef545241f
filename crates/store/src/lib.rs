//! The broker's queues in PostgreSQL. A driver of its own below the broker's: it has threads,
//! connections and statements, and no client.
//!
//! | file | its one idea |
//! |---|---|
//! | [`postgres`] | who owns queues, what is there, how a batch is written |
//! | [`journal`] | threads that write batches; the outcome of each is reported in order |
//! | [`pool`] | the queue before the database connections, and what takes from it |
//! | [`owners`] | the owner of each shard, as far as it is known |
//! | [`backoff`] | how long to wait before what failed is tried again |

#![forbid(unsafe_code)]

pub mod backoff;
pub mod journal;
pub mod owners;
pub mod pool;
pub mod postgres;
