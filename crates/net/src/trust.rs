//! Which server's certificate a client accepts: none is looked at, its authority is, or its
//! authority and its name. A connection to a database has the choice; the proxy's connections
//! ([`crate::tls::Connector`]) have not.
//!
//! **A certificate that is an authority of its own.** `openssl req -x509` makes one, and a client
//! is given a copy of it as the authority to trust. A strict reading of RFC 5280 refuses a server
//! that shows an authority's certificate; here it is accepted where it is, byte for byte, one of
//! those that are trusted and its dates are good.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use krarup_units::Mistake;
pub use rustls::ClientConfig;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{
    CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme, SupportedProtocolVersion,
};

use crate::tls::{TlsIdentity, certificates, read, unusable};

/// What a client looks at in the certificate of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CertificateCheck {
    /// Nothing: what is said is encrypted, and to which server is not known.
    Nothing,
    /// That one of these authorities has signed it.
    Authority(Authorities),
    /// That, and that it is made out to the name by which the server was asked for.
    AuthorityAndName(Authorities),
}

/// The authorities that a client trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Authorities {
    /// Those in this PEM file.
    File(PathBuf),
    /// Those that this machine trusts for everything (`SSL_CERT_FILE` and `SSL_CERT_DIR` where
    /// they are set).
    System,
}

/// The versions of the protocol that a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TlsVersions {
    /// Whether 1.2 is one of them.
    pub tls12: bool,
    /// Whether 1.3 is one of them.
    pub tls13: bool,
}

/// How a client speaks TLS to a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsClientSettings {
    /// What it looks at in the server's certificate.
    pub check: CertificateCheck,
    /// A PEM file of certificates that were revoked.
    pub revoked: Option<PathBuf>,
    /// The certificate it shows to a server that asks for one.
    pub identity: Option<TlsIdentity>,
    /// Whether the server's name is sent in the clear, for servers that have several.
    pub names_server: bool,
    /// The protocol that is asked for within TLS (ALPN); empty: none is.
    pub application: &'static str,
    /// The versions it speaks.
    pub versions: TlsVersions,
}

impl TlsClientSettings {
    /// The library's configuration; every file is read now.
    ///
    /// # Errors
    /// Names the file and what is wrong with it.
    pub fn config(&self) -> Result<ClientConfig, Mistake> {
        let provider = Arc::new(ring::default_provider());
        let verifier = Arc::new(self.verifier(&provider)?);
        let mut versions: Vec<&'static SupportedProtocolVersion> = Vec::new();
        versions.extend(self.versions.tls12.then_some(&rustls::version::TLS12));
        versions.extend(self.versions.tls13.then_some(&rustls::version::TLS13));
        let builder = ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&versions)
            .map_err(|error| error.to_string())?
            .dangerous()
            .with_custom_certificate_verifier(verifier);
        let mut config = match &self.identity {
            None => builder.with_no_client_auth(),
            Some(identity) => {
                let (chain, key) = read(identity)?;
                builder.with_client_auth_cert(chain, key).map_err(|error| unusable(identity, &error))?
            }
        };
        config.enable_sni = self.names_server;
        if !self.application.is_empty() {
            config.alpn_protocols = vec![self.application.as_bytes().to_vec()];
        }
        Ok(config)
    }

    fn verifier(&self, provider: &Arc<CryptoProvider>) -> Result<CertificateVerifier, Mistake> {
        let algorithms = provider.signature_verification_algorithms;
        let (authorities, names) = match &self.check {
            CertificateCheck::Nothing => {
                return Ok(CertificateVerifier {
                    chain: None,
                    trusted: Vec::new(),
                    names: false,
                    algorithms,
                });
            }
            CertificateCheck::Authority(authorities) => (authorities, false),
            CertificateCheck::AuthorityAndName(authorities) => (authorities, true),
        };
        let (trusted, store) = authorities.read()?;
        let mut builder = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider));
        if let Some(file) = &self.revoked {
            let wrong = |error: &dyn std::fmt::Display| {
                format!("no list of revoked certificates can be read from {}: {error}", file.display())
            };
            let lists = CertificateRevocationListDer::pem_file_iter(file).map_err(|error| wrong(&error))?;
            let lists = lists.collect::<Result<Vec<_>, _>>().map_err(|error| wrong(&error))?;
            if lists.is_empty() {
                return Err(wrong(&"there is none in it").into());
            }
            builder = builder.with_crls(lists).enforce_revocation_expiration();
        }
        let chain = builder.build().map_err(|error| error.to_string())?;
        Ok(CertificateVerifier { chain: Some(chain), trusted, names, algorithms })
    }
}

impl Authorities {
    /// Their certificates, and the same in the form that chains are built from.
    fn read(&self) -> Result<(Vec<CertificateDer<'static>>, RootCertStore), Mistake> {
        let mut store = RootCertStore::empty();
        let found = match self {
            Self::File(file) => {
                let found = certificates(file)?;
                for certificate in &found {
                    store.add(certificate.clone()).map_err(|error| format!("{}: {error}", file.display()))?;
                }
                found
            }
            Self::System => {
                let found = rustls_native_certs::load_native_certs();
                // Of a hundred and more a few may be unreadable: what they have signed is refused.
                store.add_parsable_certificates(found.certs.iter().cloned());
                if store.is_empty() {
                    let why = found.errors.first().map_or_else(String::new, |error| format!(": {error}"));
                    return Err(Mistake::new(
                        format!("this machine has no certificates of authorities{why}"),
                        "install the package ca-certificates, or name a file with sslrootcert",
                    ));
                }
                found.certs
            }
        };
        Ok((found, store))
    }
}

/// Checks a server's certificate as far as it was asked to.
#[derive(Debug)]
struct CertificateVerifier {
    /// None: every certificate is accepted.
    chain: Option<Arc<WebPkiServerVerifier>>,
    trusted: Vec<CertificateDer<'static>>,
    names: bool,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for CertificateVerifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // Where nothing of it is checked, too: its key, by which the server signs, is read from it.
        let parsed = ParsedCertificate::try_from(certificate)?;
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        // The name is looked at last: where that is wrong everything else was right.
        let checked = chain.verify_server_cert(certificate, intermediates, name, ocsp, now);
        match checked {
            Err(Error::InvalidCertificate(why)) if is_of_name(&why) && !self.names => {
                Ok(ServerCertVerified::assertion())
            }
            Err(Error::InvalidCertificate(CertificateError::Other(_) | CertificateError::UnknownIssuer))
                if self.trusted.iter().any(|trusted| trusted == certificate) =>
            {
                if self.names {
                    verify_server_name(&parsed, name)?;
                }
                Ok(ServerCertVerified::assertion())
            }
            checked => checked,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

fn is_of_name(why: &CertificateError) -> bool {
    matches!(why, CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. })
}

/// Why a greeting failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HandshakeProblem {
    /// The server's certificate is of X.509 version 1, which the library does not read.
    OldVersion,
    /// It is of no authority that is trusted.
    Untrusted(String),
    /// It is made out to other names.
    OtherName(String),
    /// It has expired, is not valid yet, or was revoked.
    Outdated(String),
    /// Whether it was revoked is not known: the list that says so is missing or too old.
    Unlisted(String),
    /// The server refuses: most likely our certificate.
    Refused(String),
    /// Anything else.
    Other(String),
}

impl HandshakeProblem {
    /// What an error of a socket says of its greeting; none: it is of the socket itself.
    pub fn of(error: &io::Error) -> Option<Self> {
        let error = error.get_ref()?.downcast_ref::<Error>()?;
        Some(match error {
            // The library has no other name for it.
            Error::InvalidCertificate(CertificateError::Other(why))
                if why.to_string() == "UnsupportedCertVersion" =>
            {
                Self::OldVersion
            }
            Error::InvalidCertificate(why) if is_of_name(why) => Self::OtherName(why.to_string()),
            Error::InvalidCertificate(
                why @ (CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. }
                | CertificateError::Revoked),
            ) => Self::Outdated(why.to_string()),
            Error::InvalidCertificate(
                why @ (CertificateError::UnknownRevocationStatus
                | CertificateError::ExpiredRevocationList
                | CertificateError::ExpiredRevocationListContext { .. }),
            ) => Self::Unlisted(why.to_string()),
            Error::InvalidCertificate(why) => Self::Untrusted(why.to_string()),
            Error::AlertReceived(alert) => Self::Refused(format!("{alert:?}")),
            other => Self::Other(other.to_string()),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn file(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/tests/certificates").join(name)
    }

    /// What is said of the certificate in this file by a client that checks it like this and asks
    /// for this name.
    fn check(check: CertificateCheck, shown: &str, name: &str) -> Result<(), Error> {
        check_in(2029, check, None, shown, name)
    }

    /// The same near the end of a year, with a list of revoked certificates.
    fn check_in(
        year: u64,
        check: CertificateCheck,
        revoked: Option<PathBuf>,
        shown: &str,
        name: &str,
    ) -> Result<(), Error> {
        let settings = TlsClientSettings {
            check,
            revoked,
            identity: None,
            names_server: true,
            application: "",
            versions: TlsVersions { tls12: true, tls13: true },
        };
        let verifier = settings.verifier(&Arc::new(ring::default_provider())).unwrap();
        let certificate = certificates(&file(shown)).unwrap().remove(0);
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let days = (year + 1 - 1970) * 365;
        let now = UnixTime::since_unix_epoch(std::time::Duration::from_secs(days * 86_400));
        verifier.verify_server_cert(&certificate, &[], &name, &[], now).map(drop)
    }

    fn problem(outcome: Result<(), Error>) -> Option<HandshakeProblem> {
        HandshakeProblem::of(&io::Error::other(outcome.err()?))
    }

    #[test]
    fn each_check_accepts_what_it_does_not_look_at_and_nothing_else() {
        let authority = || Authorities::File(file("authority.pem"));
        for shown in ["proxy.pem", "stranger.pem", "expired.pem"] {
            assert_eq!(check(CertificateCheck::Nothing, shown, "db.example"), Ok(()), "{shown}");
        }
        for name in ["localhost", "127.0.0.1", "db.example"] {
            assert_eq!(check(CertificateCheck::Authority(authority()), "proxy.pem", name), Ok(()), "{name}");
        }
        for name in ["localhost", "127.0.0.1"] {
            assert_eq!(check(CertificateCheck::AuthorityAndName(authority()), "proxy.pem", name), Ok(()));
        }
        let other =
            problem(check(CertificateCheck::AuthorityAndName(authority()), "proxy.pem", "db.example"));
        assert!(
            matches!(&other, Some(HandshakeProblem::OtherName(why)) if why.contains("db.example")),
            "{other:?}"
        );
        for checks in [CertificateCheck::Authority, CertificateCheck::AuthorityAndName] {
            let strange = problem(check(checks(authority()), "stranger.pem", "client"));
            assert!(matches!(strange, Some(HandshakeProblem::Untrusted(_))), "{strange:?}");
            let expired = problem(check(checks(authority()), "expired.pem", "expired"));
            assert!(
                matches!(expired, Some(HandshakeProblem::Outdated(_) | HandshakeProblem::Untrusted(_))),
                "{expired:?}"
            );
        }
    }

    #[test]
    fn a_certificate_of_which_no_list_tells_is_not_one_of_an_unknown_authority() {
        let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(1));
        for unlisted in [
            CertificateError::UnknownRevocationStatus,
            CertificateError::ExpiredRevocationList,
            CertificateError::ExpiredRevocationListContext { time: at, next_update: at },
        ] {
            let unlisted = problem(Err(Error::InvalidCertificate(unlisted)));
            assert!(matches!(unlisted, Some(HandshakeProblem::Unlisted(_))), "{unlisted:?}");
        }
        let revoked = problem(Err(Error::InvalidCertificate(CertificateError::Revoked)));
        assert!(matches!(revoked, Some(HandshakeProblem::Outdated(_))), "{revoked:?}");
    }

    #[test]
    fn a_list_of_revoked_certificates_counts_until_the_next_is_due() {
        let at_the_end_of = |year| {
            let check = CertificateCheck::AuthorityAndName(Authorities::File(file("lists.pem")));
            check_in(year, check, Some(file("lists.crl")), "listed.pem", "localhost")
        };
        assert_eq!(at_the_end_of(2027), Ok(()));
        let outdated = problem(at_the_end_of(2029));
        assert!(matches!(outdated, Some(HandshakeProblem::Unlisted(_))), "{outdated:?}");
    }

    #[test]
    fn a_certificate_of_version_1_is_named_whatever_is_checked() {
        let itself = || Authorities::File(file("version-1.pem"));
        for checks in [
            CertificateCheck::Nothing,
            CertificateCheck::Authority(itself()),
            CertificateCheck::AuthorityAndName(itself()),
        ] {
            let version = problem(check(checks, "version-1.pem", "localhost"));
            assert_eq!(version, Some(HandshakeProblem::OldVersion));
        }
    }

    #[test]
    fn an_authority_may_show_its_own_certificate_to_those_that_trust_that_one() {
        let itself = || Authorities::File(file("stranger.pem"));
        assert_eq!(check(CertificateCheck::Authority(itself()), "stranger.pem", "db.example"), Ok(()));
        assert_eq!(check(CertificateCheck::AuthorityAndName(itself()), "stranger.pem", "client"), Ok(()));
        let other =
            problem(check(CertificateCheck::AuthorityAndName(itself()), "stranger.pem", "db.example"));
        assert!(matches!(other, Some(HandshakeProblem::OtherName(_))), "{other:?}");
    }

    #[test]
    fn a_file_that_cannot_be_read_is_named() {
        let settings = |check, revoked, identity| TlsClientSettings {
            check,
            revoked,
            identity,
            names_server: true,
            application: "postgresql",
            versions: TlsVersions { tls12: false, tls13: true },
        };
        let none = PathBuf::from("/no-such-file.pem");
        let trusted = || CertificateCheck::Authority(Authorities::File(file("authority.pem")));
        let identity = TlsIdentity { certificate: file("client.pem"), key: none.clone() };
        for settings in [
            settings(CertificateCheck::Authority(Authorities::File(none.clone())), None, None),
            settings(trusted(), Some(none.clone()), None),
            settings(trusted(), None, Some(identity)),
        ] {
            let why = settings.config().unwrap_err();
            assert!(why.what.contains("/no-such-file.pem"), "{why}");
        }
        let good = settings(trusted(), None, None).config().unwrap();
        assert_eq!(good.alpn_protocols, [b"postgresql".to_vec()]);
    }
}
