//! Why there is no connection to a database: the true cause, and what would do.
//!
//! Causes are known by SQLSTATE and not by the server's words, which may be in any language.

use std::io;
use std::time::Duration;

use krarup_net::trust::HandshakeProblem;
use krarup_units::{Mistake, text};
use tokio_postgres::Error;
use tokio_postgres::config::SslMode;
use tokio_postgres::error::SqlState;

use super::parameters::ConnectionParameters;

/// What went wrong with one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ConnectionFailure {
    /// The host's name stands for no address.
    Unresolved(String),
    /// Nothing listens there.
    Refused,
    /// It is there and says nothing, or it is not there.
    NoAnswer(Duration),
    /// There is no socket of that name.
    NoSocket,
    /// The socket broke, or there is none.
    Socket(String),
    /// A file that the connection needs.
    File(Mistake),
    /// It speaks no TLS, and the mode asks for it.
    NoTls,
    Handshake(HandshakeProblem),
    /// What the file pg_hba.conf, or the system's own check, refuses; whether that was by TLS.
    NotAdmitted {
        why: String,
        by_tls: bool,
    },
    /// The password is wrong; it came from the user's file or address, or there was none.
    Password {
        why: String,
        had_one: bool,
    },
    /// There is no such database.
    NoDatabase(String),
    /// It has no connection to spare.
    Full(String),
    /// It starts, stops or recovers.
    NotYet(String),
    /// Channel binding is asked for and is not to be had; whether that was by TLS.
    Unbound {
        by_tls: bool,
    },
    ReadsOnly,
    Standby,
    /// Something else.
    Other(String),
}

impl ConnectionFailure {
    /// What an error of the library says.
    pub(super) fn of(error: &Error, parameters: &ConnectionParameters, mode: SslMode) -> Self {
        let by_tls = mode != SslMode::Disable;
        if let Some(told) = error.as_db_error() {
            let why = told.message().to_owned();
            let code = told.code();
            return if *code == SqlState::INVALID_AUTHORIZATION_SPECIFICATION {
                Self::NotAdmitted { why, by_tls }
            } else if *code == SqlState::INVALID_PASSWORD {
                Self::Password { why, had_one: true }
            } else if *code == SqlState::INVALID_CATALOG_NAME {
                Self::NoDatabase(parameters.database.clone())
            } else if *code == SqlState::TOO_MANY_CONNECTIONS {
                Self::Full(why)
            } else if *code == SqlState::CANNOT_CONNECT_NOW {
                Self::NotYet(why)
            } else {
                Self::Other(why)
            };
        }
        let source = std::error::Error::source(error);
        if let Some(error) = source.and_then(|source| source.downcast_ref::<io::Error>()) {
            return Self::of_socket(error);
        }
        let why = source.map_or_else(|| error.to_string(), ToString::to_string);
        // The library has no other name for these.
        match why.as_str() {
            "server does not support TLS" => Self::NoTls,
            "password missing" => {
                let refused =
                    parameters.passwords_refused().map_or_else(String::new, |why| format!(", and {why}"));
                Self::Password {
                    why: format!("the server asks for a password, and none is known{refused}"),
                    had_one: false,
                }
            }
            "server did not use channel binding" => Self::Unbound { by_tls },
            _ => Self::Other(words(error)),
        }
    }

    fn of_socket(error: &io::Error) -> Self {
        if let Some(problem) = HandshakeProblem::of(error) {
            return Self::Handshake(problem);
        }
        match error.kind() {
            io::ErrorKind::ConnectionRefused => Self::Refused,
            io::ErrorKind::NotFound => Self::NoSocket,
            _ => Self::Socket(error.to_string()),
        }
    }

    /// Whether it may go otherwise with TLS, or without.
    pub(super) fn may_differ_with_tls(&self) -> bool {
        matches!(self, Self::NoTls | Self::Handshake(_) | Self::NotAdmitted { .. } | Self::File(_))
    }

    /// What an operator should know where this server is spoken to without TLS because of it;
    /// none: the server wants it so.
    pub(super) fn without_tls(&self, server: &str) -> Option<String> {
        if !matches!(self, Self::Handshake(_) | Self::File(_)) {
            return None;
        }
        let hint = self.hint();
        let hint = if hint.is_empty() { hint } else { format!(" ({hint})") };
        Some(format!(
            "TLS with {server} failed: {}{hint}; sslmode=prefer goes on without it, and what is sent can be read on the way",
            self.what()
        ))
    }

    fn what(&self) -> String {
        match self {
            Self::Unresolved(why) => format!("its name stands for no address: {why}"),
            Self::Refused => "it refuses connections: nothing listens there".into(),
            Self::NoAnswer(limit) => format!("it does not answer within {}", text::duration(limit.as_secs_f64())),
            Self::NoSocket => "there is no such socket".into(),
            Self::Socket(why) | Self::Full(why) | Self::NotYet(why) | Self::Other(why) => why.clone(),
            Self::File(mistake) => mistake.what.clone(),
            Self::NoTls => "the server speaks no TLS, and sslmode asks for it".into(),
            Self::Handshake(HandshakeProblem::OldVersion) => {
                "the server's certificate is of X.509 version 1, and only version 3 is read".into()
            }
            Self::Handshake(HandshakeProblem::Untrusted(why)) => {
                format!("the server's certificate is not trusted: {why}")
            }
            Self::Handshake(HandshakeProblem::OtherName(why)) => {
                format!("the server's certificate is made out to another name: {why}")
            }
            Self::Handshake(HandshakeProblem::Outdated(why)) => {
                format!("the server's certificate is not valid now: {why}")
            }
            Self::Handshake(HandshakeProblem::Unlisted(why)) => {
                format!("whether the certificate was revoked is not known: {why}")
            }
            Self::Handshake(HandshakeProblem::Refused(why)) => {
                format!("the server refuses our part of TLS: {why}")
            }
            Self::Handshake(HandshakeProblem::Other(why)) => format!("TLS failed: {why}"),
            Self::NotAdmitted { why, by_tls } => {
                format!("{why} (asked {} TLS)", if *by_tls { "with" } else { "without" })
            }
            Self::Password { why, .. } => why.clone(),
            Self::NoDatabase(name) => format!("there is no database \"{name}\""),
            Self::Unbound { by_tls: true } => {
                "the server did not bind the password to the TLS channel, and channel_binding=require asks for it".into()
            }
            Self::Unbound { by_tls: false } => {
                "channel_binding=require needs TLS, and this connection has none".into()
            }
            Self::ReadsOnly => "it takes no writes: default_transaction_read_only is on".into(),
            Self::Standby => "it is a standby, and takes no writes".into(),
        }
    }

    fn hint(&self) -> String {
        match self {
            Self::Unresolved(_) => "is the name right, and does this machine's name service know it?",
            Self::Refused => "is PostgreSQL running there, and does it listen (listen_addresses, port)?",
            Self::NoAnswer(_) => "is there a firewall between? connect_timeout= in the address sets the limit, in seconds",
            Self::NoSocket => "host= names the folder of the socket: unix_socket_directories of the server",
            Self::File(mistake) => &mistake.hint,
            Self::NoTls => "switch ssl on in postgresql.conf, or write sslmode=prefer where the network is your own",
            Self::Handshake(HandshakeProblem::OldVersion) => {
                "make it anew by openssl x509 -req -extfile FILE, with subjectAltName=DNS:NAME in that file"
            }
            Self::Handshake(HandshakeProblem::Untrusted(_)) => {
                "name the certificate of the server's authority with sslrootcert=FILE"
            }
            Self::Handshake(HandshakeProblem::OtherName(_)) => {
                "use a name that the certificate has among its alternative names, or sslmode=verify-ca"
            }
            Self::Handshake(HandshakeProblem::Outdated(_)) => "renew the server's certificate",
            Self::Handshake(HandshakeProblem::Unlisted(_)) => {
                "sslcrl (or ~/.postgresql/root.crl) must have a current list of every authority of the chain"
            }
            Self::Handshake(HandshakeProblem::Refused(_)) => {
                "does the server trust the authority of the certificate in sslcert?"
            }
            Self::NotAdmitted { by_tls: false, .. } => {
                "is a line of pg_hba.conf for this user, database and address? A line that begins with hostssl takes sslmode=require"
            }
            Self::NotAdmitted { by_tls: true, .. } => {
                "is a line of pg_hba.conf for this user, database and address? clientcert= in it asks for sslcert and sslkey"
            }
            Self::Password { had_one: true, .. } => "is the password right that PGPASSWORD, PGPASSFILE, ~/.pgpass or the address has? --store-file is read at the start alone",
            Self::Password { had_one: false, .. } => {
                "write it into ~/.pgpass (chmod 600) as HOST:PORT:DATABASE:USER:PASSWORD, or into the file of --store-file"
            }
            Self::NoDatabase(_) => "make it: createdb NAME",
            Self::Full(_) => "raise max_connections of the server, or lower --pool",
            Self::NotYet(_) => "it is there in a moment: start the broker again then",
            Self::Unbound { by_tls: true } => "it takes SCRAM passwords (password_encryption = scram-sha-256), or channel_binding=prefer",
            Self::Unbound { by_tls: false } => "write sslmode=require, and switch ssl on at the server",
            Self::ReadsOnly => "switch default_transaction_read_only off for this database and user",
            Self::Standby => "name the primary too: postgres://user@host1,host2/database",
            Self::Socket(_) | Self::Other(_) | Self::Handshake(HandshakeProblem::Other(_)) => "",
        }
        .to_owned()
    }

    /// Of all attempts, in their order: what went wrong where, and what would do for the one that
    /// came furthest.
    pub(super) fn of_all(failures: &[(String, Self)]) -> Mistake {
        let all: Vec<String> =
            failures.iter().map(|(server, failure)| format!("{server}: {}", failure.what())).collect();
        let hint = failures.iter().max_by_key(|(_, failure)| failure.progress());
        Mistake::new(all.join("; "), hint.map_or_else(String::new, |(_, failure)| failure.hint()))
    }

    /// How far an attempt came.
    fn progress(&self) -> u8 {
        match self {
            Self::Unresolved(_) => 0,
            Self::Refused | Self::NoAnswer(_) | Self::NoSocket | Self::Socket(_) => 1,
            Self::NotYet(_) => 2,
            Self::Standby => 3,
            _ => 4,
        }
    }
}

/// What would do about an error of a statement, by its code; empty: nothing is known.
pub(super) fn hint_of(error: &Error) -> String {
    match error.code() {
        Some(code) if *code == SqlState::INSUFFICIENT_PRIVILEGE => {
            "the broker's user owns its schema, which --schema names, and needs nothing else: CREATE SCHEMA NAME AUTHORIZATION USER".into()
        }
        Some(code) if *code == SqlState::READ_ONLY_SQL_TRANSACTION => ConnectionFailure::Standby.hint(),
        Some(code) if *code == SqlState::LOCK_NOT_AVAILABLE => {
            "another session holds what the broker needs (pg_locks says which): start the broker again when that is over".into()
        }
        _ => String::new(),
    }
}

/// An error in the server's own words, without the statement.
pub fn words(error: &Error) -> String {
    match (error.as_db_error(), std::error::Error::source(error)) {
        (Some(told), _) => told.message().to_owned(),
        (None, Some(source)) => format!("{error}: {source}"),
        (None, None) => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_tls_that_failed_is_a_reason_to_warn_of_going_on_without_it() {
        let warned = ConnectionFailure::Handshake(HandshakeProblem::OldVersion).without_tls("db:5432");
        let warned = warned.expect("it can be mended");
        for says in ["TLS with db:5432 failed", "X.509 version 1", "(make it anew", "sslmode=prefer"] {
            assert!(warned.contains(says), "{says}: {warned}");
        }
        for wanted in [
            ConnectionFailure::NoTls,
            ConnectionFailure::NotAdmitted { why: "no entry".into(), by_tls: true },
        ] {
            assert_eq!(wanted.without_tls("db:5432"), None);
        }
    }

    #[test]
    fn a_missing_list_of_revoked_certificates_is_told_with_the_file_to_mend() {
        let unlisted = HandshakeProblem::Unlisted("UnknownRevocationStatus".into());
        let told = ConnectionFailure::of_all(&[("db".into(), ConnectionFailure::Handshake(unlisted))]);
        assert_eq!(
            told.what,
            "db: whether the certificate was revoked is not known: UnknownRevocationStatus"
        );
        assert!(told.hint.contains("sslcrl") && told.hint.contains("root.crl"), "{told}");
    }
}
