//! One end of a connection, as a script moves it: exactly these bytes out, exactly these bytes in.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};

use socket2::SockRef;

use super::{TOO_LONG, shown};

/// A connection.
pub(crate) struct Peer {
    stream: TcpStream,
}

/// Listens on a port of its own.
pub(crate) fn listen() -> TcpListener {
    listen_at("127.0.0.1:0".parse().unwrap()).unwrap()
}

/// Listens at an address that is known already.
pub(crate) fn listen_at(address: SocketAddr) -> Result<TcpListener, String> {
    let listener =
        TcpListener::bind(address).map_err(|error| format!("cannot listen at {address}: {error}"))?;
    // Waiting for a connection has its limit as well.
    SockRef::from(&listener).set_read_timeout(Some(TOO_LONG)).unwrap();
    Ok(listener)
}

/// Accepts the next connection of a proxy: what it asks first of a server, and what it is told.
pub(crate) fn greet(listener: &TcpListener) -> Result<Peer, String> {
    let mut peer = Peer::accept(listener)?;
    peer.expect(b"version\r\n")?;
    peer.send(b"VERSION 1.6.18\r\n")?;
    Ok(peer)
}

impl Peer {
    pub(crate) fn connect(address: SocketAddr) -> Self {
        Self::of(TcpStream::connect(address).unwrap())
    }

    /// The next connection that is made.
    pub(crate) fn accept(listener: &TcpListener) -> Result<Self, String> {
        match listener.accept() {
            Ok((stream, _)) => Ok(Self::of(stream)),
            Err(error) => Err(format!("no connection is made: {error}")),
        }
    }

    fn of(stream: TcpStream) -> Self {
        stream.set_nodelay(true).unwrap();
        stream.set_read_timeout(Some(TOO_LONG)).unwrap();
        Self { stream }
    }

    /// The address of this end.
    pub(crate) fn address(&self) -> SocketAddr {
        self.stream.local_addr().unwrap()
    }

    /// One write.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream.write_all(bytes).map_err(|error| format!("`{}` cannot be sent: {error}", shown(bytes)))
    }

    /// Receives exactly `expected`, or says what came instead.
    pub(crate) fn expect(&mut self, expected: &[u8]) -> Result<(), String> {
        let mut got = Vec::with_capacity(expected.len());
        let mut ended = "";
        let mut alike = true;
        let mut buffer = vec![0; expected.len().clamp(1, 1 << 16)];
        while got.len() < expected.len() && alike {
            let room = buffer.len().min(expected.len() - got.len());
            match self.stream.read(&mut buffer[..room]) {
                Ok(0) => {
                    ended = ", then the end";
                    break;
                }
                Ok(count) => {
                    alike = expected[got.len()..].starts_with(&buffer[..count]);
                    got.extend_from_slice(&buffer[..count]);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    ended = ", then a reset";
                    break;
                }
                Err(_) => {
                    ended = ", then nothing more";
                    break;
                }
            }
        }
        if got == expected {
            return Ok(());
        }
        if ended.is_empty() {
            got.extend_from_slice(&self.pending());
        }
        Err(format!("  expected  {}\n       got  {}{ended}", shown(expected), shown(&got)))
    }

    /// A whole line, its end included.
    pub(crate) fn line(&mut self) -> Result<Vec<u8>, String> {
        let mut line = Vec::new();
        while !line.ends_with(b"\n") {
            let mut byte = [0];
            match self.stream.read(&mut byte) {
                Ok(1) => line.push(byte[0]),
                Ok(_) => {
                    return Err(format!("a line was expected, but after `{}` came the end", shown(&line)));
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(format!("a line was expected, but after `{}`: {error}", shown(&line)));
                }
            }
        }
        Ok(line)
    }

    /// The answer to `stats` or `stats something`, by name.
    pub(crate) fn stats(&mut self, something: &str) -> BTreeMap<String, String> {
        self.send(format!("{}\r\n", format!("stats {something}").trim_end()).as_bytes()).unwrap();
        let mut stats = BTreeMap::new();
        loop {
            let line = String::from_utf8(self.line().unwrap()).unwrap();
            if line == "END\r\n" {
                return stats;
            }
            let pair = line.trim_end().strip_prefix("STAT ").and_then(|pair| pair.split_once(' '));
            let (name, value) = pair.unwrap_or_else(|| panic!("no line of statistics: {line:?}"));
            stats.insert(name.to_owned(), value.to_owned());
        }
    }

    /// One number of the answer to `stats`.
    pub(crate) fn count(&mut self, name: &str) -> u64 {
        let stats = self.stats("");
        stats
            .get(name)
            .and_then(|value| value.parse().ok())
            .unwrap_or_else(|| panic!("no {name} in {stats:?}"))
    }

    /// Everything up to the end. A reset is an end as well.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        match self.stream.read_to_end(&mut bytes) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => {
                panic!("after `{}` neither more nor the end: {error}", shown(&bytes))
            }
            _ => bytes,
        }
    }

    /// What is there already, without waiting.
    pub(crate) fn pending(&mut self) -> Vec<u8> {
        self.stream.set_nonblocking(true).unwrap();
        let mut bytes = Vec::new();
        let _ = self.stream.read_to_end(&mut bytes);
        self.stream.set_nonblocking(false).unwrap();
        bytes
    }

    /// Says that no more will be sent.
    pub(crate) fn finish(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Closes with a reset.
    pub(crate) fn reset(self) {
        SockRef::from(&self.stream).set_linger(Some(std::time::Duration::ZERO)).unwrap();
    }

    /// Another handle to the same connection, for a thread of its own.
    pub(crate) fn other_handle(&self) -> Self {
        Self { stream: self.stream.try_clone().unwrap() }
    }
}

/// Sets and gets of its own keys over one connection, as many as `rounds`.
pub(crate) fn talk(address: SocketAddr, name: usize, rounds: usize) {
    let mut client = Peer::connect(address);
    for round in 0..rounds {
        let value = format!("{name}-{round}");
        client.send(format!("set k{name} 0 0 {}\r\n{value}\r\n", value.len()).as_bytes()).unwrap();
        client.expect(b"STORED\r\n").unwrap();
        client.send(format!("get k{name}\r\nget nothing k{name}\r\n").as_bytes()).unwrap();
        let reply = format!("VALUE k{name} 0 {}\r\n{value}\r\nEND\r\n", value.len());
        client.expect(reply.repeat(2).as_bytes()).unwrap();
    }
}

/// The whole answer over HTTP.
pub(crate) fn asked(address: SocketAddr, method: &str, path: &str) -> String {
    let mut peer = Peer::connect(address);
    peer.send(format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").as_bytes()).unwrap();
    String::from_utf8(peer.rest()).unwrap()
}
