//! One server as placement sees it.

/// The port that libmemcached and twemproxy leave out of a server's name.
const UNNAMED_PORT: u16 = 11_211;
/// One server as placement sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// The text that is hashed.
    pub name: String,
    /// How much of the keys it gets, in proportion to the others'. At least 1.
    pub weight: u32,
}

impl Member {
    /// A server without a name of its own is called as libmemcached and twemproxy call it:
    /// `host:port`, but only `host` where the port is 11211.
    pub fn unnamed(host: &str, port: u16, weight: u32) -> Self {
        let name = if port == UNNAMED_PORT { host.to_owned() } else { format!("{host}:{port}") };
        Self { name, weight }
    }
}
