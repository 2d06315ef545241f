//! A PostgreSQL for one test, that can be made to crash.

use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::{fs, io, thread};

use crate::durable::{program_of, said};
use crate::support::process::{Port, Program};
use crate::support::{certificate, fresh, until};

/// Where PostgreSQL's programs are.
pub(crate) fn programs() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    // All of them are where the one really is that a link on the path leads to.
    let real = |folder: PathBuf| Some(folder.join("initdb").canonicalize().ok()?.parent()?.to_owned());
    let on_path = std::env::split_paths(&path).find_map(real);
    let versions = fs::read_dir("/usr/lib/postgresql").ok().into_iter().flatten().flatten();
    on_path.or(versions
        .map(|entry| entry.path().join("bin"))
        .filter(|folder| folder.join("initdb").exists())
        .max())
}

/// psql with these statements, as the user krarup.
pub(crate) fn psql_of(programs: &Path, database: &str, statements: &str) -> Command {
    // Debian keeps the client elsewhere.
    let beside = programs.join("psql");
    let mut command = Command::new(if beside.exists() { beside } else { "psql".into() });
    command.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-U", "krarup"]);
    command.args(["-d", database, "-c", statements]);
    // What tests ask may take its time, also where a broker's statements may not.
    command.env("PGOPTIONS", "-c statement_timeout=0");
    command
}

/// A port of this machine behind which a cluster is.
pub(crate) struct PortForward {
    pub(crate) port: u16,
    /// Both ends of each.
    connections: Arc<Mutex<Vec<(TcpStream, UnixStream)>>>,
}

impl PortForward {
    /// All connections end. A session that is at work notices it when it answers.
    pub(crate) fn cut(&self) {
        for (client, server) in self.connections.lock().unwrap().drain(..) {
            // It may have ended by itself.
            let _ = (client.shutdown(Shutdown::Both), server.shutdown(Shutdown::Both));
        }
    }
}

pub(crate) struct Cluster {
    programs: PathBuf,
    folder: PathBuf,
    /// Where it listens besides its socket.
    port: Option<Port>,
}

impl Cluster {
    /// None where PostgreSQL is not installed.
    pub(crate) fn start(name: &str) -> Option<Self> {
        let cluster = Self::in_folder(name, None)?;
        cluster.make();
        cluster.up();
        Some(cluster)
    }

    /// One that also listens at a port of 127.0.0.1, with these lines in pg_hba.conf, and these
    /// settings. Its certificate is made out to localhost and 127.0.0.1 by the tests' authority.
    pub(crate) fn start_at_port(name: &str, admits: &str, settings: &str) -> Option<Self> {
        let cluster = Self::in_folder(name, Some(Port::new()))?;
        cluster.make();
        let data = PathBuf::from(cluster.data());
        for name in ["proxy.pem", "proxy.key", "authority.pem", "version-1.pem"] {
            cluster.give(&data.join(name), &fs::read(certificate(name)).unwrap());
        }
        cluster.give(&data.join("pg_hba.conf"), format!("local all all trust\n{admits}").as_bytes());
        let mut written = fs::read_to_string(data.join("postgresql.conf")).unwrap();
        // Before version 14 passwords were kept as MD5 sums.
        written += "\nssl_cert_file = 'proxy.pem'\nssl_key_file = 'proxy.key'\nssl_ca_file = 'authority.pem'\n\
                    password_encryption = 'scram-sha-256'\n";
        cluster.give(&data.join("postgresql.conf"), (written + settings).as_bytes());
        cluster.up();
        Some(cluster)
    }

    /// A standby of this cluster, which it knows by this name.
    pub(crate) fn standby(&self, name: &str) -> Self {
        let standby = Self::in_folder(name, None).expect("the primary has one");
        standby.copy(self, name);
        standby.up();
        standby
    }

    /// What is here goes; a copy of another cluster takes its place, as its standby of this name.
    pub(crate) fn copy_of(&self, primary: &Self, name: &str) {
        fs::remove_dir_all(self.data()).unwrap();
        self.copy(primary, name);
        self.up();
    }

    fn copy(&self, primary: &Self, name: &str) {
        let place = format!("host={} user=krarup application_name={name}", primary.folder.display());
        let mut copy = self.program("pg_basebackup");
        said(&copy.args(["-D", &self.data(), "-R", "-c", "fast", "-d", &place]).output().unwrap());
    }

    /// It is the primary from now on.
    pub(crate) fn promote(&self) {
        said(&self.program("pg_ctl").args(["-D", &self.data(), "-w", "promote"]).output().unwrap());
    }

    /// Commits wait for this standby from now on.
    pub(crate) fn waits_for(&self, standby: &str) {
        self.set("postgres", "synchronous_standby_names", standby);
        until("the standby is synchronous", || {
            self.sql("postgres", "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == "1"
        });
    }

    fn in_folder(name: &str, port: Option<Port>) -> Option<Self> {
        let cluster = Self { programs: programs()?, folder: fresh(name), port };
        fs::create_dir_all(&cluster.folder).unwrap();
        cluster.own(&cluster.folder);
        Some(cluster)
    }

    /// A file is its own from now on, where it runs as another user.
    fn own(&self, path: &Path) {
        if rustix::process::geteuid().is_root() {
            said(&Command::new("chown").arg("postgres").arg(path).output().unwrap());
        }
    }

    /// A file that it alone may read.
    fn give(&self, path: &Path, content: &[u8]) {
        fs::write(path, content).unwrap();
        fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        self.own(path);
    }

    fn make(&self) {
        let (cluster, data) = (self, self.data());
        said(
            &cluster
                .program("initdb")
                .args(["-D", &data, "-U", "krarup", "-A", "trust", "--locale=C", "-E", "UTF8", "-N"])
                .output()
                .unwrap(),
        );
    }

    /// Where its socket and its data lie.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// A port of this machine behind which it is.
    pub(crate) fn over_tcp(&self) -> PortForward {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let socket = self.folder.join(".s.PGSQL.5432");
        let connections: Arc<Mutex<Vec<_>>> = Arc::default();
        let all = Arc::clone(&connections);
        thread::spawn(move || -> io::Result<()> {
            loop {
                let (client, _) = listener.accept()?;
                let server = UnixStream::connect(&socket)?;
                let (mut from_client, mut to_server) = (client.try_clone()?, server.try_clone()?);
                let (mut from_server, mut to_client) = (server.try_clone()?, client.try_clone()?);
                all.lock().unwrap().push((client, server));
                thread::spawn(move || {
                    let _ = io::copy(&mut from_client, &mut to_server);
                    to_server.shutdown(Shutdown::Write)
                });
                thread::spawn(move || {
                    let _ = io::copy(&mut from_server, &mut to_client);
                    to_client.shutdown(Shutdown::Write)
                });
            }
        });
        PortForward { port, connections }
    }

    /// The port in the name of its socket, and that at which it listens if it does.
    pub(crate) fn port(&self) -> u16 {
        self.port.as_ref().map_or(5432, |port| port.address().port())
    }

    fn data(&self) -> String {
        self.folder.join("data").to_string_lossy().into_owned()
    }

    /// Whether a program came with this PostgreSQL: some are the server alone.
    pub(crate) fn has(&self, program: &str) -> bool {
        self.programs.join(program).exists()
    }

    fn program(&self, name: &str) -> Command {
        program_of(&self.programs, name)
    }

    /// Starts it, where it does not run.
    pub(crate) fn up(&self) {
        let listens = if self.port.is_some() { "127.0.0.1" } else { "" };
        let options = format!(
            "-c listen_addresses={listens} -c port={} -c unix_socket_directories={}",
            self.port(),
            self.folder.display()
        );
        let log = self.folder.join("log").to_string_lossy().into_owned();
        let mut command = self.program("pg_ctl");
        command.args(["-D", &self.data(), "-l", &log, "-o", &options, "-w", "start"]);
        // Its children would keep a pipe open.
        assert!(
            command
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
                .unwrap()
                .success()
        );
    }

    /// A database of this name, and where it is.
    pub(crate) fn database(&self, name: &str) -> String {
        self.sql("postgres", &format!("CREATE DATABASE {name}"));
        self.at(name)
    }

    /// A backup of a database, as its administrator makes one while it is used.
    pub(crate) fn backup(&self, name: &str) -> PathBuf {
        let file = self.folder.join(format!("{name}.dump"));
        let flags = ["--format=custom", "--file", file.to_str().unwrap(), name];
        said(&self.client("pg_dump").args(flags).output().unwrap());
        file
    }

    /// Puts a backup into an empty database.
    pub(crate) fn restore(&self, name: &str, backup: &Path) {
        let flags = ["--exit-on-error", "--dbname", name, backup.to_str().unwrap()];
        said(&self.client("pg_restore").args(flags).output().unwrap());
    }

    /// A program that connects to it as the user krarup.
    fn client(&self, program: &str) -> Command {
        let mut command = program_of(&self.programs, program);
        command.arg("-h").arg(&self.folder).args(["-p", &self.port().to_string(), "-U", "krarup"]);
        command
    }

    /// Where a database is.
    pub(crate) fn at(&self, name: &str) -> String {
        format!("host={} user=krarup dbname={name}", self.folder.display())
    }

    pub(crate) fn try_sql(&self, database: &str, statements: &str) -> Output {
        self.psql(database, statements).output().unwrap()
    }

    pub(crate) fn psql(&self, database: &str, statements: &str) -> Command {
        let mut command = psql_of(&self.programs, database, statements);
        command.arg("-h").arg(&self.folder).args(["-p", &self.port().to_string()]);
        command
    }

    pub(crate) fn sql(&self, database: &str, statements: &str) -> String {
        said(&self.try_sql(database, statements))
    }

    /// All its processes end at once, as in a crash; then it is started again and recovers.
    pub(crate) fn crash_and_restart(&self) {
        self.crash();
        self.up();
    }

    /// All its processes end at once.
    pub(crate) fn crash(&self) {
        said(
            &self
                .program("pg_ctl")
                .args(["-D", &self.data(), "-m", "immediate", "-w", "stop"])
                .output()
                .unwrap(),
        );
    }

    /// A setting of the database, also for sessions that are there already.
    pub(crate) fn set(&self, database: &str, name: &str, value: &str) {
        self.sql(database, &format!("ALTER SYSTEM SET {name} = '{value}'"));
        self.sql(database, "SELECT pg_reload_conf()");
    }

    /// From now on commits wait, after they are on disk, for a replica that there is not; or no
    /// longer.
    pub(crate) fn commits_wait(&self, database: &str, wait: bool) {
        self.set(database, "synchronous_standby_names", if wait { "nobody" } else { "" });
        // The server has taken notice when a commit of our own waits.
        until("commits wait", || !wait || self.own_commit_waits(database));
    }

    fn own_commit_waits(&self, database: &str) -> bool {
        let mut own =
            self.psql(database, "CREATE TABLE IF NOT EXISTS ours (one int); INSERT INTO ours VALUES (1)");
        let mut own = own.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE application_name = 'psql' AND wait_event = 'SyncRep'";
        let mut waits = false;
        until("it waits, or is done", || {
            waits |= self.sql("postgres", end) != "0";
            own.try_wait().unwrap().is_some()
        });
        waits
    }

    /// Whether a session of a broker that began after then waits at its commit, those of sweeps
    /// aside.
    pub(crate) fn new_session_waits(&self, database: &str, then: &str) -> bool {
        let waits =
            format!("wait_event = 'SyncRep' AND query NOT LIKE '%sweep%' AND backend_start > '{then}'");
        self.has_session(database, &waits)
    }

    /// Whether brokers have a session in a database of which this is so.
    pub(crate) fn has_session(&self, database: &str, condition: &str) -> bool {
        let statement = format!(
            "SELECT count(*) FROM pg_stat_activity \
             WHERE application_name = 'krarup broker' AND datname = '{database}' AND ({condition})"
        );
        self.sql("postgres", &statement) != "0"
    }

    /// A pgbouncer before this cluster, in this mode, and how a database is reached through it;
    /// none where it is not installed.
    pub(crate) fn pooler(&self, mode: &str) -> Option<(Program, impl Fn(&str) -> String)> {
        let places = ["/usr/sbin", "/usr/bin", "/usr/local/bin"].map(PathBuf::from);
        let programs = places.into_iter().find(|place| place.join("pgbouncer").exists())?;
        // A port names the socket's file, which stands in a folder of its own.
        let folder = self.folder.join(format!("pooler-{mode}"));
        fs::create_dir_all(&folder).unwrap();
        let (here, there) = (folder.display(), self.folder.display());
        let settings = format!(
            "[databases]\n* = host={there}\n[pgbouncer]\nlisten_addr =\nlisten_port = 6432\nunix_socket_dir = {here}\n\
             auth_type = trust\nauth_file = {here}/users\npool_mode = {mode}\ndefault_pool_size = 30\nlogfile =\npidfile =\n"
        );
        let file = folder.join("pgbouncer.ini");
        fs::write(&file, settings).unwrap();
        fs::write(folder.join("users"), "\"krarup\" \"\"\n").unwrap();
        if rustix::process::geteuid().is_root() {
            said(&Command::new("chown").args(["-R", "postgres"]).arg(&folder).output().unwrap());
        }
        // It becomes that user by itself, so that what is ended is it and nothing between.
        let mut command = Command::new(programs.join("pgbouncer"));
        if rustix::process::geteuid().is_root() {
            command.args(["-u", "postgres"]);
        }
        command.arg(&file).current_dir("/");
        let mut program = Program::spawn(command);
        program.says_text("process up");
        Some((program, move |name: &str| {
            format!("host={} port=6432 user=krarup dbname={name}", folder.display())
        }))
    }

    /// Ends sessions of brokers in a database; whether there were any.
    pub(crate) fn cut(&self, database: &str, condition: &str) -> bool {
        let statement = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
             WHERE application_name = 'krarup broker' AND datname = '{database}' AND ({condition})"
        );
        self.sql("postgres", &statement) != "0"
    }

    /// Ends the sessions in a database that sleep; how many there were.
    pub(crate) fn end_sleeping(&self, database: &str) -> String {
        let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event = 'PgSleep'";
        self.sql(database, end)
    }

    /// Ends all sessions of brokers in a database, and waits for it: they tell what they have read
    /// when they end.
    pub(crate) fn end_sessions(&self, database: &str) {
        let before = self.sql(database, "SELECT clock_timestamp()");
        self.cut(database, "true");
        let left = format!("backend_start < '{before}'");
        until("they have ended", || !self.has_session(database, &left));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.program("pg_ctl").args(["-D", &self.data(), "-m", "immediate", "stop"]).output();
        let _ = fs::remove_dir_all(&self.folder);
    }
}
