//! Handshakes in memory, with certificates generated for each test.

use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair};
use rustls::{
    CertificateError, ServerConfig,
    pki_types::{CertificateDer, PrivateKeyDer},
    server::WebPkiClientVerifier,
};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

use super::*;

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority(name: &str) -> Authority {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

struct Certificate {
    pem: String,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
}

fn certificate(issuer: &Authority, names: &[&str], years: (i32, i32)) -> Certificate {
    let names: Vec<String> = names.iter().map(ToString::to_string).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.not_before = rcgen::date_time_ymd(years.0, 1, 1);
    params.not_after = rcgen::date_time_ymd(years.1, 1, 1);
    let key = KeyPair::generate().unwrap();
    let certificate = params.signed_by(&key, issuer).unwrap();
    Certificate {
        pem: format!("{}{}", key.serialize_pem(), certificate.pem()),
        certificate: certificate.der().clone(),
        key: PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
    }
}

const VALID: (i32, i32) = (2020, 4000);
const EXPIRED: (i32, i32) = (2020, 2021);

fn write_file(folder: &TempDir, name: &str, content: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    path
}

fn trusting(path: &Path) -> TlsOptions {
    let mut options = TlsOptions::default();
    options.ca_file_path = Some(path.to_owned());
    options
}

fn server(certificate: Certificate, client_authority: Option<&Authority>) -> ServerConfig {
    let provider = Arc::new(ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap();
    let config = match client_authority {
        None => config.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(authority.der().clone()).unwrap();
            let verifier =
                WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build();
            config.with_client_cert_verifier(verifier.unwrap())
        }
    };
    config.with_single_cert(vec![certificate.certificate], certificate.key).unwrap()
}

/// Connects, sends one byte back and forth, and returns the number of client certificates.
async fn handshake(
    server: ServerConfig,
    options: &TlsOptions,
    host: &str,
) -> Result<usize, TlsError> {
    let (near, far) = tokio::io::duplex(16 * 1024);
    let connector = TlsConnector::new(options)?;
    let acceptor = tokio::spawn(accept(server, far));
    let mut stream = connector.connect(near, host).await?;
    let broken = |source| TlsError::Handshake { host: host.to_owned(), source };
    stream.write_all(b"?").await.map_err(broken)?;
    assert_eq!(stream.read_u8().await.map_err(broken)?, b'?');
    Ok(acceptor.await.unwrap().unwrap())
}

async fn accept(server: ServerConfig, stream: DuplexStream) -> io::Result<usize> {
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(server));
    let mut stream = acceptor.accept(stream).await?;
    let byte = stream.read_u8().await?;
    stream.write_all(&[byte]).await?;
    stream.flush().await?;
    Ok(stream.get_ref().1.peer_certificates().map_or(0, <[_]>::len))
}

fn certificate_error(result: Result<usize, TlsError>) -> CertificateError {
    let Err(TlsError::Handshake { source, .. }) = result else {
        panic!("expected a rejected certificate, got {result:?}")
    };
    match source.get_ref().and_then(|error| error.downcast_ref()) {
        Some(rustls::Error::InvalidCertificate(error)) => error.clone(),
        other => panic!("expected a rejected certificate, got {other:?}"),
    }
}

/// Certificate authority in a file, and certificates issued by it.
struct Scene {
    folder: TempDir,
    authority: Authority,
    ca_file: PathBuf,
}

fn scene() -> Scene {
    let (folder, authority) = (tempfile::tempdir().unwrap(), authority("the right one"));
    let ca_file = write_file(&folder, "ca.pem", &authority.pem());
    Scene { folder, authority, ca_file }
}

impl Scene {
    fn server(&self, names: &[&str], years: (i32, i32)) -> ServerConfig {
        server(certificate(&self.authority, names, years), None)
    }
}

#[tokio::test]
async fn certificate_signed_by_the_configured_authority_is_accepted() {
    let scene = scene();
    for (name, host) in [
        ("db.example.com", "db.example.com"),
        ("*.example.com", "DB.example.com"),
        ("127.0.0.1", "127.0.0.1"),
        ("::1", "::1"),
        ("::1", "[::1]"),
    ] {
        let shown = handshake(scene.server(&[name], VALID), &trusting(&scene.ca_file), host).await;
        assert_eq!(shown.unwrap(), 0, "{host}");
    }
}

#[tokio::test]
async fn certificates_are_verified_by_default() {
    // pitfall 39: the defaults and options set to `false` verify everything.
    let scene = scene();
    let stranger = authority("a stranger");
    let mut said_no = trusting(&scene.ca_file);
    said_no.insecure = Some(false);
    said_no.allow_invalid_certificates = Some(false);
    said_no.allow_invalid_hostnames = Some(false);
    for options in [trusting(&scene.ca_file), said_no] {
        let unknown = server(certificate(&stranger, &["db.example.com"], VALID), None);
        let error = certificate_error(handshake(unknown, &options, "db.example.com").await);
        assert_eq!(error, CertificateError::UnknownIssuer);

        let expired = scene.server(&["db.example.com"], EXPIRED);
        let error = certificate_error(handshake(expired, &options, "db.example.com").await);
        assert!(matches!(error, CertificateError::ExpiredContext { .. }), "{error:?}");

        for host in ["other.example.com", "127.0.0.1"] {
            let other = scene.server(&["db.example.com"], VALID);
            let error = certificate_error(handshake(other, &options, host).await);
            assert!(matches!(error, CertificateError::NotValidForNameContext { .. }), "{error:?}");
        }
    }
}

#[tokio::test]
async fn platform_authorities_reject_a_private_authority() {
    // pitfall 39, without any option.
    let scene = scene();
    let server = scene.server(&["db.example.com"], VALID);
    match handshake(server, &TlsOptions::default(), "db.example.com").await {
        // On a machine without certificate authorities, the configuration fails.
        Err(TlsError::NoPlatformAuthorities { .. }) => {}
        result => assert_eq!(certificate_error(result), CertificateError::UnknownIssuer),
    }
}

#[tokio::test]
async fn allow_invalid_hostnames_ignores_only_the_hostname() {
    let scene = scene();
    let mut options = trusting(&scene.ca_file);
    options.allow_invalid_hostnames = Some(true);
    let host = "other.example.com";
    handshake(scene.server(&["db.example.com"], VALID), &options, host).await.unwrap();

    let expired = scene.server(&["db.example.com"], EXPIRED);
    let error = certificate_error(handshake(expired, &options, host).await);
    assert!(matches!(error, CertificateError::ExpiredContext { .. }), "{error:?}");

    let stranger = certificate(&authority("a stranger"), &["db.example.com"], VALID);
    let error = certificate_error(handshake(server(stranger, None), &options, host).await);
    assert_eq!(error, CertificateError::UnknownIssuer);
}

#[tokio::test]
async fn allow_invalid_certificates_accepts_any_certificate() {
    let mut certificates = TlsOptions::default();
    certificates.allow_invalid_certificates = Some(true);
    let mut insecure = TlsOptions::default();
    insecure.insecure = Some(true);
    for options in [certificates, insecure] {
        let stranger = certificate(&authority("a stranger"), &["db.example.com"], EXPIRED);
        handshake(server(stranger, None), &options, "other.example.com").await.unwrap();
    }
}

#[tokio::test]
async fn server_without_the_key_of_its_certificate_is_rejected_even_if_insecure() {
    let scene = scene();
    let shown = certificate(&scene.authority, &["db.example.com"], VALID);
    let held = certificate(&scene.authority, &["db.example.com"], VALID);
    let key = ring::sign::any_supported_type(&held.key).unwrap();
    let certified = rustls::sign::CertifiedKey::new(vec![shown.certificate], key);
    let thief = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(rustls::sign::SingleCertAndKey::from(certified)));
    let mut options = TlsOptions::default();
    options.insecure = Some(true);
    let error = certificate_error(handshake(thief, &options, "db.example.com").await);
    assert_eq!(error, CertificateError::BadSignature);
}

#[tokio::test]
async fn client_certificate_is_sent() {
    let scene = scene();
    let client = certificate(&scene.authority, &["client"], VALID);
    let demanding = || {
        let certificate = certificate(&scene.authority, &["db.example.com"], VALID);
        server(certificate, Some(&scene.authority))
    };
    let mut options = trusting(&scene.ca_file);
    let without = handshake(demanding(), &options, "db.example.com").await;
    assert!(matches!(without, Err(TlsError::Handshake { .. })), "{without:?}");

    options.cert_key_file_path = Some(write_file(&scene.folder, "client.pem", &client.pem));
    assert_eq!(handshake(demanding(), &options, "db.example.com").await.unwrap(), 1);
}

#[test]
fn error_for_an_unusable_file_has_its_path_and_the_reason() {
    let scene = scene();
    let folder = &scene.folder;
    let client = certificate(&scene.authority, &["client"], VALID);
    let other = certificate(&scene.authority, &["other"], VALID);
    let (key, chain) = client.pem.split_at(client.pem.find("-----BEGIN CERT").unwrap());
    let (other_key, _) = other.pem.split_at(other.pem.find("-----BEGIN CERT").unwrap());
    let encrypted =
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let older = "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\n";

    let ca = |path: &Path| trusting(path);
    let cert = |path: &Path| {
        let mut options = trusting(&scene.ca_file);
        options.cert_key_file_path = Some(path.to_owned());
        options
    };
    for (name, content, options, reason) in [
        ("no-ca.pem", key, &ca as &dyn Fn(&Path) -> TlsOptions, "contains no certificate"),
        ("text.pem", "hello", &ca, "contains no certificate"),
        ("cut.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n", &ca, "is malformed"),
        (
            "der.pem",
            "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            &ca,
            "cannot be used as an authority",
        ),
        ("no-key.pem", chain, &cert, "contains no private key"),
        ("only-key.pem", key, &cert, "contains no certificate"),
        ("encrypted.pem", &format!("{encrypted}{chain}"), &cert, "encrypted private key"),
        ("older.pem", &format!("{chain}{older}"), &cert, "encrypted private key"),
        ("mixed.pem", &format!("{other_key}{chain}"), &cert, "cannot be used as client"),
    ] {
        let path = write_file(folder, name, content);
        let text = TlsConnector::new(&options(&path)).unwrap_err().to_string();
        assert!(text.contains(name) && text.contains(reason), "{name}: {text}");
    }
    let text = TlsConnector::new(&ca(&folder.path().join("absent.pem"))).unwrap_err().to_string();
    assert!(text.contains("absent.pem") && text.contains("cannot read"), "{text}");
}

#[tokio::test]
async fn untrusted_certificate_error_is_invalid_data_with_the_host() {
    let stranger = certificate(&authority("a stranger"), &["db.example.com"], VALID);
    let scene = scene();
    let options = trusting(&scene.ca_file);
    let error = handshake(server(stranger, None), &options, "db.example.com").await.unwrap_err();
    match *Error::from(error).kind {
        ErrorKind::Io(error) => {
            assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            assert!(error.to_string().contains("db.example.com"), "{error}");
        }
        other => panic!("unexpected {other:?}"),
    }
    let (near, far) = tokio::io::duplex(1024);
    drop(far);
    let error = TlsConnector::new(&options).unwrap().connect(near, "db.example.com").await;
    match *Error::from(error.unwrap_err()).kind {
        ErrorKind::Io(error) => assert_ne!(error.kind(), io::ErrorKind::InvalidData),
        other => panic!("unexpected {other:?}"),
    }
}

#[tokio::test]
async fn invalid_host_name_is_an_error_with_the_name() {
    let mut options = TlsOptions::default();
    options.insecure = Some(true);
    let connector = TlsConnector::new(&options).unwrap();
    let (near, _far) = tokio::io::duplex(16);
    let error = connector.connect(near, "not a host").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "\"not a host\" is neither a host name nor an IP address, as TLS needs"
    );
}

#[tokio::test]
async fn server_without_tls_is_an_error() {
    let mut options = TlsOptions::default();
    options.insecure = Some(true);
    let connector = TlsConnector::new(&options).unwrap();
    let (near, mut far) = tokio::io::duplex(1024);
    far.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n").await.unwrap();
    let error = connector.connect(near, "db.example.com").await.unwrap_err();
    assert!(error.to_string().starts_with("the TLS handshake with db.example.com failed"));
}
