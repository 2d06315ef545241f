//! How the outside is met: who may connect, what they may ask, how long and how much of it may
//! take.

use std::path::{Path, PathBuf};

use krarup_settings::kind::{
    Count, Duration, FILE, FilePermissions, Inline, List, MONTH, Optional, Size, Switch, TEXT, Word,
};
use krarup_settings::{Flag, Mistake, Mistakes, check, settings};
use krarup_units::Nanos;

/// How long a client may do something; zero: for ever.
const PATIENCE: Duration = Duration::between(Nanos::from_millis(1), MONTH).or_zero();

/// The silences that the kernel counts, in seconds; zero: it does not.
const SILENCE: Duration = Duration::between(Nanos::from_secs(1), Nanos::from_secs(32_767)).or_zero();

settings! {
    /// The keys under `[edge]`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Edge {
        /// Commands that reach beyond the keys they name are refused unless they stand here:
        /// "flush_all", "verbosity".
        allow: Vec<Dangerous> = Vec::new(), List(Word(&Dangerous::ALL)),
            flag = Some(Flag::new("allow", "COMMAND").many());
        /// A file of `user:password` lines. Who connects must first say, as to memcached itself,
        /// `set any 0 0 N` and `user password`: one of them. A wrong password is answered after a
        /// second, the third is the last. Holds for clients that connect from then on: with a
        /// reload those that are connected stay as they came. Write the whole path of this file and
        /// of those below: others begin where the proxy is started, which is / under systemd.
        users: Option<PathBuf> = None, Optional(FILE), example = "\"/etc/krarup/users\"";
        /// A file with the one such line that is said to servers.
        server_login: Option<PathBuf> = None, Optional(FILE), example = "\"/etc/krarup/login\"";
        /// TLS with clients: the proxy's certificate and key, and the authorities of which clients
        /// must show a certificate (none: they need not show any). All files are PEM. Holds for
        /// clients that connect from then on.
        tls: Option<ClientTls> = None, Optional(Inline),
            example = "{ certificate = \"/etc/krarup/proxy.pem\", key = \"/etc/krarup/proxy.key\", client_authorities = \"/etc/krarup/clients.pem\" }";
        /// TLS with servers: their authorities, the name in their certificates (none: the host as
        /// configured; with every_address each address), and the certificate and key for those that
        /// ask. All files are PEM.
        server_tls: Option<ServerTls> = None, Optional(Inline),
            example = "{ authorities = \"/etc/krarup/servers.pem\", name = \"cache.internal\", certificate = \"/etc/krarup/proxy.pem\", key = \"/etc/krarup/proxy.key\" }";
        /// The permissions of a unix socket that is listened on (listen = "unix:/run/krarup.sock").
        socket_mode: Option<u32> = None, Optional(FilePermissions), example = "\"0660\"",
            flag = Some(Flag::new("socket-mode", "MODE"));
        /// Whether several processes may listen on one port: a new one can start before the old one
        /// ends.
        reuse_port: bool = false, Switch, restart = true;
        /// How many connections may wait to be accepted at a listening socket; the kernel may allow
        /// fewer (net.core.somaxconn). Holds for sockets that are opened from then on.
        backlog: u32 = 1_024, Count::between(1, 65_535), flag = Some(Flag::new("backlog", "COUNT"));
        /// After which silence the kernel asks whether the other side is still there; after half as
        /// long again without an answer the connection counts as lost. 0 never asks.
        keep_alive: Nanos = Nanos::from_secs(60), SILENCE;
        /// How long a client may say nothing. Beyond that it is disconnected. 0 waits for ever.
        idle_timeout: Nanos = Nanos::ZERO, PATIENCE,
            flag = Some(Flag::new("idle-timeout", "TIME"));
        /// How long one request may take from its first byte to its last, and how long a client may
        /// take nothing of its replies. Beyond that it is disconnected. 0 waits for ever.
        request_timeout: Nanos = Nanos::from_secs(60), PATIENCE;
        /// How long a client may take from its connection until it has logged in: the TLS handshake
        /// and, at the proxy, the login. 0 waits for ever.
        login_timeout: Nanos = Nanos::from_secs(10), PATIENCE,
            flag = Some(Flag::new("handshake-timeout", "TIME"));
        /// How many clients there may be that have not logged in yet: with one more, the oldest of
        /// them is disconnected.
        max_unauthenticated: usize = 1_000, Count::from(1);
        /// How many bytes may wait in all buffers together. A long request is read when there is
        /// room for all of it, in about two fifths of this; until then its client waits, and others
        /// do not. While clients wait, the proxy's /ready answers 503; what stands still for a
        /// second, a request whose rest does not come or replies that are not read, is
        /// disconnected, the largest first. Beyond the bound clients are disconnected until the
        /// rest fits: first those with more than 16 KiB of replies that they do not read, and of
        /// these the one that has taken nothing for longest.
        memory: usize = 1 << 30, Size::from(1 << 20),
            flag = Some(Flag::new("buffer-memory", "SIZE"));
    }
}

/// Commands that reach beyond the keys they name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dangerous {
    /// Forgets everything on every server.
    FlushAll,
    /// Changes what servers write into their logs.
    Verbosity,
}

impl Dangerous {
    /// Each with its name.
    pub(crate) const ALL: [(Self, &str); 2] =
        [(Self::FlushAll, Self::FlushAll.name()), (Self::Verbosity, Self::Verbosity.name())];

    /// Its name, in the protocol and in the configuration.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FlushAll => "flush_all",
            Self::Verbosity => "verbosity",
        }
    }

    /// What a client is told where it is not allowed.
    pub const fn refusal(self) -> &'static [u8] {
        match self {
            Self::FlushAll => b"CLIENT_ERROR flush_all is not allowed by this proxy\r\n",
            Self::Verbosity => b"CLIENT_ERROR verbosity is not allowed by this proxy\r\n",
        }
    }
}

settings! {
    /// What a server shows its clients that speak TLS.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ClientTls {
        /// Clients speak TLS: the server's certificate, and those that lead to its authority (PEM).
        certificate: PathBuf = PathBuf::new(), FILE, required = true,
            flag = Some(Flag::new("tls-certificate", "FILE"));
        /// The private key of that certificate (PEM).
        key: PathBuf = PathBuf::new(), FILE, required = true, flag = Some(Flag::new("tls-key", "FILE"));
        /// Authorities (PEM): a client must show a certificate of one of them.
        client_authorities: Option<PathBuf> = None, Optional(FILE),
            flag = Some(Flag::new("tls-client-authorities", "FILE"));
    }
}

settings! {
    /// What the proxy asks of servers.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct ServerTls {
        /// Authorities (PEM): a server must show a certificate of one of them.
        authorities: PathBuf = PathBuf::new(), FILE, required = true;
        /// The name in the servers' certificates; none: the host as it is configured, or each of
        /// its addresses with `every_address`.
        name: Option<String> = None, Optional(TEXT);
        /// The proxy's own certificate (PEM), for servers that ask for one.
        certificate: Option<PathBuf> = None, Optional(FILE);
        /// Its private key (PEM).
        key: Option<PathBuf> = None, Optional(FILE);
    }
}

impl Edge {
    /// Checks bounds, and what cannot be seen key by key.
    ///
    /// # Errors
    /// Names the key and says what would do.
    pub fn check(&self) -> Result<(), Mistakes> {
        check(self, "edge.")?;
        if let Some(tls) = &self.server_tls
            && tls.certificate.is_some() != tls.key.is_some()
        {
            return Err(Mistake::new(
                "`edge.server_tls` names a certificate or a key",
                "it takes both or none",
            )
            .into());
        }
        Ok(())
    }

    /// Every file that is named: users, the login, certificates, keys, authorities.
    pub fn files(&self) -> Vec<&Path> {
        let mut files: Vec<&PathBuf> = self.users.iter().chain(&self.server_login).collect();
        if let Some(tls) = &self.tls {
            files.extend([&tls.certificate, &tls.key]);
            files.extend(&tls.client_authorities);
        }
        if let Some(tls) = &self.server_tls {
            files.push(&tls.authorities);
            files.extend(tls.certificate.iter().chain(&tls.key));
        }
        files.into_iter().map(PathBuf::as_path).collect()
    }

    /// Whether this command is refused.
    pub fn refuses(&self, command: Dangerous) -> bool {
        !self.allow.contains(&command)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::config::Config;

    fn read(text: &str) -> Result<Edge, Mistakes> {
        Config::parse(text, "f.toml").map(|config| config.edge)
    }

    #[test]
    fn the_commented_table_reads_back_as_the_same() {
        let plain = Edge::default();
        let full = Edge {
            allow: vec![Dangerous::FlushAll, Dangerous::Verbosity],
            users: Some("/a b/\"users\"".into()),
            server_login: Some("login".into()),
            tls: Some(ClientTls {
                certificate: "c".into(),
                key: "k".into(),
                client_authorities: Some("a".into()),
            }),
            server_tls: Some(ServerTls {
                authorities: "a".into(),
                name: Some("n".into()),
                certificate: Some("c".into()),
                key: Some("k".into()),
            }),
            socket_mode: Some(0o600),
            reuse_port: true,
            backlog: 65_535,
            keep_alive: Nanos::ZERO,
            idle_timeout: Nanos::from_millis(1),
            request_timeout: Nanos::from_secs(5),
            login_timeout: Nanos::from_secs(2),
            max_unauthenticated: 7,
            memory: 1 << 20,
        };
        for edge in [plain, full] {
            assert_eq!(edge.check(), Ok(()));
            let config = Config { edge, ..Config::default() };
            assert_eq!(read(&config.commented()), Ok(config.edge));
        }
    }

    /// 0o640 is the number 416.
    #[test]
    fn permissions_are_the_digits_that_stand_there() {
        for written in ["\"0640\"", "\"640\"", "0o640", "640"] {
            let edge = read(&format!("[edge]\nsocket_mode = {written}")).unwrap();
            assert_eq!(edge.socket_mode, Some(0o640), "{written}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (line, part) in [
            ("allow = [\"shutdown\"]", "shutdown"),
            ("socket_mode = \"rw\"", "`rw`"),
            ("socket_mode = 0x1b0", "are no permissions"),
            ("memory = \"much\"", "much"),
            ("backlog = 0", "65535"),
            ("keep_alive = \"500ms\"", "0 or from 1s to 32767s"),
            ("keep_alive = \"12h\"", "0 or from 1s to 32767s"),
            ("tls = { certificate = \"c\" }", "key"),
            ("password = 1", "password"),
        ] {
            let error = read(&format!("[edge]\n{line}")).unwrap_err().to_string();
            assert!(error.contains(part), "{line}: {error}");
        }
        let half = Edge {
            server_tls: Some(ServerTls {
                authorities: "a".into(),
                name: None,
                certificate: Some("c".into()),
                key: None,
            }),
            ..Edge::default()
        };
        assert!(half.check().unwrap_err().to_string().contains("both or none"));
        let small = Edge { memory: 5, ..Edge::default() };
        assert!(small.check().unwrap_err().to_string().contains("1MiB"));
    }
}
