//! TLS from certificate and key files.

use std::sync::Arc;

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls_pki_types::pem::{self, PemObject};
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use thiserror::Error;
use tokio_rustls::TlsAcceptor;

use crate::config::Tls;

/// Why there is no TLS.
#[derive(Debug, Error)]
#[error("[server.tls] {setting}: {path}: {reason}")]
pub(crate) struct TlsError {
    setting: &'static str,
    path: String,
    reason: String,
}

/// Reads certificate and key, and offers HTTP/2 and HTTP/1.1 by ALPN.
///
/// # Errors
/// When a file can't be read, holds nothing of use, or the two do not belong together.
pub(crate) fn acceptor(tls: &Tls) -> Result<TlsAcceptor, TlsError> {
    let wrong = |setting, path: &std::path::Path, reason: String| TlsError {
        setting,
        path: path.display().to_string(),
        reason,
    };
    let wrong_cert = |reason: String| wrong("cert", &tls.cert, reason);
    let wrong_key = |reason: String| wrong("key", &tls.key, reason);

    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(&tls.cert)
        .and_then(Iterator::collect)
        .map_err(|error| wrong_cert(error.to_string()))?;
    if chain.is_empty() {
        return Err(wrong_cert("no certificate in PEM form".to_owned()));
    }
    let key = PrivateKeyDer::from_pem_file(&tls.key).map_err(|error| match error {
        pem::Error::NoItemsFound => wrong_key("no private key in PEM form".to_owned()),
        other => wrong_key(other.to_string()),
    })?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong_cert(error.to_string()))?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                wrong_key(format!("not the private key of the certificate in {}", tls.cert.display()))
            }
            other => wrong_key(other.to_string()),
        })?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn write_pair(directory: &std::path::Path, name: &str) -> Tls {
        let pair = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let (cert, key) = (directory.join(format!("{name}.crt")), directory.join(format!("{name}.key")));
        fs::write(&cert, pair.cert.pem()).unwrap();
        fs::write(&key, pair.signing_key.serialize_pem()).unwrap();
        Tls { cert, key }
    }

    fn refusal(tls: &Tls) -> String {
        acceptor(tls).map(|_| ()).unwrap_err().to_string()
    }

    #[test]
    fn certificate_and_key_must_belong_together() {
        let directory = tempfile::tempdir().unwrap();
        let (a, b) = (write_pair(directory.path(), "a"), write_pair(directory.path(), "b"));
        assert!(acceptor(&a).is_ok());
        let mixed = refusal(&Tls { cert: a.cert, key: b.key });
        assert!(mixed.contains("not the private key of the certificate in "), "{mixed}");
    }

    #[test]
    fn files_without_pem_are_refused_by_name() {
        let directory = tempfile::tempdir().unwrap();
        let sound = write_pair(directory.path(), "a");
        let empty = directory.path().join("empty");
        fs::write(&empty, "").unwrap();
        assert!(refusal(&Tls { cert: empty.clone(), key: sound.key }).ends_with("empty: no certificate in PEM form"));
        let keyless = refusal(&Tls { cert: sound.cert.clone(), key: empty });
        assert!(keyless.ends_with("empty: no private key in PEM form"), "{keyless}");
        let nowhere = Tls { cert: "/nowhere".into(), key: sound.cert };
        assert!(refusal(&nowhere).starts_with("[server.tls] cert: /nowhere: "));
    }
}
