//! A socket of either kind, and where such sockets come from.

use std::fs::Permissions;
use std::io::{self, IoSlice, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use mio::event::Source;
use mio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use mio::{Interest, Registry, Token};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendFlags};
use socket2::SockRef;

use krarup_units::Address;

/// A connected socket: over TCP, or on this machine through the file system.
#[derive(Debug)]
pub enum Stream {
    /// A TCP connection.
    Tcp(TcpStream),
    /// A unix socket.
    Unix(UnixStream),
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Self {
        Self::Tcp(stream)
    }
}

impl Stream {
    pub(crate) fn source(&mut self) -> &mut dyn Source {
        match self {
            Self::Tcp(stream) => stream,
            Self::Unix(stream) => stream,
        }
    }

    pub(crate) fn socket(&self) -> SockRef<'_> {
        match self {
            Self::Tcp(stream) => SockRef::from(stream),
            Self::Unix(stream) => SockRef::from(stream),
        }
    }

    pub(crate) fn take_error(&self) -> io::Result<Option<io::Error>> {
        match self {
            Self::Tcp(stream) => stream.take_error(),
            Self::Unix(stream) => stream.take_error(),
        }
    }

    pub(crate) fn shutdown(&self) {
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        };
    }
}

impl AsFd for Stream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        }
    }
}

// The calls of the system are made directly: the C library's are points where a thread may be
// cancelled, which costs something in every call once there is a second thread.

impl Read for Stream {
    #[inline]
    fn read(&mut self, room: &mut [u8]) -> io::Result<usize> {
        let (count, _) = rustix::net::recv(self, room, RecvFlags::empty())?;
        Ok(count)
    }
}

impl Write for Stream {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(rustix::net::send(self, bytes, SendFlags::NOSIGNAL)?)
    }

    fn write_vectored(&mut self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
        Ok(rustix::net::sendmsg(self, pieces, &mut SendAncillaryBuffer::default(), SendFlags::NOSIGNAL)?)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A listening socket of either kind. The file of a unix socket goes with it.
#[derive(Debug)]
pub enum Listener {
    /// Connections over TCP.
    Tcp(TcpListener),
    /// Connections through a file.
    Unix {
        /// The socket.
        listener: UnixListener,
        /// Its file, if it is ours to remove.
        file: Option<SocketFile>,
    },
}

/// The file of a unix socket, and what tells it from another that took its place.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// Its device and its number there, which no other file gets while the socket is open.
    identity: Option<(u64, u64)>,
}

impl SocketFile {
    /// The one that lies there now.
    pub(crate) fn at(path: &Path) -> Self {
        Self { path: path.to_owned(), identity: Self::identity(path) }
    }

    fn identity(path: &Path) -> Option<(u64, u64)> {
        let found = std::fs::symlink_metadata(path).ok()?;
        Some((found.dev(), found.ino()))
    }

    /// Removes it, unless another lies in its place.
    fn remove(&self) {
        if Self::identity(&self.path) == self.identity {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

impl Listener {
    /// The next connection that waits.
    ///
    /// # Errors
    /// `WouldBlock` when none waits; others from the system.
    pub fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => Ok(Stream::Tcp(listener.accept()?.0)),
            Self::Unix { listener, .. } => Ok(Stream::Unix(listener.accept()?.0)),
        }
    }

    /// Another handle of the same listening socket, for who listens in turns; a unix socket's file
    /// stays the first one's.
    ///
    /// # Errors
    /// From the system.
    pub fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(listener) => {
                let handle = listener.as_fd().try_clone_to_owned()?;
                Self::Tcp(TcpListener::from_std(handle.into()))
            }
            Self::Unix { listener, .. } => {
                let handle = listener.as_fd().try_clone_to_owned()?;
                Self::Unix { listener: UnixListener::from_std(handle.into()), file: None }
            }
        })
    }

    /// Sets the permissions of a unix socket's file, if it is ours.
    ///
    /// # Errors
    /// From the system.
    pub fn set_mode(&self, mode: u32) -> io::Result<()> {
        let Self::Unix { file: Some(file), .. } = self else { return Ok(()) };
        std::fs::set_permissions(&file.path, Permissions::from_mode(mode))
    }

    /// From now on `token` tells when a connection waits.
    ///
    /// # Errors
    /// From the system.
    pub fn register(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => registry.register(listener, token, Interest::READABLE),
            Self::Unix { listener, .. } => registry.register(listener, token, Interest::READABLE),
        }
    }

    /// Where it listens.
    ///
    /// # Errors
    /// From the system.
    pub fn address(&self) -> io::Result<Address> {
        match self {
            Self::Tcp(listener) => Ok(listener.local_addr()?.into()),
            Self::Unix { listener, .. } => match listener.local_addr()?.as_pathname() {
                Some(path) => Ok(Address::of_file(path)),
                None => Err(io::Error::other("the unix socket has no name")),
            },
        }
    }
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix { listener, .. } => listener.as_fd(),
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix { file: Some(file), .. } = self {
            file.remove();
        }
    }
}
