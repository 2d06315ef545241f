//! The socket addresses that a name stands for.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};

use krarup_units::{Address, Mistake};

/// Every socket address that `address` stands for. Asks the system's resolver and blocks until it
/// has answered.
///
/// # Errors
/// Names the host, or the file: a unix socket has no such address.
pub fn resolve(address: &Address) -> Result<Vec<SocketAddr>, Mistake> {
    if address.file().is_some() {
        return Err(Mistake::plain(format!("`{address}` is a file, where an address is needed")));
    }
    match (address.host.as_str(), address.port).to_socket_addrs() {
        Ok(found) => {
            let found: Vec<_> = found.collect();
            if found.is_empty() {
                Err(Mistake::plain(format!("`{}` has no address", address.host)))
            } else {
                Ok(found)
            }
        }
        Err(error) => {
            Err(Mistake::plain(format!("`{}` cannot be resolved: {}", address.host, unresolved(&error))))
        }
    }
}

/// Why, without the name of the system's function: `Name or service not known`.
fn unresolved(error: &io::Error) -> String {
    let said = error.to_string();
    said.strip_prefix("failed to lookup address information: ").unwrap_or(&said).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_resolves() {
        let found = resolve(&"127.0.0.1:80".parse().unwrap()).unwrap();
        assert_eq!(found, ["127.0.0.1:80".parse().unwrap()]);
    }
}
