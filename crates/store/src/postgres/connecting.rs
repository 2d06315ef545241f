//! A new connection: every host is asked, in the order in which they were given, until one will do.
//!
//! ```text
//! hosts ──▶ addresses of each (looked up now) ──▶ with or without TLS ──▶ which role has it?
//!                                                                      it takes writes: done
//! ```
//!
//! Nothing is remembered between two connections. So the first after a fail-over finds the new
//! primary, also where a name means another address now.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::task::Poll;

use krarup_units::Mistake;
use tokio_postgres::config::{SslMode, SslNegotiation};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Error, SimpleQueryMessage, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::failure::ConnectionFailure;
use super::parameters::{ConnectionParameters, DatabaseServer, Encryption, TargetSession};

/// The other end of a session.
pub(super) type SessionConnection = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// Whether a server takes writes now, and whether it could.
const ROLE: &str = "SELECT pg_catalog.pg_is_in_recovery() OR pg_catalog.current_setting('transaction_read_only') = 'on', \
            pg_catalog.pg_is_in_recovery()";

/// What a server is for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ServerRole {
    Writes,
    /// A primary that refuses writes for now.
    Refuses,
    Standby,
}

/// A new session.
pub(super) struct ServerSession {
    pub(super) client: Client,
    pub(super) connection: SessionConnection,
    /// The server that let us in, with the address at which it did.
    pub(super) server: DatabaseServer,
    /// What an operator should know where TLS was tried before, and failed.
    pub(super) unencrypted: Option<String>,
}

/// What went wrong with each attempt, and where.
type Failures = Vec<(String, ConnectionFailure)>;

/// Connects to the first server that will do.
///
/// # Errors
/// What went wrong with each, and what would do.
pub(super) async fn connect(parameters: &ConnectionParameters) -> Result<ServerSession, Mistake> {
    let resolve = async |host: &str, port: u16| -> io::Result<Vec<IpAddr>> {
        // The library connects to an address alone, which is none without its zone.
        if host.contains('%') {
            return Err(io::Error::other("an address with a zone (%) cannot be used: give a routed one"));
        }
        Ok(tokio::net::lookup_host((host, port)).await?.map(|address| address.ip()).collect())
    };
    connect_by(parameters, resolve).await
}

async fn connect_by(
    parameters: &ConnectionParameters,
    mut resolve: impl AsyncFnMut(&str, u16) -> io::Result<Vec<IpAddr>>,
) -> Result<ServerSession, Mistake> {
    let mut failures: Failures = Vec::new();
    let mut refuses = None;
    for server in &parameters.servers {
        let addresses = match server.address {
            _ if server.is_socket() => vec![None],
            Some(address) => vec![Some(address)],
            None => match resolve(&server.host, server.port).await {
                Ok(found) => found.into_iter().map(Some).collect(),
                Err(error) => {
                    failures.push((server.to_string(), ConnectionFailure::Unresolved(error.to_string())));
                    continue;
                }
            },
        };
        for address in addresses {
            let (session, role) = match enter(parameters, server, address).await {
                Ok(entered) => entered,
                Err(its) => {
                    failures.extend(its);
                    continue;
                }
            };
            match (parameters.target, role) {
                (TargetSession::Any, _)
                | (_, ServerRole::Writes)
                | (TargetSession::Primary, ServerRole::Refuses) => {
                    return Ok(session);
                }
                (_, ServerRole::Refuses) => {
                    failures.push((server.to_string(), ConnectionFailure::ReadsOnly));
                    refuses.get_or_insert(session);
                }
                (_, ServerRole::Standby) => {
                    failures.push((server.to_string(), ConnectionFailure::Standby));
                }
            }
        }
    }
    // Where there is no choice, the database itself says what it refuses. A standby would be
    // behind, and the name that means it now may soon mean the primary.
    match refuses {
        Some(session) if parameters.target == TargetSession::Writer => Ok(session),
        _ => Err(ConnectionFailure::of_all(&failures)),
    }
}

/// With or without TLS, in the order in which it is tried.
fn ways(encryption: Encryption, server: &DatabaseServer) -> &'static [SslMode] {
    match encryption {
        // PostgreSQL speaks no TLS over a socket of the machine.
        _ if server.is_socket() => &[SslMode::Disable],
        Encryption::Disable => &[SslMode::Disable],
        Encryption::Allow => &[SslMode::Disable, SslMode::Require],
        Encryption::Prefer => &[SslMode::Require, SslMode::Disable],
        Encryption::Require => &[SslMode::Require],
    }
}

/// A session with this server, and its role.
async fn enter(
    parameters: &ConnectionParameters,
    server: &DatabaseServer,
    address: Option<IpAddr>,
) -> Result<(ServerSession, ServerRole), Failures> {
    let mut failures: Failures = Vec::new();
    let ways = ways(parameters.encryption, server);
    for (place, &mode) in ways.iter().enumerate() {
        let attempt = enter_once(parameters, server, address, mode);
        let outcome = match parameters.connect_timeout {
            None => attempt.await,
            Some(limit) => {
                let within = tokio::time::timeout(limit, attempt).await;
                within.unwrap_or(Err(ConnectionFailure::NoAnswer(limit)))
            }
        };
        match outcome {
            Ok((session, role)) => {
                let failed = failures.last().filter(|_| mode == SslMode::Disable);
                let unencrypted = failed.and_then(|(server, failure)| failure.without_tls(server));
                return Ok((ServerSession { unencrypted, ..session }, role));
            }
            Err(failure) => {
                let other_way = failure.may_differ_with_tls() && place + 1 < ways.len();
                // Where TLS is not a must, it is no failure that there is none.
                if !other_way || failure != ConnectionFailure::NoTls {
                    failures.push((server.to_string(), failure));
                }
                if !other_way {
                    break;
                }
            }
        }
    }
    Err(failures)
}

async fn enter_once(
    parameters: &ConnectionParameters,
    server: &DatabaseServer,
    address: Option<IpAddr>,
    mode: SslMode,
) -> Result<(ServerSession, ServerRole), ConnectionFailure> {
    let password = parameters.password_for(server);
    let config = config(parameters, server, address, (mode, password.as_deref()));
    let tls = parameters.tls_config(mode != SslMode::Disable).map_err(ConnectionFailure::File)?;
    let failed = |error: Error| ConnectionFailure::of(&error, parameters, mode);
    let connecting = config.connect(ServerTls(MakeRustlsConnect::new(tls)));
    let (client, mut connection) = connecting.await.map_err(failed)?;
    let role = match parameters.target {
        // It is not asked: what asks a pooler for two connections counts on being the first to use
        // each.
        TargetSession::Any => ServerRole::Writes,
        _ => role(&client, &mut connection).await.map_err(failed)?,
    };
    let server = DatabaseServer { address, ..server.clone() };
    Ok((ServerSession { client, connection, server, unencrypted: None }, role))
}

fn config(
    parameters: &ConnectionParameters,
    server: &DatabaseServer,
    address: Option<IpAddr>,
    (mode, password): (SslMode, Option<&str>),
) -> Config {
    let mut config = Config::new();
    config
        .user(&parameters.user)
        .dbname(&parameters.database)
        .application_name(&parameters.application)
        .port(server.port)
        .ssl_mode(mode)
        .channel_binding(parameters.binding)
        .keepalives(parameters.keepalive.on)
        .keepalives_idle(parameters.keepalive.idle)
        .keepalives_interval(parameters.keepalive.interval)
        .tcp_user_timeout(parameters.keepalive.unacknowledged);
    if mode == SslMode::Require {
        config.ssl_negotiation(parameters.negotiation);
    } else {
        config.ssl_negotiation(SslNegotiation::Postgres);
    }
    match address {
        None => config.host_path(&server.host),
        Some(address) => config.host(&server.host).hostaddr(address),
    };
    if let Some(count) = parameters.keepalive.count {
        config.keepalives_retries(count);
    }
    if let Some(options) = &parameters.options {
        config.options(options);
    }
    if let Some(password) = password {
        config.password(password);
    }
    config
}

/// Which role the server has. Nothing is prepared: behind a pooler that would be in another
/// session.
async fn role(client: &Client, connection: &mut SessionConnection) -> Result<ServerRole, Error> {
    let mut asked = pin!(client.simple_query(ROLE));
    let rows = poll_fn(|context| {
        if let Poll::Ready(Err(error)) = Pin::new(&mut *connection).poll(context) {
            return Poll::Ready(Err(error));
        }
        asked.as_mut().poll(context)
    })
    .await?;
    let is = |column: usize| {
        rows.iter().any(|row| match row {
            SimpleQueryMessage::Row(row) => row.get(column) == Some("t"),
            _ => false,
        })
    };
    Ok(match (is(0), is(1)) {
        (_, true) => ServerRole::Standby,
        (true, false) => ServerRole::Refuses,
        (false, false) => ServerRole::Writes,
    })
}

/// The glue's connector, which is asked for one also where no TLS will be spoken and there is no
/// name.
struct ServerTls(MakeRustlsConnect);

impl MakeTlsConnect<Socket> for ServerTls {
    type Stream = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;
    type TlsConnect = <MakeRustlsConnect as MakeTlsConnect<Socket>>::TlsConnect;
    type Error = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Error;

    fn make_tls_connect(&mut self, name: &str) -> Result<Self::TlsConnect, Self::Error> {
        let name = if name.is_empty() { "localhost" } else { name };
        <MakeRustlsConnect as MakeTlsConnect<Socket>>::make_tls_connect(&mut self.0, name)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;
    use std::net::{Ipv4Addr, TcpListener};

    use super::*;
    use crate::postgres::parameters::ProcessEnvironment;

    fn parameters(text: &str) -> ConnectionParameters {
        ConnectionParameters::read(text, &ProcessEnvironment::default()).unwrap()
    }

    fn block_on<T>(what: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(what)
    }

    /// A port of this machine where nothing listens.
    fn silent_port() -> u16 {
        TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
    }

    #[test]
    fn a_name_is_looked_up_at_each_connection_and_every_address_of_it_is_tried() {
        let port = silent_port();
        let parameters = parameters(&format!("postgres://u@first,second:{port}/d?port={port},{port}"));
        let asked = RefCell::new(Vec::new());
        for round in 1..=2_u8 {
            let failed = block_on(connect_by(&parameters, async |host, _| {
                asked.borrow_mut().push(host.to_owned());
                match host {
                    "first" => {
                        Ok(vec![Ipv4Addr::LOCALHOST.into(), Ipv4Addr::new(127, 0, 0, round + 1).into()])
                    }
                    _ => Err(io::Error::other("no such name")),
                }
            }));
            let why = failed.err().unwrap();
            assert_eq!(why.what.matches("refuses connections").count(), 2, "{why}");
            assert!(why.what.contains(&format!("second:{port}: its name")), "{why}");
        }
        assert_eq!(asked.into_inner(), ["first", "second", "first", "second"]);
    }

    #[test]
    fn an_address_with_a_zone_is_refused_with_that_reason() {
        let parameters = parameters("host=fe80::1%1 port=1 user=u dbname=d");
        let why = block_on(connect(&parameters)).err().unwrap();
        assert!(why.what.contains("an address with a zone (%) cannot be used"), "{why}");
    }

    #[test]
    fn the_order_of_ways_is_that_of_the_mode() {
        let server = |host: &str| DatabaseServer { host: host.into(), address: None, port: 1 };
        let network = |encryption| ways(encryption, &server("db.example")).to_vec();
        assert_eq!(network(Encryption::Disable), [SslMode::Disable]);
        assert_eq!(network(Encryption::Allow), [SslMode::Disable, SslMode::Require]);
        assert_eq!(network(Encryption::Prefer), [SslMode::Require, SslMode::Disable]);
        assert_eq!(network(Encryption::Require), [SslMode::Require]);
        assert_eq!(ways(Encryption::Require, &server("/run/pg")), [SslMode::Disable]);
    }

    #[test]
    fn the_kernel_is_told_how_to_notice_a_server_that_vanishes() {
        let watch = |words: &str| {
            let parameters = parameters(&format!("postgres://u@db.example/d{words}"));
            let config = config(&parameters, &parameters.servers[0], None, (SslMode::Disable, None));
            let (idle, interval) = (config.get_keepalives_idle(), config.get_keepalives_interval());
            let unacknowledged = config.get_tcp_user_timeout().copied();
            [Some(idle), interval, unacknowledged].map(|time| time.unwrap().as_secs())
        };
        assert_eq!(watch(""), [5, 2, 10]);
        let given = "?keepalives_idle=60&keepalives_interval=20&tcp_user_timeout=90000";
        assert_eq!(watch(given), [60, 20, 90]);
    }

    #[test]
    fn a_server_that_says_nothing_is_given_up_after_the_limit() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = silent.local_addr().unwrap().port();
        let mut parameters = parameters(&format!("postgres://u@127.0.0.1:{port}/d"));
        parameters.connect_timeout = Some(std::time::Duration::from_millis(20));
        let why = block_on(connect(&parameters)).err().unwrap();
        assert!(why.what.contains("does not answer"), "{why}");
    }
}
