//! The broker's queues behind sockets.
//!
//! | file | its one idea |
//! |---|---|
//! | [`engine`] | one event loop: every client on one thread |
//! | `door` | clients that come to a thread that waits for them |
//! | [`front`] | clients of divided queues, each request sent to the owner that it is for |
//! | [`relay`] | a broker that waits forwards its clients |

mod accepting;
pub mod engine;
pub mod front;
pub mod relay;
