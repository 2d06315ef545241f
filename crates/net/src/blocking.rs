//! Connections whose reads and writes wait: for engines with a thread for each thing that is under
//! way.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Instant;

use krarup_units::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::conn::Conn;
use crate::connect_any;
use crate::listen;
use crate::moved::Moved;
use crate::stream::{Listener, Stream};
use crate::tls::Acceptor;

/// A connection to a server.
#[derive(Debug)]
pub struct BlockingConnection {
    socket: Socket,
}

impl BlockingConnection {
    /// Connects as [`connect_any`]; later each read and each write waits at most `answer`.
    ///
    /// # Errors
    /// From the system.
    pub fn connect(addresses: &[SocketAddr], limit: Nanos, answer: Nanos) -> io::Result<Self> {
        let stream = connect_any(addresses, limit.as_duration())?;
        stream.set_nodelay(true)?;
        Self::with_timeout(stream.into(), answer)
    }

    /// The same through a unix socket's file.
    ///
    /// # Errors
    /// From the system; `WouldBlock` after too long.
    pub fn connect_file(path: &Path, limit: Nanos, answer: Nanos) -> io::Result<Self> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        // Where too many connections wait to be accepted, the kernel waits as long as for a write.
        socket.set_write_timeout(Some(limit.as_duration()))?;
        socket.connect(&SockAddr::unix(path)?)?;
        Self::with_timeout(socket, answer)
    }

    fn with_timeout(socket: Socket, answer: Nanos) -> io::Result<Self> {
        socket.set_read_timeout(Some(answer.as_duration()))?;
        socket.set_write_timeout(Some(answer.as_duration()))?;
        Ok(Self { socket })
    }

    /// Sends all of `bytes`.
    ///
    /// # Errors
    /// From the system; `WouldBlock` after too long.
    pub fn send(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.socket).write_all(bytes)
    }

    /// Waits for bytes; none means that no more will come.
    ///
    /// # Errors
    /// From the system; `WouldBlock` after too long.
    pub fn receive(&self, room: &mut [u8]) -> io::Result<usize> {
        loop {
            match (&self.socket).read(room) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                result => return result,
            }
        }
    }
}

/// Writes to a client from any thread. The connection itself belongs to an event loop.
#[derive(Debug)]
pub struct ClientWriter {
    socket: Socket,
}

impl ClientWriter {
    /// Of a connection that an event loop reads.
    ///
    /// # Errors
    /// From the system.
    pub fn of(stream: &Stream) -> io::Result<Self> {
        Ok(Self { socket: stream.socket().try_clone()? })
    }

    /// Writes all of `bytes`, waiting `limit` at most whenever the client does not read.
    ///
    /// # Errors
    /// From the system; `TimedOut` after too long.
    pub fn write(&self, mut bytes: &[u8], limit: Nanos) -> io::Result<()> {
        while !bytes.is_empty() {
            match (&self.socket).write(bytes) {
                Ok(count) => bytes = &bytes[count..],
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    let mut wanted = [PollFd::new(&self.socket, PollFlags::OUT)];
                    if poll(&mut wanted, Some(&timespec(limit)))? == 0 {
                        return Err(ErrorKind::TimedOut.into());
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Closes both directions.
    pub fn close(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// A client, for the thread that serves it alone: over TCP or through a file, encrypted or not.
#[derive(Debug)]
pub struct BlockingClient {
    conn: Conn,
    accepted: Instant,
    /// How long a TLS handshake may take; zero: for ever.
    handshake: Nanos,
}

impl BlockingClient {
    /// One that has just connected; with an acceptor it speaks TLS, and the `handshake`, which may
    /// take no longer than this, goes on when it is first read. Zero is without end.
    ///
    /// # Errors
    /// From the system, or the library.
    pub fn accepted(stream: Stream, acceptor: Option<&Acceptor>, handshake: Nanos) -> io::Result<Self> {
        let mut conn = Conn::alone(stream)?;
        if let Some(acceptor) = acceptor {
            conn.encrypt_accepted(acceptor)?;
        }
        Ok(Self { conn, accepted: Instant::now(), handshake })
    }

    /// A vanished client is noticed, as [`Conn::keep_alive`] says.
    ///
    /// # Errors
    /// From the system.
    pub fn keep_alive(&self, idle: Nanos) -> io::Result<()> {
        self.conn.keep_alive(idle)
    }

    /// Waits for bytes, when both sides have greeted each other for as long as this at most, or for
    /// ever if it is zero; none means that no more will come.
    ///
    /// # Errors
    /// From the system, or where its bytes are no TLS; `TimedOut` after too long.
    pub fn receive(&mut self, room: &mut [u8], idle: Nanos) -> io::Result<usize> {
        let end = |since: Instant, limit: Nanos| (limit > Nanos::ZERO).then(|| since + limit.as_duration());
        let mut quiet_since = Instant::now();
        loop {
            let moved = self.conn.read(room);
            let until = if self.conn.is_greeted() {
                end(quiet_since, idle)
            } else {
                quiet_since = Instant::now();
                end(self.accepted, self.handshake)
            };
            match moved {
                Moved::Some(count) => return Ok(count),
                Moved::Closed => return Ok(0),
                Moved::Failed(error) => return Err(error),
                Moved::None if self.conn.is_waiting() => {
                    self.wait(PollFlags::IN | PollFlags::OUT, until)?;
                    self.conn.flush()?;
                }
                Moved::None => self.wait(PollFlags::IN, until)?,
            }
        }
    }

    /// Writes all of `bytes`, however long it takes to read.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn write(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.conn.write(bytes) {
                Moved::Some(count) => bytes = &bytes[count..],
                Moved::None => self.wait(PollFlags::OUT, None)?,
                Moved::Closed => return Err(ErrorKind::WriteZero.into()),
                Moved::Failed(error) => return Err(error),
            }
        }
        while !self.conn.flush()? {
            self.wait(PollFlags::OUT, None)?;
        }
        Ok(())
    }

    /// Nothing more is written: it reads what is under way, then the end.
    pub fn finish(&mut self) {
        self.conn.finish();
    }

    /// By which another thread can end it.
    ///
    /// # Errors
    /// From the system.
    pub fn handle(&self) -> io::Result<ShutdownHandle> {
        Ok(ShutdownHandle { socket: self.conn.stream().socket().try_clone()? })
    }

    /// Waits until that can be done; none: without end.
    fn wait(&self, wanted: PollFlags, until: Option<Instant>) -> io::Result<()> {
        let left = until.map(|until| timespec(until.saturating_duration_since(Instant::now()).into()));
        match poll(&mut [PollFd::new(self, wanted)], left.as_ref()) {
            Ok(0) => Err(ErrorKind::TimedOut.into()),
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for BlockingClient {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.conn.stream().as_fd()
    }
}

/// Ends a client that another thread serves.
#[derive(Debug)]
pub struct ShutdownHandle {
    socket: Socket,
}

impl ShutdownHandle {
    /// Nothing more is read from it.
    pub fn close_read(&self) {
        let _ = self.socket.shutdown(Shutdown::Read);
    }

    /// Closes both directions.
    pub fn close(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// Waits for the next client; none: `wakeup` was notified.
///
/// # Errors
/// The system gives no more sockets.
pub fn accept(listener: &Listener, wakeup: &Wakeup) -> io::Result<Option<Stream>> {
    loop {
        match listener.accept() {
            Ok(stream) => return Ok(Some(stream)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if wakeup.is_pending()? {
                    return Ok(None);
                }
            }
            Err(error) if listen::is_of_one(&error) => continue,
            Err(_) if wakeup.is_pending()? => return Ok(None),
            Err(error) => return Err(error),
        }
        let mut wanted = [PollFd::new(listener, PollFlags::IN), PollFd::new(&wakeup.receiver, PollFlags::IN)];
        match poll(&mut wanted, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Wakes a thread that waits for its connections.
#[derive(Debug)]
pub struct Wakeup {
    sender: UnixStream,
    receiver: UnixStream,
}

impl Wakeup {
    /// One that was not notified.
    ///
    /// # Errors
    /// From the system.
    pub fn new() -> io::Result<Self> {
        let (sender, receiver) = UnixStream::pair()?;
        sender.set_nonblocking(true)?;
        receiver.set_nonblocking(true)?;
        Ok(Self { sender, receiver })
    }

    /// Wakes the thread that waits, or the next that will.
    pub fn notify(&self) {
        // Full: it was notified often enough.
        let _ = (&self.sender).write(&[1]);
    }

    /// Whether it was notified and not cleared.
    fn is_pending(&self) -> io::Result<bool> {
        Ok(poll(&mut [PollFd::new(&self.receiver, PollFlags::IN)], Some(&timespec(Nanos::ZERO)))? > 0)
    }

    /// Forgets notifications.
    fn clear(&self) {
        let mut heard = [0; 64];
        while matches!((&self.receiver).read(&mut heard), Ok(64)) {}
    }
}

/// Waits until one of `connections` has something to read, or `wakeup` is notified; at most
/// `limit`. The places of those connections.
///
/// # Errors
/// From the system.
pub fn wait<'a>(
    connections: &[(usize, &'a BlockingConnection)],
    wakeup: &'a Wakeup,
    limit: Nanos,
) -> io::Result<Vec<usize>> {
    let descriptors = connections.iter().map(|(_, connection)| connection.socket.as_fd());
    let mut wanted: Vec<PollFd<'_>> = descriptors
        .chain([wakeup.receiver.as_fd()])
        .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
        .collect();
    match poll(&mut wanted, Some(&timespec(limit))) {
        Ok(_) => {}
        Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    }
    let ready = |place: usize| !wanted[place].revents().is_empty();
    if ready(connections.len()) {
        wakeup.clear();
    }
    Ok((0..connections.len()).filter(|&place| ready(place)).map(|place| connections[place].0).collect())
}

fn timespec(limit: Nanos) -> Timespec {
    Timespec { tv_sec: (limit.0 / 1_000_000_000) as _, tv_nsec: (limit.0 % 1_000_000_000) as _ }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn a_line_says_and_hears_and_gives_up_in_time() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let second = Nanos::from_secs(1);
        let connection =
            BlockingConnection::connect(&[listener.local_addr().unwrap()], second, Nanos::from_millis(1))
                .unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        connection.send(b"hello").unwrap();
        let mut heard = [0; 5];
        peer.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"hello");
        assert_eq!(connection.receive(&mut heard).unwrap_err().kind(), ErrorKind::WouldBlock);
        let wakeup = Wakeup::new().unwrap();
        wakeup.notify();
        assert_eq!(wait(&[(7, &connection)], &wakeup, second).unwrap(), Vec::<usize>::new());
        peer.write_all(b"world").unwrap();
        assert_eq!(wait(&[(7, &connection)], &wakeup, second).unwrap(), [7]);
        assert_eq!(connection.receive(&mut heard).unwrap(), 5);
        assert_eq!(wait(&[(7, &connection)], &wakeup, Nanos::from_millis(1)).unwrap(), Vec::<usize>::new());
    }

    #[test]
    fn a_file_at_which_nothing_is_accepted_is_given_up_in_time() {
        let path = std::env::temp_dir().join(format!("krarup-blocking-full-{}.sock", std::process::id()));
        let listener = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
        listener.bind(&SockAddr::unix(&path).unwrap()).unwrap();
        listener.listen(0).unwrap();
        let connect = |limit| BlockingConnection::connect_file(&path, limit, Nanos::from_secs(1));
        // One waits all the same.
        let waiting = connect(Nanos::from_secs(1)).unwrap();
        assert_eq!(connect(Nanos::from_millis(1)).unwrap_err().kind(), ErrorKind::WouldBlock);
        drop(waiting);
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn the_kernel_is_told_how_to_notice_a_client_that_vanishes() {
        let address = "127.0.0.1:0".parse().unwrap();
        let listener = listen::listen_with(&address, listen::Options::default()).unwrap();
        let (address, second) = (listener.address().unwrap(), Nanos::from_secs(1));
        let address = crate::resolve(&address).unwrap()[0];
        let _peer = BlockingConnection::connect(&[address], second, second).unwrap();
        let stream = accept(&listener, &Wakeup::new().unwrap()).unwrap().unwrap();
        let client = BlockingClient::accepted(stream, None, Nanos::ZERO).unwrap();
        for (idle, interval) in [(1, 1), (60, 10), (32_767, 5_461)] {
            client.keep_alive(Nanos::from_secs(idle)).unwrap();
            let socket = client.conn.stream().socket();
            let told = (socket.tcp_keepalive_time().unwrap(), socket.tcp_keepalive_interval().unwrap());
            assert_eq!((told.0.as_secs(), told.1.as_secs()), (idle, interval));
            assert_eq!((socket.keepalive().unwrap(), socket.tcp_keepalive_retries().unwrap()), (true, 3));
        }
    }

    #[test]
    fn clients_are_accepted_by_either_listener_until_it_is_closed() {
        let path = std::env::temp_dir().join(format!("krarup-blocking-{}.sock", std::process::id()));
        let file = krarup_units::Address::of_file(&path);
        for address in ["127.0.0.1:0".parse().unwrap(), file] {
            let listener = listen::listen_with(&address, listen::Options::default()).unwrap();
            let wakeup = Wakeup::new().unwrap();
            let second = Nanos::from_secs(1);
            let connection = match listener.address().unwrap() {
                address if address.file().is_some() => {
                    BlockingConnection::connect_file(address.file().unwrap(), second, second).unwrap()
                }
                address => {
                    BlockingConnection::connect(&crate::resolve(&address).unwrap(), second, second).unwrap()
                }
            };
            wakeup.notify();
            // Who has connected is served.
            let mut client =
                BlockingClient::accepted(accept(&listener, &wakeup).unwrap().unwrap(), None, Nanos::ZERO)
                    .unwrap();
            assert!(accept(&listener, &wakeup).unwrap().is_none());
            connection.send(b"hello").unwrap();
            let mut heard = [0; 9];
            assert_eq!(client.receive(&mut heard, Nanos::ZERO).unwrap(), 5);
            let silent = client.receive(&mut heard, Nanos::from_millis(1)).unwrap_err();
            assert_eq!(silent.kind(), ErrorKind::TimedOut);
            client.write(b"welcome").unwrap();
            assert_eq!(connection.receive(&mut heard).unwrap(), 7);
            client.handle().unwrap().close_read();
            assert_eq!(client.receive(&mut heard, Nanos::ZERO).unwrap(), 0);
            client.write(b"farewell").unwrap();
            client.finish();
            assert_eq!(
                (connection.receive(&mut heard).unwrap(), connection.receive(&mut heard).unwrap()),
                (8, 0)
            );
        }
    }
}
