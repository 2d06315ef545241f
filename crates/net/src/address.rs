//! `host:port` as people write it.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A host, by name or by number, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address {
    /// A name, an IPv4 address or an IPv6 address (without brackets).
    pub host: String,
    /// The port; 0 asks the system for a free one when listening.
    pub port: u16,
}

impl Address {
    /// Every socket address the name stands for; asks the resolver, and may wait for it.
    ///
    /// # Errors
    /// Names the host.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, String> {
        match (self.host.as_str(), self.port).to_socket_addrs() {
            Ok(found) => {
                let found: Vec<_> = found.collect();
                if found.is_empty() { Err(format!("`{}` has no address", self.host)) } else { Ok(found) }
            }
            Err(error) => Err(format!("`{}` cannot be resolved: {error}", self.host)),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    /// `host:port`, `1.2.3.4:port`, `[::1]:port`.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is not an address; write it like 127.0.0.1:11211 or [::1]:11211");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let host = match host.strip_prefix('[').map(|rest| rest.strip_suffix(']')) {
            Some(Some(inside)) => inside,
            Some(None) => return Err(wrong()),
            None if host.contains(':') => return Err(wrong()),
            None => host,
        };
        if host.is_empty() || host.contains(char::is_whitespace) {
            return Err(wrong());
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl TryFrom<String> for Address {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.to_string()
    }
}

impl From<SocketAddr> for Address {
    fn from(address: SocketAddr) -> Self {
        Self { host: address.ip().to_string(), port: address.port() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_and_print_alike() {
        for text in ["127.0.0.1:11211", "memcached.example:1", "[::1]:11211"] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in ["", "localhost", ":11211", "::1:11211", "[::1:11211", "host:port", "host:99999", "a b:1"]
        {
            assert!(text.parse::<Address>().unwrap_err().contains(&format!("`{text}`")), "{text}");
        }
    }

    #[test]
    fn loopback_resolves() {
        let found = "127.0.0.1:80".parse::<Address>().unwrap().resolve().unwrap();
        assert_eq!(found, ["127.0.0.1:80".parse().unwrap()]);
    }
}
