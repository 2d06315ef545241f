//! What moves the bytes between the sockets and the [core](crate::core).

pub mod events;
pub mod outlook;
pub mod threads;

/// Which engine moves the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Engine {
    /// One event loop; a worker is a place in a table.
    #[default]
    Events,
    /// A worker is a thread with a blocking connection to every server.
    Threads,
}

impl std::str::FromStr for Engine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "events" => Ok(Self::Events),
            "threads" => Ok(Self::Threads),
            _ => Err(format!("`{text}` is no engine; there are events and threads")),
        }
    }
}

/// The system's words for an error, without its number.
fn plain(error: &std::io::Error) -> String {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::ConnectionRefused => "connection refused".into(),
        ErrorKind::ConnectionReset => "the server reset the connection".into(),
        ErrorKind::BrokenPipe => "the server closed the connection".into(),
        _ => error.to_string(),
    }
}
