//! The socket addresses that a name stands for, and a connection to one of them.

use std::io;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::Duration;

use krarup_units::{Address, Mistake};

/// How many addresses of a name the C library tells at most. musl drops the others without a word,
/// and which these are is chance where a name service turns its answers.
pub const MOST_ADDRESSES: usize = if cfg!(target_env = "musl") { 48 } else { usize::MAX };

/// Every socket address that `address` stands for, each once. Asks the system's resolver and blocks
/// until it has answered.
///
/// # Errors
/// Names the host, or the file: a unix socket has no such address.
pub fn resolve(address: &Address) -> Result<Vec<SocketAddr>, Mistake> {
    if address.file().is_some() {
        return Err(Mistake::plain(format!("`{address}` is a file, where an address is needed")));
    }
    match (address.host.as_str(), address.port).to_socket_addrs() {
        Ok(found) => {
            let found = each_once(found);
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

/// The same in their order: a file of hosts may have one of them twice.
fn each_once(found: impl Iterator<Item = SocketAddr>) -> Vec<SocketAddr> {
    let mut once = Vec::new();
    for address in found {
        if !once.contains(&address) {
            once.push(address);
        }
    }
    once
}

/// Connects to the first of these addresses that answers, waiting `limit` at most for each. One
/// that is silent does not hold the others up for minutes, as the system would.
///
/// # Errors
/// Why the last of them cannot be connected to; `NotFound` where there is none.
pub fn connect_any(addresses: &[SocketAddr], limit: Duration) -> io::Result<TcpStream> {
    let mut failed = io::Error::from(io::ErrorKind::NotFound);
    for address in addresses {
        match TcpStream::connect_timeout(address, limit) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Why, without the name of the system's function: `Name or service not known`.
fn unresolved(error: &io::Error) -> String {
    let said = error.to_string();
    said.strip_prefix("failed to lookup address information: ").unwrap_or(&said).to_owned()
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use socket2::{Domain, Socket, Type};

    use super::*;

    #[test]
    fn loopback_resolves() {
        let found = resolve(&"127.0.0.1:80".parse().unwrap()).unwrap();
        assert_eq!(found, ["127.0.0.1:80".parse().unwrap()]);
    }

    #[test]
    fn an_address_that_stands_there_twice_is_one() {
        let [a, b] = ["127.0.0.1:80", "[::1]:80"].map(|text| text.parse::<SocketAddr>().unwrap());
        assert_eq!(each_once([b, a, a, b].into_iter()), [b, a]);
    }

    #[test]
    fn an_address_where_nothing_listens_does_not_keep_from_the_next() {
        // Bound, and never listening: no other program is given its port.
        let closed = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
        closed.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
        let closed = closed.local_addr().unwrap().as_socket().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = listener.local_addr().unwrap();
        let limit = Duration::from_secs(10);
        assert_eq!(connect_any(&[closed, open], limit).unwrap().peer_addr().unwrap(), open);
        let kind = |addresses: &[SocketAddr]| connect_any(addresses, limit).unwrap_err().kind();
        assert_eq!(kind(&[closed]), io::ErrorKind::ConnectionRefused);
        assert_eq!(kind(&[]), io::ErrorKind::NotFound);
    }
}
