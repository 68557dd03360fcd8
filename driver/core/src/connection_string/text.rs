//! Grammar of a connection string: scheme, user, hosts, database and options, not yet typed.

use std::net::IpAddr;

use super::{HostInfo, UriError};
use crate::{address::ServerAddress, credential::Credential};

/// The parts of a connection string, as written.
pub(super) struct UriParts<'a> {
    is_srv: bool,
    user: Option<&'a str>,
    hosts: &'a str,
    database: Option<&'a str>,
    pub(super) options: &'a str,
    /// Hosts may be quoted in errors. With an `@` in the text, a host can be part of a password
    /// that is not percent-encoded.
    hosts_may_be_shown: bool,
}

/// The database, and an optional collection, after the hosts.
#[derive(Default)]
pub(super) struct DefaultNamespace {
    pub(super) database: Option<String>,
    pub(super) collection: Option<String>,
}

impl<'a> UriParts<'a> {
    pub(super) fn split(uri: &'a str) -> Result<Self, UriError> {
        let (is_srv, rest) =
            match (uri.strip_prefix("mongodb://"), uri.strip_prefix("mongodb+srv://")) {
                (Some(rest), _) => (false, rest),
                (None, Some(rest)) => (true, rest),
                (None, None) => return Err(UriError::Scheme),
            };
        let (path, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = match path.split_once('/') {
            Some((authority, database)) => (authority, Some(database)),
            None => (path, None),
        };
        let (user, hosts) = match authority.rsplit_once('@') {
            Some((user, hosts)) => (Some(user), hosts),
            None => (None, authority),
        };
        let hosts_may_be_shown = !rest.contains('@');
        Ok(Self { is_srv, user, hosts, database, options, hosts_may_be_shown })
    }

    /// Parses the user name and password before the hosts.
    pub(super) fn user(&self) -> Result<Option<Credential>, UriError> {
        let Some(user) = self.user else { return Ok(None) };
        let (name, password) = match user.split_once(':') {
            Some((name, password)) => (name, Some(password)),
            None => (user, None),
        };
        if user.contains('@') {
            return Err(UriError::UserInfo("they contain an '@'"));
        }
        if password.is_some_and(|password| password.contains(':')) {
            return Err(UriError::UserInfo("the password contains a ':'"));
        }
        if name.is_empty() {
            return Err(UriError::UserInfo("the user name is empty"));
        }
        let decode = |text| {
            percent_decode(text).ok_or(UriError::UserInfo(
                "a '%' is not followed by two hexadecimal digits of UTF-8",
            ))
        };
        let mut user = Credential::default();
        user.username = Some(decode(name)?);
        user.password = password.map(decode).transpose()?;
        Ok(Some(user))
    }

    pub(super) fn host_info(&self) -> Result<HostInfo, UriError> {
        if self.hosts.is_empty() {
            return Err(UriError::NoHost);
        }
        if self.is_srv {
            return srv_host(self.hosts).map(HostInfo::DnsRecord);
        }
        let hosts = self.hosts.split(',').enumerate().map(|(index, host)| {
            address(host).ok_or_else(|| UriError::Host {
                position: index + 1,
                host: self.hosts_may_be_shown.then(|| host_without_port(host)),
            })
        });
        hosts.collect::<Result<_, _>>().map(HostInfo::HostIdentifiers)
    }

    pub(super) fn default_namespace(&self) -> Result<DefaultNamespace, UriError> {
        let Some(written) = self.database.filter(|database| !database.is_empty()) else {
            return Ok(DefaultNamespace::default());
        };
        if written.contains('@') {
            // Probably a '/' in the password. As a database name, it would be visible.
            return Err(UriError::UserInfo("there is an '@' after the first '/'"));
        }
        let decoded = percent_decode(written).ok_or(UriError::Database(
            "has a '%' that is not followed by the code of a character",
        ))?;
        let (database, collection) = match decoded.split_once('.') {
            Some((database, collection)) => (database, Some(collection)),
            None => (decoded.as_str(), None),
        };
        if database.is_empty() || collection.is_some_and(str::is_empty) {
            return Err(UriError::Database("must not begin or end with a '.'"));
        }
        if decoded.contains(['/', '\\', ' ', '"', '$', '\0']) {
            return Err(UriError::Database("must not contain / \\ \" $, a space or a NUL"));
        }
        Ok(DefaultNamespace {
            database: Some(database.to_owned()),
            collection: collection.map(str::to_owned),
        })
    }
}

fn address(written: &str) -> Option<ServerAddress> {
    let host = percent_decode(written)?;
    if host.ends_with(".sock")
        && !host.contains(['/', '\0', ':', '[', ']'])
        && !host.contains(char::is_whitespace)
    {
        // Without a directory, this is a host name.
        return Some(ServerAddress::Tcp { host: host.to_ascii_lowercase(), port: None });
    }
    ServerAddress::parse(host).ok()
}

/// Returns the host without its port, which can be part of a password.
fn host_without_port(host: &str) -> String {
    match host.split_once(']') {
        Some((host, _)) => format!("{host}]"),
        None => host.split(':').next().unwrap_or_default().to_owned(),
    }
}

fn srv_host(written: &str) -> Result<String, UriError> {
    let decoded = percent_decode(written)
        .ok_or(UriError::SrvHost("it is not valid percent-encoded UTF-8"))?;
    let name = decoded.strip_suffix('.').unwrap_or(&decoded).to_ascii_lowercase();
    if name.contains(',') {
        return Err(UriError::SrvHost("there are several names"));
    }
    if name.contains([':', '[', ']']) {
        return Err(UriError::SrvHost("it has a port or brackets"));
    }
    if name.contains(['/', '\0']) || name.contains(char::is_whitespace) {
        return Err(UriError::SrvHost("it contains characters that are not allowed in DNS names"));
    }
    if name.len() > 253 || name.split('.').any(str::is_empty) {
        return Err(UriError::SrvHost("it has an empty label, or is longer than 253 bytes"));
    }
    if name.parse::<IpAddr>().is_ok() {
        return Err(UriError::SrvHost("an IP address has no SRV records"));
    }
    Ok(name)
}

/// Decodes percent-encoding. Returns `None` if a `%` is not followed by two hexadecimal digits, or
/// the result is not UTF-8.
pub(super) fn percent_decode(text: &str) -> Option<String> {
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => digit(bytes.next()?)? * 16 + digit(bytes.next()?)?,
            _ => byte,
        });
    }
    String::from_utf8(decoded).ok()
}
