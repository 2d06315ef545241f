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

use krarup_net::listen;
use krarup_proxy::Edge;

/// How the sockets of clients are listened on, by these settings: the proxy's, the broker's and the
/// cache's alike.
pub fn listening(edge: &Edge) -> listen::Options {
    listen::Options { mode: edge.socket_mode, share: edge.reuse_port, backlog: edge.backlog }
}
