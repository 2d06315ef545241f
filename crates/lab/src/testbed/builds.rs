//! Which builds of programs an experiment runs: what a program says its version is does not tell
//! one build from the next, and its bytes do.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::twemproxy;
use crate::plan::{Plan, PlannedCell};
use crate::spec::{Program, Spec, StationSpec, Testbed};

/// How many hexadecimal digits of a hash tell builds apart.
const DIGITS: usize = 16;

/// The programs that a plan runs, each with the digits of its file: `krarup`, and on this machine
/// each by the word that names it. Of what other machines have installed nothing is known, nor of a
/// file that cannot be read.
pub fn builds(spec: &Spec, plan: &Plan, krarup: &Path) -> Vec<(String, String)> {
    let build = |(name, path): (String, PathBuf)| {
        let hash = hash(&path).ok()?;
        Some((name, hash[..DIGITS].to_owned()))
    };
    programs(spec, plan, krarup).into_iter().filter_map(build).collect()
}

/// Those programs, each with its file.
pub(super) fn programs(spec: &Spec, plan: &Plan, krarup: &Path) -> BTreeMap<String, PathBuf> {
    let cells = plan.cells.iter().filter(|_| !spec.testbed.is_elsewhere());
    // Most cells are started with the same words.
    let lines: BTreeSet<Vec<String>> =
        cells.flat_map(|cell| spec.stations().map(|(_, station)| words(station, cell))).collect();
    let mut programs: BTreeMap<String, PathBuf> = lines.into_iter().flat_map(others).collect();
    let runs_ours = match spec.testbed {
        Testbed::Local | Testbed::Netns => true,
        // It is brought there, unless the spec names one that is there.
        Testbed::Ssh => spec.ssh.as_ref().is_none_or(|ssh| ssh.krarup.is_none()),
        Testbed::Kubernetes => false,
    };
    if runs_ours {
        programs.insert("krarup".to_owned(), krarup.to_owned());
    }
    programs
}

/// Programs that start the one that is named behind them.
const STARTERS: [&str; 9] =
    ["chrt", "env", "ionice", "nice", "numactl", "stdbuf", "sudo", "taskset", "timeout"];

/// What a station of a cell is started with, where that is a program of others.
fn words(station: &StationSpec, cell: &PlannedCell) -> Vec<String> {
    match station.program {
        None => cell.render(&station.command),
        Some(Program::Memcached | Program::Auto) => vec!["memcached".to_owned()],
        Some(Program::Twemproxy) => vec![twemproxy::PROGRAM.to_owned()],
        // PostgreSQL is many programs of one version; the others are ours.
        Some(_) => Vec::new(),
    }
}

/// The programs in a line of words, by the words that name them. Behind the program a word without
/// a folder is none, be it called as one.
fn others(words: Vec<String>) -> Vec<(String, PathBuf)> {
    let mut is_due = true;
    let program = |word: String| {
        let path = executable(&word).filter(|_| is_due || word.contains('/'))?;
        is_due = STARTERS.iter().any(|starter| path.ends_with(starter));
        Some((word, path))
    };
    words.into_iter().filter_map(program).collect()
}

/// The file that is run by this word; none where it is none.
pub fn executable(word: &str) -> Option<PathBuf> {
    let can_be_run = |path: &PathBuf| {
        path.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    if word.contains('/') {
        return Some(PathBuf::from(word)).filter(can_be_run);
    }
    let folders = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&folders).map(|folder| folder.join(word)).find(can_be_run)
}

/// What the bytes of a file are, in hexadecimal digits.
///
/// # Errors
/// From the system.
pub(crate) fn hash(path: &Path) -> io::Result<String> {
    let mut digest = Sha256::new();
    let mut reader = BufReader::with_capacity(1 << 20, File::open(path)?);
    loop {
        let bytes = reader.fill_buf()?;
        if bytes.is_empty() {
            break;
        }
        digest.update(bytes);
        let count = bytes.len();
        reader.consume(count);
    }
    Ok(digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const MACHINES: &str = r#"
title = "t"
testbed = "ssh"
[ssh]
inventory = "hosts.ini"
krarup = "/bin/krarup"
[stations.servers]
program = "cache"
hosts = ["s"]
[stations.clients]
program = "load"
hosts = ["c"]
"#;

    #[test]
    fn a_program_is_another_build_when_its_file_is_another() {
        let folder = std::env::temp_dir().join(format!("krarup-builds-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str, mode: u32| {
            let path = folder.join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            path
        };
        let [krarup, proxy] = ["krarup", "proxy"].map(|name| write(name, "abc", 0o755));
        let data = write("data", "abc", 0o644);
        let text = format!(
            "title = \"t\"\n[stations.servers]\nprogram = \"cache\"\n[stations.middleware]\n\
             command = [\"env\", \"nice\", \"-n\", \"1\", {proxy:?}, {data:?}, \"true\", \"{{port}}\"]\n\
             [stations.clients]\nprogram = \"load\"\n"
        );
        let found = |text: &str| {
            let spec = Spec::parse(text, "spec.toml").unwrap();
            builds(&spec, &Plan::of(&spec), &krarup)
        };
        let first = found(&text);
        let names: Vec<&str> = first.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, [proxy.to_str().unwrap(), "env", "krarup", "nice"]);
        assert_eq!((first[0].1.as_str(), first[2].1.as_str()), ("ba7816bf8f01cfea", "ba7816bf8f01cfea"));
        write("proxy", "abd", 0o755);
        let second = found(&text);
        assert_ne!(second[0], first[0]);
        assert_eq!(second[1..], first[1..]);
        // Of other machines' programs only ours is known, where it is brought there.
        assert!(found(MACHINES).is_empty());
        assert_eq!(found(&MACHINES.replace("krarup = \"/bin/krarup\"\n", "")), first[2..3]);
        fs::remove_dir_all(folder).unwrap();
    }
}
