//! How much of anything one message may hold.

/// Bounds on what a peer may send. At a bound there is an error with memcached's own text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Longest key, in bytes. memcached's is 250.
    pub key: usize,
    /// Largest value, in bytes. memcached's default is 1 MiB, of which its own header takes a
    /// little.
    pub value: usize,
    /// Longest command line that is not a retrieval, in bytes. memcached's is 2048.
    pub line: usize,
    /// Longest retrieval line (`get` with many keys), in bytes. memcached has no bound. One that
    /// touches (`gat`, `gats`) has 16 KiB at most, there as here.
    pub retrieval_line: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { key: 250, value: 1 << 20, line: 2_048, retrieval_line: 1 << 20 }
    }
}
