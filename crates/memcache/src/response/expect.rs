//! What kind of answer a request is owed.

use super::reply::{ReplyClass, Response};
use crate::request::MetaCommand;

/// What kind of answer a request is owed. An answer of another kind means that requests and answers
/// are out of step: the connection is worth nothing any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Expect {
    /// `VALUE …` as often as there are hits, at most `keys` times, then `END`.
    Values {
        /// How many keys were asked for.
        keys: u32,
        /// Whether each value must carry its cas unique.
        unique: bool,
    },
    /// `STORED NOT_STORED EXISTS NOT_FOUND`
    Stored,
    /// `DELETED NOT_FOUND`
    Deleted,
    /// A number, or `NOT_FOUND`.
    Number,
    /// `TOUCHED NOT_FOUND`
    Touched,
    /// `OK`
    Ok,
    /// `VERSION …`
    Version,
    /// `MN`
    NoOp,
    /// `STAT …` as often as there are statistics, then `END`; or `RESET` or `OK`.
    Stats,
    /// What the meta command is answered with: `HD VA EN NF NS EX ME`.
    Meta {
        /// The command.
        command: MetaCommand,
        /// Whether a value was asked for.
        value: bool,
    },
}

impl Expect {
    /// Whether the server that gave this answer to a well-formed request has read all of it. A
    /// server that finds fault with a storage request may go on to take its value for commands, and
    /// answer those. (That it does not know a flag of a meta set is no such fault: every memcached
    /// goes past the value then.)
    pub fn read_whole(self, reply: &Response<'_>) -> bool {
        let fault = matches!(reply.class, ReplyClass::Error | ReplyClass::ClientError);
        match self {
            Self::Stored => !fault,
            Self::Meta { command: MetaCommand::Set, .. } => {
                !fault || reply.line() == b"CLIENT_ERROR invalid flag"
            }
            _ => true,
        }
    }
}
