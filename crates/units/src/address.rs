//! `host:port`, `unix:/path` or `srv:_service._tcp.name` as people write it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::Mistake;

/// A host, by name or by number, and a port; or the file of a unix socket; or a service, whose
/// hosts and ports a name service knows (DNS SRV, RFC 2782).
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Address {
    /// A name, an IPv4 address or an IPv6 address (without brackets); or, beginning with `/`, as no
    /// host does, the path of a unix socket; or, beginning with `_` and without a port, a service.
    pub host: String,
    /// The port; 0 asks the system for a free one when listening. A unix socket and a service have
    /// none: 0.
    pub port: u16,
}

impl Address {
    /// The unix socket at `path`, which is absolute.
    pub fn of_file(path: &Path) -> Self {
        Self { host: path.to_string_lossy().into_owned(), port: 0 }
    }

    /// The file of a unix socket; none for a host and a port.
    pub fn file(&self) -> Option<&Path> {
        self.host.starts_with('/').then(|| Path::new(&self.host))
    }

    /// The name of a service, under which its hosts and ports are known; none for one host.
    pub fn service(&self) -> Option<&str> {
        (self.port == 0 && self.host.starts_with('_')).then_some(self.host.as_str())
    }

    /// Whether its host is a number, for which nothing is looked up.
    pub fn is_number(&self) -> bool {
        self.host.parse::<IpAddr>().is_ok()
    }

    /// Whether its host must be looked up.
    pub fn is_name(&self) -> bool {
        self.file().is_none() && !self.is_number()
    }

    /// What would do where nothing can listen at it: a name alone needs a name service, which an
    /// address in numbers, such as `example`, does not.
    pub fn listening_hint(&self, example: &str) -> String {
        if self.is_name() {
            format!("an address in numbers, such as {example}, needs no name service")
        } else {
            "choose another address".to_owned()
        }
    }

    /// Whether only this machine can connect to it: a unix socket, or a loopback address or name.
    pub fn is_local(&self) -> bool {
        let number = self.host.parse::<IpAddr>();
        self.file().is_some() || self.host == "localhost" || number.is_ok_and(|number| number.is_loopback())
    }

    /// Whether it stands for all addresses of a machine: `0.0.0.0` or `::`.
    pub fn is_unspecified(&self) -> bool {
        self.host.parse::<IpAddr>().is_ok_and(|number| number.is_unspecified())
    }
}

impl FromStr for Address {
    type Err = Mistake;

    /// `host:port`, `1.2.3.4:port`, `[::1]:port`, `unix:/path`, `srv:_service._tcp.name`.
    fn from_str(text: &str) -> Result<Self, Mistake> {
        // A message is one line, whatever the text is.
        let shown = text.escape_debug();
        if let Some(path) = text.strip_prefix("unix:") {
            // The kernel keeps 108 bytes, the last of them a zero.
            return match path.len() {
                2..108 if path.starts_with('/') && !path.contains('\0') => {
                    Ok(Self { host: path.to_owned(), port: 0 })
                }
                _ => Err(Mistake::new(
                    format!("`{shown}` is no unix socket"),
                    "write an absolute path of at most 107 bytes",
                )),
            };
        }
        if let Some(name) = text.strip_prefix("srv:") {
            let mut labels = name.trim_end_matches('.').split('.');
            let is_service = labels.by_ref().take(2).filter(|label| label.starts_with('_')).count() == 2;
            if is_service && labels.next().is_some() && !name.contains(char::is_whitespace) {
                return Ok(Self { host: name.trim_end_matches('.').to_owned(), port: 0 });
            }
            return Err(Mistake::new(
                format!("`{shown}` is no service"),
                "write it like srv:_memcache._tcp.cache.example",
            ));
        }
        let wrong = || {
            Mistake::new(
                format!("`{shown}` is not an address"),
                "write it like 127.0.0.1:11211 or [::1]:11211",
            )
        };
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        let host = match host.strip_prefix('[').map(|rest| rest.strip_suffix(']')) {
            Some(Some(inside)) => inside,
            Some(None) => return Err(wrong()),
            None if host.contains(':') => return Err(wrong()),
            None => host,
        };
        if host.is_empty() || host.contains(char::is_whitespace) || host.starts_with('/') {
            return Err(wrong());
        }
        Ok(Self { host: host.to_owned(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.file().is_some() {
            write!(f, "unix:{}", self.host)
        } else if self.service().is_some() {
            write!(f, "srv:{}", self.host)
        } else if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl TryFrom<String> for Address {
    type Error = Mistake;
    fn try_from(text: String) -> Result<Self, Mistake> {
        text.parse()
    }
}

impl From<Address> for String {
    fn from(address: Address) -> Self {
        address.to_string()
    }
}

impl From<SocketAddr> for Address {
    /// A link-local address has its zone: without it there is no such address.
    fn from(address: SocketAddr) -> Self {
        let host = match address {
            SocketAddr::V6(zoned) if zoned.scope_id() != 0 => format!("{}%{}", zoned.ip(), zoned.scope_id()),
            _ => address.ip().to_string(),
        };
        Self { host, port: address.port() }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddrV6;

    use super::*;

    #[test]
    fn addresses_read_and_print_alike() {
        for text in [
            "127.0.0.1:11211",
            "memcached.example:1",
            "[::1]:11211",
            "unix:/run/krarup.sock",
            "srv:_memcache._tcp.cache.example",
        ] {
            assert_eq!(text.parse::<Address>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "localhost",
            ":11211",
            "::1:11211",
            "[::1:11211",
            "host:port",
            "host:99999",
            "a b:1",
            "/a:1",
            "unix:a",
            "unix:/",
            "srv:cache.example",
            "srv:_memcache._tcp",
            "srv:_memcache.cache.example",
        ] {
            assert!(text.parse::<Address>().unwrap_err().what.contains(&format!("`{text}`")), "{text}");
        }
        for text in ["a\nb:1", "unix:a\nb", "srv:a\nb"] {
            assert!(text.parse::<Address>().unwrap_err().what.contains("a\\nb"), "{text}");
        }
    }

    #[test]
    fn a_link_local_address_keeps_its_zone() {
        let zoned = SocketAddrV6::new("fe80::1".parse().unwrap(), 1, 0, 2);
        let address = Address::from(SocketAddr::V6(zoned));
        assert_eq!(address.to_string(), "[fe80::1%2]:1");
        assert_eq!(address.to_string().parse::<Address>().unwrap(), address);
    }

    #[test]
    fn what_only_this_machine_can_reach_is_known() {
        for (text, local) in [
            ("127.0.0.2:1", true),
            ("[::1]:1", true),
            ("localhost:1", true),
            ("unix:/a", true),
            ("0.0.0.0:1", false),
            ("a:1", false),
        ] {
            assert_eq!(text.parse::<Address>().unwrap().is_local(), local, "{text}");
        }
    }
}
