//! How the outside is met: who may connect, what they may ask, how long and how much of it may take.

use std::path::{Path, PathBuf};

use krarup_units::Nanos;
use serde::{Deserialize, Deserializer};

use crate::config::quantity::{length, size};

/// The keys under `[edge]`, with their defaults.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Edge {
    /// Commands that are refused unless they are named here.
    pub allow: Vec<Dangerous>,
    /// A file of `user:password` lines: who connects must say one of them first.
    pub users: Option<PathBuf>,
    /// A file with one such line, which is said to servers first.
    pub server_login: Option<PathBuf>,
    /// Clients speak TLS.
    pub tls: Option<ClientTls>,
    /// Servers speak TLS.
    pub server_tls: Option<ServerTls>,
    /// The permissions of a unix socket that is listened on, in octal.
    #[serde(deserialize_with = "mode")]
    pub socket_mode: Option<u32>,
    /// Whether several processes may listen on one port, as while one takes the place of another.
    pub reuse_port: bool,
    /// After which silence the kernel asks whether the other side is still there; zero never.
    #[serde(deserialize_with = "length")]
    pub keep_alive: Nanos,
    /// How long a client may say nothing; zero: for ever.
    #[serde(deserialize_with = "length")]
    pub idle_timeout: Nanos,
    /// How long a request may take from its first byte to its last; zero: for ever.
    #[serde(deserialize_with = "length")]
    pub request_timeout: Nanos,
    /// How long a client may take from its connection until it is known who it is, by TLS handshake and login; zero: for ever.
    #[serde(deserialize_with = "length")]
    pub login_timeout: Nanos,
    /// How many clients there may be of which that is not known yet.
    pub max_unauthenticated: usize,
    /// How many bytes may wait in all buffers together: requests that are not whole, for which it is reserved, requests on their way to servers,
    /// and replies.
    #[serde(deserialize_with = "size")]
    pub memory: usize,
}

/// Commands that reach beyond the keys they name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dangerous {
    /// Forgets everything on every server.
    FlushAll,
    /// Changes what servers write into their logs.
    Verbosity,
}

impl Dangerous {
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

impl std::str::FromStr for Dangerous {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        [Self::FlushAll, Self::Verbosity]
            .into_iter()
            .find(|command| command.name() == text)
            .ok_or_else(|| format!("`{text}` is none of flush_all, verbosity"))
    }
}

/// What the proxy shows its clients.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientTls {
    /// Its certificate, and those that lead to its authority (PEM).
    pub certificate: PathBuf,
    /// Its private key (PEM).
    pub key: PathBuf,
    /// Authorities (PEM): a client must show a certificate of one of them.
    pub client_authorities: Option<PathBuf>,
}

/// What the proxy asks of servers.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServerTls {
    /// Authorities (PEM): a server must show a certificate of one of them.
    pub authorities: PathBuf,
    /// The name in the servers' certificates; none: the host as it is configured.
    pub name: Option<String>,
    /// The proxy's own certificate (PEM), for servers that ask for one.
    pub certificate: Option<PathBuf>,
    /// Its private key (PEM).
    pub key: Option<PathBuf>,
}

impl Default for Edge {
    fn default() -> Self {
        Self {
            allow: Vec::new(),
            users: None,
            server_login: None,
            tls: None,
            server_tls: None,
            socket_mode: None,
            reuse_port: false,
            keep_alive: Nanos::from_secs(60),
            idle_timeout: Nanos::ZERO,
            request_timeout: Nanos::from_secs(60),
            login_timeout: Nanos::from_secs(10),
            max_unauthenticated: 1_000,
            memory: 1 << 30,
        }
    }
}

impl Edge {
    /// Checks what cannot be seen key by key.
    ///
    /// # Errors
    /// Names the key and says what would do.
    pub fn check(&self) -> Result<(), String> {
        if self.memory < 1 << 20 {
            return Err(format!("`edge.memory` is {}, and must be at least 1MiB", self.memory));
        }
        if self.max_unauthenticated == 0 {
            return Err("`edge.max_unauthenticated` is 0, and must be at least 1".into());
        }
        let longest = Nanos::from_secs(30 * 86_400);
        for (key, value) in [
            ("keep_alive", self.keep_alive),
            ("idle_timeout", self.idle_timeout),
            ("request_timeout", self.request_timeout),
            ("login_timeout", self.login_timeout),
        ] {
            if value > longest || (value > Nanos::ZERO && value < Nanos::from_millis(1)) {
                return Err(format!("`edge.{key}` is {value}, and must be 0 or from 1ms to 30 days"));
            }
        }
        if let Some(tls) = &self.server_tls
            && tls.certificate.is_some() != tls.key.is_some()
        {
            return Err("`edge.server_tls` names a certificate or a key; it takes both or none".into());
        }
        Ok(())
    }

    /// Whether this command is refused.
    pub fn refuses(&self, command: Dangerous) -> bool {
        !self.allow.contains(&command)
    }

    /// The table as a commented part of the configuration file, which reads back as the same.
    pub fn commented(&self) -> String {
        let length = |length: Nanos| format!("\"{}us\"", length.as_seconds() * 1e6);
        let text = |path: &Path| format!("{:?}", path.display().to_string());
        let allow: Vec<_> = self.allow.iter().map(|command| format!("\"{}\"", command.name())).collect();
        let file = |key: &str, path: &Option<PathBuf>, usual: &str| match path {
            Some(path) => format!("{key} = {}", text(path)),
            None => format!("#{key} = \"{usual}\""),
        };
        let tls = match &self.tls {
            None => "#tls = { certificate = \"proxy.pem\", key = \"proxy.key\", client_authorities = \"clients.pem\" }".to_owned(),
            Some(ClientTls { certificate, key, client_authorities }) => {
                let more = client_authorities.as_deref().map(|file| format!(", client_authorities = {}", text(file)));
                let (certificate, key) = (text(certificate), text(key));
                format!("tls = {{ certificate = {certificate}, key = {key}{} }}", more.unwrap_or_default())
            }
        };
        let server_tls = match &self.server_tls {
            None => "#server_tls = { authorities = \"servers.pem\", name = \"cache.internal\", certificate = \"proxy.pem\", key = \"proxy.key\" }".to_owned(),
            Some(ServerTls { authorities, name, certificate, key }) => {
                let mut parts = format!("authorities = {}", text(authorities));
                if let Some(name) = name {
                    parts.push_str(&format!(", name = {name:?}"));
                }
                if let (Some(certificate), Some(key)) = (certificate, key) {
                    parts.push_str(&format!(", certificate = {}, key = {}", text(certificate), text(key)));
                }
                format!("server_tls = {{ {parts} }}")
            }
        };
        let socket_mode = self
            .socket_mode
            .map_or("#socket_mode = \"0660\"".to_owned(), |mode| format!("socket_mode = \"{mode:04o}\""));
        format!(
            "\
# How the outside is met.
[edge]

# Commands that reach beyond the keys they name are refused unless they stand here: \"flush_all\", \"verbosity\".
allow = [{allow}]

# Who connects must first say, as to memcached itself, `set any 0 0 N` and `user password`: one of the lines
# `user:password` of this file. And the file with the one line that is said to servers.
{users}
{server_login}

# TLS with clients: the proxy's certificate and key, and the authorities of which clients must show a certificate
# (none: they need not show any). TLS with servers: their authorities, the name in their certificates (none: the
# host as configured), and the certificate and key for those that ask. All files are PEM.
{tls}
{server_tls}

# The permissions of a unix socket that is listened on (listen = \"unix:/run/krarup.sock\").
{socket_mode}

# Whether several processes may listen on one port: a new one can start before the old one ends.
reuse_port = {reuse_port}

# After which silence the kernel asks whether the other side is still there. 0 never asks.
keep_alive = {keep_alive}

# How long a client may say nothing, and how long one request may take from its first byte to its last. Beyond that
# it is disconnected. 0 waits for ever.
idle_timeout = {idle_timeout}
request_timeout = {request_timeout}

# How long a client may take from its connection until it is known who it is: TLS handshake and login together. And how many
# there may be that are not known yet: with one more, the oldest of them is disconnected. A wrong password is answered after a second, the
# third is the last. 0 waits for ever.
login_timeout = {login_timeout}
max_unauthenticated = {max_unauthenticated}

# How many bytes may wait in all buffers together. A long request is read when there is room for all of it, which half of this is for; until then
# its client waits, and others do not. While clients wait, /ready answers 503; what stands still for a second, a request that is not gone on with or
# replies that are not read, is disconnected, the largest first. Beyond the bound so is the client with the most replies, of those that do not
# read them first.
memory = {memory}
",
            allow = allow.join(", "),
            users = file("users", &self.users, "/etc/krarup/users"),
            server_login = file("server_login", &self.server_login, "/etc/krarup/login"),
            reuse_port = self.reuse_port,
            keep_alive = length(self.keep_alive),
            idle_timeout = length(self.idle_timeout),
            request_timeout = length(self.request_timeout),
            login_timeout = length(self.login_timeout),
            max_unauthenticated = self.max_unauthenticated,
            memory = self.memory,
        )
    }
}

/// Permissions as `chmod` takes them.
fn mode<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u32>, D::Error> {
    let text = String::deserialize(deserializer)?;
    match u32::from_str_radix(&text, 8) {
        Ok(mode) if mode <= 0o777 => Ok(Some(mode)),
        _ => Err(serde::de::Error::custom(format!("`{text}` are no permissions; write them like \"0660\""))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Edge, String> {
        #[derive(Deserialize)]
        struct File {
            edge: Edge,
        }
        toml::from_str::<File>(text).map(|file| file.edge).map_err(|error| error.message().to_owned())
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
            keep_alive: Nanos::ZERO,
            idle_timeout: Nanos::from_millis(1),
            request_timeout: Nanos::from_secs(5),
            login_timeout: Nanos::from_secs(2),
            max_unauthenticated: 7,
            memory: 1 << 20,
        };
        for edge in [plain, full] {
            assert_eq!(edge.check(), Ok(()));
            assert_eq!(read(&edge.commented()), Ok(edge));
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (line, part) in [
            ("allow = [\"shutdown\"]", "shutdown"),
            ("socket_mode = \"rw\"", "`rw`"),
            ("memory = \"much\"", "much"),
            ("tls = { certificate = \"c\" }", "key"),
            ("password = 1", "password"),
        ] {
            let error = read(&format!("[edge]\n{line}")).unwrap_err();
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
        assert!(half.check().unwrap_err().contains("both or none"));
        let small = Edge { memory: 5, ..Edge::default() };
        assert!(small.check().unwrap_err().contains("1MiB"));
    }
}
