//! A cluster that Patroni keeps: two PostgreSQL, and etcd, in which they agree which of them is the
//! primary. None but Patroni decides over a fail-over here.

use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::durable::cluster::{programs, psql_of};
use crate::durable::{program_of, said};
use crate::support::process::{Port, Program};
use crate::support::{fresh, until};

/// Two members. What runs ends with this value.
pub(crate) struct PatroniCluster {
    folder: PathBuf,
    members: Vec<Member>,
    _etcd: Program,
    _ports: [Port; 2],
}

struct Member {
    name: &'static str,
    patroni: Option<Program>,
    data: PathBuf,
    server: Port,
    rest: Port,
}

impl PatroniCluster {
    /// With a synchronous standby. None where one of the programs is not installed.
    pub(crate) fn start(name: &str) -> Option<Self> {
        let there = |program: &str| Path::new("/usr/bin").join(program).exists();
        if !there("patroni") || !there("etcd") {
            return None;
        }
        programs()?;
        let folder = fresh(name);
        fs::create_dir_all(&folder).unwrap();
        own(&folder);
        let ports = [Port::new(), Port::new()];
        let etcd = etcd(&folder, &ports);
        let place = ports[0].address();
        // `first` and `any` are words of `synchronous_standby_names`: a member of that name never
        // becomes a synchronous standby.
        let mut members: Vec<Member> = ["db1", "db2"].iter().map(|name| Member::new(name, &folder)).collect();
        for (at, member) in members.iter_mut().enumerate() {
            member.begin(&folder, &place.to_string());
            // Which of them is the first primary does not matter, but it is known.
            if at == 0 {
                until("there is a primary", || {
                    member.sql("SELECT pg_is_in_recovery()").as_deref() == Some("f")
                });
            }
        }
        let cluster = Self { folder, members, _etcd: etcd, _ports: ports };
        cluster.has_standby();
        Some(cluster)
    }

    /// Both members, as a broker is told them.
    pub(crate) fn store(&self, database: &str) -> String {
        let [first, second] = [0, 1].map(|at| self.members[at].server.address());
        format!("postgres://krarup@{first},{second}/{database}")
    }

    /// HAProxy before both members, which leads to the one of which Patroni says that it is the
    /// primary, and where it listens. None where it is not installed.
    pub(crate) fn haproxy(&self) -> Option<(Program, Port)> {
        let program =
            ["/usr/sbin/haproxy", "/usr/bin/haproxy"].into_iter().find(|one| Path::new(one).exists())?;
        let port = Port::new();
        let server = |member: &Member| {
            let (server, rest) = (member.server.address(), member.rest.address().port());
            format!("    server {} {server} check port {rest}\n", member.name)
        };
        let servers: String = self.members.iter().map(server).collect();
        let settings = format!(
            "defaults\n    mode tcp\n    timeout connect 2s\n    timeout check 2s\n    timeout client 1h\n    timeout server 1h\n\
             listen primary\n    bind {}\n    option httpchk OPTIONS /primary\n    http-check expect status 200\n    \
             default-server inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions\n{servers}",
            port.address()
        );
        let file = self.folder.join("haproxy.cfg");
        fs::write(&file, settings).unwrap();
        let mut command = Command::new(program);
        command.arg("-db").arg("-f").arg(&file);
        let haproxy = Program::spawn(command);
        // Until its checks have said otherwise it takes each member for up, and leads to them in
        // turn.
        let leads = || told(port.address(), "SELECT pg_is_in_recovery()").as_deref() == Some("f");
        until("HAProxy leads to the primary alone", || (0..4).all(|_| leads()));
        Some((haproxy, port))
    }

    /// Asks the primary.
    pub(crate) fn sql(&self, statement: &str) -> String {
        self.primary().sql(statement).expect("the primary answers")
    }

    /// Waits until commits wait for a standby.
    fn has_standby(&self) {
        let waits = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        until("the standby is synchronous", || {
            self.members.iter().any(|member| member.sql(waits).as_deref() == Some("1"))
        });
        // Only then may it be promoted: Patroni notes that two seconds later.
        until("Patroni knows that it is synchronous", || self.members.iter().any(Member::is_synchronous));
    }

    fn primary(&self) -> &Member {
        let is = |member: &&Member| member.sql("SELECT pg_is_in_recovery()").as_deref() == Some("f");
        self.members.iter().find(is).expect("there is a primary")
    }

    /// The primary's server is killed; until Patroni has promoted the other member.
    pub(crate) fn kill_primary(&self) {
        let before = self.primary().name;
        self.primary().kill_server();
        until("the other member is the primary", || {
            self.members.iter().any(|member| {
                member.name != before && member.sql("SELECT pg_is_in_recovery()").as_deref() == Some("f")
            })
        });
    }
}

impl Drop for PatroniCluster {
    fn drop(&mut self) {
        for member in &mut self.members {
            member.end();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

impl Member {
    fn new(name: &'static str, folder: &Path) -> Self {
        Self { name, patroni: None, data: folder.join(name), server: Port::new(), rest: Port::new() }
    }

    fn begin(&mut self, folder: &Path, etcd: &str) {
        let file = folder.join(format!("{}.yml", self.name));
        fs::write(&file, self.settings(folder, etcd)).unwrap();
        own(&file);
        let mut command = as_postgres("/usr/bin/patroni");
        command.arg(&file);
        self.patroni = Some(Program::spawn(command));
    }

    fn settings(&self, folder: &Path, etcd: &str) -> String {
        let (name, rest, server) = (self.name, self.rest.address(), self.server.address());
        let (folder, data) = (folder.display(), self.data.display());
        let programs = programs().expect("PostgreSQL is installed");
        format!(
            "scope: krarup\nname: {name}\nrestapi: {{listen: '{rest}', connect_address: '{rest}'}}\netcd3: {{host: '{etcd}'}}\n\
             bootstrap:\n  dcs:\n    ttl: 20\n    loop_wait: 1\n    retry_timeout: 5\n    primary_start_timeout: 0\n    \
             synchronous_mode: true\n    postgresql: {{use_pg_rewind: true}}\n  initdb: [{{encoding: UTF8}}, {{locale: C}}]\n  \
             pg_hba: [local all all trust, host all all 127.0.0.1/32 trust, host replication all 127.0.0.1/32 trust]\n\
             postgresql:\n  listen: '{server}'\n  connect_address: '{server}'\n  data_dir: {data}\n  bin_dir: {}\n  \
             pgpass: {folder}/{name}.pgpass\n  authentication:\n    superuser: {{username: krarup, password: krarup}}\n    \
             replication: {{username: replicator, password: krarup}}\n    rewind: {{username: krarup, password: krarup}}\n  \
             parameters: {{unix_socket_directories: '{folder}'}}\n",
            programs.display()
        )
    }

    /// Whether Patroni says that it is the synchronous standby.
    fn is_synchronous(&self) -> bool {
        let asked = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(self.rest.address())?;
            stream.write_all(b"GET /synchronous HTTP/1.0\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        asked().is_ok_and(|answer| answer.split(' ').nth(1) == Some("200"))
    }

    /// What the server says; none: it does not answer.
    fn sql(&self, statement: &str) -> Option<String> {
        told(self.server.address(), statement)
    }

    /// All its processes end at once, as in a crash.
    fn kill_server(&self) {
        let data = self.data.to_string_lossy().into_owned();
        let mut command = program_of(&programs().expect("PostgreSQL is installed"), "pg_ctl");
        let _ = command.args(["-D", &data, "-m", "immediate", "stop"]).output();
    }

    fn end(&mut self) {
        // It starts nothing any more.
        self.patroni = None;
        self.kill_server();
    }
}

/// What a server at this address says; none: it does not answer.
fn told(address: SocketAddr, statement: &str) -> Option<String> {
    let mut command = psql_of(&programs()?, "postgres", statement);
    command.args(["-h", &address.ip().to_string(), "-p", &address.port().to_string()]);
    let output = command.env("PGCONNECT_TIMEOUT", "30").output().unwrap();
    output.status.success().then(|| said(&output))
}

fn etcd(folder: &Path, [client, peer]: &[Port; 2]) -> Program {
    let (client, peer) = (format!("http://{}", client.address()), format!("http://{}", peer.address()));
    let mut command = as_postgres("/usr/bin/etcd");
    command
        .args(["--name", "krarup", "--log-level", "warn", "--unsafe-no-fsync"])
        .arg("--data-dir")
        .arg(folder.join("etcd"))
        .args(["--listen-client-urls", &client, "--advertise-client-urls", &client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("krarup={peer}")]);
    Program::spawn(command)
}

/// A program as the user that PostgreSQL accepts, and nothing between: its handle is its own.
fn as_postgres(program: &str) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=postgres", "--regid=postgres", "--init-groups", program])
        .env("HOME", "/")
        .current_dir("/");
    command
}

fn own(path: &Path) {
    if rustix::process::geteuid().is_root() {
        said(&Command::new("chown").arg("postgres:postgres").arg(path).output().unwrap());
    }
}
