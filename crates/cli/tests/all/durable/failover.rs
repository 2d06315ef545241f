//! Two PostgreSQL, one the standby of the other, and a primary that is killed under load: what was
//! answered is there, once, and the broker finds the new primary by itself.
//!
//! `make test-failover` runs this file and prints what was counted.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Instant;

use crate::durable::cluster::Cluster;
use crate::durable::patroni::PatroniCluster;
use crate::durable::storm::Storm;
use crate::durable::{MODES, broker, put_many, say};
use crate::support::process::{Program, skipped};
use crate::support::{fresh, until};

/// Fail-overs, one after the other, in each mode.
const ROUNDS: usize = 2;

/// Two clusters: which of them is the primary changes.
struct Pair {
    name: String,
    primary: Cluster,
    standby: Cluster,
    made: usize,
}

impl Pair {
    /// Commits wait for the standby. None where PostgreSQL is not installed.
    fn start(name: &str) -> Option<Self> {
        let pair = Self::start_loose(name)?;
        pair.primary.waits_for("*");
        Some(pair)
    }

    /// The same, but commits wait for no standby.
    fn start_loose(name: &str) -> Option<Self> {
        let primary = Cluster::start(&format!("{name}-0"))?;
        let standby = primary.standby(&format!("{name}-1"));
        Some(Self { name: name.to_owned(), primary, standby, made: 2 })
    }

    /// Both, by their sockets' folders, in an order that does not say which is the primary.
    fn store(&self, database: &str) -> String {
        let mut folders = [self.primary.folder(), self.standby.folder()];
        folders.sort_unstable();
        format!("host={},{} user=krarup dbname={database}", folders[0].display(), folders[1].display())
    }

    /// The first message of a database is at the standby; until then it waits.
    fn has_passed_on(&self, database: &str) {
        until("the first is at the standby", || {
            let found = self.standby.try_sql(database, "SELECT count(*) FROM krarup.message");
            String::from_utf8_lossy(&found.stdout).trim() == "1"
        });
    }

    /// From here on the standby hears nothing.
    fn cut_off(&self) {
        self.standby.set("postgres", "primary_conninfo", "");
        until("it has no primary", || {
            self.primary.sql("postgres", "SELECT count(*) FROM pg_stat_replication") == "0"
        });
    }

    /// The primary's processes are killed, all at once; the standby is the primary from then on.
    fn fail_over(&mut self) {
        self.primary.crash();
        self.standby.promote();
        std::mem::swap(&mut self.primary, &mut self.standby);
    }

    /// What was the primary comes back as the standby, at the place where it was.
    fn restore(&mut self) {
        self.standby.copy_of(&self.primary, &format!("{}-{}", self.name, self.made));
        self.made += 1;
        self.primary.waits_for("*");
    }
}

/// The mode's name, and its flags.
fn modes() -> Vec<(&'static str, Vec<&'static str>)> {
    let plain = MODES.into_iter().map(|mode| (mode, vec!["--mode", mode, "--pool", "5"]));
    plain.chain([("shards", vec!["--shards", "3"])]).collect()
}

#[test]
fn no_answered_message_is_lost_when_a_synchronous_standby_takes_over() {
    for (mode, flags) in modes() {
        let Some(mut pair) = Pair::start(&format!("failover-{mode}")) else {
            return skipped("PostgreSQL is not installed: apt-get install postgresql");
        };
        pair.primary.sql("postgres", "CREATE DATABASE queues");
        let store = pair.store("queues");
        let begin = ["broker", "--listen", "127.0.0.1:0", "--store", &store];
        let mut broker = Program::krarup(&[&begin[..], &flags].concat());
        let storm = Storm::begin(broker.address(), 6);
        for round in 1..=ROUNDS {
            storm.wait_for(round * 600 - 300);
            let killed = Instant::now();
            pair.fail_over();
            broker.says_text("the database is out of reach");
            broker.says_text("the database is there again");
            println!("{mode}, fail-over {round}: answered again {:.2?} after the kill", killed.elapsed());
            storm.wait_for(round * 600);
            if round < ROUNDS {
                pair.restore();
            }
        }
        let history = storm.end();
        assert_eq!(history.lost_connections, 0, "{mode}: the broker stands");
        let answered = history.answered();
        history.check(broker.address(), 0);
        let ended = broker.stop();
        assert!(ended.success && !ended.errors.contains("warning: no commit waits"), "{mode}: {ended:?}");
        println!("{mode}: {ROUNDS} fail-overs, {answered} messages answered, 0 lost");
    }
}

/// What the guide warns of: a standby that commits do not wait for, and that is behind.
#[test]
fn an_answered_message_is_lost_when_a_standby_that_is_behind_takes_over() {
    let Some(mut pair) = Pair::start_loose("behind") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    pair.primary.sql("postgres", "CREATE ROLE few LOGIN");
    pair.primary.sql("postgres", "CREATE DATABASE queues OWNER few");
    let store = pair.store("queues").replace("user=krarup", "user=few");
    let mut broker = Program::begin(&["broker", "--listen", "127.0.0.1:0", "--store", &store]);
    // Also a user sees it that may see little of what others do.
    broker.says_text("no commit waits for a standby, and there is one (behind-1)");
    let mut broker = broker.listening();
    say(&mut broker.connect(), "put 1 0 60 5\r\nfirst\r\n", "INSERTED 1\r\n");
    pair.has_passed_on("queues");
    pair.cut_off();
    say(&mut broker.connect(), "put 1 0 60 6\r\nsecond\r\n", "INSERTED 2\r\n");
    pair.fail_over();
    broker.says_text("the database is there again");
    assert_eq!(pair.primary.sql("queues", "SELECT string_agg(id::text, ',') FROM krarup.message"), "1");
    broker.kill();
}

/// What a worker does with a message that was lost is done to no other.
#[test]
fn an_id_that_a_fail_over_has_lost_is_given_to_no_other_message() {
    let Some(mut pair) = Pair::start_loose("ids") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    let mut running = Vec::new();
    for mode in &MODES[1..] {
        pair.primary.sql("postgres", &format!("CREATE DATABASE {mode}"));
        let broker = broker(&pair.store(mode), mode);
        put_many(&mut broker.connect(), 0..1);
        pair.has_passed_on(mode);
        running.push((mode, broker));
    }
    pair.cut_off();
    // More than a sequence's numbers that are in the log before they are given.
    let lost = running.iter().map(|(_, broker)| put_many(&mut broker.connect(), 0..100));
    let lost: Vec<Vec<u64>> = lost.collect();
    pair.fail_over();
    for ((mode, mut broker), lost) in running.into_iter().zip(lost) {
        broker.says_text("the database is there again");
        let mut peer = broker.connect();
        put_many(&mut peer, 0..100);
        for id in lost {
            say(&mut peer, &format!("delete {id}\r\n"), "NOT_FOUND\r\n");
        }
        assert_eq!(pair.primary.sql(mode, "SELECT count(*) FROM krarup.message"), "101", "{mode}");
        assert!(broker.stop().success);
    }
}

/// A link to a server's folder stands for the name. It means the server that is a standby by now,
/// and leads to the primary later; both run on.
#[test]
fn a_standby_is_not_used_that_a_name_still_means() {
    let Some(mut pair) = Pair::start("renamed") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    let put = "put 1 0 60 1\r\nx\r\n";
    let link = fresh("link");
    symlink(pair.primary.folder(), &link).unwrap();
    // What the first primary will be a copy of.
    pair.standby.set("postgres", "log_connections", "on");
    let mut brokers = Vec::new();
    for (mode, flags) in modes() {
        pair.primary.sql("postgres", &format!("CREATE DATABASE {mode}"));
        let store = format!("host={} user=krarup dbname={mode}", link.display());
        let begin = ["broker", "--listen", "127.0.0.1:0", "--store", &store];
        let broker = Program::krarup(&[&begin[..], &flags].concat());
        say(&mut broker.connect(), put, "INSERTED ");
        brokers.push((mode, broker));
    }
    pair.fail_over();
    let log = pair.standby.folder().join("log");
    let before = fs::read_to_string(&log).unwrap().len();
    pair.restore();
    for (mode, _) in &brokers {
        let asked = format!("database={mode} application_name=krarup broker");
        until("the standby was asked", || fs::read_to_string(&log).unwrap()[before..].contains(&asked));
    }
    fs::remove_file(&link).unwrap();
    symlink(pair.primary.folder(), &link).unwrap();
    for (mode, broker) in brokers {
        say(&mut broker.connect(), put, "INSERTED ");
        assert!(broker.stop().success, "{mode}");
    }
}

/// Brokers of every mode at once, over a cluster whose members Patroni keeps: it decides when which
/// is the primary.
#[test]
fn no_answered_message_is_lost_when_patroni_fails_over() {
    let Some(cluster) = PatroniCluster::start("patroni") else {
        return skipped("Patroni is not installed: apt-get install patroni etcd-server");
    };
    loses_nothing(&cluster, |mode| cluster.store(mode));
}

/// The same where the broker knows of one address alone, that of HAProxy.
#[test]
fn no_answered_message_is_lost_when_haproxy_leads_to_another_primary() {
    let Some(cluster) = PatroniCluster::start("haproxy") else {
        return skipped("Patroni is not installed: apt-get install patroni etcd-server");
    };
    let Some((_haproxy, port)) = cluster.haproxy() else {
        return skipped("HAProxy is not installed: apt-get install haproxy");
    };
    loses_nothing(&cluster, |mode| format!("postgres://krarup@{}/{mode}", port.address()));
}

/// Brokers of every mode, over these databases, while the primary is killed.
#[expect(clippy::print_stdout, reason = "make test-failover shows what was counted")]
fn loses_nothing(cluster: &PatroniCluster, store: impl Fn(&str) -> String) {
    let mut running = Vec::new();
    for (mode, flags) in modes() {
        cluster.sql(&format!("CREATE DATABASE {mode}"));
        let store = store(mode);
        let broker = Program::krarup(
            &[&["broker", "--listen", "127.0.0.1:0", "--store", &store], &flags[..]].concat(),
        );
        let storm = Storm::begin(broker.address(), 3);
        running.push((mode, broker, storm));
    }
    running.iter().for_each(|(_, _, storm)| storm.wait_for(300));
    cluster.kill_primary();
    running.iter().for_each(|(_, _, storm)| storm.wait_for(600));
    for (mode, broker, storm) in running {
        let history = storm.end();
        assert_eq!(history.lost_connections, 0, "{mode}: the broker stands");
        let answered = history.answered();
        history.check(broker.address(), 0);
        assert!(broker.stop().success, "{mode}");
        println!("{mode}: a fail-over by Patroni, {answered} messages answered, 0 lost");
    }
}

/// A broker that comes while the first host of its list is the standby, or is gone, finds the
/// other.
#[test]
fn of_several_hosts_the_one_is_used_that_takes_writes() {
    let Some(Pair { primary, standby, .. }) = Pair::start_loose("hosts") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    primary.sql("postgres", "CREATE DATABASE queues");
    let store = |hosts: [&Cluster; 2], more: &str| {
        let [first, second] = hosts.map(|cluster| cluster.folder().display());
        format!("host={first},{second} user=krarup dbname=queues {more}")
    };
    let begin = |store: &str| Program::begin(&["broker", "--listen", "127.0.0.1:0", "--store", store]);
    for hosts in [[&standby, &primary], [&primary, &standby]] {
        let mut broker = begin(&store(hosts, ""));
        // The standby is not one that commits wait for.
        broker.says_text("no commit waits for a standby, and there is one (hosts-1)");
        let broker = broker.listening();
        say(&mut broker.connect(), "put 1 0 60 1\r\nx\r\n", "INSERTED ");
        assert!(broker.stop().success);
    }
    let alone = format!("host={} user=krarup dbname=queues", standby.folder().display());
    for store in [alone.clone() + " target_session_attrs=read-write", alone] {
        let ended = begin(&store).ended();
        assert!(ended.code == Some(1) && ended.errors.contains("name the primary too"), "{ended:?}");
    }
    // The one that only reads for now is used where none takes writes: it says itself what it
    // refuses.
    primary.sql("postgres", "ALTER DATABASE queues SET default_transaction_read_only = on");
    let ended = begin(&store([&standby, &primary], "target_session_attrs=read-write")).ended();
    assert!(ended.code == Some(1) && ended.errors.contains("default_transaction_read_only"), "{ended:?}");
    primary.sql("postgres", "ALTER DATABASE queues RESET default_transaction_read_only");
    // Neither is there.
    standby.crash();
    let broker = begin(&store([&standby, &primary], "")).listening();
    say(&mut broker.connect(), "pop\r\n", "POPPED ");
    assert!(broker.stop().success);
    primary.crash();
    let ended = begin(&store([&standby, &primary], "")).ended();
    let both = [&standby, &primary].map(|cluster| format!("{}/.s.PGSQL", cluster.folder().display()));
    assert!(ended.code == Some(1) && both.iter().all(|host| ended.errors.contains(host)), "{ended:?}");
}
