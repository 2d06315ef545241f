//! Other major versions of PostgreSQL than the one that is installed: the same tests over each.
//!
//! `make test-postgres-versions` fetches them and runs this file.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

/// These need programs that come with an installed PostgreSQL alone, or are not about the database.
const LEFT_OUT: [&str; 3] = ["durable::failover::", "durable::versions::", "durable::the_guides_outbox"];

/// The folders of programs that were fetched, the oldest version first.
fn fetched() -> Vec<PathBuf> {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it is in the target's folder");
    let folders = fs::read_dir(target.join("postgres-versions")).ok().into_iter().flatten().flatten();
    let mut found: Vec<PathBuf> = folders.map(|folder| folder.path().join("bin")).collect();
    found.retain(|programs| programs.join("postgres").exists());
    found.sort_unstable();
    found
}

/// Runs this very program, with only the tests over a database, and this PostgreSQL first on the
/// path.
fn passed_with(programs: &Path) -> Result<String, String> {
    let path = env::var_os("PATH").unwrap_or_default();
    let path = [programs.to_owned()].into_iter().chain(env::split_paths(&path));
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(["durable::", "--test-threads", "2", "--nocapture"]);
    command.args(LEFT_OUT.iter().flat_map(|name| ["--skip", name]));
    let output = command.env("PATH", env::join_paths(path).unwrap()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let summary = said.lines().find(|line| line.starts_with("test result: ")).unwrap_or("no result");
    let errors = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(summary.to_owned()) } else { Err(format!("{said}\n{errors}")) }
}

#[test]
#[ignore = "minutes, and versions that make test-postgres-versions fetches"]
fn every_fetched_version_of_postgresql_keeps_what_is_promised() {
    let all = fetched();
    assert!(!all.is_empty(), "no version was fetched: make test-postgres-versions does");
    let mut wrong = Vec::new();
    for programs in all {
        let version = Command::new(programs.join("postgres")).arg("--version").output().unwrap().stdout;
        let version = String::from_utf8_lossy(&version).trim().to_owned();
        match passed_with(&programs) {
            Ok(summary) => println!("{version}: {summary}"),
            Err(said) => wrong.push(format!("{version}:\n{said}")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
