//! The broker's queues behind sockets.
//!
//! | file | its one idea |
//! |---|---|
//! | [`engine`] | one event loop: every client on one thread |
//! | `accepting` | clients that come to a thread that waits for them |
//! | `message_store` | where the broker keeps its messages |
//! | `live` | what a model of the running traffic is given |
//! | `silence` | whether the store is silent that owes an answer |
//! | [`front`] | clients of divided queues, each request sent to the owner that it is for |
//! | [`relay`] | a broker that waits forwards its clients |

mod accepting;
pub mod engine;
pub mod front;
mod live;
mod message_store;
pub mod relay;
mod silence;

pub use live::BrokerHeadroom;
pub use message_store::MessageStore;
