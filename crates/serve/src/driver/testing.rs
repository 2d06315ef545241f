//! What tests of the driver have in common: services, and clients whose other end they hold.

use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use krarup_broker::broker::BrokerSettings;
use krarup_broker::queues::QueueSettings;
use krarup_broker::{Broker, Queues};
use krarup_cache::{About, Bounds, Cache};
use krarup_net::mio::net::UnixStream;
use krarup_net::mio::{Poll, Token};
use krarup_net::tls::{Acceptor, Connector, TlsIdentity};
use krarup_net::{Clock, Conn, Moved, Stream};
use krarup_proxy::{Config, Core};
use krarup_record::recorder::{Recorder, RecorderSettings};
use krarup_service::{ClientId, Service};
use krarup_units::{Nanos, Stamp};
use socket2::SockRef;

use super::clients::{Driver, DriverSettings};

pub(super) fn driver(settings: DriverSettings) -> Driver {
    Driver::new(settings, Poll::new().unwrap(), Clock::start()).unwrap()
}

pub(super) fn cache() -> Cache {
    let about = About {
        pid: 7,
        version: "0.1.0".to_owned(),
        started: Nanos::from_secs(1_700_000_000),
        host: "127.0.0.1".to_owned(),
        port: 11_211,
        connections: 2,
    };
    Cache::new(Bounds { memory: 1 << 20, item: 1 << 19 }, about)
}

/// A proxy's service before one server, which is not up.
pub(super) fn proxy() -> Core {
    let config = Config::parse("servers = [\"127.0.0.1:1\"]\n", "test").unwrap();
    let recorder = Recorder::new(RecorderSettings::default()).unwrap();
    Core::new(config.settings(), config.topology().unwrap(), recorder, Stamp(0))
}

/// A broker of messages in memory.
pub(super) fn broker() -> Broker {
    let queues = Queues::new(QueueSettings::default());
    Broker::new(BrokerSettings::default(), queues, Recorder::new(RecorderSettings::default()).unwrap())
}

/// The socket of a client that has just connected.
pub(super) fn connect(driver: &mut Driver, service: &mut impl Service) -> UnixStream {
    let (stream, client) = UnixStream::pair().unwrap();
    driver.admit(service, Stream::Unix(stream), 0);
    client
}

fn certificate(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/certificates").join(name)
}

/// For clients that speak TLS.
pub(super) fn acceptor() -> Acceptor {
    let identity = TlsIdentity { certificate: certificate("proxy.pem"), key: certificate("proxy.key") };
    Acceptor::new(&identity, None).unwrap()
}

/// For those that connect to one of these.
pub(super) fn connector() -> Connector {
    Connector::new(&certificate("authority.pem"), None).unwrap()
}

/// One of these that has just connected, and has been greeted; little fits into its socket.
pub(super) fn connect_encrypted(driver: &mut Driver, service: &mut impl Service, id: ClientId) -> Conn {
    let (stream, client) = UnixStream::pair().unwrap();
    let socket = stream.as_fd().try_clone_to_owned().unwrap();
    driver.admit(service, Stream::Unix(stream), 0);
    let mut client = Conn::accepted(Stream::Unix(client), driver.registry(), Token(0)).unwrap();
    client.encrypt_to(&connector(), "localhost").unwrap();
    client.flush().unwrap();
    while !(client.is_greeted() && driver.clients[id as usize].as_ref().unwrap().conn.is_greeted()) {
        read(driver, service, id);
        assert!(matches!(client.read(&mut [0; 8]), Moved::None));
    }
    SockRef::from(&socket).set_send_buffer_size(1).unwrap();
    client
}

/// Reads what a client has sent.
pub(super) fn read(driver: &mut Driver, service: &mut impl Service, id: ClientId) {
    driver.clients[id as usize].as_mut().unwrap().readable = true;
    driver.slice.begin();
    driver.read_client(service, id);
}

/// What a client hears that says this.
pub(super) fn answer(
    driver: &mut Driver,
    service: &mut impl Service,
    client: &mut UnixStream,
    id: ClientId,
    said: &str,
) -> String {
    client.write_all(said.as_bytes()).unwrap();
    read(driver, service, id);
    driver.write_client(service, id);
    let mut heard = [0; 256];
    let count = client.read(&mut heard).unwrap_or(0);
    String::from_utf8_lossy(&heard[..count]).into_owned()
}
