//! Connections whose reads and writes wait: for engines with a thread for each thing that is under way.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

use krarup_units::Nanos;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, SockAddr, Socket, Type};

use crate::conn::Conn;
use crate::listen;
use crate::moved::Moved;
use crate::stream::{Listener, Stream};
use crate::tls::Acceptor;

/// A connection to a server.
#[derive(Debug)]
pub struct Line {
    socket: Socket,
}

impl Line {
    /// Connects, waiting `limit` at most; later each read and each write waits at most `answer`.
    ///
    /// # Errors
    /// From the system.
    pub fn connect(address: SocketAddr, limit: Nanos, answer: Nanos) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.connect_timeout(&address.into(), limit.as_duration())?;
        socket.set_tcp_nodelay(true)?;
        Self::patient(socket, answer)
    }

    /// The same through a unix socket's file.
    ///
    /// # Errors
    /// From the system.
    pub fn connect_file(path: &Path, answer: Nanos) -> io::Result<Self> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.connect(&SockAddr::unix(path)?)?;
        Self::patient(socket, answer)
    }

    fn patient(socket: Socket, answer: Nanos) -> io::Result<Self> {
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

/// What is said to a client, by whichever thread has it to say. The connection itself belongs to an event loop.
#[derive(Debug)]
pub struct Voice {
    socket: Socket,
}

impl Voice {
    /// Of a connection that an event loop reads.
    ///
    /// # Errors
    /// From the system.
    pub fn of(stream: &Stream) -> io::Result<Self> {
        Ok(Self { socket: stream.socket().try_clone()? })
    }

    /// Says all of `bytes`, waiting `limit` at most whenever the client does not read.
    ///
    /// # Errors
    /// From the system; `TimedOut` after too long.
    pub fn say(&self, mut bytes: &[u8], limit: Nanos) -> io::Result<()> {
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

    /// Nothing more is said or heard.
    pub fn close(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// A client, for the thread that serves him alone: over TCP or through a file, encrypted or not.
#[derive(Debug)]
pub struct Guest {
    conn: Conn,
}

impl Guest {
    /// Who has just connected; with an acceptor he speaks TLS, and is greeted when he is first listened to.
    ///
    /// # Errors
    /// From the system, or the library.
    pub fn accepted(stream: Stream, acceptor: Option<&Acceptor>) -> io::Result<Self> {
        let mut conn = Conn::alone(stream)?;
        if let Some(acceptor) = acceptor {
            conn.encrypt_accepted(acceptor)?;
        }
        Ok(Self { conn })
    }

    /// A vanished client is noticed after about this time.
    ///
    /// # Errors
    /// From the system.
    pub fn keep_alive(&self, idle: Nanos) -> io::Result<()> {
        self.conn.keep_alive(idle)
    }

    /// Waits for bytes; none means that no more will come.
    ///
    /// # Errors
    /// From the system, or where his bytes are not what was agreed.
    pub fn receive(&mut self, room: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.conn.read(room) {
                Moved::Some(count) => return Ok(count),
                Moved::Closed => return Ok(0),
                Moved::Failed(error) => return Err(error),
                Moved::None if self.conn.is_waiting() => {
                    self.wait(PollFlags::IN | PollFlags::OUT)?;
                    self.conn.flush()?;
                }
                Moved::None => self.wait(PollFlags::IN)?,
            }
        }
    }

    /// Says all of `bytes`, however long he takes to read.
    ///
    /// # Errors
    /// The connection is broken.
    pub fn say(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            match self.conn.write(bytes) {
                Moved::Some(count) => bytes = &bytes[count..],
                Moved::None => self.wait(PollFlags::OUT)?,
                Moved::Closed => return Err(ErrorKind::WriteZero.into()),
                Moved::Failed(error) => return Err(error),
            }
        }
        while !self.conn.flush()? {
            self.wait(PollFlags::OUT)?;
        }
        Ok(())
    }

    /// Nothing more is said: he reads what is under way, then the end.
    pub fn finish(&mut self) {
        self.conn.finish();
    }

    /// By which another thread can end it.
    ///
    /// # Errors
    /// From the system.
    pub fn handle(&self) -> io::Result<Handle> {
        Ok(Handle { socket: self.conn.stream().socket().try_clone()? })
    }

    fn wait(&self, wanted: PollFlags) -> io::Result<()> {
        match poll(&mut [PollFd::new(self, wanted)], None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

impl AsFd for Guest {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.conn.stream().as_fd()
    }
}

/// Ends a guest whom another thread serves.
#[derive(Debug)]
pub struct Handle {
    socket: Socket,
}

impl Handle {
    /// Nothing more is heard of him.
    pub fn deafen(&self) {
        let _ = self.socket.shutdown(Shutdown::Read);
    }

    /// Nothing more is said or heard.
    pub fn close(&self) {
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// Waits for the next client; none: the bell has rung, and nobody waits any more.
///
/// # Errors
/// The system gives no more sockets.
pub fn accept(listener: &Listener, bell: &Bell) -> io::Result<Option<Stream>> {
    loop {
        match listener.accept() {
            Ok(stream) => return Ok(Some(stream)),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                if bell.has_rung()? {
                    return Ok(None);
                }
            }
            Err(error) if listen::is_of_one(&error) => continue,
            Err(_) if bell.has_rung()? => return Ok(None),
            Err(error) => return Err(error),
        }
        let mut wanted = [PollFd::new(listener, PollFlags::IN), PollFd::new(&bell.clapper, PollFlags::IN)];
        match poll(&mut wanted, None) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Wakes a thread that waits for its lines.
#[derive(Debug)]
pub struct Bell {
    rope: UnixStream,
    clapper: UnixStream,
}

impl Bell {
    /// A bell that has not been rung.
    ///
    /// # Errors
    /// From the system.
    pub fn new() -> io::Result<Self> {
        let (rope, clapper) = UnixStream::pair()?;
        rope.set_nonblocking(true)?;
        clapper.set_nonblocking(true)?;
        Ok(Self { rope, clapper })
    }

    /// Wakes whoever waits, now or next.
    pub fn ring(&self) {
        // Full: it has been rung often enough.
        let _ = (&self.rope).write(&[1]);
    }

    /// Whether it has been rung and not been heard.
    fn has_rung(&self) -> io::Result<bool> {
        Ok(poll(&mut [PollFd::new(&self.clapper, PollFlags::IN)], Some(&timespec(Nanos::ZERO)))? > 0)
    }

    /// It has been heard.
    fn silence(&self) {
        let mut heard = [0; 64];
        while matches!((&self.clapper).read(&mut heard), Ok(64)) {}
    }
}

/// Waits until one of `lines` has something to read, or the bell rings; at most `limit`. The places of those lines.
///
/// # Errors
/// From the system.
pub fn wait<'a>(lines: &[(usize, &'a Line)], bell: &'a Bell, limit: Nanos) -> io::Result<Vec<usize>> {
    let descriptors = lines.iter().map(|(_, line)| line.socket.as_fd());
    let mut wanted: Vec<PollFd<'_>> = descriptors
        .chain([bell.clapper.as_fd()])
        .map(|descriptor| PollFd::from_borrowed_fd(descriptor, PollFlags::IN))
        .collect();
    match poll(&mut wanted, Some(&timespec(limit))) {
        Ok(_) => {}
        Err(rustix::io::Errno::INTR) => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    }
    let ready = |place: usize| !wanted[place].revents().is_empty();
    if ready(lines.len()) {
        bell.silence();
    }
    Ok((0..lines.len()).filter(|&place| ready(place)).map(|place| lines[place].0).collect())
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
        let line = Line::connect(listener.local_addr().unwrap(), second, Nanos::from_millis(1)).unwrap();
        let (mut peer, _) = listener.accept().unwrap();
        line.send(b"hello").unwrap();
        let mut heard = [0; 5];
        peer.read_exact(&mut heard).unwrap();
        assert_eq!(&heard, b"hello");
        assert_eq!(line.receive(&mut heard).unwrap_err().kind(), ErrorKind::WouldBlock);
        let bell = Bell::new().unwrap();
        bell.ring();
        assert_eq!(wait(&[(7, &line)], &bell, second).unwrap(), Vec::<usize>::new());
        peer.write_all(b"world").unwrap();
        assert_eq!(wait(&[(7, &line)], &bell, second).unwrap(), [7]);
        assert_eq!(line.receive(&mut heard).unwrap(), 5);
        assert_eq!(wait(&[(7, &line)], &bell, Nanos::from_millis(1)).unwrap(), Vec::<usize>::new());
    }

    #[test]
    fn guests_come_through_either_door_until_the_bell_has_rung() {
        let folder = std::env::temp_dir().join(format!("krarup-guests-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let file = krarup_units::Address::of_file(&folder.join("door.sock"));
        for address in ["127.0.0.1:0".parse().unwrap(), file] {
            let listener = listen::listen_with(&address, listen::Options::default()).unwrap();
            let bell = Bell::new().unwrap();
            let second = Nanos::from_secs(1);
            let line = match listener.address().unwrap() {
                address if address.file().is_some() => {
                    Line::connect_file(address.file().unwrap(), second).unwrap()
                }
                address => Line::connect(crate::resolve(&address).unwrap()[0], second, second).unwrap(),
            };
            bell.ring();
            // Who has connected is served.
            let mut guest = Guest::accepted(accept(&listener, &bell).unwrap().unwrap(), None).unwrap();
            assert!(accept(&listener, &bell).unwrap().is_none());
            line.send(b"hello").unwrap();
            let mut heard = [0; 9];
            assert_eq!(guest.receive(&mut heard).unwrap(), 5);
            guest.say(b"welcome").unwrap();
            assert_eq!(line.receive(&mut heard).unwrap(), 7);
            guest.handle().unwrap().deafen();
            assert_eq!(guest.receive(&mut heard).unwrap(), 0);
            guest.say(b"farewell").unwrap();
            guest.finish();
            assert_eq!((line.receive(&mut heard).unwrap(), line.receive(&mut heard).unwrap()), (8, 0));
        }
    }
}
