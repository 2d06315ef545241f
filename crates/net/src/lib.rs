//! The only place that knows sockets and the clock.
//!
//! | file | its one idea |
//! |---|---|
//! | [`clock`] | nanoseconds since the start of the run, and what wall time that was |
//! | [`board`] | numbers that a loop lays down for another thread |
//! | [`buffer`] | bytes that have come but are not understood yet; bytes that wait to leave |
//! | [`address`] | `host:port` or `unix:/path` as people write it |
//! | [`files`] | how many connections a process may have |
//! | [`http`] | just enough of it to be asked how one is |
//! | [`listen`] | a listening socket, or an error that names the address and says what to do |
//! | [`stream`] | a socket of either kind |
//! | [`tls`] | what stands between a socket and its plain bytes, where they are encrypted |
//! | [`conn`] | a connection that never blocks |
//! | [`blocking`] | a connection that waits, for threads |
//! | [`datagram`] | a port where datagrams are refused |
//! | [`timer`] | a moment to wake up at, to the microsecond |
//! | [`cpu`] | how much processor time was used |
//! | [`signal`] | SIGINT and SIGTERM as readiness |

#![forbid(unsafe_code)]

pub mod address;
pub mod blocking;
pub mod board;
pub mod buffer;
pub mod clock;
pub mod conn;
pub mod cpu;
pub mod datagram;
pub mod files;
pub mod http;
pub mod listen;
pub mod signal;
pub mod stream;
pub mod timer;
pub mod tls;

pub use address::Address;
pub use buffer::{Inbox, Lent, Outbox};
pub use clock::Clock;
pub use conn::{Conn, Moved};
pub use mio;
pub use stream::{Listener, Stream};
pub use timer::Timer;
