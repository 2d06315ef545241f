//! Which engine moves the bytes between the sockets and the [core](crate::core), as the configuration has it.

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

/// Which of the two middlewares the threads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// One queue and so many workers (2018).
    Workers(u32),
    /// For each server a queue and so many readers, and a writer that does not wait (2016).
    Readers(u32),
}
