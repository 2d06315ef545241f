//! A connection that never blocks.

use std::io::{self, ErrorKind, Read, Write};
use std::net::SocketAddr;

use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use socket2::SockRef;

/// What came of one attempt to move bytes.
#[derive(Debug)]
pub enum Moved {
    /// This many bytes, at least one.
    Some(usize),
    /// None just now; readiness will tell when to try again.
    None,
    /// No more will ever come: the peer has said its last.
    Closed,
    /// The connection is broken.
    Failed(io::Error),
}

impl Moved {
    fn from(result: io::Result<usize>) -> Self {
        match result {
            Ok(0) => Self::Closed,
            Ok(count) => Self::Some(count),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                Self::None
            }
            Err(error) => Self::Failed(error),
        }
    }
}

/// A TCP connection, registered once for both directions, edge-triggered: arming and disarming per
/// write would cost as much as the write.
#[derive(Debug)]
pub struct Conn {
    stream: TcpStream,
}

impl Conn {
    /// Takes over an accepted connection.
    ///
    /// # Errors
    /// From the system, when the socket cannot be registered.
    pub fn accepted(stream: TcpStream, registry: &Registry, token: Token) -> io::Result<Self> {
        Self::register(stream, registry, token)
    }

    /// Begins to connect; readiness for writing tells when it is decided, [`Self::connected`] how.
    ///
    /// # Errors
    /// From the system, when not even the attempt can be made.
    pub fn connect(address: SocketAddr, registry: &Registry, token: Token) -> io::Result<Self> {
        Self::register(TcpStream::connect(address)?, registry, token)
    }

    fn register(mut stream: TcpStream, registry: &Registry, token: Token) -> io::Result<Self> {
        // Replies are written whole: waiting to fill a packet would only add delay.
        stream.set_nodelay(true)?;
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self { stream })
    }

    /// Whether a begun connection stands: `Ok(false)` while undecided.
    ///
    /// # Errors
    /// Why it could not be made.
    pub fn connected(&self) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        match self.stream.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Reads once into `room`.
    pub fn read(&mut self, room: &mut [u8]) -> Moved {
        loop {
            match self.stream.read(room) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return Moved::from(result),
            }
        }
    }

    /// Writes once from `bytes`, which are not empty.
    pub fn write(&mut self, bytes: &[u8]) -> Moved {
        loop {
            match self.stream.write(bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return Moved::from(result),
            }
        }
    }

    /// Asks the kernel to notice a peer that vanished without a word.
    ///
    /// # Errors
    /// From the system.
    pub fn keep_alive(&self, idle: krarup_units::Nanos) -> io::Result<()> {
        let keepalive = socket2::TcpKeepalive::new().with_time(idle.as_duration());
        SockRef::from(&self.stream).set_tcp_keepalive(&keepalive)
    }

    /// Closes at once with a reset, so that the peer cannot take a broken answer for a whole one.
    pub fn reset(self) {
        let _ = SockRef::from(&self.stream).set_linger(Some(std::time::Duration::ZERO));
    }

    /// The other end.
    pub fn peer(&self) -> Option<SocketAddr> {
        self.stream.peer_addr().ok()
    }

    /// No more will be written: the peer reads what is under way, then the end.
    pub fn finish(&self) {
        let _ = self.stream.shutdown(std::net::Shutdown::Write);
    }
}
