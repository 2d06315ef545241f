//! A PostgreSQL of our own: made in a directory where there is none, started and stopped with the
//! broker.
//!
//! It listens on a socket in that directory and nowhere else; the database of an experiment, which
//! is a station of its own, also at an address. PostgreSQL refuses to run as root; started by root,
//! it runs as the user `postgres`, which then owns the directory.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use krarup_lab::ledger::Ledger;
use krarup_lab::testbed::probe::{POSTGRES_VERSIONS, postgres, postgres_programs};
use rustix::fs::OFlags;

use super::args::{BrokerArgs, Mode};
use crate::failure::Failure;

/// A running cluster. It is stopped when this value goes.
#[derive(Debug)]
pub(super) struct EmbeddedPostgres {
    programs: PathBuf,
    folder: PathBuf,
    data: PathBuf,
    as_other: bool,
    /// The directory goes with the cluster.
    temporary: bool,
    /// A child of ours, so that what it takes of the processors is counted with the broker; none:
    /// it ran already.
    server: Option<Child>,
    /// The directory is ours alone until this goes, also when we are killed.
    _lock: File,
}

/// The role that brokers of an experiment have in its database. It owns what is in there and may
/// do nothing else, since no password is asked for.
const STATION_ROLE: &str = krarup_lab::testbed::stations::DATABASE;
/// Enough for a dozen brokers with a pool of forty each.
const STATION_CONNECTIONS: &str = "max_connections=500";
/// The setting that says how many connections a server takes, before the number.
const MAX_CONNECTIONS: &str = "max_connections=";
/// The least that a server for one broker takes, and how many of them are for other programs.
const LEAST_CONNECTIONS: u32 = 60;
const OTHER_CONNECTIONS: u32 = 10;
/// How long a server may take to start: after a crash it reads its log first.
const PATIENCE: Duration = Duration::from_secs(60);
/// How many names a temporary directory may have: processes that were killed have left theirs.
const NAMES: u32 = 100;
/// How often it is looked whether it has.
const LOOK: Duration = Duration::from_millis(10);

impl EmbeddedPostgres {
    /// A cluster in a directory of its own, which is gone with it, for a broker with so many
    /// connections.
    pub(super) fn temporary(connections: u32) -> Result<Self, Failure> {
        Self::temporary_with(|cluster| cluster.begin(connections))
    }

    /// The same for brokers of other hosts, which reach it at `listen`; `settings` are further
    /// words of the server.
    pub(super) fn station(listen: SocketAddr, settings: &[String]) -> Result<Self, Failure> {
        let address = format!("listen_addresses={}", listen.ip());
        let port = format!("port={}", listen.port());
        let own = ["-c", STATION_CONNECTIONS, "-c", &address, "-c", &port];
        let words: Vec<&str> = own.into_iter().chain(settings.iter().map(String::as_str)).collect();
        Self::temporary_with(|cluster| {
            cluster.let_brokers_in()?;
            cluster.serve(&words)
        })
    }

    fn temporary_with(begin: impl FnOnce(&mut Self) -> Result<(), Failure>) -> Result<Self, Failure> {
        let folder = make_own(&std::env::temp_dir().join(format!("krarup-broker-{}", std::process::id())))?;
        // Where a run has started us, the next one takes away what we cannot.
        if let Some(ledger) = Ledger::inherited() {
            ledger.note_folder(&folder);
        }
        let made = Self::made(&folder).and_then(|mut cluster| {
            cluster.temporary = true;
            begin(&mut cluster).map(|()| cluster)
        });
        made.inspect_err(|_| {
            // What was begun is of no use.
            let _ = fs::remove_dir_all(&folder);
        })
    }

    /// Makes the cluster if it is not there, and starts it for a broker with so many connections.
    pub(super) fn start(folder: &Path, connections: u32) -> Result<Self, Failure> {
        let mut cluster = Self::made(folder)?;
        cluster.begin(connections)?;
        Ok(cluster)
    }

    /// Makes the cluster if it is not there.
    fn made(folder: &Path) -> Result<Self, Failure> {
        let programs = postgres_programs().ok_or_else(|| {
            Failure::run("PostgreSQL is not installed: there is no `initdb`")
                .hint("apt-get install postgresql")
        })?;
        let wrong = |error: io::Error| {
            Failure::usage(format!("{} cannot be used: {error}", folder.display()))
                .hint("choose another directory with --postgres-embedded")
        };
        fs::create_dir_all(folder).map_err(wrong)?;
        let folder = fs::canonicalize(folder).map_err(wrong)?;
        if folder.as_os_str().len() > 80 {
            // The kernel keeps 108 bytes for the name of a socket.
            return Err(Failure::usage(format!(
                "the path {} is too long for a socket in it",
                folder.display()
            ))
            .hint("choose a directory whose path has at most 80 bytes"));
        }
        let as_other = rustix::process::geteuid().is_root();
        if as_other {
            if let Err(error) = Command::new("runuser").arg("--version").output() {
                return Err(Failure::run(format!(
                    "PostgreSQL does not run as root, and runuser, which starts it as the user `postgres`, cannot be started: {error}"
                ))
                .hint("apt-get install util-linux, or run krarup as another user"));
            }
            let ids = user("postgres").ok_or_else(|| {
                Failure::run("PostgreSQL does not run as root, and there is no user `postgres`")
                    .hint("run krarup as another user")
            })?;
            chown(&folder, Some(ids.0), Some(ids.1)).map_err(wrong)?;
            if let Some(closed) = closed_to_postgres(&folder) {
                return Err(Failure::usage(format!(
                    "PostgreSQL runs as the user `postgres`, who cannot reach {}: {} lets others not through",
                    folder.display(),
                    closed.display()
                ))
                .hint(format!(
                    "choose another directory, such as /var/lib/krarup-queues, or chmod o+x {}",
                    closed.display()
                )));
            }
        }
        let lock = own_file(&folder.join(".lock"), File::options().append(true)).map_err(wrong)?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                return Err(Failure::usage(format!("another broker uses {}", folder.display())).hint(
                    format!(
                        "stop it, choose another directory, or share its database: --store {:?}",
                        url_of(&folder)
                    ),
                ));
            }
            Err(TryLockError::Error(error)) => return Err(wrong(error)),
        }
        let data = folder.join("data");
        half_made(&data)?;
        let programs = programs_for(&data, Path::new(POSTGRES_VERSIONS), programs, postgres().as_deref())?;
        let cluster = Self { programs, data, folder, as_other, temporary: false, server: None, _lock: lock };
        if !cluster.data.join("PG_VERSION").exists() {
            cluster.make()?;
        }
        Ok(cluster)
    }

    /// Makes the cluster, which has its name only when it is complete.
    fn make(&self) -> Result<(), Failure> {
        let wrong =
            |error: io::Error| Failure::run(format!("{} cannot be made: {error}", self.data.display()));
        // One that is there and empty, as where a disk is mounted, stays where it is.
        let in_place = self.data.exists();
        let new = if in_place { self.data.clone() } else { self.folder.join("data.new") };
        if !in_place && new.exists() {
            fs::remove_dir_all(&new).map_err(wrong)?;
        }
        let words = ["-U", "krarup", "-A", "trust", "-E", "UTF8", "--locale=C"];
        self.run("initdb", &[&["-D", &new.to_string_lossy()], &words[..]].concat())?;
        if !in_place {
            fs::rename(&new, &self.data).map_err(wrong)?;
        }
        File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(wrong)
    }

    /// Starts it for one broker with so many connections, unless it runs.
    fn begin(&mut self, connections: u32) -> Result<(), Failure> {
        let data = self.data.to_string_lossy().into_owned();
        if self.run("pg_ctl", &["-D", &data, "status"]).is_ok() {
            // A broker that was killed could not stop it.
            eprintln!("PostgreSQL still runs in {}", self.folder.display());
            let words = fs::read_to_string(self.data.join("postmaster.opts")).unwrap_or_default();
            if let Some(limit) = limit_in(&words).filter(|limit| *limit < connections) {
                eprintln!(
                    "warning: it was started with {MAX_CONNECTIONS}{limit}, and this broker needs {connections}: stop the broker, and start it again"
                );
            }
            return Ok(());
        }
        let limit = format!("{MAX_CONNECTIONS}{}", room_for(connections));
        self.serve(&["-c", "listen_addresses=", "-c", &limit])?;
        eprintln!("PostgreSQL runs in {}", self.folder.display());
        Ok(())
    }

    /// Makes the database and the role of brokers on other hosts, and lets these in by it alone.
    fn let_brokers_in(&self) -> Result<(), Failure> {
        let failed = |why: String| Failure::run(format!("the database cannot be made: {why}"));
        let wrong = |error: io::Error| failed(error.to_string());
        let rules = format!("local all all trust\nhost {STATION_ROLE} {STATION_ROLE} samenet trust\n");
        let file = own_file(&self.data.join("pg_hba.conf"), File::options().write(true).truncate(true));
        file.and_then(|mut file| file.write_all(rules.as_bytes())).map_err(wrong)?;
        let data = self.data.to_string_lossy().into_owned();
        let mut alone = self
            .command("postgres", &["--single", "-D", &data, "postgres"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(wrong)?;
        let statements = format!(
            "CREATE ROLE {STATION_ROLE} LOGIN;\nCREATE DATABASE {STATION_ROLE} OWNER {STATION_ROLE};\n"
        );
        let said = alone.stdin.take().map_or(Ok(()), |mut to| to.write_all(statements.as_bytes()));
        let ended = alone.wait_with_output().map_err(wrong)?;
        said.map_err(wrong)?;
        let told = String::from_utf8_lossy(&ended.stderr);
        if !ended.status.success() || told.contains("ERROR:") {
            return Err(failed(told.trim().replace('\n', "; ")));
        }
        Ok(())
    }

    /// Waits until the server ends by itself or `stops` says that it is to be stopped; whether it
    /// ended by itself.
    pub(super) fn outlast(&mut self, mut stops: impl FnMut() -> bool) -> bool {
        loop {
            if stops() {
                return false;
            }
            if self.server.as_mut().is_some_and(|server| !matches!(server.try_wait(), Ok(None))) {
                return true;
            }
        }
    }

    /// Starts the server, and waits until it takes connections.
    fn serve(&mut self, settings: &[&str]) -> Result<(), Failure> {
        let data = self.data.to_string_lossy().into_owned();
        let path = self.folder.join("log");
        let hint = |why: String| Failure::run(why).hint(format!("see {}", path.display()));
        let wrong = |error: io::Error| hint(format!("postgres cannot be started: {error}"));
        let log = own_file(&path, File::options().append(true)).map_err(wrong)?;
        let sockets = format!("unix_socket_directories={}", self.folder.display());
        // No password is asked for: who may open the socket is the superuser.
        let closed = ["-c", "unix_socket_permissions=0700"];
        let words = [&["-D", &data, "-c", &sockets], &closed[..], settings].concat();
        let before = self.state();
        let mut server = self
            .command("postgres", &words)
            .stdout(log.try_clone().map_err(wrong)?)
            .stderr(log)
            .spawn()
            .map_err(wrong)?;
        let ready = self.wait_until_ready(&mut server, before.as_deref());
        self.server = Some(server);
        ready.map_err(hint)
    }

    /// Waits until the server says that it is ready, other than `before`; the error says why it
    /// does not.
    fn wait_until_ready(&self, server: &mut Child, before: Option<&str>) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            // What a server that was killed has left says that it is ready, too.
            let state = self.state().filter(|state| Some(&**state) != before);
            if state.is_some_and(|state| state.lines().nth(7).is_some_and(|word| word.trim() == "ready")) {
                return Ok(());
            }
            match server.try_wait() {
                Ok(None) if begun.elapsed() > PATIENCE => {
                    return Err(format!("postgres takes no connections within {} s", PATIENCE.as_secs()));
                }
                Ok(None) => std::thread::sleep(LOOK),
                Ok(Some(status)) => return Err(format!("postgres ended at once ({status})")),
                Err(error) => return Err(format!("postgres cannot be started: {error}")),
            }
        }
    }

    /// What the server says of itself, in a file of eight lines whose last is its state.
    fn state(&self) -> Option<String> {
        fs::read_to_string(self.data.join("postmaster.pid")).ok()
    }

    /// Where it is reached.
    pub(super) fn url(&self) -> String {
        url_of(&self.folder)
    }

    fn run(&self, program: &str, arguments: &[&str]) -> Result<(), Failure> {
        let output = self.command(program, arguments).output();
        match output {
            Ok(Output { status, .. }) if status.success() => Ok(()),
            Ok(Output { stderr, stdout, .. }) => {
                let said = if stderr.is_empty() { stdout } else { stderr };
                let said = String::from_utf8_lossy(&said).trim().replace('\n', "; ");
                Err(Failure::run(format!("{program} failed: {said}"))
                    .hint(format!("see {}", self.folder.join("log").display())))
            }
            Err(error) => Err(Failure::run(format!("{program} cannot be started: {error}"))),
        }
    }

    fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let path = self.programs.join(program);
        let mut command = if self.as_other {
            let mut command = as_postgres();
            command.arg(path);
            command
        } else {
            Command::new(path)
        };
        // A directory that this user may not read is no place to start from; a terminal's Ctrl-C is
        // the broker's affair.
        command.args(arguments).current_dir("/").stdin(Stdio::null()).process_group(0);
        command
    }
}

impl Drop for EmbeddedPostgres {
    fn drop(&mut self) {
        let data = self.data.to_string_lossy().into_owned();
        // Where it was never started, or has ended, there is nothing to stop.
        if self.state().is_some()
            && let Err(failure) = self.run("pg_ctl", &["-D", &data, "-m", "fast", "-w", "stop"])
        {
            eprintln!("warning: {}", failure.message());
        }
        if let Some(mut server) = self.server.take() {
            // It has ended, or will not: then it is left to the system.
            let _ = server.try_wait();
        }
        if self.temporary
            && let Err(error) = fs::remove_dir_all(&self.folder)
        {
            eprintln!("warning: {} cannot be removed: {error}", self.folder.display());
        }
    }
}

/// How many connections this broker has to its server.
pub(super) fn connections(args: &BrokerArgs) -> u32 {
    match args.mode {
        Mode::Owned => 6 * args.shards + 1,
        Mode::Batch => 6,
        Mode::Direct => args.pool + 2,
    }
}

/// How many connections the server of a broker with so many is to take.
fn room_for(connections: u32) -> u32 {
    (connections + OTHER_CONNECTIONS).max(LEAST_CONNECTIONS)
}

/// How many connections a server takes that was started with these words.
fn limit_in(words: &str) -> Option<u32> {
    let (_, rest) = words.split_once(MAX_CONNECTIONS)?;
    rest.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok()
}

/// An error where a cluster was begun and never completed: it does not start.
fn half_made(data: &Path) -> Result<(), Failure> {
    let begun = fs::read_dir(data).is_ok_and(|mut entries| entries.next().is_some());
    if !begun || ["PG_VERSION", "global/pg_control"].iter().all(|file| data.join(file).exists()) {
        return Ok(());
    }
    Err(Failure::usage(format!("{} is half a database: its making was cut off", data.display()))
        .hint(format!("remove {}", data.display())))
}

/// Where the programs are that can serve the cluster in `data`: those `chosen`, whose words for
/// their version are `installed`; or, where another version made it, its own among `versions`.
fn programs_for(
    data: &Path,
    versions: &Path,
    chosen: PathBuf,
    installed: Option<&str>,
) -> Result<PathBuf, Failure> {
    let made = fs::read_to_string(data.join("PG_VERSION")).unwrap_or_default();
    let made = made.trim();
    // `postgres (PostgreSQL) 17.5`, and then what the distribution says of it.
    let Some(installed) = installed.and_then(|words| words.split_whitespace().nth(2)) else {
        return Ok(chosen);
    };
    // 17 has made it, and 17.5 opens it.
    let opens = |rest: &str| !rest.starts_with(|letter: char| letter.is_ascii_digit());
    if made.is_empty() || installed.strip_prefix(made).is_some_and(opens) {
        return Ok(chosen);
    }
    let its = versions.join(made).join("bin");
    if its.join("postgres").exists() {
        return Ok(its);
    }
    Err(Failure::usage(format!(
        "{} was made by PostgreSQL {made}, and {installed} is installed",
        data.display()
    ))
    .hint(format!("apt-get install postgresql-{made}")))
}

/// Makes a directory that no other user may enter: where others may write, one that is there may be
/// theirs. Where that is so, as where an earlier process of the same number was killed, it has a
/// number behind its name.
fn make_own(first: &Path) -> Result<PathBuf, Failure> {
    for number in 1..=NAMES {
        let mut folder = first.as_os_str().to_owned();
        if number > 1 {
            folder.push(format!("-{number}"));
        }
        let folder = PathBuf::from(folder);
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => return Ok(folder),
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => {
                return Err(Failure::run(format!("{} cannot be made: {error}", folder.display()))
                    .hint("let TMPDIR name another directory"));
            }
        }
    }
    Err(Failure::run(format!("{} and others like it are there already", first.display())).hint("remove them"))
}

/// Opens a file in the directory of a cluster, and makes it where there is none. Where we are root,
/// the directory is that of the user `postgres`: what stands there as a link, perhaps to a file of
/// root, is an error.
fn own_file(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let opened = options.create(true).custom_flags(OFlags::NOFOLLOW.bits() as i32).open(path);
    opened.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
}

/// Where a server is reached whose socket is in `folder`.
fn url_of(folder: &Path) -> String {
    format!("host={} port=5432 user=krarup dbname=postgres", folder.display())
}

/// Starts a program as the user `postgres`.
fn as_postgres() -> Command {
    let mut command = Command::new("runuser");
    command.args(["-u", "postgres", "--"]).current_dir("/").stdin(Stdio::null());
    command
}

/// The first directory on the way to this one that the user `postgres` may not pass.
fn closed_to_postgres(folder: &Path) -> Option<PathBuf> {
    let passes = |path: &Path| {
        let tested = as_postgres().arg("test").arg("-x").arg(path).output();
        tested.is_ok_and(|output| output.status.success())
    };
    if passes(folder) {
        return None;
    }
    let mut way: Vec<&Path> = folder.ancestors().collect();
    way.reverse();
    way.into_iter().find(|path| !passes(path)).map(Path::to_owned)
}

/// The numbers of a user and of its group.
fn user(name: &str) -> Option<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    let mut fields = users.lines().find(|line| line.split(':').next() == Some(name))?.split(':').skip(2);
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_server_takes_as_many_connections_as_its_broker_needs() {
        for (flags, needed, taken) in [
            ("", 7, 60),
            ("--shards 16", 97, 107),
            ("--shards 64", 385, 395),
            ("--mode batch", 6, 60),
            ("--mode direct --pool 100", 102, 112),
        ] {
            let own = connections(&BrokerArgs::of(flags));
            assert_eq!((own, room_for(own)), (needed, taken), "{flags}");
        }
    }

    #[test]
    fn the_limit_of_a_server_that_runs_is_read_from_the_words_it_was_started_with() {
        let words = "/usr/bin/postgres \"-D\" \"/q/data\" \"-c\" \"max_connections=60\"\n";
        assert_eq!(limit_in(words), Some(60));
        assert_eq!(limit_in("/usr/bin/postgres \"-D\" \"/q/data\"\n"), None);
    }

    #[test]
    fn half_a_database_is_named() {
        let data = std::env::temp_dir().join(format!("krarup-half-made-{}", std::process::id()));
        let _ = fs::remove_dir_all(&data);
        assert_eq!(half_made(&data), Ok(()), "it is not begun");
        fs::create_dir_all(&data).unwrap();
        assert_eq!(half_made(&data), Ok(()), "a disk may be mounted here");
        fs::create_dir(data.join("global")).unwrap();
        for made in ["PG_VERSION", "global/pg_control"] {
            let said = half_made(&data).map_err(|failure| failure.message());
            assert_eq!(said, Err(format!("{} is half a database: its making was cut off", data.display())));
            fs::write(data.join(made), "").unwrap();
        }
        assert_eq!(half_made(&data), Ok(()));
        fs::remove_dir_all(&data).unwrap();
    }

    #[test]
    fn a_database_is_served_by_the_version_that_made_it() {
        let root = std::env::temp_dir().join(format!("krarup-versions-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        let (data, versions, chosen) = (root.join("data"), root.join("versions"), root.join("chosen"));
        let asked = |version: &str| {
            let words = format!("postgres (PostgreSQL) {version} (Debian {version}-1)");
            programs_for(&data, &versions, chosen.clone(), Some(&words)).map_err(|failure| failure.message())
        };
        assert_eq!(asked("17.5"), Ok(chosen.clone()), "it is not made yet");
        fs::create_dir_all(&data).unwrap();
        for (made, opens, other) in
            [("15", "15.13", "17.5"), ("1", "1.2", "15.13"), ("9.6", "9.6.24", "9.5.2")]
        {
            fs::write(data.join("PG_VERSION"), format!("{made}\n")).unwrap();
            assert_eq!(asked(opens), Ok(chosen.clone()));
            let why = format!("{} was made by PostgreSQL {made}, and {other} is installed", data.display());
            assert_eq!(asked(other), Err(why));
            let its = versions.join(made).join("bin");
            fs::create_dir_all(&its).unwrap();
            fs::write(its.join("postgres"), "").unwrap();
            assert_eq!(asked(other), Ok(its));
        }
        fs::remove_dir_all(&root).unwrap();
    }

    #[test]
    fn a_link_in_the_directory_of_a_cluster_leads_to_no_other_file() {
        let root = std::env::temp_dir().join(format!("krarup-own-file-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir(&root).unwrap();
        let (other, link) = (root.join("other"), root.join("log"));
        let append = File::options().append(true).clone();
        let anew = File::options().write(true).truncate(true).clone();
        for mut options in [append, anew] {
            own_file(&link, &mut options).unwrap().write_all(b"own").unwrap();
            assert_eq!(fs::read_to_string(&link).unwrap(), "own");
            fs::remove_file(&link).unwrap();
            fs::write(&other, "kept").unwrap();
            std::os::unix::fs::symlink(&other, &link).unwrap();
            let refused = own_file(&link, &mut options).map_err(|error| error.to_string());
            assert!(refused.is_err_and(|why| why.contains(link.to_str().unwrap())));
            assert_eq!(fs::read_to_string(&other).unwrap(), "kept");
            fs::remove_file(&link).unwrap();
        }
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn a_directory_of_its_own_is_closed_to_others_and_one_that_is_there_is_left_alone() {
        let root = std::env::temp_dir().join(format!("krarup-own-folder-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir(&root).unwrap();
        let first = root.join("own");
        for name in ["own", "own-2", "own-3"] {
            assert_eq!(make_own(&first), Ok(root.join(name)));
            assert_eq!(fs::metadata(root.join(name)).unwrap().permissions().mode() & 0o777, 0o700);
        }
        fs::remove_dir_all(&root).unwrap();
        let refused = make_own(&first).map_err(|failure| failure.message());
        assert!(refused.is_err_and(|why| why.contains("own cannot be made")));
    }
}
