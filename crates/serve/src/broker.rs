//! The broker's queues behind sockets, and in PostgreSQL.
//!
//! | file | its one idea |
//! |---|---|
//! | [`engine`] | one event loop: every client on one thread |
//! | [`postgres`] | queues in PostgreSQL: who owns them, what is there, how a batch is written |
//! | `journal` | threads that write batches; the outcome of each is reported in order |
//! | [`pool`] | the queue before the database connections, and what takes from it |
//! | [`owners`] | the owner of each shard, as far as it is known |
//! | `door` | clients that come to a thread that waits for them |
//! | [`front`] | clients of divided queues, each request sent to the owner that it is for |
//! | [`relay`] | a broker that waits forwards its clients |

mod door;
pub mod engine;
pub mod front;
mod journal;
pub mod owners;
pub mod pool;
pub mod postgres;
pub mod relay;
