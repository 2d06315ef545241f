//! An experiment on other machines: several sshd of this one, each with its own port, host key and
//! list of users; or each in a network namespace, with an address of its own.

use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::support::experiment::{ELSEWHERE, are_alike, begin, files, finished, json};
use crate::support::process::{Port, Program, processes, skipped};
use crate::support::{fresh, test_id, until, until_within};
use krarup_lab::testbed::namespace::inside;
use rustix::process::Signal;

/// Machines that ssh comes to, and what tells it how.
struct Machines {
    folder: PathBuf,
    all: Vec<Machine>,
    /// Where they are apart: these go after them.
    network: Option<Spaces>,
}

struct Machine {
    address: SocketAddr,
    _port: Option<Port>,
    daemon: Program,
}

/// Namespaces that are joined by a bridge: one for each machine, and one for the runner.
struct Spaces {
    prefix: String,
    names: Vec<String>,
}

fn ip(words: &[&str]) -> bool {
    let done = Command::new("ip").args(words).stdin(Stdio::null()).stderr(Stdio::null()).status();
    done.is_ok_and(|status| status.success())
}

impl Spaces {
    /// So many machines; none, with the reason printed, where namespaces cannot be made.
    fn new(machines: usize) -> Option<Self> {
        let mut all = Self { prefix: format!("krarup-ssh-test-{}", test_id()), names: Vec::new() };
        let switch = all.space("switch")?;
        assert!(ip(&["-n", &switch, "link", "add", "br0", "type", "bridge"]));
        assert!(ip(&["-n", &switch, "link", "set", "br0", "up"]));
        for number in 0..=machines {
            let (space, port) = (all.space(&number.to_string())?, format!("h{number}"));
            let address = format!("{}/24", address(number));
            let pair = ["type", "veth", "peer", "name", &port, "netns", &switch];
            assert!(ip(&[&["link", "add", "eth0", "netns", &space][..], &pair].concat()));
            assert!(ip(&["-n", &space, "link", "set", "lo", "up"]));
            assert!(ip(&["-n", &space, "addr", "add", &address, "dev", "eth0"]));
            assert!(ip(&["-n", &space, "link", "set", "eth0", "up"]));
            assert!(ip(&["-n", &switch, "link", "set", &port, "master", "br0", "up"]));
        }
        Some(all)
    }

    fn space(&mut self, name: &str) -> Option<String> {
        let name = format!("{}-{name}", self.prefix);
        if !ip(&["netns", "add", &name]) {
            skipped("no network namespaces here (they need Linux, root and iproute2)");
            return None;
        }
        self.names.push(name.clone());
        Some(name)
    }

    /// The namespace of a machine, from 0; that of the runner is the one after the last.
    fn of(&self, machine: usize) -> &str {
        &self.names[machine + 1]
    }

    /// A program there. `ip netns exec` would hide control groups from it.
    fn command(&self, machine: usize, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args([&format!("--net=/run/netns/{}", self.of(machine)), program]);
        command
    }
}

impl Drop for Spaces {
    fn drop(&mut self) {
        for name in &self.names {
            ip(&["netns", "del", name]);
        }
    }
}

/// The address of a machine in a namespace.
fn address(number: usize) -> String {
    format!("10.79.0.{}", number + 1)
}

fn daemon() -> Option<&'static str> {
    ["/usr/sbin/sshd", "/usr/local/sbin/sshd"].into_iter().find(|path| Path::new(path).exists())
}

fn key(path: &Path) {
    let made = Command::new("ssh-keygen")
        .args(["-q", "-t", "ed25519", "-N", "", "-f", path.to_str().unwrap()])
        .stdin(Stdio::null())
        .status();
    assert!(made.unwrap().success());
}

impl Machines {
    /// So many; none, with the reason printed, where no sshd is installed.
    fn start(name: &str, count: usize) -> Option<Self> {
        Self::start_in(name, count, None)
    }

    /// The same, each in a namespace of its own.
    fn start_apart(name: &str, count: usize) -> Option<Self> {
        // Without a daemon there is nothing to make namespaces for.
        let network = daemon().and_then(|_| Spaces::new(count));
        if daemon().is_some() && network.is_none() {
            return None;
        }
        Self::start_in(name, count, network)
    }

    fn start_in(name: &str, count: usize, network: Option<Spaces>) -> Option<Self> {
        let Some(daemon) = daemon() else {
            skipped("no sshd here (Debian's package openssh-server)");
            return None;
        };
        let folder = fresh(name);
        fs::create_dir_all(&folder).unwrap();
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
        key(&folder.join("user"));
        fs::copy(folder.join("user.pub"), folder.join("authorized")).unwrap();
        let mut all = Vec::new();
        let mut known = String::new();
        for number in 0..count {
            let at = |what: &str| folder.join(format!("{what}{number}"));
            key(&at("host"));
            let port = network.is_none().then(Port::new);
            let address = match &port {
                Some(port) => port.address(),
                None => SocketAddr::new(address(number).parse().unwrap(), 22),
            };
            let public = fs::read_to_string(at("host").with_extension("pub")).unwrap();
            let public: Vec<&str> = public.split(' ').take(2).collect();
            let name = match address.port() {
                22 => address.ip().to_string(),
                port => format!("[{}]:{port}", address.ip()),
            };
            known.push_str(&format!("{name} {}\n", public.join(" ")));
            let config = format!(
                "Port {}\nListenAddress {}\nHostKey {}\nPidFile none\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\n\
                 PasswordAuthentication no\nKbdInteractiveAuthentication no\nPermitRootLogin yes\nAcceptEnv none\nLogLevel ERROR\n",
                address.port(),
                address.ip(),
                at("host").display(),
                folder.join("authorized").display()
            );
            fs::write(at("config"), config).unwrap();
            // sshd wants to be called by its whole path, and a folder of its own when it is root's.
            if fs::create_dir_all("/run/sshd").is_err() && rustix::process::geteuid().is_root() {
                skipped("no folder /run/sshd");
                return None;
            }
            let mut command = match &network {
                Some(network) => network.command(number, daemon),
                None => Command::new(daemon),
            };
            command.args(["-D", "-e", "-f", at("config").to_str().unwrap()]);
            let daemon = Program::spawn(command);
            until("sshd takes connections", || {
                let knock = move || TcpStream::connect_timeout(&address, Duration::from_secs(1));
                network.as_ref().map_or_else(knock, |network| inside(network.of(count), knock)).is_ok()
            });
            all.push(Machine { address, _port: port, daemon });
        }
        fs::write(folder.join("known"), known).unwrap();
        let config = format!(
            "Host *\n  IdentityFile {}\n  IdentitiesOnly yes\n  UserKnownHostsFile {}\n  GlobalKnownHostsFile /dev/null\n  StrictHostKeyChecking yes\n",
            folder.join("user").display(),
            folder.join("known").display()
        );
        fs::write(folder.join("ssh.conf"), config).unwrap();
        Some(Self { folder, all, network })
    }

    /// An inventory, as Ansible's tool writes it, in which the first machine is the clients', the
    /// second the middleware's, and all others are the servers'.
    fn inventory(&self) -> String {
        let variables = self.all.iter().enumerate().map(|(number, machine)| {
            let address = machine.address;
            let variables = serde_json::json!({"ansible_host": address.ip(), "ansible_port": address.port()});
            (format!("h{number}"), variables)
        });
        let variables: serde_json::Map<_, _> = variables.collect();
        let servers: Vec<String> = (2..self.all.len()).map(|number| format!("h{number}")).collect();
        serde_json::json!({
            "_meta": {"hostvars": variables},
            "clients": {"hosts": ["h0"]}, "middleware": {"hosts": ["h1"]}, "servers": {"hosts": servers},
        })
        .to_string()
    }

    /// A spec, beside its inventory, and where its results go.
    fn spec(&self, spec: &str) -> (PathBuf, PathBuf) {
        fs::write(self.folder.join("hosts.json"), self.inventory()).unwrap();
        let path = self.folder.join("far.toml");
        fs::write(&path, spec.replace("CACHE", self.folder.join("cache").to_str().unwrap())).unwrap();
        (path, self.folder.join("results"))
    }

    /// What is in the cache of the machines, of this run and others: no runs' folders, when all is
    /// over.
    fn runs(&self) -> Vec<PathBuf> {
        let runs = fs::read_dir(self.folder.join("cache/runs"));
        runs.into_iter().flatten().map(|entry| entry.unwrap().path()).collect()
    }

    /// Processes that were started from the cache, or by one that was.
    fn processes(&self) -> Vec<String> {
        let cache = self.folder.join("cache").to_string_lossy().into_owned();
        let lines = processes().map(|(_, words)| words);
        lines.filter(|line| line.contains(&cache) && !line.starts_with("ssh ")).collect()
    }
}

const SPEC: &str = r#"
title = "two mixes on three machines"
testbed = "ssh"
seed = 7
repetitions = { min = 2 }
phases = { warm_up = "50ms", measure = "300ms" }
retries = 5
gates = ["errors == 0", "misses == 0"]
data = ["--keys", "200", "--verify"]
population = "connections"

[ssh]
inventory = "hosts.json"
config = "ssh.conf"
cache = "CACHE"

[[factor]]
name = "workload"
levels = [{ name = "read", words = ["--ratio", "0:1"] }, { name = "write", words = ["--ratio", "1:0"] }]
[[factor]]
name = "connections"
levels = [2]

[populate]
[stations.servers]
program = "cache"
count = 2
[stations.middleware]
program = "proxy"
flags = ["--workers", "2"]
[stations.clients]
program = "load"
count = 2
flags = ["$workload", "--connections", "$connections"]
"#;

/// On three machines it is what it would be on one, a runner that is killed is taken up where it
/// was, and nothing is left.
#[test]
fn an_experiment_on_other_machines_is_that_of_this_one() {
    let Some(machines) = Machines::start("ssh-whole", 4) else { return };
    let (spec, out) = machines.spec(SPEC);
    let mut killed = begin(&spec, &out);
    killed.says_within(ELSEWHERE, |line| line.contains("2/4 ").then_some(()));
    assert!(!machines.processes().is_empty(), "something runs there");
    killed.signal(Signal::KILL);
    killed.ended();
    // The agents get no message: their connection is closed, and that is enough.
    until_within(ELSEWHERE, "nothing runs there", || {
        machines.processes().is_empty() && machines.runs().is_empty()
    });
    let programs = files(&machines.folder.join("cache"));
    assert_eq!(programs.len(), 1, "the program was copied once: {programs:?}");

    let program = machines.folder.join("krarup");
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_krarup")).arg(&program).status();
    assert!(copied.unwrap().success());
    let mut command = Command::new(&program);
    command.args(["run", spec.to_str().unwrap(), "--out", out.to_str().unwrap()]);
    let mut taken_up = Program::spawn(command);
    taken_up.says_within(ELSEWHERE, |line| line.contains("/4 workload").then_some(()));
    // What is built anew here is not what was brought there.
    fs::remove_file(&program).unwrap();
    fs::write(&program, "another build").unwrap();
    let ended = finished(taken_up);
    assert!(ended.errors.contains("4/4 workload"), "{ended:?}");
    assert!(!ended.errors.contains("changed while trials ran"), "{ended:?}");
    assert!(ended.output.contains("read") && ended.output.contains("write"), "{ended:?}");
    until_within(ELSEWHERE, "nothing runs there", || {
        machines.processes().is_empty() && machines.runs().is_empty()
    });
    assert!(!out.join("processes").exists() && !out.join("unfinished").exists());

    let trial = out.join("trials/workload=read,connections=2/0");
    let words = fs::read_to_string(trial.join("trial.json")).unwrap();
    assert!(words.contains("c1: ") && words.contains("m1: ") && words.contains("s2: "), "{words}");
    let clocks = json(&trial.join("clocks.json"));
    assert_eq!(clocks.as_object().unwrap().keys().collect::<Vec<_>>(), ["c1", "c2", "m1", "s1", "s2"]);
    for (host, offset) in clocks.as_object().unwrap() {
        // It is one machine's clock.
        let (seconds, within) = (offset["seconds"].as_f64().unwrap(), offset["within"].as_f64().unwrap());
        assert!(seconds.abs() <= within, "{host}: {offset}");
    }
    let watched = fs::read_dir(trial.join("monitor")).unwrap();
    let watched = watched.filter(|place| place.as_ref().unwrap().path().join("machine.csv").is_file());
    assert_eq!(watched.count(), 4);
    let paths = json(&trial.join("paths.json"));
    let talking: Vec<String> = paths
        .as_array()
        .unwrap()
        .iter()
        .map(|path| format!("{} {}", path["from"].as_str().unwrap(), path["to"].as_str().unwrap()))
        .collect();
    assert_eq!(talking, ["c1 m1", "c2 m1", "m1 s1", "m1 s2"]);
    let cpu = json(&trial.join("cpu.json"));
    assert!(
        cpu.as_array()
            .unwrap()
            .iter()
            .any(|one| one["station"] == "servers" && one["seconds"].as_f64().unwrap() > 0.0),
        "{cpu}"
    );
    let environment = json(&out.join("environment.json"));
    let machine = environment["versions"].as_array().unwrap().iter().find(|one| one[0] == "machine h3");
    assert!(machine.unwrap()[1].as_str().unwrap().ends_with(", at 127.0.0.1, for servers"), "{environment}");

    // The same on this machine alone has the same files, but for what each machine says of itself.
    let local = SPEC.replace("testbed = \"ssh\"", "testbed = \"local\"");
    let (table, rest) = local.split_once("[ssh]").unwrap();
    fs::write(&spec, format!("{table}{}", &rest[rest.find("[[factor]]").unwrap()..])).unwrap();
    let here = machines.folder.join("here");
    finished(begin(&spec, &here));
    are_alike(&out, &here);
}

/// The processes that a process has started.
fn children(of: u32) -> Vec<i32> {
    let processes = fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let number = |entry: fs::DirEntry| entry.file_name().to_str()?.parse::<i32>().ok();
    let parent = |process: &i32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(1)?.parse::<u32>().ok())
    };
    processes.filter_map(number).filter(|process| parent(process) == Some(of)).collect()
}

/// A connection that breaks costs the trial, not the run; Ctrl-C ends everything everywhere.
#[test]
fn a_connection_that_breaks_is_made_again_and_a_stop_reaches_all_machines() {
    let Some(machines) = Machines::start("ssh-broken", 3) else { return };
    let (spec, out) =
        machines.spec(&SPEC.replace("count = 2\n[stations.middleware]", "count = 1\n[stations.middleware]"));
    let mut broken = begin(&spec, &out);
    broken.says_within(ELSEWHERE, |line| line.contains("2/4 ").then_some(()));
    let servers = &machines.all[2].daemon;
    let sessions = children(servers.id());
    assert!(!sessions.is_empty());
    for session in sessions {
        let _ = rustix::process::kill_process(rustix::process::Pid::from_raw(session).unwrap(), Signal::KILL);
    }
    broken.says_within(ELSEWHERE, |line| line.contains("4/4 ").then_some(()));
    broken.signal(Signal::INT);
    let ended = broken.ended_within(ELSEWHERE);
    // Either it was quicker than the signal, or it says how to go on.
    assert!(ended.success || ended.errors.contains("hint: the same command goes on"), "{ended:?}");
    until_within(ELSEWHERE, "nothing runs there", || {
        machines.processes().is_empty() && machines.runs().is_empty()
    });
    finished(begin(&spec, &out));
    assert_eq!(files(&out.join("trials")).iter().filter(|name| name.ends_with("trial.json")).count(), 4);
}

#[test]
fn a_machine_that_cannot_be_used_is_refused_with_what_to_do() {
    let Some(machines) = Machines::start("ssh-refused", 3) else { return };
    let refused = |text: &str| {
        let (spec, out) = machines.spec(text);
        let ended = begin(&spec, &out).ended_within(ELSEWHERE);
        assert_eq!(ended.code, Some(1), "{ended:?}");
        ended.errors
    };
    fs::write(
        machines.folder.join("strange.conf"),
        fs::read_to_string(machines.folder.join("ssh.conf")).unwrap().replace("/known", "/nobody"),
    )
    .unwrap();
    let errors = refused(&SPEC.replace("ssh.conf", "strange.conf"));
    assert!(errors.contains("host key") && errors.contains("by hand"), "{errors}");
    let errors = refused(&SPEC.replace("hosts.json", "nowhere.ini"));
    assert!(errors.contains("nowhere.ini") && errors.contains("No such file"), "{errors}");
    let errors = refused(&SPEC.replace("config =", "user = \"nobody-here\"\nconfig ="));
    assert!(
        errors.contains("nobody-here@127.0.0.1") && errors.contains("cannot be reached by ssh"),
        "{errors}"
    );
    let other = machines.folder.join("other-krarup");
    let facts = r#"{"version":"0.0.9","cpu":"x","cores":1,"memory":1,"kernel":"x","root":true,"alone":false,"memcached":null}"#;
    fs::write(&other, format!("#!/bin/sh\necho '{facts}'\necho 'krarup agent: watches' >&2\nread -r word\n"))
        .unwrap();
    fs::set_permissions(&other, fs::Permissions::from_mode(0o755)).unwrap();
    let errors = refused(&SPEC.replace("cache =", &format!("krarup = \"{}\"\ncache =", other.display())));
    assert!(errors.contains("has krarup 0.0.9") && errors.contains("install the same version"), "{errors}");
    until("all processes have ended", || machines.processes().is_empty());

    let plan = |text: &str| {
        let (spec, _) = machines.spec(text);
        let ended = Program::begin(&["plan", spec.to_str().unwrap()]).ended();
        assert_eq!(ended.code, Some(2), "{ended:?}");
        ended.errors
    };
    assert!(
        plan(&SPEC.replace("inventory = \"hosts.json\"\n", "")).contains("stations.servers has no hosts")
    );
    assert!(plan(&SPEC.replace("testbed = \"ssh\"\n", "")).contains("ssh speaks of other machines"));
    assert!(
        plan(&SPEC.replace("count = 2\n[stations.m", "link = \"1Mbit/s\"\n[stations.m"))
            .contains("has a link")
    );
}

/// Machines that have nothing in common but a network: each has an address and a loopback of its
/// own, and a program that is told the wrong one of them reaches no other. One runs the load, one
/// the proxy, two the servers, and one is where the experiment is started.
#[test]
fn an_experiment_goes_over_a_network_to_hosts_that_see_only_each_other() {
    let Some(machines) = Machines::start_apart("ssh-apart", 4) else { return };
    let Some(network) = &machines.network else { return };
    let groups = ["cpu/cpu.cfs_quota_us", "cpu,cpuacct/cpu.cfs_quota_us", "cgroup.controllers"];
    let limited = groups.iter().any(|name| Path::new("/sys/fs/cgroup").join(name).exists());
    let mut text = SPEC.replace("program = \"cache\"", "program = \"auto\"").replace("min = 2", "min = 1");
    if limited {
        text = text.replace("program = \"proxy\"\n", "program = \"proxy\"\ncpu = 0.4\n");
    } else {
        skipped("no control groups here that limit processors");
    }
    let (spec, out) = machines.spec(&text);
    let runner = || {
        let mut command = network.command(machines.all.len(), env!("CARGO_BIN_EXE_krarup"));
        command.args(["run", spec.to_str().unwrap(), "--out", out.to_str().unwrap()]);
        Program::spawn(command)
    };
    let ended = finished(runner());
    assert!(ended.output.contains("read") && ended.output.contains("write"), "{ended:?}");
    until_within(ELSEWHERE, "nothing runs there", || {
        machines.processes().is_empty() && machines.runs().is_empty()
    });

    let trial = out.join("trials/workload=read,connections=2/0");
    let manifest = json(&trial.join("trial.json")).to_string();
    for (station, machine) in [("m1: ", 1), ("s1: ", 2), ("s2: ", 3)] {
        let told = manifest.split(station).nth(1).unwrap();
        assert!(told.split('"').next().unwrap().contains(&address(machine)), "{station} {manifest}");
    }
    let talking: Vec<String> = json(&trial.join("paths.json"))
        .as_array()
        .unwrap()
        .iter()
        .map(|path| format!("{} {}", path["from"].as_str().unwrap(), path["to"].as_str().unwrap()))
        .collect();
    assert_eq!(talking, ["c1 m1", "c2 m1", "m1 s1", "m1 s2"]);
    // What was asked went over the servers' links, and not past them.
    let count = json(&trial.join("clients/1.json"))["overall"]["count"].as_u64().unwrap();
    let sent = |machine: usize| -> f64 {
        let links = fs::read_to_string(trial.join(format!("monitor/h{machine}/links.csv"))).unwrap();
        let names: Vec<&str> = links.lines().next().unwrap().split(',').collect();
        let at = |name: &str| names.iter().position(|one| one.contains(name)).unwrap();
        let of = |line: &str| {
            let fields: Vec<&str> = line.split(',').collect();
            let value = |name: &str| fields[at(name)].parse::<f64>().unwrap();
            (fields[at("network")] == "here" && fields[at("link")] == "eth0")
                .then(|| value("sent_bytes") * value("length"))
        };
        links.lines().skip(1).filter_map(of).sum()
    };
    assert!(count > 0 && sent(2) > 0.0 && sent(3) > 0.0);
    let environment = json(&out.join("environment.json"));
    let ways = environment["ways"].as_array().unwrap();
    assert!(
        ways.iter().all(|way| way["bits_per_second"].as_f64().is_some_and(|bits| bits > 1e6)),
        "{ways:?}"
    );
    if limited {
        let limit = &environment["limits"][0];
        assert_eq!((&limit["machine"], &limit["asked"]), (&"h1".into(), &0.4.into()), "{environment}");
        let cpu = json(&trial.join("cpu.json"));
        let proxy = cpu.as_array().unwrap().iter().find(|one| one["station"] == "middleware").unwrap();
        assert_eq!(proxy["cores"], 0.4, "{cpu}");
    }
}

/// The playbook and the inventory beside it are what Ansible takes.
#[test]
fn the_playbook_is_one() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/ansible");
    let checked = Command::new("ansible-playbook")
        .args(["-i", "hosts.ini", "--syntax-check", "krarup.yml"])
        .current_dir(&folder)
        .stdin(Stdio::null())
        .output();
    match checked {
        Ok(checked) => assert!(checked.status.success(), "{checked:?}"),
        Err(error) => skipped(&format!(
            "ansible-playbook cannot be run here ({error}); Debian's package is ansible-core"
        )),
    }
}

/// A proxy of others there, too: its counts are asked there, and its files brought here.
#[test]
fn twemproxy_runs_on_another_machine() {
    let there = |program: &str| {
        Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
    };
    if !there("nutcracker") || !there("memcached") {
        return skipped("twemproxy or memcached is not installed: apt-get install nutcracker memcached");
    }
    let Some(machines) = Machines::start("ssh-twemproxy", 4) else { return };
    let (spec, out) = machines.spec(
        &SPEC
            .replace("repetitions = { min = 2 }", "repetitions = { min = 1 }")
            .replace("program = \"cache\"", "program = \"memcached\"")
            .replace("program = \"proxy\"\nflags = [\"--workers\", \"2\"]", "program = \"twemproxy\""),
    );
    finished(begin(&spec, &out));
    let trial = out.join("trials/workload=read,connections=2/0");
    assert!(trial.join("middleware/1.log").is_file() && trial.join("middleware/1.conf").is_file());
    let counts = json(&trial.join("middleware/1.counts.json"));
    let servers = counts["servers"].as_array().unwrap();
    let requests: u64 = servers.iter().map(|server| server["requests"].as_u64().unwrap()).sum();
    assert!(servers.len() == 2 && requests > 0, "{counts}");
}
