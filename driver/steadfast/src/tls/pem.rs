//! Certificates and keys from PEM files, with errors that name the file.

use std::{fs, path::Path};

use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
};
use zeroize::Zeroizing;

use super::TlsError;

/// Reads certificate authorities.
pub(super) fn authorities(path: &Path) -> Result<RootCertStore, TlsError> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path, &read(path)?)? {
        roots.add(certificate).map_err(|error| {
            bad(
                path,
                format!("contains a certificate that cannot be used as an authority: {error}"),
            )
        })?;
    }
    Ok(roots)
}

/// Reads the client's certificate chain and private key from one file, in any order.
pub(super) fn client_certificate(
    path: &Path,
    password: Option<&[u8]>,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), TlsError> {
    let content = read(path)?;
    if is_encrypted(&content) {
        let mut problem = "contains an encrypted private key, which is not supported; decrypt it \
                           (openssl pkey -in FILE -out NEW_FILE)"
            .to_owned();
        if password.is_some() {
            problem.push_str(" and leave out tlsCertificateKeyFilePassword");
        }
        return Err(bad(path, problem));
    }
    let certificates = certificates(path, &content)?;
    match PrivateKeyDer::from_pem_slice(&content) {
        Ok(key) => Ok((certificates, key)),
        Err(rustls::pki_types::pem::Error::NoItemsFound) => {
            Err(bad(path, "contains no private key".to_owned()))
        }
        Err(error) => Err(bad(path, format!("contains a malformed private key: {error}"))),
    }
}

fn certificates(path: &Path, content: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(content).collect();
    match certificates {
        Ok(none) if none.is_empty() => Err(bad(path, "contains no certificate".to_owned())),
        Ok(certificates) => Ok(certificates),
        Err(error) => Err(bad(path, format!("is malformed: {error}"))),
    }
}

/// Returns `true` for an encrypted private key, in PKCS #8 or in OpenSSL's older form.
fn is_encrypted(content: &[u8]) -> bool {
    let has = |text: &[u8]| content.windows(text.len()).any(|window| window == text);
    has(b"-----BEGIN ENCRYPTED PRIVATE KEY-----") || has(b"Proc-Type: 4,ENCRYPTED")
}

fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, TlsError> {
    match fs::read(path) {
        Ok(content) => Ok(Zeroizing::new(content)),
        Err(source) => Err(TlsError::ReadFile { path: path.to_owned(), source }),
    }
}

fn bad(path: &Path, problem: String) -> TlsError {
    TlsError::BadFile { path: path.to_owned(), problem }
}
