//! Encrypted connections: certificates from files, and what stands between a socket and its plain
//! bytes.
//!
//! Both sides speak TLS 1.2 and 1.3. A server's certificate is checked against the authorities of
//! one file and nothing else: an operator of caches has an authority of its own.

use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use krarup_units::Mistake;
use rustls::client::verify_server_cert_signed_by_trust_anchor;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::{ParsedCertificate, WebPkiClientVerifier};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, Connection, RootCertStore, ServerConfig,
    ServerConnection,
};

use crate::moved::Moved;
use crate::snapshots::lock;
use crate::stream::Stream;

/// A certificate and its private key, in PEM files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsIdentity {
    /// The certificate, and those that lead from it to its authority.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
}

/// Makes the sessions of clients that connect to us. Clones share their certificate: one reload
/// holds for all.
#[derive(Clone, Debug)]
pub struct Acceptor(Arc<Greeting>);

#[derive(Debug)]
struct Greeting {
    identity: TlsIdentity,
    /// The authorities of clients.
    clients: Option<PathBuf>,
    config: RwLock<Arc<ServerConfig>>,
    /// Reloads go one after the other: the files that were read last are those that are shown.
    reloading: Mutex<()>,
}

/// Greets those we connect to.
#[derive(Clone, Debug)]
pub struct Connector(Arc<ClientConfig>);

impl Acceptor {
    /// Shows `identity`; where `clients` is a file of authorities, a client must show a
    /// certificate of one of them.
    ///
    /// # Errors
    /// Names the file and what is wrong with it.
    pub fn new(identity: &TlsIdentity, clients: Option<&Path>) -> Result<Self, Mistake> {
        let config = RwLock::new(server_config(identity, clients)?);
        let (identity, clients) = (identity.clone(), clients.map(Path::to_owned));
        Ok(Self(Arc::new(Greeting { identity, clients, config, reloading: Mutex::default() })))
    }

    /// Reads its files again: who connects from now on is shown what they hold; sessions go on as
    /// they are. A warning where the certificate does no good.
    ///
    /// # Errors
    /// Names the file and what is wrong with it; what was read before goes on.
    pub fn reload(&self) -> Result<Option<String>, Mistake> {
        let _alone = lock(&self.0.reloading);
        let config = server_config(&self.0.identity, self.0.clients.as_deref())?;
        *self.0.config.write().unwrap_or_else(PoisonError::into_inner) = config;
        Ok(outdated(&self.0.identity.certificate))
    }

    /// A session with a client that has just connected.
    ///
    /// # Errors
    /// From the library.
    pub(crate) fn session(&self) -> io::Result<TlsSession> {
        let config = self.0.config.read().unwrap_or_else(PoisonError::into_inner).clone();
        let connection = ServerConnection::new(config).map_err(io::Error::other)?;
        Ok(TlsSession::new(connection.into()))
    }
}

impl Connector {
    /// Trusts the authorities in `trusted`, and shows `identity` to who asks for it.
    ///
    /// # Errors
    /// Names the file and what is wrong with it.
    pub fn new(trusted: &Path, identity: Option<&TlsIdentity>) -> Result<Self, Mistake> {
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(authorities(trusted)?);
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = read(identity)?;
                builder.with_client_auth_cert(chain, key).map_err(|error| unusable(identity, &error))?
            }
        };
        Ok(Self(Arc::new(config)))
    }

    /// A session with the host `name`, whose certificate must be made out to that.
    ///
    /// # Errors
    /// The name is no host's.
    pub(crate) fn session(&self, name: &str) -> io::Result<TlsSession> {
        let name = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
        let connection = ClientConnection::new(self.0.clone(), name).map_err(io::Error::other)?;
        Ok(TlsSession::new(connection.into()))
    }
}

/// Why every peer refuses the certificate of this file now: it has expired, or is not valid yet.
/// None where its dates are good, and where it cannot be read, which [`Acceptor::new`] says.
pub fn outdated(file: &Path) -> Option<String> {
    let chain = certificates(file).ok()?;
    let certificate = ParsedCertificate::try_from(chain.first()?).ok()?;
    let algorithms = ring::default_provider().signature_verification_algorithms.all;
    // Its dates are looked at before its authority, of which there is none here.
    let no_authority = RootCertStore::empty();
    let now = UnixTime::now();
    let found = verify_server_cert_signed_by_trust_anchor(&certificate, &no_authority, &[], now, algorithms);
    let Err(rustls::Error::InvalidCertificate(why)) = found else { return None };
    let what = match why {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => "has expired",
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => "is not valid yet",
        _ => return None,
    };
    Some(format!("the certificate in {} {what}: every client that checks it will refuse it", file.display()))
}

fn server_config(identity: &TlsIdentity, clients: Option<&Path>) -> Result<Arc<ServerConfig>, Mistake> {
    let provider = Arc::new(ring::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|error| error.to_string())?;
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(authorities(file)?), provider)
                    .build()
                    .map_err(|error| format!("{}: {error}", file.display()))?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let (chain, key) = read(identity)?;
    let config = builder.with_single_cert(chain, key).map_err(|error| unusable(identity, &error))?;
    Ok(Arc::new(config))
}

pub(crate) fn unusable(identity: &TlsIdentity, error: &rustls::Error) -> String {
    format!("{} cannot be used with {}: {error}", identity.certificate.display(), identity.key.display())
}

pub(crate) fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, Mistake> {
    let wrong = |error: &dyn std::fmt::Display| {
        let what = format!("no certificate can be read from {}: {error}", file.display());
        Mistake::new(what, "give a file of certificates in PEM, each from its BEGIN to its END line")
    };
    let found = CertificateDer::pem_file_iter(file).map_err(|error| wrong(&error))?;
    let found = found.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(&error))?;
    if found.is_empty() { Err(wrong(&"there is none in it")) } else { Ok(found) }
}

fn authorities(file: &Path) -> Result<RootCertStore, Mistake> {
    let mut store = RootCertStore::empty();
    for certificate in certificates(file)? {
        store.add(certificate).map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(store)
}

pub(crate) fn read(
    identity: &TlsIdentity,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), Mistake> {
    let key = PrivateKeyDer::from_pem_file(&identity.key).map_err(|error| no_key(&identity.key, &error))?;
    Ok((certificates(&identity.certificate)?, key))
}

/// Why no private key can be read from this file.
fn no_key(file: &Path, error: &dyn std::fmt::Display) -> Mistake {
    let file_name = file.display();
    // Either form of an encrypted key says so in plain text.
    if std::fs::read_to_string(file).is_ok_and(|text| text.contains("ENCRYPTED")) {
        return Mistake::new(
            format!("the private key in {file_name} is encrypted, and no password can be given"),
            format!(
                "write it without one, and let this user alone read it: openssl pkey -in {file_name} -out FILE"
            ),
        );
    }
    let what = format!("no private key can be read from {file_name}: {error}");
    Mistake::new(what, "give a file of one private key in PEM, from its BEGIN to its END line")
}

/// Encrypted bytes of one connection that wait for the socket are at most about this many.
const WAITING: usize = 256 << 10;

/// One encrypted connection, without its socket.
#[derive(Debug)]
pub(crate) struct TlsSession {
    session: Connection,
    /// Whether the end of what the peer says was read: no readiness will tell of it again.
    ended: bool,
    /// What broke the connection behind bytes that are still to be read.
    failed: Option<io::Error>,
    /// How many written bytes wait for the socket, but for what encryption adds.
    waiting: usize,
    /// How many encrypted bytes the socket has taken.
    sent: u64,
}

impl TlsSession {
    fn new(mut session: Connection) -> Self {
        session.set_buffer_limit(Some(WAITING));
        Self { session, ended: false, failed: None, waiting: 0, sent: 0 }
    }

    /// Whether the peer has said its last, and that was read; also where the connection broke
    /// behind it.
    pub(crate) fn has_ended(&self) -> bool {
        self.ended
    }

    /// Whether both sides have greeted each other.
    pub(crate) fn is_greeted(&self) -> bool {
        !self.session.is_handshaking()
    }

    /// Whether encrypted bytes wait for the socket.
    pub(crate) fn is_waiting(&self) -> bool {
        self.session.wants_write()
    }

    /// About how many they are.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting
    }

    /// How many encrypted bytes the socket has taken.
    pub(crate) fn sent(&self) -> u64 {
        self.sent
    }

    /// Gives the socket what waits for it; whether all has left.
    pub(crate) fn flush(&mut self, stream: &mut Stream) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(stream) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.waiting = self.waiting.saturating_sub(count);
                    self.sent += count as u64;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.waiting = 0;
        Ok(true)
    }

    /// Reads plain bytes into `room` until it is full or the socket is empty: fewer than there was
    /// room for means that it is, or that the peer [has said its last](Self::has_ended).
    pub(crate) fn read(&mut self, stream: &mut Stream, room: &mut [u8]) -> Moved {
        let mut filled = 0;
        loop {
            match self.session.reader().read(&mut room[filled..]) {
                Ok(0) => return self.end(filled),
                Ok(count) => {
                    filled += count;
                    if filled == room.len() {
                        return Moved::Some(filled);
                    }
                    continue;
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The peer has closed without saying so; what came before counts all the same.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return self.end(filled),
                Err(error) => self.failed = Some(error),
            }
            if let Some(error) = self.failed.take() {
                if filled == 0 {
                    return Moved::Failed(error);
                }
                // What came before counts here too; the next read finds the failure.
                (self.ended, self.failed) = (true, Some(error));
                return Moved::Some(filled);
            }
            match self.session.read_tls(stream) {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return if filled > 0 { Moved::Some(filled) } else { Moved::None };
                }
                Err(error) => {
                    self.failed = Some(error);
                    continue;
                }
            }
            let understood = self.session.process_new_packets();
            // Its part of the greeting, or the reason why there will be none. Where it fails later,
            // what the peer said before is still to be read, and the end of it tells the same.
            let sent = self.flush(stream).err().filter(|_| self.session.is_handshaking());
            self.failed = understood.err().map(io::Error::other).or(sent);
        }
    }

    /// The peer has said its last, after so many bytes that are read just now.
    fn end(&mut self, filled: usize) -> Moved {
        self.ended = true;
        if filled > 0 { Moved::Some(filled) } else { Moved::Closed }
    }

    /// Takes plain bytes until there are no more or the socket has no more room: fewer than there
    /// were means that it has none.
    pub(crate) fn write(&mut self, stream: &mut Stream, bytes: &[u8]) -> Moved {
        let mut taken = 0;
        loop {
            let more = match self.session.writer().write(&bytes[taken..]) {
                Ok(more) => more,
                Err(error) => return Moved::Failed(error),
            };
            taken += more;
            self.waiting += more;
            match self.flush(stream) {
                Err(error) => return Moved::Failed(error),
                Ok(true) if more > 0 && taken < bytes.len() => {}
                Ok(_) if taken == 0 => return Moved::None,
                Ok(_) => return Moved::Some(taken),
            }
        }
    }

    /// Says that nothing more will be written.
    pub(crate) fn finish(&mut self, stream: &mut Stream) {
        self.session.send_close_notify();
        let _ = self.flush(stream);
    }
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    use rustix::event::{PollFd, PollFlags, poll};
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use rustix::net::{SendFlags, send};

    use super::*;
    use crate::conn::Conn;

    fn file(name: &str) -> PathBuf {
        PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../cli/tests/certificates")).join(name)
    }

    /// A server and its client that have greeted each other.
    fn greeted() -> (Conn, Conn) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let [mut server, mut client] = [listener.accept().unwrap().0, client].map(|stream| {
            stream.set_nonblocking(true).unwrap();
            Conn::alone(mio::net::TcpStream::from_std(stream).into()).unwrap()
        });
        let identity = TlsIdentity { certificate: file("proxy.pem"), key: file("proxy.key") };
        server.encrypt_accepted(&Acceptor::new(&identity, None).unwrap()).unwrap();
        client.encrypt_to(&Connector::new(&file("authority.pem"), None).unwrap(), "localhost").unwrap();
        client.flush().unwrap();
        while !(server.is_greeted() && client.is_greeted()) {
            for side in [&mut server, &mut client] {
                assert!(matches!(side.read(&mut [0; 8]), Moved::None));
            }
        }
        (server, client)
    }

    #[test]
    fn what_came_before_a_failure_is_read_first() {
        for no_tls in [&b""[..], b"no TLS"] {
            let (mut server, mut client) = greeted();
            assert!(matches!(client.write(b"hello"), Moved::Some(5)));
            assert_eq!(send(client.stream(), no_tls, SendFlags::empty()).unwrap(), no_tls.len());
            client.reset();
            // Nothing is waited for but the reset.
            poll(&mut [PollFd::new(server.stream(), PollFlags::empty())], None).unwrap();
            let mut room = [0; 3];
            assert!(matches!(server.read(&mut room), Moved::Some(3)));
            assert_eq!((&room, server.has_ended()), (b"hel", false));
            assert!(matches!(server.read(&mut room), Moved::Some(2)));
            assert_eq!((&room[..2], server.has_ended()), (&b"lo"[..], true));
            assert!(matches!(server.read(&mut room), Moved::Failed(_)));
        }
    }

    #[test]
    fn what_came_before_a_failure_is_read_also_where_bytes_wait_to_be_written() {
        const SAID: usize = 32 << 10;
        let (mut server, mut client) = greeted();
        assert!(matches!(server.write(&vec![b'v'; SAID]), Moved::Some(SAID)));
        while !client.is_waiting() {
            assert!(matches!(client.write(&vec![b'v'; 64 << 10]), Moved::Some(_)));
        }
        server.reset();
        poll(&mut [PollFd::new(client.stream(), PollFlags::empty())], None).unwrap();
        assert!(matches!(client.write(b"v"), Moved::Failed(_)));
        let (mut room, mut heard) = ([0; 8 << 10], 0);
        while let Moved::Some(count) = client.read(&mut room) {
            heard += count;
        }
        assert_eq!(heard, SAID);
    }

    /// Files that are renewed between the read of one reload and its end are read by the next.
    #[test]
    fn a_reload_is_alone_from_the_first_byte_that_it_reads() {
        let certificate = std::env::temp_dir().join(format!("krarup-tls-{}.pem", std::process::id()));
        fs::copy(file("proxy.pem"), &certificate).unwrap();
        let identity = TlsIdentity { certificate: certificate.clone(), key: file("proxy.key") };
        let acceptor = Acceptor::new(&identity, None).unwrap();
        fs::remove_file(&certificate).unwrap();
        mknodat(CWD, &certificate, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        thread::scope(|scope| {
            let first = scope.spawn(|| acceptor.reload());
            // Opens once the other end is read.
            let mut pipe = File::options().write(true).open(&certificate).unwrap();
            assert!(acceptor.0.reloading.try_lock().is_err());
            fs::remove_file(&certificate).unwrap();
            fs::copy(file("proxy.pem"), &certificate).unwrap();
            pipe.write_all(&fs::read(&certificate).unwrap()).unwrap();
            drop(pipe);
            assert_eq!(first.join().unwrap().unwrap(), None);
        });
        assert!(acceptor.0.reloading.try_lock().is_ok());
        fs::remove_file(&certificate).unwrap();
    }

    #[test]
    fn a_key_with_a_password_is_named_in_either_of_its_forms() {
        let key = std::env::temp_dir().join(format!("krarup-key-{}.pem", std::process::id()));
        let identity = TlsIdentity { certificate: file("proxy.pem"), key: key.clone() };
        let pkcs8 = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
        let older = "-----BEGIN EC PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,AA\n\n\
                     AAAA\n-----END EC PRIVATE KEY-----\n";
        for (text, says) in [(pkcs8, "is encrypted"), (older, "is encrypted"), ("", "can be read from")] {
            fs::write(&key, text).unwrap();
            let why = read(&identity).err().unwrap();
            assert!(why.what.contains(says) && !why.hint.is_empty(), "{why}");
        }
        fs::remove_file(&key).unwrap();
    }

    #[test]
    fn a_certificate_whose_time_is_over_is_reported_and_a_good_one_is_not() {
        let told = outdated(&file("expired.pem")).expect("its time is over");
        assert!(told.contains("expired.pem has expired"), "{told}");
        for good in ["proxy.pem", "stranger.pem", "authority.pem", "proxy.key", "no-such-file.pem"] {
            assert_eq!(outdated(&file(good)), None, "{good}");
        }
    }
}
