//! beanstalkd's text protocol, as bytes in and values out; never a socket, a clock or a thread.
//!
//! ```text
//! client ── write::request ──▶ bytes ──▶ request::parse ──▶ Request ──▶ server
//! client ◀── Reply ◀── reply::parse ◀── bytes ◀── write::reply and others ── server
//! ```
//!
//! Both parsers are functions of a byte slice: they keep no state, so it cannot matter where the
//! network cut the bytes. Neither copies: what they return borrows from the slice.
//!
//! | file | its one idea |
//! |---|---|
//! | `table` | every verb, once: its word, arguments, replies; from it come [`Verb`], [`Request`], the parser, the writer and the reference page |
//! | `argument` | the kinds of arguments: how each is read and written |
//! | `message` | messages on their way in |
//! | [`request`] | requests from bytes |
//! | [`reply`] | replies from bytes |
//! | [`mod@write`] | requests and replies as bytes |
//! | `refusal` | why bytes are no request |
//! | `word` | the words that replies begin with |
//! | `number` | whole numbers in ASCII |
//! | [`name`](mod@name) | what a word must be to name a tube or a client |
//! | [`page`](fn@page) | the reference page |
//!
//! Every verb of beanstalkd's protocol document is here, with what its program makes of odd spacing
//! and odd numbers, and verbs that only krarup's broker knows, in the same grammar.

#![forbid(unsafe_code)]

mod argument;
mod message;
pub mod name;
mod number;
mod page;
mod refusal;
pub mod reply;
pub mod request;
mod table;
mod verb;
mod word;
pub mod write;

pub use message::{DEFAULT_TTR, Ids, Put, PutBatch};
pub use page::page;
pub use refusal::{InvalidRequest, LineError};
pub use reply::Reply;
pub use table::{Request, RequestSubject, Verb};
pub use verb::{LineStart, VerbGroup};
pub use word::{ReplyForm, ReplyWord};

/// The tube that every client uses and watches at first.
pub const DEFAULT_TUBE: &str = "default";
