//! One machine comes into an experiment: we connect, look what machine it is, and bring our program
//! where it is not there yet.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use krarup_units::Mistake;

use super::super::builds;
use super::super::error::StationError;
use super::super::process::{Feed, PATIENCE};
use super::super::remote::{CARRYING, Remote, RemotePlace, RemoteRun, kept};
use super::super::transport::Transport;
use super::destination::Destination;
use crate::spec::Ssh;

/// Room that must be left on the other machine beside the program, in bytes.
const ROOM: u64 = 256 << 20;

/// This program, as it is copied.
#[derive(Debug)]
pub struct Binary {
    path: PathBuf,
    size: u64,
    /// What its bytes are, in hexadecimal digits.
    hash: String,
}

impl Binary {
    /// Reads it once.
    ///
    /// # Errors
    /// From the system.
    pub fn read(path: &Path) -> io::Result<Self> {
        let (hash, size) = (builds::hash(path)?, fs::metadata(path)?.len());
        Ok(Self { path: path.to_owned(), size, hash })
    }
}

fn words<const COUNT: usize>(words: [&str; COUNT]) -> Vec<String> {
    words.map(str::to_owned).to_vec()
}

fn wrong(destination: &Destination, why: impl Into<Mistake>) -> StationError {
    StationError::new(destination.name(), why)
}

/// What a machine says before our program is there.
#[derive(Debug, Default, PartialEq, Eq)]
struct Look {
    system: String,
    cache: String,
    /// Bytes.
    free: u64,
    /// The address of its own at which ssh reached it.
    address: String,
    there: bool,
}

/// Makes the cache and says what is to be known. `$1` is the cache, `$2` the hash; its folder is
/// touched, since builds that no run uses are removed. It is one line, as what keeps the connection
/// is. Another user may have made a folder of this name, and must not be trusted with the program;
/// root is.
const LOOK: &str = concat!(
    "umask 077; case $1 in ",
    "'') cache=${XDG_CACHE_HOME:-$HOME/.cache}/krarup ;; ",
    "'~/'*) cache=$HOME/${1#??} ;; ",
    "*) cache=$1 ;; ",
    "esac; ",
    r#"mkdir -p "$cache/runs" "$cache/$2" || exit 1; touch "$cache/$2" 2>/dev/null; "#,
    r#"for folder in "$cache" "$cache/." "$cache/runs" "$cache/$2"; do "#,
    r#"case $(ls -ldn "$folder" | awk '{ print $3 }') in 0 | "$(id -u)") ;; "#,
    r#"*) echo "$folder belongs to another user: give another folder as cache in [ssh]" >&2; exit 1 ;; "#,
    "esac; done; ",
    r#"echo "system $(uname -sm)"; "#,
    r#"echo "cache $cache"; "#,
    r#"echo "free $(df -Pk "$cache" | awk 'NR == 2 { print $4 }')"; "#,
    r#"echo "connection $SSH_CONNECTION"; "#,
    r#"if [ -x "$cache/$2/krarup" ]; then echo there; fi"#,
);

/// Takes the program in: `$1` is where it goes, `$2` how long it is. It has its name when it is
/// whole.
const TAKE: &str = concat!(
    r#"umask 077; cat > "$1.$$" && [ "$(wc -c < "$1.$$")" -eq "$2" ] && "#,
    r#"chmod 700 "$1.$$" && mv "$1.$$" "$1" && exit 0; "#,
    r#"rm -f "$1.$$"; exit 1"#,
);

impl Look {
    fn read(text: &str) -> Self {
        let mut look = Self::default();
        for line in text.lines() {
            let (name, value) = line.split_once(' ').unwrap_or((line, ""));
            match name {
                "system" => look.system = value.to_owned(),
                "cache" => look.cache = value.to_owned(),
                "free" => look.free = value.trim().parse::<u64>().unwrap_or(0).saturating_mul(1_024),
                // Client and its port, then the machine and its port.
                "connection" => look.address = value.split(' ').nth(2).unwrap_or_default().to_owned(),
                "there" => look.there = true,
                _ => {}
            }
        }
        look
    }

    /// Why our program cannot be brought there.
    fn refused(&self, binary: &Binary) -> Option<String> {
        let ours = format!("Linux {}", std::env::consts::ARCH);
        // The kernel's word for one of them is not the compiler's.
        let theirs = self.system.replace("arm64", "aarch64").replace("amd64", "x86_64");
        if theirs != ours {
            return Some(format!(
                "is `{}`, and this program was built for `{ours}`: build krarup for it, install it there, and give its path as `krarup` in [ssh]",
                self.system
            ));
        }
        let needed = ROOM + if self.there { 0 } else { binary.size };
        (self.free < needed).then(|| {
            format!("has {} MiB left in {}, and {} are needed: make room, or give another folder as `cache` in [ssh]", self.free >> 20, self.cache, needed >> 20)
        })
    }
}

/// Goes there.
///
/// # Errors
/// Where it cannot be reached, is another kind of machine, has another version of the program, no
/// room, or not the address it should have.
pub fn reach(
    name: &str,
    destination: Destination,
    address: Option<&str>,
    (ssh, binary): (&Ssh, &Binary),
    run: RemoteRun<'_>,
) -> Result<Remote, StationError> {
    let line = destination.connect(run.ledger, run.stop)?;
    let cache = ssh.cache.as_deref().unwrap_or_default();
    let script = |script: &str, more: [&str; 2]| words(["sh", "-c", script, "krarup", more[0], more[1]]);
    let look = destination.call(
        &script(LOOK, [cache, &binary.hash]),
        (Feed::Nothing, kept()),
        PATIENCE,
        run.stop,
    )?;
    let look = Look::read(&String::from_utf8_lossy(&look.stdout));
    let krarup = match &ssh.krarup {
        Some(path) => path.clone(),
        None => {
            if let Some(why) = look.refused(binary) {
                return Err(wrong(&destination, why));
            }
            let path = format!("{}/{}/krarup", look.cache, binary.hash);
            if !look.there {
                let file = File::open(&binary.path)
                    .map_err(|error| wrong(&destination, format!("{}: {error}", binary.path.display())))?;
                let script = script(TAKE, [&path, &binary.size.to_string()]);
                destination.call(&script, (Feed::All(Box::new(file)), kept()), CARRYING, run.stop)?;
            }
            path
        }
    };
    let address = address.map_or(look.address, str::to_owned);
    let place = RemotePlace { name: name.to_owned(), address, krarup, runs: format!("{}/runs", look.cache) };
    let remote = Remote::begin(place, Box::new(destination), line, run)?;
    // What is told to listen at this address must be able to.
    remote.free_port(&remote.address).map_err(|error| StationError {
        why: format!(
            "programs cannot listen at {} there: give the address at which the other machines reach it, as {{ host = \"…\", address = \"…\" }} or \
             krarup_address in the inventory",
            remote.address
        ),
        ..error
    })?;
    Ok(remote)
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::process::Stdio;
    use std::time::SystemTime;

    use super::super::destination::KEEP;
    use super::*;

    const SAID: &str = "system Linux x86_64\ncache /home/me/.cache/krarup\nfree 1048576\nconnection 10.0.0.1 50000 10.0.0.2 22\nthere\n";

    #[test]
    fn what_a_machine_says_is_understood() {
        let look = Look::read(SAID);
        assert_eq!(
            look,
            Look {
                system: "Linux x86_64".into(),
                cache: "/home/me/.cache/krarup".into(),
                free: 1 << 30,
                address: "10.0.0.2".into(),
                there: true
            }
        );
    }

    #[test]
    fn another_kind_of_machine_and_a_full_one_are_refused_with_what_to_do() {
        let binary = Binary { path: "x".into(), size: 10 << 20, hash: "00".into() };
        let look = Look {
            system: format!("Linux {}", std::env::consts::ARCH),
            free: 1 << 30,
            cache: "/c".into(),
            ..Look::default()
        };
        assert_eq!(look.refused(&binary), None);
        let other = Look { system: "Linux riscv64".into(), ..Look::read(SAID) };
        let why = other.refused(&binary).unwrap();
        assert!(why.contains("is `Linux riscv64`") && why.contains("give its path as `krarup`"), "{why}");
        let full = Look { free: 3 << 20, ..look };
        let why = full.refused(&binary).unwrap();
        assert!(why.contains("has 3 MiB left in /c, and 266 are needed"), "{why}");
    }

    #[test]
    fn a_program_is_known_by_its_bytes() {
        let path = std::env::temp_dir().join(format!("krarup-binary-{}", std::process::id()));
        fs::write(&path, b"abc").unwrap();
        let binary = Binary::read(&path).unwrap();
        assert_eq!(binary.size, 3);
        assert_eq!(binary.hash, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
        fs::remove_file(path).unwrap();
    }

    /// csh ends a quoted word at the end of its line, and takes `!` in it for a word of its own.
    #[test]
    fn every_login_shell_takes_a_script_in_quotes() {
        for script in [KEEP, LOOK, TAKE] {
            assert!(!script.contains(['\n', '!']), "{script}");
        }
    }

    /// Whatever a shell of the other machine makes of it.
    #[test]
    fn the_script_that_looks_runs_in_a_plain_shell() {
        let cache = std::env::temp_dir().join(format!("krarup-look-{}", std::process::id()));
        let look = || {
            let mut command = std::process::Command::new("sh");
            command
                .args(["-c", LOOK, "krarup", &cache.to_string_lossy(), "00ff"])
                .env("SSH_CONNECTION", "1.1.1.1 1 2.2.2.2 2");
            Look::read(&String::from_utf8(command.output().unwrap().stdout).unwrap())
        };
        let first = look();
        assert!(first.free > 0 && !first.there && first.address == "2.2.2.2", "{first:?}");
        assert_eq!(first.cache, cache.to_string_lossy());
        let path = cache.join("00ff/krarup");
        let take = |size: &str| {
            let mut command = std::process::Command::new("sh");
            command.args(["-c", TAKE, "krarup", &path.to_string_lossy(), size]).stdin(Stdio::piped());
            let mut child = command.spawn().unwrap();
            child.stdin.take().unwrap().write_all(b"four").unwrap();
            child.wait().unwrap().success()
        };
        assert!(!take("5"), "one that was cut off is not taken");
        assert!(!look().there && fs::read_dir(cache.join("00ff")).unwrap().next().is_none());
        assert!(take("4") && look().there);
        let build = File::open(cache.join("00ff")).unwrap();
        build.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        look();
        let used = build.metadata().unwrap().modified().unwrap();
        assert!(used > SystemTime::UNIX_EPOCH, "it is known to be used");
        fs::remove_dir_all(cache).unwrap();
    }

    /// The program in it is the owner's.
    #[test]
    fn a_cache_of_another_user_is_refused() {
        let cache = std::env::temp_dir().join(format!("krarup-foreign-{}", std::process::id()));
        let mut command = std::process::Command::new("sh");
        let script = format!("ls() {{ echo drwx 2 4294967294; }}; {LOOK}");
        command.args(["-c", &script, "krarup", &cache.to_string_lossy(), "00ff"]);
        let output = command.output().unwrap();
        let why = String::from_utf8(output.stderr).unwrap();
        assert!(output.status.code() == Some(1) && output.stdout.is_empty(), "{why}");
        assert!(why.contains("belongs to another user: give another folder as cache"), "{why}");
        fs::remove_dir_all(cache).unwrap();
    }
}
