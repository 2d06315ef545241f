//! The connections of a service's clients, on one thread and edge-triggered: who connects, what is
//! read and written, who goes.
//!
//! ```text
//!        ┌─▶ wait        for readiness, or for a deadline
//!        │   serve       read ─▶ Service::read          one read each, then what they brought
//!        └── flush       write ◀─ Service::output       one write each, until nothing is left that can be written
//! ```
//!
//! Reading and writing have a time slice each. What takes longer goes on in the next pass, behind
//! what others have asked for meanwhile.
//!
//! | file | its one idea |
//! |---|---|
//! | `clients` | the driver's state, and one pass of an event loop that has nothing but clients |
//! | `connection` | one client's socket, and what is known of it |
//! | `event_loops` | several loops of one service |
//! | `upstreams` | the service's own connections to servers: made, read, written, made again |
//! | `hold` | when only servers are listened to for a moment |
//! | `readiness` | which connections are ready |
//! | `accepting` | listeners, new connections, and connections that are closed |
//! | `reading` | what clients have sent |
//! | `writing` | what leaves to them |
//! | `logins` | the TLS handshake and authentication, and their limits |
//! | `authentication` | users, and what a client must send first |
//! | `bounds` | time limits and the bound on memory, applied to clients |
//! | `time_limits` | which clients take too long |
//! | `memory` | what buffers hold, and who must wait for room |
//! | `alarm` | the timer of a loop that waits without a limit |
//! | `loop_meter` | what the loop's own thread uses |
//! | `links` | how busy the machine's links are |

mod accepting;
mod alarm;
mod authentication;
mod bounds;
mod clients;
mod connection;
mod event_loops;
mod hold;
mod links;
mod logins;
mod loop_meter;
mod memory;
mod readiness;
mod reading;
#[cfg(test)]
mod testing;
mod time_limits;
mod upstreams;
mod writing;

pub(crate) use accepting::BACK_OFF;
pub(crate) use alarm::{ALARM, uninterrupted};
pub(crate) use authentication::Users;
pub use clients::ClientLimits;
pub(crate) use clients::{CLIENTS, Driver, DriverNotice, DriverSettings, UPSTREAMS};
pub(crate) use event_loops::EventLoops;
pub(crate) use hold::HoldPolicy;
pub(crate) use memory::of_one_loop;
pub(crate) use readiness::{Readiness, ServerPoll};
pub(crate) use upstreams::{
    ConnectSettings, ConnectionState, FEW_LANES, ServerConnection, ServerConnections, plain,
};
