//! Servers behind the proxy, from a connection string.

use std::{fmt, path::PathBuf, str::FromStr};

use super::error::ProxyError;

const DEFAULT_PORT: u16 = 27017;

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Address {
    host: String,
    port: u16,
}

impl Address {
    /// Returns the host without the brackets of an IPv6 address.
    pub(crate) fn bare_host(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }
}

impl FromStr for Address {
    type Err = ProxyError;

    fn from_str(text: &str) -> Result<Self, ProxyError> {
        let bad = || ProxyError::Upstream(format!("\"{text}\" is not host or host:port"));
        let (host, port) = match text.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, port.parse().map_err(|_| bad())?),
            Some(_) | None => (text, DEFAULT_PORT),
        };
        let is_odd = |c: char| c.is_whitespace() || matches!(c, '/' | '?' | '@' | '%');
        if host.is_empty() || port == 0 || host.contains(is_odd) {
            return Err(bad());
        }
        Ok(Self { host: host.to_ascii_lowercase(), port })
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// TLS options for connections to servers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct TlsSettings {
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) certificate_key_file: Option<PathBuf>,
    pub(crate) allow_invalid_certificates: bool,
    pub(crate) allow_invalid_hostnames: bool,
}

/// A parsed connection string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Upstream {
    pub(crate) seeds: Vec<Address>,
    pub(crate) direct: bool,
    pub(crate) tls: Option<TlsSettings>,
    /// Options for clients: all except those for connections between proxy and servers.
    client_options: Vec<String>,
    database: String,
    pub(crate) had_credentials: bool,
}

impl FromStr for Upstream {
    type Err = ProxyError;

    /// Parses `mongodb://[user:password@]host[:port][,…]/[database][?options]`, or only the hosts.
    fn from_str(uri: &str) -> Result<Self, ProxyError> {
        let bad = |problem: &str| ProxyError::Upstream(problem.to_owned());
        if uri.starts_with("mongodb+srv:") {
            return Err(bad("mongodb+srv is not supported; list the hosts with mongodb://"));
        }
        let rest = uri.strip_prefix("mongodb://").unwrap_or(uri);
        if rest.contains("://") {
            return Err(bad("expected mongodb://… or host:port"));
        }
        let (authority, rest) = rest.split_once('/').unwrap_or((rest, ""));
        let (authority, odd_query) = authority.split_once('?').unwrap_or((authority, ""));
        let (database, query) = rest.split_once('?').unwrap_or((rest, odd_query));
        if database.contains('@') || odd_query.contains('@') {
            // The text may be part of a password, so the error does not show it.
            return Err(bad("encode \"/\" and \"?\" in user name and password as %2F and %3F"));
        }
        let (credentials, hosts) = match authority.rsplit_once('@') {
            Some((_, hosts)) => (true, hosts),
            None => (false, authority),
        };
        let seeds = hosts.split(',').map(str::parse).collect::<Result<Vec<Address>, _>>()?;
        let mut upstream = Self {
            seeds,
            direct: false,
            tls: None,
            client_options: Vec::new(),
            database: database.to_owned(),
            had_credentials: credentials,
        };
        for option in query.split('&').filter(|option| !option.is_empty()) {
            upstream.take(option)?;
        }
        Ok(upstream)
    }
}

impl Upstream {
    fn take(&mut self, option: &str) -> Result<(), ProxyError> {
        let bad = |problem: String| Err(ProxyError::Upstream(problem));
        let Some((key, value)) = option.split_once('=') else {
            return bad(format!("option \"{option}\" has no value"));
        };
        let yes = value == "true";
        match key.to_ascii_lowercase().as_str() {
            "directconnection" => self.direct = yes,
            "tls" | "ssl" if yes => {
                self.tls.get_or_insert_default();
            }
            "tls" | "ssl" => {}
            "tlscafile" => self.tls().ca_file = Some(path(value)),
            "tlscertificatekeyfile" => self.tls().certificate_key_file = Some(path(value)),
            "tlsallowinvalidcertificates" | "tlsinsecure" if yes => {
                self.tls().allow_invalid_certificates = true;
            }
            "tlsallowinvalidhostnames" if yes => self.tls().allow_invalid_hostnames = true,
            other if other.starts_with("tls") || other.starts_with("ssl") => {
                if yes || !matches!(value, "false") {
                    return bad(format!("option {key} is not supported by the proxy"));
                }
            }
            _ => self.client_options.push(option.to_owned()),
        }
        Ok(())
    }

    fn tls(&mut self) -> &mut TlsSettings {
        self.tls.get_or_insert_default()
    }

    /// Returns the connection string for clients, with `hosts` and without credentials.
    pub(crate) fn client_uri(&self, hosts: &[String], set_name: Option<&str>) -> String {
        let mut options = self.client_options.clone();
        let named = |name: &str| {
            let is = |option: &String| {
                option.split('=').next().is_some_and(|key| key.eq_ignore_ascii_case(name))
            };
            self.client_options.iter().any(is)
        };
        match set_name {
            Some(name) if !self.direct && !named("replicaSet") => {
                options.insert(0, format!("replicaSet={name}"));
            }
            None if hosts.len() == 1 && !named("loadBalanced") => {
                options.insert(0, "directConnection=true".to_owned());
            }
            Some(_) if self.direct => options.insert(0, "directConnection=true".to_owned()),
            Some(_) | None => {}
        }
        let query = if options.is_empty() { "" } else { "?" };
        format!("mongodb://{}/{}{query}{}", hosts.join(","), self.database, options.join("&"))
    }
}

/// Decodes percent-encoding in a path.
fn path(value: &str) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = value.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits = after.get(..2).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.map(|digits| u8::from_str_radix(digits, 16)) {
            Some(Ok(decoded)) if byte == b'%' => {
                bytes.push(decoded);
                rest = &after[2..];
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(uri: &str) -> Upstream {
        uri.parse().unwrap()
    }

    #[test]
    fn hosts_parse_with_and_without_ports() {
        let seeds = |uri: &str| {
            parse(uri).seeds.iter().map(Address::to_string).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(seeds("mongodb://a,B:1,[::1]:2,[::1]/"), "a:27017 b:1 [::1]:2 [::1]:27017");
        assert_eq!(seeds("mongodb://us%40er:pass@host?w=1"), "host:27017");
        assert_eq!(seeds("localhost:3"), "localhost:3");
        assert_eq!("[::1]:2".parse::<Address>().unwrap().bare_host(), "::1");
    }

    #[test]
    fn client_uri_keeps_client_options_without_credentials() {
        let upstream =
            parse("mongodb://u:p@a/shop?authSource=admin&tls=true&tlsCAFile=%2Fca.pem&w=1");
        let tls = upstream.tls.clone().unwrap();
        assert_eq!(tls.ca_file.as_deref(), Some("/ca.pem".as_ref()));
        assert!(upstream.had_credentials && !tls.allow_invalid_certificates);
        let hosts = ["x:1".to_owned(), "x:2".to_owned()];
        let uri = upstream.client_uri(&hosts, Some("rs"));
        assert_eq!(uri, "mongodb://x:1,x:2/shop?replicaSet=rs&authSource=admin&w=1");
        let alone = parse("a").client_uri(&hosts[..1], None);
        assert_eq!(alone, "mongodb://x:1/?directConnection=true");
        let direct = parse("mongodb://a/?directConnection=true&replicaSet=rs");
        let uri = direct.client_uri(&hosts[..1], Some("rs"));
        assert_eq!(uri, "mongodb://x:1/?directConnection=true&replicaSet=rs");
    }

    #[test]
    fn unsupported_connection_strings_fail_with_a_reason() {
        let wrong = |uri: &str| uri.parse::<Upstream>().unwrap_err().to_string();
        assert!(wrong("mongodb+srv://a").contains("list the hosts"));
        assert!(wrong("http://a").contains("mongodb://"));
        assert!(wrong("mongodb://a:99999/").contains("\"a:99999\""));
        assert!(wrong("mongodb:///").contains("host"));
        for unescaped in ["mongodb://user:sec/ret@a/", "mongodb://user:sec?ret@a/"] {
            let wrong = wrong(unescaped);
            assert!(wrong.contains("%2F") && !wrong.contains("sec"), "{wrong}");
        }
        assert!(wrong("mongodb://a/?w").contains("no value"));
        assert!(wrong("mongodb://a/?tlsCRLFile=x").contains("tlsCRLFile"));
    }
}
