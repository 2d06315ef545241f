//! A listening socket, or an error that names the address and says what to do.

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use mio::net::{TcpListener, UnixListener};
use socket2::{Domain, SockAddr, SockRef, Socket, Type};

use crate::Listener;
use crate::stream::SocketFile;
use krarup_units::{Address, Mistake};

/// How a mistake ends that says why an address cannot be listened on that is in use.
pub const TAKEN: &str = "another process listens there";

/// How to listen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The permissions of a unix socket's file; none: what the process's mask leaves.
    pub mode: Option<u32>,
    /// Whether others may listen on the same TCP port, each taking a share of the connections.
    pub share: bool,
    /// How many connections may wait to be accepted; the kernel may allow fewer
    /// (`net.core.somaxconn`).
    pub backlog: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { mode: None, share: false, backlog: 1_024 }
    }
}

/// Listens on `address` over TCP without ever blocking.
///
/// # Errors
/// In plain words, with the address and what to do about it.
pub fn listen(address: &Address) -> Result<TcpListener, Mistake> {
    listen_at_port(address, Options::default())
}

/// Listens on an address of either kind without ever blocking.
///
/// # Errors
/// In plain words, with the address and what to do about it.
pub fn listen_with(address: &Address, options: Options) -> Result<Listener, Mistake> {
    match address.file() {
        Some(path) => {
            listen_at_file(path, options).map_err(|why| why.within(&format!("cannot listen on {address}")))
        }
        None => listen_at_port(address, options).map(Listener::Tcp),
    }
}

/// Whether what `accept` failed with concerns one client that has gone again: the next may be
/// there.
pub fn is_of_one(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, Interrupted};
    matches!(error.kind(), ConnectionAborted | ConnectionReset | Interrupted)
}

/// The listening sockets that the program that started this process has opened for it (systemd's
/// `LISTEN_FDS`), in order. They are handed over once: a second call finds none.
pub fn inherited() -> Vec<Listener> {
    let mut given = listenfd::ListenFd::from_env();
    let mut found = Vec::new();
    for place in 0..given.len() {
        if let Ok(Some(listener)) = given.take_tcp_listener(place)
            && listener.set_nonblocking(true).is_ok()
        {
            found.push(Listener::Tcp(TcpListener::from_std(listener)));
        } else if let Ok(Some(listener)) = given.take_unix_listener(place)
            && listener.set_nonblocking(true).is_ok()
        {
            // The file is theirs who made it.
            found.push(Listener::Unix { listener: UnixListener::from_std(listener), file: None });
        }
    }
    found
}

/// Whether each of so many listening sockets that were given stands in for an address: one that is
/// left over would keep its clients waiting for ever.
///
/// # Errors
/// With both counts, and what to do about it.
pub fn all_used(given: usize, addresses: usize) -> Result<(), Mistake> {
    if given <= addresses {
        return Ok(());
    }
    Err(Mistake::new(
        format!(
            "more listening sockets were given ({given}) than there are addresses to listen on ({addresses})"
        ),
        "give one for each; in a drop-in of a socket unit an empty `ListenStream=` stands before the new \
         one, which would be added otherwise",
    ))
}

/// Whether the process is gone that made a socket: the file alone does not tell.
fn is_left(path: &Path) -> io::Result<bool> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    // It would wait for a process that accepts no connection now.
    socket.set_nonblocking(true)?;
    match socket.connect(&SockAddr::unix(path)?) {
        Ok(()) => Ok(false),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock => Ok(false),
            io::ErrorKind::ConnectionRefused => Ok(true),
            _ => Err(error),
        },
    }
}

fn listen_at_file(path: &Path, options: Options) -> Result<Listener, Mistake> {
    let listener = bind_at_file(path, options)?;
    start_listening(&SockRef::from(&listener), options).map_err(|error| error.to_string())?;
    Ok(listener)
}

/// A socket with its file and the file's permissions, to which nothing can connect yet: what the
/// process's mask leaves may be more than they allow.
fn bind_at_file(path: &Path, options: Options) -> Result<Listener, Mistake> {
    if let Ok(there) = fs::symlink_metadata(path) {
        if !there.file_type().is_socket() {
            return Err(Mistake::new("there is a file that is no socket", "choose another path"));
        }
        let left = is_left(path)
            .map_err(|error| format!("it is not known whether another process listens there: {error}"))?;
        if !left {
            return Err(Mistake::new(TAKEN, "stop it or choose another path"));
        }
        fs::remove_file(path).map_err(|error| format!("the socket left there cannot be removed: {error}"))?;
    }
    let bound = SockAddr::unix(path).and_then(|address| bind(Domain::UNIX, &address, options));
    let socket = bound.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Mistake::new("its directory does not exist", "make it first"),
        io::ErrorKind::PermissionDenied => {
            Mistake::new("its directory cannot be written to", "choose another path")
        }
        _ => Mistake::plain(error.to_string()),
    })?;
    let file = Some(SocketFile::at(path));
    let listener = Listener::Unix { listener: UnixListener::from_std(socket.into()), file };
    if let Some(mode) = options.mode {
        listener.set_mode(mode).map_err(|error| format!("its permissions cannot be set: {error}"))?;
    }
    Ok(listener)
}

fn listen_at_port(address: &Address, options: Options) -> Result<TcpListener, Mistake> {
    let found = listening_addresses(address)?;
    let socket = listen_at_first(&found, options).map_err(|error| refused(address, &error))?;
    Ok(TcpListener::from_std(socket.into()))
}

/// The addresses of a name to listen at.
fn listening_addresses(address: &Address) -> Result<Vec<SocketAddr>, Mistake> {
    crate::resolve(address).map_err(|why| {
        let example = format!("127.0.0.1:{}", address.port);
        Mistake { hint: address.listening_hint(&example), ..why }
    })
}

/// Listens at the first of these addresses of one name that this machine has, unless the port is
/// taken at any of them: clients that use the name would reach one process or the other, as each of
/// them tries the addresses.
fn listen_at_first(found: &[SocketAddr], options: Options) -> io::Result<Socket> {
    let mut first: io::Result<Socket> = Err(io::ErrorKind::AddrNotAvailable.into());
    for &candidate in found {
        match bind(Domain::for_address(candidate), &candidate.into(), options) {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => return Err(error),
            bound if first.is_err() => first = bound,
            _ => {}
        }
    }
    let first = first?;
    // Not before: clients would connect to one that is given up where another is taken.
    start_listening(&first, options)?;
    Ok(first)
}

/// Why an address cannot be listened on, and what to do about it.
pub(crate) fn refused(address: &Address, error: &io::Error) -> Mistake {
    let (why, hint) = match error.kind() {
        io::ErrorKind::AddrInUse => (TAKEN, "stop it or choose another port"),
        io::ErrorKind::PermissionDenied => ("ports below 1024 need privileges", "choose a higher one"),
        io::ErrorKind::AddrNotAvailable => ("this machine has no such address", "127.0.0.1 always exists"),
        _ => return Mistake::plain(format!("cannot listen on {address}: {error}")),
    };
    Mistake::new(format!("cannot listen on {address}: {why}"), hint)
}

fn bind(domain: Domain, address: &SockAddr, options: Options) -> io::Result<Socket> {
    let socket = Socket::new(domain, Type::STREAM, None)?;
    if domain != Domain::UNIX {
        // A restarted server must not wait until the last connections of the one before are
        // forgotten.
        socket.set_reuse_address(true)?;
        if options.share {
            socket.set_reuse_port(true)?;
        }
    }
    socket.set_nonblocking(true)?;
    socket.bind(address)?;
    Ok(socket)
}

fn start_listening(socket: &Socket, options: Options) -> io::Result<()> {
    socket.listen(options.backlog.try_into().unwrap_or(i32::MAX))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_port_in_use_is_named_with_a_hint() {
        let first = listen(&"127.0.0.1:0".parse().unwrap()).unwrap();
        let address = Address::from(first.local_addr().unwrap());
        let error = listen(&address).unwrap_err();
        assert!(
            error.to_string().contains(&address.to_string())
                && error.to_string().contains("choose another port"),
            "{error}"
        );
    }

    #[test]
    fn a_name_is_taken_where_another_process_has_the_port_at_any_of_its_addresses() {
        let other = std::net::TcpListener::bind("127.0.0.2:0").unwrap();
        let (taken, options) = (other.local_addr().unwrap(), Options::default());
        let [free, foreign] = ["127.0.0.1:0", "192.0.2.1:0"].map(|text| text.parse::<SocketAddr>().unwrap());
        for found in [[taken, free], [free, taken]] {
            let error = listen_at_first(&found, options).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::AddrInUse, "{found:?}");
        }
        drop(other);
        // An address of another machine leads on to the next.
        let socket = listen_at_first(&[foreign, taken, free], options).unwrap();
        assert_eq!(socket.local_addr().unwrap().as_socket(), Some(taken));
    }

    fn file() -> (Address, std::path::PathBuf) {
        let (process, thread) = (std::process::id(), std::thread::current().id());
        let path = std::env::temp_dir().join(format!("krarup-listen-{process}-{thread:?}.sock"));
        (Address::of_file(&path), path)
    }

    #[test]
    fn a_unix_socket_has_its_mode_and_takes_its_file_along() {
        let (address, path) = file();
        let options = Options { mode: Some(0o600), ..Options::default() };
        let listener = listen_with(&address, options).unwrap();
        assert_eq!(listener.address().unwrap(), address);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let error = listen_with(&address, options).unwrap_err();
        assert!(error.to_string().contains("another process listens there"), "{error}");
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn a_unix_socket_has_its_mode_before_a_client_can_connect() {
        let (_, path) = file();
        let options = Options { mode: Some(0o600), ..Options::default() };
        let listener = bind_at_file(&path, options).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(is_left(&path).unwrap(), "a client could connect");
        drop(listener);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_that_took_the_place_of_ours_is_left_there() {
        let (address, path) = file();
        let first = listen_with(&address, Options::default()).unwrap();
        fs::remove_file(&path).unwrap();
        let second = listen_with(&address, Options::default()).unwrap();
        drop(first);
        assert!(path.exists());
        drop(second);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_that_a_dead_process_left_is_taken_over_and_other_files_are_not() {
        let (address, path) = file();
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        assert!(path.exists());
        drop(listen_with(&address, Options::default()).unwrap());
        fs::write(&path, "precious").unwrap();
        let error = listen_with(&address, Options::default()).unwrap_err();
        assert!(error.to_string().contains("no socket"), "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
        fs::remove_file(&path).unwrap();
    }

    #[test]
    fn as_many_connections_wait_as_the_backlog_allows() {
        let (address, path) = file();
        let options = Options { backlog: 2, ..Options::default() };
        let listener = listen_with(&address, options).unwrap();
        // One more than it: the kernel refuses when there are more than so many.
        let connect = || {
            let client = Socket::new(Domain::UNIX, Type::STREAM, None).unwrap();
            client.set_nonblocking(true).unwrap();
            client.connect(&SockAddr::unix(&path).unwrap()).map(|()| client)
        };
        let waiting: Vec<Socket> = (0..3).map(|_| connect().unwrap()).collect();
        assert_eq!(connect().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        // Its process is there, however many wait for it.
        let error = listen_with(&address, options).unwrap_err();
        assert!(error.to_string().contains("another process listens there"), "{error}");
        drop((listener, waiting));
    }

    #[test]
    fn a_shared_port_can_be_listened_on_twice() {
        let options = Options { share: true, ..Options::default() };
        let first = listen_with(&"127.0.0.1:0".parse().unwrap(), options).unwrap();
        let second = listen_with(&first.address().unwrap(), options).unwrap();
        assert_eq!(first.address().unwrap(), second.address().unwrap());
    }
}
