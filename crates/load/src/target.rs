//! How a connection to a server is made: the socket, then encryption, then signing in. Ready means
//! that a request may be sent.

use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::slice;
use std::time::{Duration, Instant};

use krarup_net::mio::{Registry, Token};
use krarup_net::tls::{Connector, TlsIdentity};
use krarup_net::{Conn, Moved};
use krarup_units::{Address, Mistake, Nanos};

use crate::config::{Load, LoginSettings};
use crate::queue::Hello;

/// Room for what the kernel keeps of a slow reader's answers; it takes at least as much as it
/// needs.
const LITTLE: usize = 4_096;
/// The longest line that is an answer to signing in.
const LONGEST_ANSWER: usize = 1_024;
/// How long the addresses of all names that have several may take, while one of each is chosen.
const LONGEST_LOOK: Duration = Duration::from_secs(1);

/// Where connections to one server begin.
#[derive(Clone, Debug)]
pub struct Target {
    place: Place,
    tls: Option<(Connector, String)>,
    login: Option<Vec<u8>>,
}

#[derive(Clone, Debug)]
enum Place {
    Tcp(SocketAddr),
    File(PathBuf),
}

/// A connection that is being made.
#[derive(Debug)]
pub struct Greeting {
    conn: Conn,
    connected: bool,
    /// What is still to be said.
    unsaid: Vec<u8>,
    /// The words that are good answers to each line of it, for the lines that are not answered yet.
    owed: VecDeque<&'static [&'static str]>,
    received: Vec<u8>,
}

impl Target {
    /// What encrypts the connections of a load, where they are encrypted.
    ///
    /// # Errors
    /// Which file of certificates or keys cannot be read.
    pub fn encryption(load: &Load) -> Result<Option<Connector>, Mistake> {
        let Some(tls) = &load.tls else { return Ok(None) };
        let identity = tls.identity.clone().map(|(certificate, key)| TlsIdentity { certificate, key });
        Connector::new(&tls.authorities, identity.as_ref()).map(Some)
    }

    /// The targets of a load, in their order; resolves names. Which address of a name answers is
    /// no longer looked for once the run is `stopped`.
    ///
    /// # Errors
    /// Which server cannot be found.
    pub fn all(
        load: &Load,
        encryption: Option<&Connector>,
        stopped: &mut dyn FnMut() -> bool,
    ) -> Result<Vec<Self>, Mistake> {
        let mut left = Nanos::from_seconds(load.connect_timeout).as_duration().min(LONGEST_LOOK);
        let name = |target: &Address| {
            load.tls.as_ref().and_then(|tls| tls.name.clone()).unwrap_or_else(|| target.host.clone())
        };
        let target = |target: &Address| {
            let place = match target.file() {
                Some(file) => Place::File(file.to_owned()),
                None => {
                    let found = krarup_net::resolve(target)
                        .map_err(|why| why.within(&format!("cannot connect to {target}")))?;
                    let found = reachable(&found, &mut left, stopped);
                    Place::Tcp(found.ok_or_else(|| Mistake::plain(format!("{target} has no address")))?)
                }
            };
            let tls = encryption.cloned().map(|connector| (connector, name(target)));
            // A broker is told who comes in its own words.
            let login =
                load.login.as_ref().filter(|_| !load.parts().iter().any(|part| part.workload.is_of_queue()));
            Ok(Self { place, tls, login: login.map(LoginSettings::said) })
        };
        load.targets.iter().map(target).collect()
    }

    /// Begins a connection, on which `hello` is said first; with `little`, the kernel is to keep
    /// little of what comes and is not read.
    ///
    /// # Errors
    /// From the system, when not even the attempt can be made.
    pub fn knock(
        &self,
        registry: &Registry,
        token: Token,
        hello: Option<&Hello>,
        little: bool,
    ) -> io::Result<Greeting> {
        let mut conn = match &self.place {
            Place::Tcp(address) => Conn::connect(*address, registry, token)?,
            Place::File(file) => Conn::connect_file(file, registry, token)?,
        };
        if little {
            conn.keep_little(LITTLE)?;
        }
        if let Some((connector, name)) = &self.tls {
            conn.encrypt_to(connector, name)?;
        }
        let Hello { mut said, owed } = hello.cloned().unwrap_or_default();
        let mut owed = VecDeque::from(owed);
        if let Some(login) = &self.login {
            said.splice(0..0, login.iter().copied());
            owed.push_front(&["STORED"]);
        }
        Ok(Greeting { conn, connected: false, unsaid: said, owed, received: Vec::new() })
    }
}

/// The first of a name's addresses to which a connection can be made; the first of all where there
/// is none, or only one. They share the time that is `left`, which is less afterwards.
fn reachable(
    addresses: &[SocketAddr],
    left: &mut Duration,
    stopped: &mut dyn FnMut() -> bool,
) -> Option<SocketAddr> {
    let [first, _, ..] = addresses else { return addresses.first().copied() };
    let (begun, each) = (Instant::now(), *left / addresses.len() as u32);
    let answers = |address: &SocketAddr| krarup_net::connect_any(slice::from_ref(address), each).is_ok();
    let found = addresses.iter().find(|&address| !stopped() && answers(address));
    *left = left.saturating_sub(begun.elapsed());
    Some(*found.unwrap_or(first))
}

impl Greeting {
    /// Goes on as far as it goes without waiting: whether requests may be sent.
    ///
    /// # Errors
    /// Why there will be no connection.
    pub fn advance(&mut self) -> io::Result<bool> {
        if !self.connected {
            if !self.conn.connected()? {
                return Ok(false);
            }
            self.connected = true;
        }
        if self.conn.is_waiting() {
            self.conn.flush()?;
        }
        if self.conn.is_greeted() && self.owed.is_empty() {
            return Ok(true);
        }
        self.receive()?;
        if !self.conn.is_greeted() {
            return Ok(false);
        }
        while !self.unsaid.is_empty() {
            match self.conn.write(&self.unsaid) {
                Moved::Some(count) => drop(self.unsaid.drain(..count)),
                // What is answered to the first lines is taken meanwhile.
                Moved::None => break,
                Moved::Closed => return Err(ErrorKind::UnexpectedEof.into()),
                Moved::Failed(error) => return Err(error),
            }
        }
        while let (Some(end), Some(good)) =
            (self.received.windows(2).position(|pair| pair == b"\r\n"), self.owed.front())
        {
            let line = &self.received[..end];
            let word = line.split(|&byte| byte == b' ').next().unwrap_or_default();
            if !good.iter().any(|good| good.as_bytes() == word) {
                let to = if *good == ["STORED"] { "the user and password" } else { "what is said first" };
                return Err(io::Error::new(
                    ErrorKind::PermissionDenied,
                    format!("the server answered `{}` to {to}", line.escape_ascii()),
                ));
            }
            self.received.drain(..end + 2);
            self.owed.pop_front();
        }
        if self.received.len() > LONGEST_ANSWER {
            return Err(io::Error::other("the server said what is no answer to signing in"));
        }
        Ok(self.owed.is_empty())
    }

    fn receive(&mut self) -> io::Result<()> {
        let mut room = [0; 256];
        loop {
            match self.conn.read(&mut room) {
                Moved::Some(count) => {
                    self.received.extend_from_slice(&room[..count]);
                    // What was said is answered with less than this.
                    if self.received.len() > LONGEST_ANSWER * (1 + self.owed.len()) {
                        return Err(io::Error::other("the server said what is no answer to signing in"));
                    }
                }
                Moved::None => return Ok(()),
                Moved::Closed => {
                    return Err(io::Error::new(
                        ErrorKind::UnexpectedEof,
                        "the server closed the connection before a request could be sent",
                    ));
                }
                Moved::Failed(error) => return Err(error),
            }
        }
    }

    /// The connection, ready for requests.
    pub fn into_conn(self) -> Conn {
        self.conn
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;

    #[test]
    fn of_several_addresses_the_first_that_takes_a_connection_is_the_target() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = server.local_addr().unwrap();
        // The listener has this port at one address only.
        let closed = [2, 3].map(|last| SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), open.port())));
        let found = |addresses: &[SocketAddr]| {
            let mut left = LONGEST_LOOK;
            reachable(addresses, &mut left, &mut || false)
        };
        assert_eq!(found(&[closed[0], open]), Some(open));
        assert_eq!(found(&[open, closed[0]]), Some(open));
        assert_eq!(found(&closed), Some(closed[0]));
        assert_eq!(found(&closed[..1]), Some(closed[0]), "one address is not asked");
        assert_eq!(found(&[]), None);
    }

    #[test]
    fn no_address_is_looked_for_once_the_run_is_stopped_or_the_time_for_it_is_over() {
        let server = TcpListener::bind("127.0.0.1:0").unwrap();
        let open = server.local_addr().unwrap();
        let [first, other] =
            [2, 3].map(|last| SocketAddr::from((Ipv4Addr::new(127, 0, 0, last), open.port())));
        let (mut left, mut asked) = (LONGEST_LOOK, 0);
        let mut stopped = || {
            asked += 1;
            asked > 2
        };
        assert_eq!(reachable(&[first, other, open], &mut left, &mut stopped), Some(first));
        assert_eq!(asked, 3, "before each address");
        assert!(left < LONGEST_LOOK, "the next name has less");
        left = Duration::ZERO;
        assert_eq!(reachable(&[first, open], &mut left, &mut || false), Some(first));
    }
}
