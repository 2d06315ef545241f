//! The flags of a server whose clients speak TLS.

use std::path::PathBuf;

use clap::Args;
use krarup_net::tls::{Acceptor, Identity, outdated};

use crate::failure::Failure;

#[derive(Args, Clone)]
pub(crate) struct TlsArgs {
    /// Clients speak TLS: the server's certificate, and those that lead to its authority (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_certificate: Option<PathBuf>,
    /// Its private key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_key: Option<PathBuf>,
    /// Authorities (PEM): a client must show a certificate of one of them
    #[arg(long, value_name = "FILE", requires = "tls_certificate")]
    tls_client_authorities: Option<PathBuf>,
}

impl TlsArgs {
    /// Whether clients speak TLS.
    pub(crate) fn is_on(&self) -> bool {
        self.tls_certificate.is_some()
    }

    /// Whether clients must show who they are.
    pub(crate) fn asks(&self) -> bool {
        self.tls_client_authorities.is_some()
    }

    /// What greets clients, if they speak TLS.
    pub(crate) fn acceptor(&self) -> Result<Option<Acceptor>, Failure> {
        let (Some(certificate), Some(key)) = (&self.tls_certificate, &self.tls_key) else { return Ok(None) };
        let identity = Identity { certificate: certificate.clone(), key: key.clone() };
        if let Some(warning) = outdated(certificate) {
            eprintln!("warning: {warning}");
        }
        let acceptor = Acceptor::new(&identity, self.tls_client_authorities.as_deref());
        acceptor.map(Some).map_err(|why| Failure::usage(why).hint("certificates and keys are PEM files"))
    }
}
