//! How one machine is spoken to: words for the system's `ssh`.

use krarup_units::Mistake;
use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::atomic::{AtomicU32, Ordering};

use super::super::error::StationError;
use super::super::process::{ChildProcess, PATIENCE};
use super::super::transport::{Transport, quoted};
use crate::ledger::Ledger;
use crate::spec::{Machine, Ssh};
use crate::stop::Stop;

/// A socket's path may be so long, and ssh adds a name of its own to ours while it makes it.
const LONGEST_SOCKET: usize = 80;

/// A folder for the sockets of connections, which only we can enter. It goes with this value.
#[derive(Debug)]
pub struct Sockets {
    folder: PathBuf,
}

impl Sockets {
    /// Makes it.
    ///
    /// # Errors
    /// From the system.
    pub fn new() -> io::Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let usual = std::env::var_os("XDG_RUNTIME_DIR").map_or_else(std::env::temp_dir, PathBuf::from);
        let place = place(usual);
        // Another may have made one of this name, and must not be trusted with it: then the next.
        loop {
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let folder = place.join(format!("krarup-ssh-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => return Ok(Self { folder }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }
}

/// Where their folder is made: there, unless the path of a socket would be too long, or ssh would
/// take a part of it for something else, as what stands behind a blank.
fn place(usual: PathBuf) -> PathBuf {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./".contains(letter);
    let is_short = |path: &str| path.len() < LONGEST_SOCKET / 2;
    let fits = usual.to_str().is_some_and(|path| is_short(path) && path.chars().all(is_plain));
    if fits && usual.is_dir() { usual } else { PathBuf::from("/tmp") }
}

impl Drop for Sockets {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Who holds the connection that all share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ConnectionRole {
    /// This one.
    Master,
    /// Another: this one goes through it.
    Session,
}

/// Keeps the connection open as long as it is fed. It is one line: csh, which may be the login
/// shell there, takes no more in quotes.
pub(super) const KEEP: &str =
    r#"echo krarup: connected >&2; while read -r word; do if [ "$word" = end ]; then exit 0; fi; done"#;

/// How one machine is spoken to.
#[derive(Clone, Debug)]
pub struct Destination {
    /// The machine in messages.
    name: String,
    machine: Machine,
    config: Option<PathBuf>,
    socket: PathBuf,
}

impl Destination {
    /// To this machine, with what the spec says of all; its socket is made at `socket`.
    pub fn new(name: &str, machine: &Machine, ssh: &Ssh, base: &Path, socket: PathBuf) -> Self {
        let mut machine = machine.clone();
        machine.user = machine.user.or_else(|| ssh.user.clone());
        machine.port = machine.port.or(ssh.port);
        machine.identity = machine.identity.or_else(|| ssh.identity.clone());
        let user = machine.user.as_ref().map_or(String::new(), |user| format!("{user}@"));
        let port = machine.port.map_or(String::new(), |port| format!(":{port}"));
        let name = format!("{name} ({user}{}{port})", machine.host);
        Self { name, machine, config: ssh.config.as_ref().map(|file| base.join(file)), socket }
    }

    /// What one would type to come there.
    fn by_hand(&self) -> String {
        let words = self.options().into_iter().chain([self.machine.host.clone()]);
        format!("ssh {}", words.map(|word| quoted(&word)).collect::<Vec<_>>().join(" "))
    }

    /// What tells the machine.
    fn options(&self) -> Vec<String> {
        let Machine { user, port, identity, .. } = &self.machine;
        let config = self.config.as_ref().map(|file| file.to_string_lossy().into_owned());
        let options = [
            ("-F", config),
            ("-p", port.map(|port| port.to_string())),
            ("-l", user.clone()),
            ("-i", identity.clone()),
        ];
        let given = options.into_iter().filter_map(|(name, value)| Some([name.to_owned(), value?]));
        given.flatten().collect()
    }

    /// The command that has these words carried out there.
    fn command_as(&self, role: ConnectionRole, words: &[String]) -> Command {
        let mut command = Command::new("ssh");
        let master = if role == ConnectionRole::Master { "yes" } else { "no" };
        // No password is asked for. A connection that is dead is found to be.
        for option in [
            "BatchMode=yes",
            "ConnectTimeout=10",
            "ServerAliveInterval=5",
            "ServerAliveCountMax=3",
            "ControlPersist=no",
            "LogLevel=ERROR",
            &format!("ControlMaster={master}"),
            &format!("ControlPath={}", self.socket.display()),
        ] {
            command.args(["-o", option]);
        }
        let line = words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
        command.args(["-a", "-x", "-T"]).args(self.options()).args(["--", &self.machine.host, &line]);
        command
    }
}

impl Transport for Destination {
    fn name(&self) -> &str {
        &self.name
    }

    fn command(&self, words: &[String]) -> Command {
        self.command_as(ConnectionRole::Session, words)
    }

    /// Opens the connection that all share.
    fn connect(&self, ledger: &Ledger, stop: &Stop) -> Result<Option<ChildProcess>, StationError> {
        let keep = ["sh", "-c", KEEP].map(str::to_owned);
        let mut master =
            ChildProcess::start_agent(&self.name, &mut self.command_as(ConnectionRole::Master, &keep))?;
        ledger.note(master.id());
        match master.ready("krarup: connected", 2 * PATIENCE, stop) {
            Ok(_) => Ok(Some(master)),
            Err(error) if stop.asked() => Err(error),
            Err(error) => {
                let Mistake { what, hint, .. } = self.unreachable();
                Err(StationError { why: what, hint, ..error })
            }
        }
    }

    /// 255 is what ssh itself ends with.
    fn broke(&self, status: ExitStatus, _: &[String]) -> bool {
        status.code() == Some(255)
    }

    fn unreachable(&self) -> Mistake {
        Mistake::new(
            "cannot be reached by ssh, or no longer",
            format!(
                "try `{}` by hand: its host key must be known, and a key must do for a login without a password",
                self.by_hand()
            ),
        )
    }

    fn agent(&self, krarup: &str, variables: [(&str, &str); 2]) -> Vec<String> {
        let set = variables.map(|(name, value)| format!("{name}={value}"));
        [&["env".to_owned()][..], &set, &[krarup.to_owned(), "agent".to_owned()]].concat()
    }

    fn other_version(&self) -> &'static str {
        "install the same version there, or take `krarup` out of [ssh]"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_told_as_the_spec_says_and_strange_hosts_are_never_trusted() {
        let ssh = Ssh {
            user: Some("me".into()),
            port: Some(2222),
            config: Some("here.conf".into()),
            ..Ssh::default()
        };
        let machine = Machine { host: "a".into(), port: Some(22), ..Machine::default() };
        let destination =
            Destination::new("s1", &machine, &ssh, Path::new("/specs"), PathBuf::from("/tmp/x/1"));
        assert_eq!(destination.name(), "s1 (me@a:22)");
        let command = destination.command(&["it's".to_owned()]);
        let words: Vec<String> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        let end = ["-F", "/specs/here.conf", "-p", "22", "-l", "me", "--", "a", "'it'\\''s'"];
        assert_eq!(words[words.len() - end.len()..], end);
        assert!(
            words.contains(&"BatchMode=yes".to_owned()) && words.contains(&"ControlPath=/tmp/x/1".to_owned())
        );
        assert!(!words.iter().any(|word| word.contains("StrictHostKeyChecking")), "{words:?}");
    }

    #[test]
    fn sockets_are_where_ssh_understands_their_path() {
        let root = PathBuf::from(format!("/tmp/krarup-{}", std::process::id()));
        let folder = |name: &str| {
            let folder = root.join(name);
            fs::create_dir_all(&folder).unwrap();
            folder
        };
        let places = ["plain", "a blank", "%h", &"long".repeat(10)].map(|name| place(folder(name)));
        fs::remove_dir_all(&root).unwrap();
        let usual = PathBuf::from("/tmp");
        assert_eq!(places, [root.join("plain"), usual.clone(), usual.clone(), usual.clone()]);
        assert_eq!(place(root), usual, "there is no such folder");
    }

    #[test]
    fn no_other_user_can_enter_the_folder_of_sockets() {
        use std::os::unix::fs::PermissionsExt;
        let sockets = Sockets::new().unwrap();
        let folder = sockets.folder().to_owned();
        assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
        assert!(folder.as_os_str().len() < LONGEST_SOCKET);
        drop(sockets);
        assert!(!folder.exists());
    }
}
