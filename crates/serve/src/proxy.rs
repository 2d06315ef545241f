//! The proxy behind sockets.
//!
//! | file | its one idea |
//! |---|---|
//! | [`events`] | one event loop, or several: clients and servers on one thread |
//! | [`threads`] | a thread for each worker: the textbook design |
//! | [`configuration`] | the configuration's file and the addresses behind names, as they change |
//! | [`credentials`] | what the files named under `[edge]` hold |
//! | `hold` | when a busy loop listens to the servers alone |

pub mod configuration;
pub mod credentials;
pub mod events;
pub mod threads;
