//! The only place that knows sockets and the clock.
//!
//! | file | its one idea |
//! |---|---|
//! | [`clock`] | nanoseconds since the start of the run, and what wall time that was |
//! | [`snapshots`] | numbers that a loop lays down for another thread |
//! | [`resolver`] | the socket addresses that a name stands for, and a connection to one of them |
//! | [`services`] | the hosts and ports that a service has |
//! | [`files`] | how many connections a process may have |
//! | [`http`] | just enough of it to be asked how one is |
//! | [`listen`] | a listening socket, or an error that names the address and says what to do |
//! | [`stream`] | a socket of either kind |
//! | [`tls`] | what stands between a socket and its plain bytes, where they are encrypted |
//! | [`trust`] | which server's certificate a client accepts, from not at all to its name
//! | [`conn`] | a connection that never blocks |
//! | [`blocking`] | a connection that waits, for threads |
//! | [`datagram`] | a port where datagrams are refused |
//! | [`timer`] | a moment to wake up at, to the microsecond |
//! | [`cpu`] | how much processor time was used, and how long a thread waited for some |
//! | [`processors`] | how many processors this process may use, and how much memory |
//! | [`signal`] | SIGINT, SIGTERM and SIGHUP as readiness |

#![forbid(unsafe_code)]

pub mod blocking;
pub mod clock;
pub mod conn;
pub mod cpu;
pub mod datagram;
pub mod files;
pub mod http;
pub mod listen;
mod moved;
pub mod processors;
pub mod resolver;
pub mod services;
pub mod signal;
pub mod snapshots;
pub mod stream;
pub mod timer;
pub mod tls;
pub mod trust;

pub use clock::{Clock, WallWatch};
pub use conn::Conn;
pub use mio;
pub use moved::Moved;
pub use resolver::{connect_any, resolve};
pub use stream::{Listener, Stream};
pub use timer::Timer;
