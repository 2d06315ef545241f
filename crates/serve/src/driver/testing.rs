//! What tests of the driver have in common: services, and clients whose other end they hold.

use std::io::{Read, Write};

use krarup_cache::{About, Bounds, Cache};
use krarup_net::mio::Poll;
use krarup_net::mio::net::UnixStream;
use krarup_net::{Clock, Stream};
use krarup_proxy::{Config, Core};
use krarup_record::recorder::{Recorder, RecorderSettings};
use krarup_service::{ClientId, Service};
use krarup_units::{Nanos, Stamp};

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

/// The socket of a client that has just connected.
pub(super) fn connect(driver: &mut Driver, service: &mut impl Service) -> UnixStream {
    let (stream, client) = UnixStream::pair().unwrap();
    driver.admit(service, Stream::Unix(stream), 0);
    client
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
    driver.clients[id as usize].as_mut().unwrap().readable = true;
    driver.slice.begin();
    driver.read_client(service, id);
    driver.write_client(service, id);
    let mut heard = [0; 256];
    let count = client.read(&mut heard).unwrap_or(0);
    String::from_utf8_lossy(&heard[..count]).into_owned()
}
