//! The cache behind sockets.

mod client;
pub mod server;

pub use server::{Outcome, Server, Settings, Stopper};
