//! Certificate authority for a test, with a root, a server and a client certificate.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

use crate::{Result, TestbedError, folders};

/// A certificate authority and its certificates, as PEM files. Files with a certificate and its key have the form of
/// `tlsCertificateKeyFile`.
#[derive(Debug)]
pub struct TestCa {
    folder: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl TestCa {
    /// Creates an authority with a new key.
    ///
    /// # Errors
    ///
    /// Fails if a key or certificate cannot be generated, or if the directory cannot be written.
    pub fn new() -> Result<Self> {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "Steadfast test CA");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = new_key()?;
        let certificate = params.self_signed(&key).map_err(problem)?;
        let folder = new_folder()?;
        write(&folder.join("ca.pem"), &certificate.pem())?;
        let ca = Self { folder, issuer: Issuer::new(params, key) };
        ca.certificate_for("server", &["localhost", "127.0.0.1", "::1"])?;
        ca.issue_client_certificate()?;
        Ok(ca)
    }

    /// Path of the root certificate, for `tlsCAFile`.
    pub fn ca_file(&self) -> PathBuf {
        self.folder.join("ca.pem")
    }

    /// Path of a server certificate for `localhost`, `127.0.0.1` and `::1`, with its key.
    pub fn server_file(&self) -> PathBuf {
        self.folder.join("server.pem")
    }

    /// Path of a client certificate with its key, for `tlsCertificateKeyFile`.
    pub fn client_file(&self) -> PathBuf {
        self.folder.join("client.pem")
    }

    /// Subject of the client certificate: the name of its MONGODB-X509 user.
    pub fn client_subject(&self) -> &'static str {
        "CN=ada,OU=clients,O=Steadfast"
    }

    /// Issues a server certificate for these host names and addresses, and writes it with its key to `<name>.pem`.
    ///
    /// # Errors
    ///
    /// Fails if a host name is invalid, or if the file cannot be written.
    pub fn certificate_for(&self, name: &str, hosts: &[&str]) -> Result<PathBuf> {
        let hosts: Vec<String> = hosts.iter().map(|&host| host.to_owned()).collect();
        let mut params = CertificateParams::new(hosts).map_err(problem)?;
        // Servers treat a client as a cluster member if its certificate has their O and OU.
        params.distinguished_name.push(DnType::CommonName, "localhost");
        params.extended_key_usages =
            vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.issue(name, params)
    }

    fn issue_client_certificate(&self) -> Result<PathBuf> {
        let mut params = CertificateParams::default();
        // Encoded in the reverse order of the text form.
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "Steadfast");
        params.distinguished_name.push(DnType::OrganizationalUnitName, "clients");
        params.distinguished_name.push(DnType::CommonName, "ada");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.issue("client", params)
    }

    fn issue(&self, name: &str, mut params: CertificateParams) -> Result<PathBuf> {
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.use_authority_key_identifier_extension = true;
        let key = new_key()?;
        let certificate = params.signed_by(&key, &self.issuer).map_err(problem)?;
        let file = self.folder.join(format!("{name}.pem"));
        write(&file, &(certificate.pem() + &key.serialize_pem()))?;
        Ok(file)
    }
}

impl Drop for TestCa {
    fn drop(&mut self) {
        // A later process removes what cannot be removed now.
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn new_key() -> Result<KeyPair> {
    KeyPair::generate().map_err(problem)
}

fn new_folder() -> Result<PathBuf> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let home = folders::folder("certificates")?;
    remove_leftovers(&home);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let folder = home.join(format!("{}-{count}", std::process::id()));
    fs::create_dir_all(&folder).map_err(|error| TestbedError::at(&folder, &error))?;
    Ok(folder)
}

/// Removes the folders of processes that ended without dropping their authority.
fn remove_leftovers(home: &Path) {
    if !Path::new("/proc/self").exists() {
        return;
    }
    for entry in fs::read_dir(home).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let pid = name.split('-').next().unwrap_or_default();
        if !Path::new("/proc").join(pid).exists() {
            // Another process may remove it at the same time.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).map_err(|error| TestbedError::at(file, &error))
}

fn problem(error: rcgen::Error) -> TestbedError {
    TestbedError::new(format!("a certificate could not be created: {error}"))
}
