//! A port where datagrams are told that only connections are served.
//!
//! memcached's datagrams begin with eight bytes: the request's number, this datagram's place, how
//! many there are, and two that mean nothing. Who sends one is told in the same form. Where the
//! port is that of this machine alone: an answer to a sender that may have been made up must not go
//! out into the world.

use std::io;
use std::net::SocketAddr;

use mio::net::UdpSocket;
use mio::{Interest, Registry, Token};

/// A memcached datagram's header, in bytes.
const HEADER: usize = 8;
/// Datagrams looked at in one pass.
const A_PASS: usize = 256;

/// A port that refuses.
#[derive(Debug)]
pub struct Datagrams(UdpSocket);

impl Datagrams {
    /// At a port of this machine's own.
    ///
    /// # Errors
    /// The address is reached from elsewhere, or the system refuses.
    pub fn at(address: SocketAddr) -> io::Result<Self> {
        if !address.ip().is_loopback() {
            return Err(io::Error::other("answers to datagrams stay on this machine"));
        }
        UdpSocket::bind(address).map(Self)
    }

    /// From now on `token` tells when there is one.
    ///
    /// # Errors
    /// From the system.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        registry.register(&mut self.0, token, Interest::READABLE)
    }

    /// Answers those that have come with `text`.
    pub fn refuse(&self, text: &[u8]) {
        let mut room = [0; HEADER];
        for _ in 0..A_PASS {
            // What does not fit the room is cut off: only the header counts.
            match self.0.recv_from(&mut room) {
                Ok((HEADER, sender)) => {
                    let answer = [&room[..2], &[0, 0, 0, 1, 0, 0], text].concat();
                    // A peer that does not take it did not mean it.
                    let _ = self.0.send_to(&answer, sender);
                }
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket as Blocking;

    use super::*;

    #[test]
    fn a_datagram_is_answered_with_its_number_and_what_is_none_with_nothing() {
        let datagrams = Datagrams::at("127.0.0.1:0".parse().unwrap()).unwrap();
        let client = Blocking::bind("127.0.0.1:0").unwrap();
        client.connect(datagrams.0.local_addr().unwrap()).unwrap();
        client.send(b"short").unwrap();
        client.send(b"\x12\x34\0\0\0\x01\0\0get a\r\n").unwrap();
        datagrams.refuse(b"no\r\n");
        let mut room = [0; 64];
        let count = client.recv(&mut room).unwrap();
        assert_eq!(&room[..count], b"\x12\x34\0\0\0\x01\0\0no\r\n");
        assert!(Datagrams::at("0.0.0.0:0".parse().unwrap()).is_err());
    }
}
