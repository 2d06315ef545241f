//! The flags of a server whose clients speak TLS.

use clap::Args;
use krarup_net::tls::{Acceptor, TlsIdentity, outdated};
use krarup_proxy::edge::ClientTls;

use crate::failure::Failure;
use crate::flags::Flags;

#[derive(Args, Clone)]
pub(crate) struct TlsArgs {
    #[command(flatten)]
    said: Flags<ClientTls>,
}

impl TlsArgs {
    /// Whether clients speak TLS.
    pub(crate) fn is_on(&self) -> bool {
        !self.said.settings().certificate.as_os_str().is_empty()
    }

    /// Whether clients must show who they are.
    pub(crate) fn asks(&self) -> bool {
        self.said.settings().client_authorities.is_some()
    }

    /// What greets clients, if they speak TLS.
    pub(crate) fn acceptor(&self) -> Result<Option<Acceptor>, Failure> {
        if !self.is_on() {
            return Ok(None);
        }
        let ClientTls { certificate, key, client_authorities } = self.said.settings();
        let identity = TlsIdentity { certificate, key };
        if let Some(warning) = outdated(&identity.certificate) {
            eprintln!("warning: {warning}");
        }
        let acceptor = Acceptor::new(&identity, client_authorities.as_deref());
        acceptor.map(Some).map_err(|why| Failure::usage(why).or_hint("certificates and keys are PEM files"))
    }
}

/// Reads the files of the certificate again, and says what came of it.
pub(crate) fn reload(acceptor: Option<&Acceptor>) {
    match acceptor.map(Acceptor::reload) {
        None => eprintln!("warning: SIGHUP reads certificates again, and this server has none"),
        Some(Ok(warning)) => {
            eprintln!("the certificate was read again and is shown from now on");
            if let Some(warning) = warning {
                eprintln!("warning: {warning}");
            }
        }
        Some(Err(why)) => eprintln!("warning: {why}; the certificate before goes on"),
    }
}
