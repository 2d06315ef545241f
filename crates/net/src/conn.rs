//! A connection that never blocks.

use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, RawFd};
use std::path::Path;
use std::time::Duration;

use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use socket2::{SockRef, TcpKeepalive};

use crate::moved::Moved;
use crate::stream::Stream;
use crate::tls::{Acceptor, Connector, TlsSession};
use krarup_units::{Nanos, Outbox};

/// How many pieces one write takes at most.
const PIECES: usize = 32;
/// A connection that has more to write than this is written again later, so that others have their
/// turn.
const A_WRITE: usize = 1 << 20;
/// How often the kernel asks a silent peer whether it is still there.
const QUESTIONS: u32 = 3;

/// The same as [`Conn::keep_alive`], for a TCP socket of any kind.
///
/// # Errors
/// From the system.
pub fn keep_alive(socket: &impl AsFd, idle: Nanos) -> io::Result<()> {
    let idle = idle.as_duration();
    let interval = (idle / (2 * QUESTIONS)).max(Duration::from_secs(1));
    let keepalive = TcpKeepalive::new().with_time(idle).with_interval(interval).with_retries(QUESTIONS);
    SockRef::from(socket).set_tcp_keepalive(&keepalive)
}

/// A connection, registered once for both directions, edge-triggered: arming and disarming per
/// write would cost as much as the write.
#[derive(Debug)]
pub struct Conn {
    stream: Stream,
    tls: Option<Box<TlsSession>>,
}

impl AsRawFd for Conn {
    fn as_raw_fd(&self) -> RawFd {
        self.stream.socket().as_raw_fd()
    }
}

impl Conn {
    /// Takes over an accepted connection.
    ///
    /// # Errors
    /// From the system, when the socket cannot be registered.
    pub fn accepted(stream: impl Into<Stream>, registry: &Registry, token: Token) -> io::Result<Self> {
        Self::register(stream.into(), registry, token)
    }

    /// Begins to connect; readiness for writing tells when it is decided, [`Self::connected`] how.
    ///
    /// # Errors
    /// From the system, when not even the attempt can be made.
    pub fn connect(address: SocketAddr, registry: &Registry, token: Token) -> io::Result<Self> {
        Self::register(TcpStream::connect(address)?.into(), registry, token)
    }

    /// The same through a unix socket's file.
    ///
    /// # Errors
    /// From the system, when not even the attempt can be made.
    pub fn connect_file(path: &Path, registry: &Registry, token: Token) -> io::Result<Self> {
        Self::register(Stream::Unix(UnixStream::connect(path)?), registry, token)
    }

    fn register(stream: Stream, registry: &Registry, token: Token) -> io::Result<Self> {
        let mut conn = Self::alone(stream)?;
        registry.register(conn.stream.source(), token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(conn)
    }

    /// It is not watched any more.
    ///
    /// # Errors
    /// From the system.
    pub fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        registry.deregister(self.stream.source())
    }

    /// For a thread that waits for it by itself.
    pub(crate) fn alone(stream: Stream) -> io::Result<Self> {
        if let Stream::Tcp(stream) = &stream {
            // Replies are written whole: waiting to fill a packet would only add delay.
            stream.set_nodelay(true)?;
        }
        Ok(Self { stream, tls: None })
    }

    pub(crate) fn stream(&self) -> &Stream {
        &self.stream
    }

    /// Encrypts everything from now on; the other side is to greet first.
    ///
    /// # Errors
    /// From the library.
    pub fn encrypt_accepted(&mut self, acceptor: &Acceptor) -> io::Result<()> {
        self.tls = Some(Box::new(acceptor.session()?));
        Ok(())
    }

    /// Encrypts everything from now on, greeting the host `name` first.
    ///
    /// # Errors
    /// The name is no host's.
    pub fn encrypt_to(&mut self, connector: &Connector, name: &str) -> io::Result<()> {
        self.tls = Some(Box::new(connector.session(name)?));
        Ok(())
    }

    /// Whether a begun connection stands: `Ok(false)` while undecided.
    ///
    /// # Errors
    /// Why it could not be made.
    pub fn connected(&self) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        let Stream::Tcp(stream) = &self.stream else { return Ok(true) };
        match stream.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Whether both sides have greeted each other, so that plain bytes can pass: always where
    /// nothing is encrypted.
    pub fn is_greeted(&self) -> bool {
        self.tls.as_ref().is_none_or(|tls| tls.is_greeted())
    }

    /// Asks the kernel to keep no more than about `bytes` that were not read yet.
    ///
    /// # Errors
    /// From the system.
    pub fn keep_little(&self, bytes: usize) -> io::Result<()> {
        self.stream.socket().set_recv_buffer_size(bytes)
    }

    /// How many bytes have come and were not read; none where they are encrypted, so that their
    /// number says little, or it is not known.
    pub fn unread(&self) -> Option<usize> {
        let count = rustix::io::ioctl_fionread(&self.stream).ok()?;
        usize::try_from(count).ok().filter(|_| self.tls.is_none())
    }

    /// Reads once into `room`.
    #[inline]
    pub fn read(&mut self, room: &mut [u8]) -> Moved {
        if let Some(tls) = &mut self.tls {
            return tls.read(&mut self.stream, room);
        }
        loop {
            match self.stream.read(room) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return Moved::from(result),
            }
        }
    }

    /// Writes once from `bytes`, which are not empty.
    #[inline]
    pub fn write(&mut self, bytes: &[u8]) -> Moved {
        if let Some(tls) = &mut self.tls {
            return tls.write(&mut self.stream, bytes);
        }
        loop {
            match self.stream.write(bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return Moved::from(result),
            }
        }
    }

    /// Writes once from what waits in `out`, which is not empty, about 1 MiB of it at most; how
    /// many bytes were offered, and what came of it.
    #[inline]
    pub fn write_from(&mut self, out: &Outbox) -> (usize, Moved) {
        if out.is_whole() || self.tls.is_some() {
            let bytes = out.unsent();
            let bytes = &bytes[..bytes.len().min(A_WRITE)];
            return (bytes.len(), self.write(bytes));
        }
        let mut pieces = [IoSlice::new(&[]); PIECES];
        let (mut count, mut bytes) = out.pieces(&mut pieces);
        while count > 1 && bytes > A_WRITE {
            count -= 1;
            bytes -= pieces[count].len();
        }
        loop {
            match self.stream.write_vectored(&pieces[..count]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return (bytes, Moved::from(result)),
            }
        }
    }

    /// Whether the last read found the end or a failure behind what it brought, so that the next
    /// finds it at once and no readiness tells of it: only where they are encrypted, in the same
    /// bytes.
    pub fn has_ended(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.has_ended())
    }

    /// Whether written bytes still wait for the socket, which only those do that are encrypted.
    pub fn is_waiting(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.is_waiting())
    }

    /// About how many these are.
    pub fn waiting(&self) -> usize {
        self.tls.as_ref().map_or(0, |tls| tls.waiting())
    }

    /// How many encrypted bytes the socket has taken since the connection was made; zero where
    /// nothing is encrypted.
    pub fn sent(&self) -> u64 {
        self.tls.as_ref().map_or(0, |tls| tls.sent())
    }

    /// The socket has room again: gives it what waits. Whether all has left.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn flush(&mut self) -> io::Result<bool> {
        self.tls.as_mut().map_or(Ok(true), |tls| tls.flush(&mut self.stream))
    }

    /// Asks the kernel to notice a peer that vanished without a word: after this silence, of a
    /// second at least, it is asked three times, and is gone after half as long again.
    ///
    /// # Errors
    /// From the system.
    pub fn keep_alive(&self, idle: Nanos) -> io::Result<()> {
        let Stream::Tcp(stream) = &self.stream else { return Ok(()) };
        keep_alive(stream, idle)
    }

    /// Closes at once with a reset, so that the peer cannot take a broken answer for a whole one.
    pub fn reset(self) {
        let _ = self.stream.socket().set_linger(Some(Duration::ZERO));
    }

    /// The other end; a unix socket's has no address.
    pub fn peer(&self) -> Option<SocketAddr> {
        match &self.stream {
            Stream::Tcp(stream) => stream.peer_addr().ok(),
            Stream::Unix(_) => None,
        }
    }

    /// No more will be written: the peer reads what is under way, then the end.
    pub fn finish(&mut self) {
        self.finish_encryption();
        self.stream.shutdown();
    }

    /// The same for a connection that is closed next: only where it is encrypted is the end a
    /// message of its own, without which the peer takes it for cut off.
    pub fn finish_encryption(&mut self) {
        if let Some(tls) = &mut self.tls {
            tls.finish(&mut self.stream);
        }
    }
}
