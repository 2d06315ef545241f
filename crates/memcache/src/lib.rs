//! The memcached text protocol, as bytes in and values out; never a socket, a clock or a thread.
//!
//! ```text
//! client bytes ──▶ request::parse ──▶ Request ──▶ write::… ──▶ server bytes
//! server bytes ──▶ response::parse ──▶ Reply
//! ```
//!
//! Both parsers are functions of a byte slice: they keep no state, so it cannot matter where the
//! network cut the bytes. Neither copies: what they return borrows from the slice.
//!
//! The grammar is memcached's as it is implemented, not only as it is described: which malformed
//! lines are answered with which text, how many bytes are skipped, when the connection closes.
//! Source: `doc/protocol.txt` of memcached, and the observed answers of memcached 1.6.

#![forbid(unsafe_code)]

mod find;
mod limits;
mod number;
pub mod request;
pub mod response;
pub mod write;

pub use krarup_units::Parsed;
pub use limits::Limits;
pub use request::{
    Arithmetic, Keys, Meta, MetaCommand, Request, Retrieval, Retrieve, Storage, StorageRequest,
};
pub use response::{Expect, ReplyClass, Response, Value, Values};
