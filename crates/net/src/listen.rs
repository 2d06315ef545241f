//! A listening socket, or an error that names the address and says what to do.

use std::io;

use mio::net::TcpListener;
use socket2::{Domain, Protocol, Socket, Type};

use crate::Address;

/// How many connections may wait to be accepted; the kernel may allow fewer (`net.core.somaxconn`).
const BACKLOG: i32 = 1_024;

/// Listens on `address` without ever blocking.
///
/// # Errors
/// In plain words, with the address and what to do about it.
pub fn listen(address: &Address) -> Result<TcpListener, String> {
    let found = address.resolve()?;
    let mut last = None;
    for candidate in found {
        match bind(candidate) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = Some(error),
        }
    }
    let error = last.expect("a resolved name has an address");
    let hint = match error.kind() {
        io::ErrorKind::AddrInUse => "another process listens there; stop it or choose another port",
        io::ErrorKind::PermissionDenied => "ports below 1024 need privileges; choose a higher one",
        io::ErrorKind::AddrNotAvailable => "this machine has no such address; 127.0.0.1 always exists",
        _ => return Err(format!("cannot listen on {address}: {error}")),
    };
    Err(format!("cannot listen on {address}: {hint}"))
}

fn bind(address: std::net::SocketAddr) -> io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // A restarted server must not wait until the last connections of the one before are forgotten.
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(TcpListener::from_std(socket.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_in_use_is_named_with_a_hint() {
        let first = listen(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let address = Address::from(first.local_addr().unwrap());
        let error = listen(&address).unwrap_err();
        assert!(error.contains(&address.to_string()) && error.contains("choose another port"), "{error}");
    }
}
