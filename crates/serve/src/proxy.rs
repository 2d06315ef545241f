//! The proxy behind sockets.
//!
//! | file | its one idea |
//! |---|---|
//! | [`events`] | one event loop, or several: clients and servers on one thread |
//! | [`threads`] | a thread for each worker: the textbook design |
//! | [`outlook`] | the configuration's file and the addresses behind names, as they change |
//! | [`credentials`] | what the files named under `[edge]` hold |
//! | `hold` | when a busy loop listens to the servers alone |

pub mod credentials;
pub mod events;
mod hold;
pub mod outlook;
pub mod threads;

/// The system's words for an error, without its number.
pub(crate) fn plain(error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused".into(),
        ErrorKind::ConnectionReset => "the server reset the connection".into(),
        ErrorKind::BrokenPipe => "the server closed the connection".into(),
        _ => error.to_string(),
    }
}
