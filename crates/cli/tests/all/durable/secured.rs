//! The way to PostgreSQL as companies have it: TLS in every mode of `sslmode`, passwords out of
//! files and the environment, a user with no right that it does not need; and what is said where
//! something of that is wrong.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::durable::cluster::Cluster;
use crate::durable::storm::Storm;
use crate::durable::{MODES, say};
use crate::support::process::{Ended, Program, skipped};
use crate::support::{certificate, fresh};

/// Who may come how.
const ADMITS: &str = "hostssl all locked 127.0.0.1/32 scram-sha-256\n\
                      hostssl all client 127.0.0.1/32 cert\n\
                      hostnossl all plain 127.0.0.1/32 scram-sha-256\n\
                      host all either 127.0.0.1/32 scram-sha-256\n";

/// A cluster that speaks TLS, with a database that all may use; none where PostgreSQL is not
/// installed.
fn cluster(name: &str) -> Option<Cluster> {
    let cluster = Cluster::start_at_port(name, ADMITS, "ssl = on\n")?;
    for user in ["locked", "client", "plain", "either", "stranger"] {
        cluster.sql("postgres", &format!("CREATE ROLE {user} LOGIN PASSWORD 'sesame'"));
        cluster.sql("postgres", &format!("CREATE DATABASE {user} OWNER {user}"));
    }
    Some(cluster)
}

/// A broker over this address, with these variables, at a home where nothing is.
fn begin(store: &[&str], variables: &[(&str, &str)], home: &Path) -> Program {
    let mut command = Command::new(env!("CARGO_BIN_EXE_krarup"));
    command.args(["broker", "--listen", "127.0.0.1:0"]).args(store).env("HOME", home);
    command.envs(variables.iter().copied());
    Program::spawn(command)
}

/// It serves, and its sessions are as encrypted as they should be.
fn serves(cluster: &Cluster, database: &str, broker: Program, encrypted: bool) {
    let broker = broker.listening();
    let mut peer = broker.connect();
    say(&mut peer, "put 1 0 60 1\r\nx\r\n", "INSERTED ");
    peer.line().unwrap();
    say(&mut peer, "pop\r\n", "POPPED ");
    let by_tls = format!(
        "SELECT DISTINCT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) \
         WHERE application_name = 'krarup broker' AND datname = '{database}'"
    );
    assert_eq!(cluster.sql("postgres", &by_tls), if encrypted { "t" } else { "f" });
    assert!(broker.stop().success);
}

/// It ends, and says why and what would do, and no password.
fn refused(ended: &Ended, says: [&str; 2]) {
    let told = &ended.errors;
    assert!(!ended.success && says.iter().all(|text| told.contains(text)), "{says:?}: {ended:?}");
    assert!(
        told.contains("\n  hint: ") && !told.contains("sesame") && !told.contains("wrongpass"),
        "{ended:?}"
    );
}

#[test]
fn each_mode_of_tls_does_what_libpq_says() {
    let Some(cluster) = cluster("tls") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    let home = fresh("tls-home");
    let files = ["client.pem", "client.key", "authority.pem", "stranger.pem"];
    fs::create_dir_all(&home).unwrap();
    for name in files {
        fs::copy(certificate(name), home.join(name)).unwrap();
        fs::set_permissions(home.join(name), fs::Permissions::from_mode(0o600)).unwrap();
    }
    let (port, folder) = (cluster.port(), home.display());
    let password = [("PGPASSWORD", "sesame")];
    let trusts = format!("sslrootcert={folder}/authority.pem");
    let shows = format!("sslcert={folder}/client.pem sslkey={folder}/client.key");
    let of = |user: &str, more: &str| {
        format!("host=localhost hostaddr=127.0.0.1 port={port} user={user} dbname={user} {more}")
    };
    let elsewhere = |user: &str, more: &str| of(user, more).replace("localhost", "db.example");
    for (store, user, encrypted) in [
        (of("locked", ""), "locked", true),
        (of("locked", "sslmode=prefer"), "locked", true),
        (of("locked", "sslmode=allow"), "locked", true),
        (of("locked", "sslmode=require"), "locked", true),
        (of("locked", "sslmode=require channel_binding=require"), "locked", true),
        (
            of(
                "locked",
                &format!("sslmode=require channel_binding=require ssl_max_protocol_version=TLSv1.2 {trusts}"),
            ),
            "locked",
            true,
        ),
        (of("locked", &format!("sslmode=verify-full {trusts}")), "locked", true),
        (elsewhere("locked", &format!("sslmode=verify-ca {trusts}")), "locked", true),
        (format!("postgres://locked@127.0.0.1:{port}/locked?sslmode=verify-full&{trusts}"), "locked", true),
        (of("client", &format!("sslmode=verify-full {trusts} {shows}")), "client", true),
        (of("plain", ""), "plain", false),
        (of("plain", "sslmode=disable"), "plain", false),
        (of("either", "sslmode=allow"), "either", false),
        (of("either", "sslmode=prefer channel_binding=disable"), "either", true),
    ] {
        serves(&cluster, user, begin(&["--store", &store], &password, &home), encrypted);
    }
    let system = [("PGPASSWORD", "sesame"), ("SSL_CERT_FILE", &format!("{folder}/authority.pem"))];
    let store = of("locked", "sslrootcert=system");
    serves(&cluster, "locked", begin(&["--store", &store], &system, &home), true);
    for (store, says) in [
        (of("locked", "sslmode=disable"), ["without TLS", "sslmode=require"]),
        (of("plain", "sslmode=require"), ["with TLS", "pg_hba.conf"]),
        (of("stranger", ""), ["pg_hba.conf", "pg_hba.conf for this user"]),
        (
            elsewhere("locked", &format!("sslmode=verify-full {trusts}")),
            ["another name", "alternative names"],
        ),
        (
            of("locked", &format!("sslmode=verify-ca sslrootcert={folder}/stranger.pem")),
            ["not trusted", "sslrootcert"],
        ),
        (of("locked", "sslmode=verify-full"), ["no authority", "sslrootcert"]),
        (
            of("plain", "sslmode=disable channel_binding=require"),
            ["channel_binding=require needs TLS", "sslmode=require"],
        ),
        (of("client", "sslmode=require"), ["certificate", "sslcert"]),
    ] {
        refused(&begin(&["--store", &store], &password, &home).ended(), says);
    }
    fs::set_permissions(home.join("client.key"), fs::Permissions::from_mode(0o644)).unwrap();
    let store = of("client", &format!("sslmode=require {shows}"));
    refused(
        &begin(&["--store", &store], &password, &home).ended(),
        ["others may read the private key", "chmod 600"],
    );
}

#[test]
fn a_server_without_tls_is_named_and_every_mode_works_under_load_with_it() {
    let Some(locked) = cluster("tls-load") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    let home = fresh("tls-load-home");
    fs::create_dir_all(&home).unwrap();
    for mode in MODES.into_iter().chain(["shards"]) {
        locked.sql("postgres", &format!("CREATE DATABASE load_{mode} OWNER locked"));
        let store = format!(
            "postgres://locked@localhost:{}/load_{mode}?sslmode=verify-full&sslrootcert={}",
            locked.port(),
            certificate("authority.pem")
        );
        let flags: &[&str] =
            if mode == "shards" { &["--shards", "3"] } else { &["--mode", mode, "--pool", "5"] };
        let broker =
            begin(&[&["--store", &store], flags].concat(), &[("PGPASSWORD", "sesame")], &home).listening();
        let storm = Storm::begin(broker.address(), 4);
        storm.wait_for(150);
        locked.cut(&format!("load_{mode}"), "true");
        storm.wait_for(300);
        storm.end().check(broker.address(), 0);
        assert!(broker.stop().success, "{mode}");
    }
    let Some(open) =
        Cluster::start_at_port("no-tls", "host postgres all 127.0.0.1/32 trust\n", "ssl = off\n")
    else {
        return;
    };
    let address = |mode: &str| format!("postgres://krarup@127.0.0.1:{}/postgres?sslmode={mode}", open.port());
    for mode in ["require", "verify-full"] {
        let store = format!("{}&sslrootcert={}", address(mode), certificate("authority.pem"));
        refused(&begin(&["--store", &store], &[], &home).ended(), ["speaks no TLS", "switch ssl on"]);
    }
    let store = format!("{}&channel_binding=require", address("prefer"));
    refused(&begin(&["--store", &store], &[], &home).ended(), ["needs TLS", "switch ssl on"]);
    let store = address("prefer").replace("/postgres?", "/template1?");
    let ended = begin(&["--store", &store], &[], &home).ended();
    refused(&ended, ["(asked without TLS)", "pg_hba.conf for this user"]);
    assert!(!ended.errors.contains("asked with TLS"), "{ended:?}");
    for mode in ["disable", "allow", "prefer"] {
        serves(&open, "postgres", begin(&["--store", &address(mode)], &[], &home), false);
    }
}

/// As OpenSSL before 3.2 makes it by the words of PostgreSQL's manual.
#[test]
fn a_certificate_of_version_1_is_named_and_going_on_without_tls_is_warned_of() {
    let settings = "ssl = on\nssl_cert_file = 'version-1.pem'\n";
    let admits = "host postgres all 127.0.0.1/32 trust\n";
    let Some(cluster) = Cluster::start_at_port("version-1", admits, settings) else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    let home = fresh("version-1-home");
    fs::create_dir_all(&home).unwrap();
    let address =
        |mode: &str| format!("postgres://krarup@127.0.0.1:{}/postgres?sslmode={mode}", cluster.port());
    refused(
        &begin(&["--store", &address("require")], &[], &home).ended(),
        ["X.509 version 1", "openssl x509 -req -extfile"],
    );
    let mut broker = begin(&["--store", &address("prefer")], &[], &home);
    broker.says_text("sslmode=prefer goes on without it");
    serves(&cluster, "postgres", broker, false);
}

#[test]
fn passwords_come_from_where_programs_of_postgresql_find_them() {
    let Some(cluster) = cluster("secrets") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    let home = fresh("secrets-home");
    fs::create_dir_all(&home).unwrap();
    let port = cluster.port();
    let write = |name: &str, text: String, mode: u32| {
        let path = home.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let store = format!("postgres://either@127.0.0.1:{port}/either");
    let bare = ["--store", store.as_str()];
    refused(&begin(&bare, &[], &home).ended(), ["asks for a password", "~/.pgpass"]);
    refused(
        &begin(&bare, &[("PGPASSWORD", "wrongpass")], &home).ended(),
        ["password authentication failed", "PGPASSFILE"],
    );
    let missing = format!("postgres://either@127.0.0.1:{port}/nothing");
    refused(
        &begin(&["--store", &missing], &[("PGPASSWORD", "sesame")], &home).ended(),
        ["\"nothing\"", "createdb"],
    );
    // The file of the home, one that is named, and the environment alone.
    let line = format!("127.0.0.1:{port}:either:either:sesame\n");
    let own = write(".pgpass", line.clone(), 0o600);
    serves(&cluster, "either", begin(&bare, &[], &home), true);
    fs::set_permissions(&own, fs::Permissions::from_mode(0o644)).unwrap();
    refused(&begin(&bare, &[], &home).ended(), ["others may read", "~/.pgpass"]);
    fs::remove_file(&own).unwrap();
    let named = write("passwords", line, 0o600);
    serves(&cluster, "either", begin(&bare, &[("PGPASSFILE", &named)], &home), true);
    let digits = port.to_string();
    let all = [
        ("PGHOST", "127.0.0.1"),
        ("PGPORT", digits.as_str()),
        ("PGUSER", "either"),
        ("PGDATABASE", "either"),
        ("PGPASSWORD", "sesame"),
        ("PGSSLMODE", "disable"),
    ];
    serves(&cluster, "either", begin(&["--store", "postgres://"], &all, &home), false);
    let service = write(
        "services",
        format!(
            "[queues]\nhost=127.0.0.1\nport={port}\nuser=either\ndbname=either\npassword=sesame\nsslmode=require\n"
        ),
        0o600,
    );
    let of_service = ["--store", "service=queues"];
    serves(&cluster, "either", begin(&of_service, &[("PGSERVICEFILE", &service)], &home), true);
    let told =
        write("store", format!("# the queues\npostgres://either:sesame@127.0.0.1:{port}/either\n"), 0o600);
    serves(&cluster, "either", begin(&["--store-file", &told], &[], &home), true);
    // A password that others can see is told of, and not repeated.
    let seen = format!("postgres://either:sesame@127.0.0.1:{port}/either");
    let mut broker = begin(&["--store", &seen], &[], &home);
    let warning = broker.says(|line| line.contains("list of processes").then(|| line.to_owned()));
    assert!(!warning.contains("sesame"), "{warning}");
    serves(&cluster, "either", broker, true);
}

/// The whole of what `docs/guide/postgresql.md` says a broker's user must have.
#[test]
fn a_user_with_the_rights_of_the_guide_is_enough() {
    let Some(cluster) = Cluster::start("rights") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    cluster.sql("postgres", "CREATE ROLE queues LOGIN; CREATE ROLE application");
    for mode in MODES.into_iter().chain(["shards"]) {
        let name = format!("rights_{mode}");
        cluster.database(&name);
        cluster.sql(
            &name,
            &format!(
                "REVOKE ALL ON DATABASE {name} FROM PUBLIC; REVOKE ALL ON SCHEMA public FROM PUBLIC; GRANT CONNECT ON DATABASE {name} TO queues"
            ),
        );
        let store = format!("host={} user=queues dbname={name}", cluster.folder().display());
        let flags: &[&str] =
            if mode == "shards" { &["--shards", "3"] } else { &["--mode", mode, "--pool", "5"] };
        let start =
            || Program::begin(&[&["broker", "--listen", "127.0.0.1:0", "--store", &store], flags].concat());
        let ended = start().ended();
        let hint = "CREATE SCHEMA NAME AUTHORIZATION";
        assert!(ended.code == Some(1) && ended.errors.contains(hint), "{mode}: {ended:?}");
        cluster.sql(&name, "CREATE SCHEMA krarup AUTHORIZATION queues");
        let broker = start().listening();
        // An application that puts by SQL has its own.
        cluster.sql(
            &name,
            "GRANT USAGE ON SCHEMA krarup TO application; GRANT INSERT ON krarup.incoming TO application",
        );
        cluster.sql(&name, "SET ROLE application; SELECT krarup.put('default', 'x')");
        say(&mut broker.connect(), "pop 30\r\n", "POPPED ");
        let peeps = cluster.try_sql(&name, "SET ROLE application; SELECT FROM krarup.message");
        assert!(String::from_utf8_lossy(&peeps.stderr).contains("permission denied"), "{peeps:?}");
        let storm = Storm::begin(broker.address(), 4);
        storm.wait_for(150);
        cluster.cut(&name, "true");
        storm.wait_for(300);
        broker.kill();
        let history = storm.end();
        let broker = start().listening();
        history.check(broker.address(), 4);
        assert!(broker.stop().success, "{mode}");
    }
}

#[test]
fn queues_in_two_schemas_of_a_database_know_nothing_of_each_other() {
    let Some(cluster) = Cluster::start("schemas") else {
        return skipped("PostgreSQL is not installed: apt-get install postgresql");
    };
    for mode in MODES.into_iter().chain(["shards"]) {
        let name = format!("schemas_{mode}");
        let store = cluster.database(&name);
        let flags: &[&str] =
            if mode == "shards" { &["--shards", "2"] } else { &["--mode", mode, "--pool", "5"] };
        let start = |schema: &str| {
            let begin = ["broker", "--listen", "127.0.0.1:0", "--store", &store, "--schema", schema];
            Program::krarup(&[&begin[..], flags].concat())
        };
        // Both at once, where one schema has one owner.
        let (first, second) = (start("krarup"), start("other"));
        say(&mut first.connect(), "put 1 0 60 1\r\nx\r\n", "INSERTED ");
        say(&mut second.connect(), "reserve-with-timeout 0\r\n", "TIMED_OUT\r\n");
        say(&mut first.connect(), "pop\r\n", "POPPED ");
        // An application's own message comes to the queues of the schema whose function it calls.
        cluster.sql(&name, "SELECT other.put('default', 'hello')");
        say(&mut second.connect(), "pop 30\r\n", "POPPED ");
        say(&mut first.connect(), "pop\r\n", "TIMED_OUT\r\n");
        let (one, other) = (Storm::begin(first.address(), 3), Storm::begin(second.address(), 3));
        one.wait_for(100);
        other.wait_for(100);
        cluster.cut(&name, "true");
        one.wait_for(200);
        other.wait_for(200);
        first.kill();
        let (one, other) = (one.end(), other.end());
        let first = start("krarup");
        one.check(first.address(), 4);
        other.check(second.address(), 4);
        assert!(first.stop().success && second.stop().success, "{mode}");
        let schemas =
            "SELECT string_agg(DISTINCT schemaname, ',') FROM pg_tables WHERE tablename = 'message'";
        assert_eq!(cluster.sql(&name, schemas), "krarup,other");
    }
}
