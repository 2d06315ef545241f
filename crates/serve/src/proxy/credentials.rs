//! What the files named under `[edge]` hold.

use krarup_units::Mistake;
use std::path::Path;
use std::sync::Arc;

use krarup_net::tls::{Acceptor, Connector, TlsIdentity, outdated};
use krarup_proxy::Edge;

use crate::driver::Users;

/// What they hold.
#[derive(Debug, Default)]
pub(crate) struct Credentials {
    pub(crate) users: Option<Arc<Users>>,
    pub(crate) login: Option<Vec<u8>>,
    pub(crate) acceptor: Option<Acceptor>,
    pub(crate) connector: Option<Connector>,
    /// What can be used and will not do any good: a certificate that has expired.
    pub(crate) warnings: Vec<String>,
}

/// Whether the files that are named can be read, and hold what they should; warnings of what will
/// do no good all the same.
///
/// # Errors
/// Names the file and what is wrong with it.
pub fn check_files(edge: &Edge) -> Result<Vec<String>, Mistake> {
    credentials(edge).map(|found| found.warnings)
}

/// Reads the files.
///
/// # Errors
/// Names the file and what is wrong with it.
pub(crate) fn credentials(edge: &Edge) -> Result<Credentials, Mistake> {
    let mut found = Credentials::default();
    if let Some(file) = &edge.users {
        found.users = Some(Arc::new(users(file)?));
    }
    if let Some(file) = &edge.server_login {
        found.login = Some(users(file)?.login().map_err(|why| why.of(&file.display().to_string()))?);
    }
    if let Some(tls) = &edge.tls {
        let identity = TlsIdentity { certificate: tls.certificate.clone(), key: tls.key.clone() };
        found.acceptor = Some(Acceptor::new(&identity, tls.client_authorities.as_deref())?);
        found.warnings.extend(outdated(&identity.certificate));
    }
    if let Some(tls) = &edge.server_tls {
        let identity = match (&tls.certificate, &tls.key) {
            (Some(certificate), Some(key)) => {
                Some(TlsIdentity { certificate: certificate.clone(), key: key.clone() })
            }
            _ => None,
        };
        found.connector = Some(Connector::new(&tls.authorities, identity.as_ref())?);
        found.warnings.extend(identity.and_then(|identity| outdated(&identity.certificate)));
    }
    Ok(found)
}

fn users(file: &Path) -> Result<Users, Mistake> {
    let text = std::fs::read_to_string(file)
        .map_err(|error| format!("{} cannot be read: {error}", file.display()))?;
    Users::parse(&text).map_err(|why| why.of(&file.display().to_string()))
}
