//! Which engine moves the bytes between the sockets and the [core](crate::core), as the
//! configuration has it.

/// Which engine moves the bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Engine {
    /// One event loop; a worker is a place in a table.
    #[default]
    Events,
    /// A worker is a thread with a blocking connection to every server.
    Threads,
}

/// Which of the two middlewares the threads are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ThreadDesign {
    /// One queue and so many workers (2018).
    Workers(u32),
    /// For each server a queue and so many readers, and a writer that does not wait (2016).
    Readers(u32),
}

impl ThreadDesign {
    /// How many threads there are before so many servers.
    pub fn threads(self, servers: usize) -> usize {
        match self {
            Self::Workers(workers) => workers as usize,
            Self::Readers(readers) => servers * (readers as usize + 1),
        }
    }
}
