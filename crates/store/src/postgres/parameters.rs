//! How a database is reached: what was given, what its service says, what the environment says,
//! and what is so where nothing is said. In this order, as libpq has it.
//!
//! Files are read when a connection is made, and not before: a password or a certificate that was
//! changed holds from the next connection on.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use krarup_net::tls::TlsIdentity;
use krarup_net::trust::{Authorities, CertificateCheck, ClientConfig, TlsClientSettings, TlsVersions};
use krarup_units::Mistake;
use tokio_postgres::config::{ChannelBinding, SslNegotiation};

use super::conninfo::{self, KEYWORDS, KeywordUse, Keywords};

/// How long an attempt may take, until the server has let us in.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
const PORT: u16 = 5432;
/// Where PostgreSQL puts its sockets: as Debian and Red Hat build it, and as it is by itself.
const SOCKETS: [&str; 2] = ["/var/run/postgresql", "/tmp"];

/// What the process was started with that says how a database is reached.
#[derive(Clone, Default)]
pub struct ProcessEnvironment {
    /// The variables that begin with `PG`.
    pub variables: BTreeMap<String, String>,
    /// The home directory of the user.
    pub home: Option<PathBuf>,
    /// The user's name.
    pub user: Option<String>,
}

impl ProcessEnvironment {
    /// That of this process.
    pub fn own() -> Self {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)))
            .filter(|(name, _)| name.starts_with("PG"));
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty()).map(PathBuf::from);
        Self { variables: variables.collect(), home, user: whoami::username().ok() }
    }

    fn of_home(&self, name: &str) -> Option<PathBuf> {
        self.home.as_ref().map(|home| home.join(name))
    }
}

impl fmt::Debug for ProcessEnvironment {
    /// One of its variables is a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProcessEnvironment").field("home", &self.home).finish_non_exhaustive()
    }
}

/// When the connection is encrypted, as `sslmode` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encryption {
    Disable,
    Allow,
    Prefer,
    Require,
}

/// Which of several servers will do, as `target_session_attrs` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TargetSession {
    /// Nothing was said: one that takes writes. Where none does, a primary that refuses them for
    /// now.
    Writer,
    /// One that takes writes.
    ReadWrite,
    /// One that is no standby.
    Primary,
    /// Any: it is known, and asked for nothing.
    Any,
}

/// One of the servers to try.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DatabaseServer {
    /// Its name, or the folder of its socket.
    pub(super) host: String,
    /// Where it is, if its name is not to be looked up.
    pub(super) address: Option<IpAddr>,
    pub(super) port: u16,
}

impl DatabaseServer {
    pub(super) fn is_socket(&self) -> bool {
        self.address.is_none() && self.host.starts_with('/')
    }
}

impl fmt::Display for DatabaseServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_socket() {
            return write!(f, "{}/.s.PGSQL.{}", self.host, self.port);
        }
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// TCP's own watch over a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Keepalive {
    pub(super) on: bool,
    pub(super) idle: Duration,
    pub(super) interval: Duration,
    pub(super) count: Option<u32>,
    pub(super) unacknowledged: Duration,
}

/// How a database is reached.
#[derive(Clone)]
pub(super) struct ConnectionParameters {
    pub(super) servers: Vec<DatabaseServer>,
    pub(super) user: String,
    pub(super) database: String,
    pub(super) password: Option<String>,
    pub(super) passwords: Option<PathBuf>,
    pub(super) options: Option<String>,
    pub(super) application: String,
    pub(super) encryption: Encryption,
    pub(super) negotiation: SslNegotiation,
    pub(super) binding: ChannelBinding,
    pub(super) tls: TlsClientSettings,
    pub(super) target: TargetSession,
    /// None: an attempt may take for ever.
    pub(super) connect_timeout: Option<Duration>,
    pub(super) keepalive: Keepalive,
}

impl fmt::Debug for ConnectionParameters {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionParameters")
            .field("servers", &self.servers)
            .field("user", &self.user)
            .field("database", &self.database)
            .finish_non_exhaustive()
    }
}

impl ConnectionParameters {
    /// Reads an address; what it does not say comes from its service, the environment, or is as it
    /// is by itself.
    ///
    /// # Errors
    /// Names the keyword that is wrong, never its value.
    pub(super) fn read(text: &str, environment: &ProcessEnvironment) -> Result<Self, Mistake> {
        let mut given = conninfo::parse(text)?;
        add_service(&mut given, environment)?;
        for (keyword, variable, treatment) in KEYWORDS {
            let Some(value) = environment.variables.get(*variable).filter(|value| !value.is_empty()) else {
                continue;
            };
            if !given.contains_key(*keyword) && *treatment != KeywordUse::Ignored {
                conninfo::set(&mut given, keyword, value.clone()).map_err(|wrong| wrong.of(variable))?;
            }
        }
        Self::of(&given, environment)
    }

    fn of(given: &Keywords, environment: &ProcessEnvironment) -> Result<Self, Mistake> {
        let text = |keyword: &str| given.get(keyword).map(String::as_str).filter(|value| !value.is_empty());
        let user = text("user").map(str::to_owned).or_else(|| environment.user.clone()).ok_or_else(|| {
            Mistake::new("the address names no user", "write it like postgres://krarup@db.example/queues")
        })?;
        let database = text("dbname").map_or_else(|| user.clone(), str::to_owned);
        if text("gssencmode") == Some("require") {
            return Err(Mistake::new(
                "gssencmode=require cannot be had here",
                "sslmode=require encrypts by TLS",
            ));
        }
        let (encryption, tls) = tls(given, environment)?;
        let negotiation = one_of(given, "sslnegotiation", NEGOTIATIONS)?;
        if negotiation == SslNegotiation::Direct && encryption != Encryption::Require {
            return Err(Mistake::new(
                "sslnegotiation=direct begins with TLS, and this sslmode does not ask for it",
                "write sslmode=require, verify-ca or verify-full",
            ));
        }
        let seconds = |keyword: &str| -> Result<Option<Duration>, Mistake> {
            let value = number(given, keyword)?.filter(|seconds| *seconds > 0);
            Ok(value.map(|seconds| Duration::from_secs(seconds as u64)))
        };
        let keepalive = Keepalive {
            on: number(given, "keepalives")? != Some(0),
            // A database that vanished without a word is noticed. Where all that was sent is
            // acknowledged the kernel looks how long it is silent when it sends the next probe: by
            // its own interval that is 75 s later.
            idle: seconds("keepalives_idle")?.unwrap_or(Duration::from_secs(5)),
            interval: seconds("keepalives_interval")?.unwrap_or(Duration::from_secs(2)),
            count: number(given, "keepalives_count")?
                .or(number(given, "keepalives_retries")?)
                .and_then(|count| u32::try_from(count).ok())
                .filter(|count| *count > 0),
            unacknowledged: number(given, "tcp_user_timeout")?
                .filter(|milliseconds| *milliseconds > 0)
                .map_or(Duration::from_secs(10), |milliseconds| Duration::from_millis(milliseconds as u64)),
        };
        let connect_timeout = match number(given, "connect_timeout")? {
            None => Some(CONNECT_TIMEOUT),
            Some(seconds) if seconds <= 0 => None,
            Some(seconds) => Some(Duration::from_secs(seconds as u64)),
        };
        Ok(Self {
            servers: servers(given)?,
            user,
            database,
            password: text("password").map(str::to_owned),
            passwords: text("passfile").map(PathBuf::from).or_else(|| environment.of_home(".pgpass")),
            options: text("options").map(str::to_owned),
            application: text("application_name").unwrap_or("krarup broker").to_owned(),
            encryption,
            negotiation,
            binding: one_of(given, "channel_binding", BINDINGS)?,
            tls,
            target: one_of(given, "target_session_attrs", TARGETS)?,
            connect_timeout,
            keepalive,
        })
    }

    /// The password for this server: what was given, or what the file of passwords has.
    pub(super) fn password_for(&self, server: &DatabaseServer) -> Option<String> {
        if self.password.is_some() {
            return self.password.clone();
        }
        let text = readable(self.passwords.as_deref()?).ok()??;
        let host = if SOCKETS.contains(&server.host.as_str()) { "localhost" } else { &server.host };
        conninfo::password(&text, [host, &server.port.to_string(), &self.database, &self.user])
    }

    /// How TLS is spoken, its files read now; where it is not spoken none is.
    ///
    /// # Errors
    /// Names the file and what is wrong with it.
    pub(super) fn tls_config(&self, speaks: bool) -> Result<ClientConfig, Mistake> {
        if !speaks {
            let plain =
                TlsClientSettings { check: CertificateCheck::Nothing, identity: None, ..self.tls.clone() };
            return plain.config();
        }
        if let Some(identity) = &self.tls.identity {
            check_key(&identity.key)?;
        }
        self.tls.config()
    }

    /// Why the file of passwords is not looked at, if it is to be and there is one.
    pub(super) fn passwords_refused(&self) -> Option<String> {
        if self.password.is_some() {
            return None;
        }
        readable(self.passwords.as_deref()?).err()
    }
}

/// The text of a file of passwords; none: there is no such file.
///
/// # Errors
/// Why it is not looked at: others may read it, or it cannot be read.
fn readable(file: &Path) -> Result<Option<String>, String> {
    let found = match fs::metadata(file) {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("{} cannot be read: {error}", file.display())),
    };
    if !found.is_file() {
        return Err(format!("{} is no plain file", file.display()));
    }
    if may_others_read(&found) {
        let file = file.display();
        return Err(format!("others may read {file}: chmod 600, or 640 where root owns it, lets it be used"));
    }
    fs::read_to_string(file).map(Some).map_err(|error| format!("{} cannot be read: {error}", file.display()))
}

/// Whether other users may read a file with a secret; where root owns it a group may. libpq has it
/// so of keys alone, but pods have Secrets in no other way.
fn may_others_read(file: &fs::Metadata) -> bool {
    let too_much = if file.uid() == 0 { 0o037 } else { 0o077 };
    file.mode() & too_much != 0
}

/// Adds what the service says that is named, if one is.
fn add_service(given: &mut Keywords, environment: &ProcessEnvironment) -> Result<(), Mistake> {
    let variable = |name: &str| environment.variables.get(name).filter(|value| !value.is_empty());
    let Some(name) = given.get("service").or_else(|| variable("PGSERVICE")).cloned() else { return Ok(()) };
    let named = given.get("servicefile").or_else(|| variable("PGSERVICEFILE")).map(PathBuf::from);
    let mut files: Vec<PathBuf> =
        named.or_else(|| environment.of_home(".pg_service.conf")).into_iter().collect();
    // As Debian has it; elsewhere PGSYSCONFDIR says where.
    let system = variable("PGSYSCONFDIR").map_or("/etc/postgresql-common", String::as_str);
    files.push(Path::new(system).join("pg_service.conf"));
    for file in &files {
        let text = match fs::read_to_string(file) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            Err(error) => return Err(Mistake::plain(format!("{} cannot be read: {error}", file.display()))),
        };
        let found =
            conninfo::service(&text, &name).map_err(|mistake| mistake.of(&file.display().to_string()))?;
        if let Some(found) = found {
            for (keyword, value) in found {
                given.entry(keyword).or_insert(value);
            }
            return Ok(());
        }
    }
    let looked: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
    Err(Mistake::new(
        format!("the service `{name}` is in none of these files: {}", looked.join(", ")),
        "PGSERVICEFILE, or servicefile= in the address, names another file",
    ))
}

/// The values that a keyword may have; the first is that where nothing is said.
type Values<T> = &'static [(&'static str, T)];

const NEGOTIATIONS: Values<SslNegotiation> =
    &[("postgres", SslNegotiation::Postgres), ("direct", SslNegotiation::Direct)];
const BINDINGS: Values<ChannelBinding> = &[
    ("prefer", ChannelBinding::Prefer),
    ("require", ChannelBinding::Require),
    ("disable", ChannelBinding::Disable),
];
const TARGETS: Values<TargetSession> = &[
    ("", TargetSession::Writer),
    ("read-write", TargetSession::ReadWrite),
    ("primary", TargetSession::Primary),
    // A standby is of no use.
    ("any", TargetSession::Primary),
];
const MODES: Values<&str> = &[
    ("prefer", "prefer"),
    ("disable", "disable"),
    ("allow", "allow"),
    ("require", "require"),
    ("verify-ca", "verify-ca"),
    ("verify-full", "verify-full"),
];
/// Whether the certificate that there is is shown.
const CERTIFICATE_MODES: Values<bool> = &[("allow", true), ("disable", false), ("require", true)];
const SWITCHES: Values<bool> = &[("1", true), ("0", false)];

fn one_of<T: Copy>(given: &Keywords, keyword: &str, values: Values<T>) -> Result<T, Mistake> {
    let Some(value) = given.get(keyword).filter(|value| !value.is_empty()) else { return Ok(values[0].1) };
    values.iter().find(|(name, _)| name == value).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<_> = values.iter().map(|(name, _)| *name).filter(|name| !name.is_empty()).collect();
        Mistake::new(
            format!("the value of {keyword} is none that a broker can have"),
            format!("one of {}", names.join(", ")),
        )
    })
}

fn number(given: &Keywords, keyword: &str) -> Result<Option<i64>, Mistake> {
    let Some(value) = given.get(keyword).filter(|value| !value.is_empty()) else { return Ok(None) };
    let number = value.trim().parse();
    number.map(Some).map_err(|_| {
        Mistake::new(format!("the value of {keyword} is no number"), format!("write {keyword}=5"))
    })
}

fn servers(given: &Keywords) -> Result<Vec<DatabaseServer>, Mistake> {
    let list = |keyword: &str| -> Vec<&str> {
        let value = given.get(keyword).map(|value| value.trim()).filter(|value| !value.is_empty());
        value.map_or_else(Vec::new, |value| value.split(',').map(str::trim).collect())
    };
    let (names, addresses, ports) = (list("host"), list("hostaddr"), list("port"));
    let count = names.len().max(addresses.len()).max(1);
    let uneven = |what: &str, values: &[&str], one_will_do: bool| {
        let fits = values.is_empty() || values.len() == count || (one_will_do && values.len() == 1);
        (!fits).then(|| {
            Mistake::new(
                format!("{} are given for {count} hosts: {}", what, values.len()),
                "give one for each host, with commas between",
            )
        })
    };
    let wrong = uneven("hosts", &names, false)
        .or_else(|| uneven("values of hostaddr", &addresses, false))
        .or_else(|| uneven("ports", &ports, true));
    if let Some(mistake) = wrong {
        return Err(mistake);
    }
    let local = SOCKETS.into_iter().find(|folder| Path::new(folder).is_dir()).unwrap_or("localhost");
    (0..count)
        .map(|at| {
            let address = addresses.get(at).filter(|address| !address.is_empty());
            let address = address.map(|address| address.parse()).transpose().map_err(|_| {
                Mistake::new("a value of hostaddr is no address in numbers", "write names with host=")
            })?;
            let port = match ports.get(at).or(ports.first()).filter(|port| !port.is_empty()) {
                None => PORT,
                Some(port) => port.parse().ok().filter(|port| *port > 0).ok_or_else(|| {
                    // Of a password that holds a `/` or an `@` a part looks like one.
                    Mistake::new(
                        "a port in the address is no number from 1 to 65535",
                        "write / as %2F, @ as %40 and : as %3A in a user's name and a password",
                    )
                })?,
            };
            let name = names.get(at).filter(|name| !name.is_empty());
            let host = match (name, address) {
                (Some(name), _) => (*name).to_owned(),
                (None, Some(address)) => IpAddr::to_string(&address),
                (None, None) => local.to_owned(),
            };
            Ok(DatabaseServer { host, address, port })
        })
        .collect()
}

fn tls(
    given: &Keywords,
    environment: &ProcessEnvironment,
) -> Result<(Encryption, TlsClientSettings), Mistake> {
    let text = |keyword: &str| given.get(keyword).map(String::as_str).filter(|value| !value.is_empty());
    // A file that is named is used whether it is there or not; that of the home only if it is.
    let file = |keyword: &str, name: &str| -> Option<PathBuf> {
        text(keyword).map(PathBuf::from).or_else(|| environment.of_home(name).filter(|path| path.exists()))
    };
    let system = text("sslrootcert") == Some("system");
    let mode = match text("sslmode") {
        None if system => "verify-full",
        _ => one_of(given, "sslmode", MODES)?,
    };
    if system && mode != "verify-full" {
        return Err(Mistake::new(
            format!(
                "sslrootcert=system goes with sslmode=verify-full, not with {mode}: those authorities certify any name for its holder"
            ),
            "leave sslmode out",
        ));
    }
    let authorities = match file("sslrootcert", ".postgresql/root.crt") {
        _ if system => Some(Authorities::System),
        file => file.map(Authorities::File),
    };
    let check = match (mode, authorities) {
        ("verify-ca" | "verify-full", None) => {
            return Err(Mistake::new(
                format!("sslmode={mode} has no authority that it could trust"),
                "name its certificate with sslrootcert=FILE, or write sslrootcert=system",
            ));
        }
        ("verify-full", Some(authorities)) => CertificateCheck::AuthorityAndName(authorities),
        ("disable", _) | (_, None) => CertificateCheck::Nothing,
        (_, Some(authorities)) => CertificateCheck::Authority(authorities),
    };
    let shows = one_of(given, "sslcertmode", CERTIFICATE_MODES)?;
    let encryption = match mode {
        "disable" => Encryption::Disable,
        "allow" => Encryption::Allow,
        "prefer" => Encryption::Prefer,
        _ => Encryption::Require,
    };
    // Its key is looked for when it is needed: a socket of this machine has no TLS.
    let key = text("sslkey").map(PathBuf::from).or_else(|| environment.of_home(".postgresql/postgresql.key"));
    let identity = file("sslcert", ".postgresql/postgresql.crt")
        .filter(|_| shows)
        .map(|certificate| TlsIdentity { certificate, key: key.unwrap_or_default() });
    if text("sslcertmode") == Some("require") && identity.is_none() {
        return Err(Mistake::new(
            "sslcertmode=require has no certificate that it could show",
            "name it with sslcert=FILE, and its key with sslkey=FILE",
        ));
    }
    let negotiation = one_of(given, "sslnegotiation", NEGOTIATIONS)?;
    let settings = TlsClientSettings {
        check,
        revoked: file("sslcrl", ".postgresql/root.crl"),
        identity,
        names_server: one_of(given, "sslsni", SWITCHES)?,
        application: if negotiation == SslNegotiation::Direct { "postgresql" } else { "" },
        versions: versions(given)?,
    };
    Ok((encryption, settings))
}

/// Whether a private key is in a file that no other user may read.
fn check_key(key: &Path) -> Result<(), Mistake> {
    if !fs::metadata(key).is_ok_and(|found| may_others_read(&found)) {
        return Ok(());
    }
    let what = format!("others may read the private key in {}", key.display());
    Err(Mistake::new(what, "chmod 600, or 640 where root owns it"))
}

fn versions(given: &Keywords) -> Result<TlsVersions, Mistake> {
    /// By the minor number of TLS 1.
    const NUMBERS: Values<u8> = &[("", 0), ("TLSv1", 0), ("TLSv1.1", 1), ("TLSv1.2", 2), ("TLSv1.3", 3)];
    let least = one_of(given, "ssl_min_protocol_version", NUMBERS)?;
    let most = match given.get("ssl_max_protocol_version").filter(|value| !value.is_empty()) {
        None => 3,
        Some(_) => one_of(given, "ssl_max_protocol_version", NUMBERS)?,
    };
    let versions = TlsVersions { tls12: least <= 2 && most >= 2, tls13: most >= 3 };
    if !versions.tls12 && !versions.tls13 {
        return Err(Mistake::new(
            "no version of TLS from 1.2 on is left between ssl_min_protocol_version and ssl_max_protocol_version",
            "leave both out",
        ));
    }
    Ok(versions)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn environment(variables: &[(&str, &str)]) -> ProcessEnvironment {
        let pair = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        ProcessEnvironment {
            variables: variables.iter().map(pair).collect(),
            home: None,
            user: Some("anna".into()),
        }
    }

    fn read(text: &str, variables: &[(&str, &str)]) -> Result<ConnectionParameters, Mistake> {
        ConnectionParameters::read(text, &environment(variables))
    }

    /// A folder of its own, gone with this value.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("krarup-{name}-{}", std::process::id()));
            fs::create_dir_all(&folder).unwrap();
            Self(folder)
        }

        fn file(&self, name: &str, text: &str, mode: u32) -> String {
            let path = self.0.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path.to_str().unwrap().to_owned()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn hosts(parameters: &ConnectionParameters) -> Vec<String> {
        parameters.servers.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_is_given_comes_before_the_service_before_the_environment_before_nothing() {
        let folder = Folder::new("services");
        let file =
            folder.file("services", "[q]\nhost=of-service\nuser=of-service\ndbname=of-service\n", 0o644);
        let variables = [
            ("PGSERVICEFILE", file.as_str()),
            ("PGHOST", "of-environment"),
            ("PGUSER", "of-environment"),
            ("PGDATABASE", "of-environment"),
            ("PGPORT", "5555"),
            ("PGPASSWORD", "of-environment"),
        ];
        let found = read("postgres://given?service=q", &variables).unwrap();
        assert_eq!((hosts(&found), found.user.as_str()), (vec!["given:5555".to_owned()], "of-service"));
        assert_eq!(found.database, "of-service");
        assert_eq!(found.password_for(&found.servers[0]).as_deref(), Some("of-environment"));
        let alone = read("postgres://given", &[]).unwrap();
        assert_eq!((hosts(&alone), alone.user.as_str()), (vec!["given:5432".to_owned()], "anna"));
        assert_eq!((alone.database.as_str(), alone.password_for(&alone.servers[0])), ("anna", None));
        assert_eq!((alone.target, alone.encryption), (TargetSession::Writer, Encryption::Prefer));
        let missing = read("postgres://given?service=other", &variables).unwrap_err();
        assert!(missing.what.contains("`other`") && missing.what.contains(&file), "{missing}");
    }

    #[test]
    fn what_cannot_be_had_is_refused_wherever_it_is_said_and_what_makes_no_difference_is_not() {
        let refused = read("host=h", &[("PGREQUIREAUTH", "scram-sha-256")]).unwrap_err();
        assert!(refused.place == "PGREQUIREAUTH" && !refused.hint.is_empty(), "{refused}");
        assert!(read("host=h", &[("PGREQUIREAUTH", ""), ("PGLOADBALANCEHOSTS", "random")]).is_ok());
        assert!(read("host=h load_balance_hosts=random", &[]).is_ok());
    }

    #[test]
    fn several_hosts_have_a_port_each_or_one_for_all() {
        let found = |text| hosts(&read(text, &[]).unwrap());
        assert_eq!(found("postgres://u@h1,h2:6000,[fd00::9]/d"), ["h1:5432", "h2:6000", "[fd00::9]:5432"]);
        assert_eq!(found("host=h1,h2 port=6000"), ["h1:6000", "h2:6000"]);
        assert_eq!(found("host=/run/a,/run/b"), ["/run/a/.s.PGSQL.5432", "/run/b/.s.PGSQL.5432"]);
        let named = read("host=db.example hostaddr=10.0.0.9", &[]).unwrap();
        assert_eq!(named.servers[0].address, Some("10.0.0.9".parse().unwrap()));
        for wrong in
            ["host=a,b port=1,2,3", "host=a hostaddr=10.0.0.1,10.0.0.2", "host=a port=x", "host=a port=0"]
        {
            assert!(read(wrong, &[]).is_err(), "{wrong}");
        }
        let slash = read("postgres://u:se/cret@h/d", &[]).unwrap_err();
        assert!(!slash.to_string().contains("cret") && slash.hint.contains("%2F"), "{slash}");
    }

    #[test]
    fn the_password_file_is_read_anew_and_not_where_others_may_read_it() {
        let folder = Folder::new("passwords");
        let file = folder.file("pass", "h1:5432:d:u:one\nlocalhost:*:*:*:local\n", 0o600);
        let parameters = read(&format!("postgres://u@h1,h2/d?passfile={file}"), &[]).unwrap();
        let [first, second] = &parameters.servers[..] else { panic!() };
        assert_eq!(parameters.password_for(first).as_deref(), Some("one"));
        assert_eq!((parameters.password_for(second), parameters.passwords_refused()), (None, None));
        let socket = DatabaseServer { host: "/tmp".into(), address: None, port: 1 };
        assert_eq!(parameters.password_for(&socket).as_deref(), Some("local"));
        folder.file("pass", "h1:5432:d:u:two\n", 0o600);
        assert_eq!(parameters.password_for(first).as_deref(), Some("two"));
        folder.file("pass", "h1:5432:d:u:two\n", 0o644);
        assert_eq!(parameters.password_for(first), None);
        assert!(parameters.passwords_refused().is_some_and(|why| why.contains("chmod 600")));
        // As a Secret is mounted, which no pod can change: of root, and a group's to read.
        folder.file("pass", "h1:5432:d:u:two\n", 0o440);
        let is_of_root = fs::metadata(&file).unwrap().uid() == 0;
        assert_eq!(parameters.password_for(first).is_some(), is_of_root);
        assert_eq!(parameters.passwords_refused().is_none(), is_of_root);
    }

    #[test]
    fn each_mode_checks_what_libpq_checks() {
        let check = |text: &str| read(text, &[]).map(|found| (found.encryption, found.tls.check));
        let file = || Authorities::File("/ca.pem".into());
        for (mode, encryption) in [
            ("disable", Encryption::Disable),
            ("allow", Encryption::Allow),
            ("prefer", Encryption::Prefer),
            ("require", Encryption::Require),
        ] {
            let found = check(&format!("host=h sslmode={mode}")).unwrap();
            assert_eq!(found, (encryption, CertificateCheck::Nothing), "{mode}");
            // An authority that is named is trusted and no other, as since the first versions.
            let found = check(&format!("host=h sslmode={mode} sslrootcert=/ca.pem")).unwrap();
            let checked = if mode == "disable" {
                CertificateCheck::Nothing
            } else {
                CertificateCheck::Authority(file())
            };
            assert_eq!(found, (encryption, checked), "{mode}");
        }
        let of = |mode: &str| check(&format!("host=h sslmode={mode} sslrootcert=/ca.pem")).unwrap().1;
        assert_eq!(of("verify-ca"), CertificateCheck::Authority(file()));
        assert_eq!(of("verify-full"), CertificateCheck::AuthorityAndName(file()));
        let system = check("host=h sslrootcert=system").unwrap();
        assert_eq!(system, (Encryption::Require, CertificateCheck::AuthorityAndName(Authorities::System)));
        for wrong in [
            "host=h sslmode=require sslrootcert=system",
            "host=h sslmode=verify-full",
            "host=h sslmode=always",
            "host=h sslnegotiation=direct",
            "host=h sslcertmode=require",
            "host=h ssl_max_protocol_version=TLSv1.1",
            "host=h gssencmode=require",
            "host=h target_session_attrs=standby",
            "host=h channel_binding=yes",
        ] {
            let mistake = read(wrong, &[]).err().unwrap_or_else(|| panic!("{wrong} is taken"));
            assert!(!mistake.hint.is_empty(), "{wrong}: {mistake}");
        }
        assert!(check("host=h sslcertmode=require sslcert=/c.pem sslkey=/c.key").is_ok());
    }

    #[test]
    fn the_home_directory_has_the_files_that_are_not_named() {
        let folder = Folder::new("home");
        let with = |environment: &ProcessEnvironment| {
            ConnectionParameters::read("host=h sslmode=require", environment).unwrap().tls
        };
        let mut environment = environment(&[]);
        environment.home = Some(folder.0.clone());
        assert_eq!(
            (with(&environment).check, with(&environment).identity),
            (CertificateCheck::Nothing, None)
        );
        let authority = folder.file(".postgresql/root.crt", "", 0o644);
        let certificate = folder.file(".postgresql/postgresql.crt", "", 0o644);
        let key = folder.file(".postgresql/postgresql.key", "", 0o644);
        let found = with(&environment);
        assert_eq!(found.check, CertificateCheck::Authority(Authorities::File(authority.into())));
        let identity = found.identity.unwrap();
        assert_eq!((identity.certificate, identity.key.clone()), (certificate.into(), key.into()));
        assert!(check_key(&identity.key).unwrap_err().what.contains("postgresql.key"));
        fs::set_permissions(&identity.key, fs::Permissions::from_mode(0o600)).unwrap();
        assert_eq!(check_key(&identity.key), Ok(()));
    }

    /// Neither what is printed for debugging nor any message has it.
    #[test]
    fn no_debugging_output_shows_a_password() {
        let parameters = read("postgres://u:topsecret@h/d", &[]).unwrap();
        let environment = environment(&[("PGPASSWORD", "topsecret")]);
        assert!(!format!("{parameters:?} {environment:?}").contains("topsecret"));
    }
}
