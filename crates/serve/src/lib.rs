//! Sockets and threads around the services, which know none of these.
//!
//! | file | its one idea |
//! |---|---|
//! | [`broker`] | the event loop of the broker, and shards beside it |
//! | [`cache`] | the event loop of the cache |
//! | [`proxy`] | the event loops of the proxy, and its threads |
//! | `admin` | what monitoring asks, beside the loop |
//! | `clients` | which clients ask for how much |
//! | `descriptor` | what a connection to a server that is lost keeps for the next |
//! | `driver` | the connections of any service's clients: in, read, written, out |
//! | `headroom` | what is answered about the headroom of the running traffic |
//! | `live` | what a model of the running traffic is given |
//! | `memory_notice` | what is told of the memory of clients' buffers |
//! | `orders` | what threads beside the loops have them do |
//! | `process` | what this process uses of the machine, and may use |
//! | `redline` | one server gets more and more of the reads, on demand, while it is watched |
//! | `refusal` | how often the operator is told that clients cannot be accepted |
//! | `slice` | how long a pass may spend on one thing |
//! | `server_statistics` | what servers say of themselves |
//! | `threads` | beginning a thread, which the system may refuse |
//! | `workers` | how many workers there are, where that is automatic |

#![forbid(unsafe_code)]

mod admin;
pub mod broker;
pub mod cache;
mod clients;
mod descriptor;
mod driver;
mod headroom;
mod live;
mod memory_notice;
mod orders;
mod process;
pub mod proxy;
mod redline;
mod redline_lock;
mod refusal;
mod server_statistics;
mod slice;
mod threads;
mod workers;

pub use admin::AdminAddress;
pub use driver::ClientLimits;
pub use headroom::HeadroomPage;
pub use live::LiveState;
pub use memory_notice::MemoryNotice;
