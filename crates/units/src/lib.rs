//! The quantities of the project, as types: a length of time is not a point in time.
//!
//! | type | what it is | unit |
//! |---|---|---|
//! | [`Stamp`] | a point on the monotonic clock of one run | nanoseconds since the run's epoch |
//! | [`Nanos`] | a measured length of time | nanoseconds |
//! | [`Seconds`] | a computed length of time: means, demands, predictions | seconds |
//! | [`PerSecond`] | a rate: throughput X, arrival rate λ | per second |
//! | [`Bytes`] | a size | bytes |
//! | [`Unit`], [`Scale`] | what the numbers of a column are, and how they are shown | |
//! | [`Address`] | `host:port` or `unix:/path` as people write it | |
//! | [`Parsed`] | what came of reading one message of a protocol | |
//! | [`Mistake`], [`Mistakes`] | what is wrong, where, and what would do | |
//! | [`Inbox`], [`Outbox`], [`Lent`] | bytes received and not parsed yet; bytes to be written; bytes that several places share | |
//!
//! [`text`] reads and writes them as people do: `1.50 ms`, `100us`, `64KiB`;
//! [`lines`] fits text and tables into a width.

#![forbid(unsafe_code)]

mod address;
pub mod buffer;
pub mod lines;
pub mod mistake;
mod parsed;
mod rate;
mod size;
pub mod text;
mod time;
mod unit;

pub use address::Address;
pub use buffer::{Inbox, Lent, Outbox};
pub use mistake::{Mistake, Mistakes};
pub use parsed::Parsed;
pub use rate::PerSecond;
pub use size::Bytes;
pub use time::{Nanos, Seconds, Stamp};
pub use unit::{Scale, Unit, share_of_percent};
