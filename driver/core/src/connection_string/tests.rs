//! Rules of connection strings one by one, and properties of any text.

use proptest::prelude::*;

use super::*;
use crate::{
    concern::{Acknowledgment, InvalidWriteConcern},
    credential::AuthMechanism,
    srv::{SrvAnswer, SrvError, SrvRecord, TxtRecord},
};

fn parse(uri: &str) -> ConnectionString {
    ConnectionString::parse(uri).unwrap_or_else(|error| panic!("{uri}: {error}"))
}

fn parse_error(uri: &str) -> UriError {
    match ConnectionString::parse(uri) {
        Ok(parsed) => panic!("{uri}: {parsed:?}"),
        Err(error) => error,
    }
}

fn tls(uri: &str) -> TlsOptions {
    match parse(uri).tls {
        Some(Tls::Enabled(options)) => options,
        other => panic!("{uri}: {other:?}"),
    }
}

#[test]
fn every_form_of_host_is_parsed() {
    let uri = parse("mongodb://A.example,b:1,[::1]:2,%2Ftmp%2Fdb.sock,c.sock");
    let HostInfo::HostIdentifiers(hosts) = uri.host_info else { panic!("no hosts") };
    let shown: Vec<_> = hosts.iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["a.example:27017", "b:1", "[::1]:2", "/tmp/db.sock", "c.sock:27017"]);
}

#[test]
fn tls_insecure_false_leaves_verification_on() {
    // pitfall 39
    for uri in [
        "mongodb://h/?tls=true",
        "mongodb://h/?tlsInsecure=false",
        "mongodb://h/?tls=true&tlsInsecure=nonsense",
        "mongodb://h/?tlsAllowInvalidCertificates=false&tlsAllowInvalidHostnames=false",
        "mongodb+srv://a.example.com",
    ] {
        let options = match parse(uri).tls {
            Some(Tls::Enabled(options)) => options,
            other => panic!("{uri}: {other:?}"),
        };
        assert!(options.verifies_certificates() && options.verifies_hostnames(), "{uri}");
    }
}

#[test]
fn each_insecure_option_disables_its_own_check() {
    let insecure = tls("mongodb://h/?tlsInsecure=true");
    assert!(!insecure.verifies_certificates() && !insecure.verifies_hostnames());
    let hostnames = tls("mongodb://h/?tlsAllowInvalidHostnames=true");
    assert!(hostnames.verifies_certificates() && !hostnames.verifies_hostnames());
    let certificates = tls("mongodb://h/?tlsAllowInvalidCertificates=true");
    assert!(!certificates.verifies_certificates());
}

#[test]
fn tls_is_off_by_default_except_for_srv() {
    assert_eq!(parse("mongodb://h").tls, None);
    assert_eq!(parse("mongodb+srv://a.example.com/?tls=false").tls, Some(Tls::Disabled));
    let ignored = parse("mongodb://h/?tls=false&tlsCAFile=ca.pem");
    assert_eq!((ignored.tls, ignored.warnings.len()), (Some(Tls::Disabled), 1));
}

#[test]
fn connection_string_debug_contains_no_secret() {
    // pitfall 40
    let uri = parse(
        "mongodb://alice:hunter2@h/?authMechanism=MONGODB-AWS\
         &authMechanismProperties=AWS_SESSION_TOKEN:tok3n&tlsCertificateKeyFilePassword=k3y\
         &proxyHost=p&proxyUsername=bob&proxyPassword=pr0xy",
    );
    let shown = format!("{uri:?} {uri:#?}");
    assert!(shown.contains("alice"));
    for secret in ["hunter2", "tok3n", "k3y", "pr0xy"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
}

#[test]
fn errors_and_warnings_contain_no_part_of_a_password() {
    // pitfall 40: each has a password "sec…ret" that is not percent-encoded.
    for uri in [
        "mongodb://alice:sec:ret@h",
        "mongodb://alice:sec@ret@h",
        "mongodb://alice:sec/ret@h",
        "mongodb://alice:sec/ret@h/db",
        "mongodb://alice:sec?ret@h",
        "mongodb://alice:sec%ret@h",
        "mongodb://alice:sec,ret:x@h:y",
        "mongodb://alice:secret",
        "mongodb://h?w=-1&sec=ret@h",
        "mongodb+srv://alice:sec@ret@h.example.com",
    ] {
        let error = parse_error(uri);
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains("sec") && !shown.contains("ret"), "{uri}: {shown}");
    }
    let misread = parse("mongodb://alice:123?sec=ret@h");
    assert!(!misread.warnings.concat().contains("sec"), "{:?}", misread.warnings);
    let late_slash = parse_error("mongodb://alice:123/secret@h");
    assert!(!late_slash.to_string().contains("secret"));
}

#[test]
fn invalid_host_is_quoted_only_without_credentials() {
    assert!(parse_error("mongodb://good,bad:port").to_string().contains("number 2 (\"bad\")"));
    assert!(!parse_error("mongodb://u:p@good,bad:port").to_string().contains("bad"));
}

#[test]
fn invalid_database_names_are_rejected() {
    // pitfall 41
    for name in
        ["a%00b", "a%2Fb", "a%5Cb", "a%20b", "a b", "a%22b", "a$b", ".a", "a.", "a%zz", "%ff"]
    {
        let error = parse_error(&format!("mongodb://h/{name}"));
        assert!(matches!(error, UriError::Database(_)), "{name}: {error}");
    }
    assert!(ConnectionString::parse("mongodb://h/?authSource=a%00b").is_err());
}

#[test]
fn dot_separates_database_and_collection() {
    // pitfall 41: the database name has no dot.
    let uri = parse("mongodb://u:p@h/shop.orders.old");
    assert_eq!(uri.default_database.as_deref(), Some("shop"));
    assert_eq!(uri.default_collection.as_deref(), Some("orders.old"));
    assert_eq!(uri.credential.unwrap().source.as_deref(), Some("shop"));
}

#[test]
fn percent_decoding_is_strict() {
    for uri in [
        "mongodb://u%:p@h",
        "mongodb://u%4:p@h",
        "mongodb://u%+4:p@h",
        "mongodb://u:%ff@h",
        "mongodb://h%zz",
        "mongodb://h/?replicaSet=%",
        "mongodb://h/?replicaSet=%ff",
    ] {
        parse_error(uri);
    }
    assert_eq!(parse("mongodb://h/?replicaSet=%C3%A4+b").replica_set.as_deref(), Some("ä+b"));
}

#[test]
fn numbers_out_of_range_are_ignored_with_a_warning() {
    for option in [
        "connectTimeoutMS=2147483648",
        "connectTimeoutMS=+1",
        "connectTimeoutMS= 1",
        "connectTimeoutMS=1.5",
        "maxPoolSize=99999999999999999999",
        "heartbeatFrequencyMS=499",
        "waitQueueTimeoutMS=0",
        "maxStalenessSeconds=0",
        "zlibCompressionLevel=10",
        "wTimeoutMS=9223372036854775808",
    ] {
        let uri = parse(&format!("mongodb://h/?{option}"));
        assert_eq!(uri.warnings.len(), 1, "{option}: {uri:?}");
        let silent = ConnectionString { warnings: Vec::new(), ..uri };
        assert_eq!(silent, parse("mongodb://h"), "{option}");
    }
    let largest = parse("mongodb://h/?connectTimeoutMS=2147483647&heartbeatFrequencyMS=500");
    assert!(largest.warnings.is_empty());
}

#[test]
fn invalid_w_is_rejected_instead_of_ignored() {
    for w in ["-1", "2147483648", "99999999999999999999"] {
        let error = parse_error(&format!("mongodb://h/?w={w}"));
        assert_eq!(error, UriError::WriteConcern(InvalidWriteConcern::InvalidW), "{w}");
    }
    let error = parse_error("mongodb://h/?w=0&journal=true");
    assert_eq!(error, UriError::WriteConcern(InvalidWriteConcern::UnacknowledgedJournal));
    let w = |uri: &str| parse(uri).write_concern.unwrap().w.unwrap();
    assert_eq!(w("mongodb://h/?w=0"), Acknowledgment::Nodes(0));
    assert_eq!(w("mongodb://h/?w=majority"), Acknowledgment::Majority);
    assert_eq!(w("mongodb://h/?w=2dc"), Acknowledgment::Custom("2dc".to_owned()));
}

#[test]
fn deprecated_option_yields_to_its_replacement() {
    let old = parse("mongodb://h/?wtimeout=5&j=true");
    assert_eq!(old.warnings.len(), 2);
    let concern = old.write_concern.unwrap();
    assert_eq!(concern.w_timeout, Some(Duration::from_millis(5)));
    assert_eq!(concern.journal, Some(true));
    let both = parse("mongodb://h/?wtimeoutMS=10&wtimeout=5");
    assert_eq!(both.write_concern.unwrap().w_timeout, Some(Duration::from_millis(10)));
}

#[test]
fn tags_require_a_mode_other_than_primary() {
    assert!(matches!(
        parse_error("mongodb://h/?readPreferenceTags=dc:ny"),
        UriError::ReadPreference(_)
    ));
    assert!(matches!(
        parse_error("mongodb://h/?readPreference=primary&maxStalenessSeconds=100"),
        UriError::ReadPreference(_)
    ));
    let uri = parse(
        "mongodb://h/?readPreference=nearest&readPreferenceTags=dc%3Any%2Ca:b:c&readPreferenceTags=",
    );
    let preference = uri.read_preference.unwrap();
    let sets = preference.tag_sets();
    assert_eq!(sets.len(), 2);
    assert_eq!((sets[0]["dc"].as_str(), sets[0]["a"].as_str()), ("ny", "b:c"));
    assert!(sets[1].is_empty());
}

#[test]
fn contradictory_options_are_rejected() {
    for uri in [
        "mongodb://a,b/?directConnection=true",
        "mongodb+srv://a.example.com/?directConnection=true",
        "mongodb://a,b/?loadBalanced=true",
        "mongodb://a/?loadBalanced=true&replicaSet=rs",
        "mongodb://a/?loadBalanced=true&directConnection=true",
        "mongodb+srv://a.example.com/?loadBalanced=true&srvMaxHosts=1",
        "mongodb+srv://a.example.com/?replicaSet=rs&srvMaxHosts=1",
        "mongodb://a/?srvMaxHosts=0",
        "mongodb://a/?srvServiceName=x",
        "mongodb://a/?tls=true&tls=false",
        "mongodb://a/?minPoolSize=3&maxPoolSize=2",
    ] {
        assert!(matches!(parse_error(uri), UriError::Conflict(..)), "{uri}");
    }
    assert_eq!(parse("mongodb://a/?minPoolSize=3&maxPoolSize=0").max_pool_size, Some(0));
}

#[test]
fn incomplete_proxy_options_are_rejected() {
    for options in [
        "proxyPort=1",
        "proxyHost=p&proxyUsername=u",
        "proxyHost=p&proxyPassword=x",
        "proxyHost=p&proxyHost=q",
        "proxyHost=p&proxyPort=1&proxyPort=1",
    ] {
        parse_error(&format!("mongodb://h/?{options}"));
    }
    let proxy = parse("mongodb://h/?proxyHost=p&proxyPort=9&proxyUsername=u&proxyPassword=x");
    let proxy = proxy.socks5_proxy.unwrap();
    assert_eq!((proxy.host.as_str(), proxy.port), ("p", Some(9)));
}

#[test]
fn unknown_mechanisms_are_rejected_and_unknown_options_ignored() {
    parse_error("mongodb://u:p@h/?authMechanism=MONGODB-CR");
    parse_error("mongodb://u:p@h/?authMechanism=");
    let uri = parse("mongodb://h/?noSuchOption=1&compressors=zstd,lzma,snappy");
    assert_eq!(uri.warnings.len(), 2);
    assert!(uri.warnings[0].contains("noSuchOption"));
    assert_eq!(uri.compressors, Some(vec![Compressor::Zstd { level: None }, Compressor::Snappy]));
}

#[test]
fn empty_username_is_rejected_and_auth_source_alone_is_no_credential() {
    parse_error("mongodb://@h");
    parse_error("mongodb://:p@h");
    parse_error("mongodb://h/?authSource=");
    let uri = parse("mongodb://h/db?authSource=x");
    assert_eq!((uri.credential, uri.auth_source.as_deref()), (None, Some("x")));
    let x509 = parse("mongodb://h/?authMechanism=MONGODB-X509").credential.unwrap();
    assert_eq!(x509.mechanism, Some(AuthMechanism::MongoDbX509));
}

fn answer(hosts: &[&str], txt: &[&str]) -> SrvAnswer {
    let record = |host: &&str| SrvRecord {
        host: (*host).to_owned(),
        port: 27017,
        ttl: Duration::from_secs(1),
    };
    let text = |text: &&str| TxtRecord { strings: vec![text.as_bytes().to_vec()] };
    SrvAnswer { hosts: hosts.iter().map(record).collect(), txt: txt.iter().map(text).collect() }
}

fn resolve(uri: &str, answer: &SrvAnswer) -> Result<ConnectionString, UriError> {
    parse(uri).resolve_srv(answer, |_| 0)
}

#[test]
fn dns_adds_options_and_never_overrides_them() {
    let dns = answer(&["db.example.com."], &["authSource=other&replicaSet=rs"]);
    let uri = resolve("mongodb+srv://u:p@a.example.com/app", &dns).unwrap();
    assert_eq!(uri.replica_set.as_deref(), Some("rs"));
    assert_eq!(uri.credential.as_ref().unwrap().source.as_deref(), Some("other"));
    assert_eq!(uri.original_srv_hostname.as_deref(), Some("a.example.com"));
    assert_eq!(uri.srv_name().unwrap().unwrap().query(), "_mongodb._tcp.a.example.com");
    assert!(matches!(uri.tls, Some(Tls::Enabled(_))));

    let own = resolve("mongodb+srv://u:p@a.example.com/?authSource=mine&replicaSet=own", &dns);
    let own = own.unwrap();
    assert_eq!(own.replica_set.as_deref(), Some("own"));
    assert_eq!(own.credential.as_ref().unwrap().source.as_deref(), Some("mine"));
}

#[test]
fn forbidden_or_contradictory_txt_options_are_rejected() {
    let txt_error =
        |uri: &str, txt: &[&str]| resolve(uri, &answer(&["db.example.com"], txt)).expect_err(uri);
    let uri = "mongodb+srv://a.example.com";
    assert_eq!(txt_error(uri, &["tls=false"]), SrvError::ForbiddenTxtOption.into());
    assert_eq!(txt_error(uri, &["authSource"]), SrvError::MalformedTxt.into());
    assert_eq!(txt_error(uri, &["a=b", "c=d"]), SrvError::SeveralTxtRecords.into());
    let limited = "mongodb+srv://a.example.com/?srvMaxHosts=1";
    assert!(matches!(txt_error(limited, &["replicaSet=rs"]), UriError::Conflict(..)));
    assert!(matches!(txt_error(limited, &["loadBalanced=true"]), UriError::Conflict(..)));
    // The rules of credentials apply to TXT records, too.
    let x509 = "mongodb+srv://a.example.com/?authMechanism=MONGODB-X509";
    assert!(matches!(txt_error(x509, &["authSource=db"]), UriError::Credential(_)));
}

#[test]
fn connection_string_with_hosts_is_not_resolved() {
    let uri = parse("mongodb://h");
    assert_eq!(uri.clone().resolve_srv(&SrvAnswer::default(), |_| 0), Ok(uri));
}

fn percent_encode(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

proptest! {
    #[test]
    fn parser_never_panics(text in any::<String>()) {
        let _ = ConnectionString::parse(&text);
        let _ = ConnectionString::parse(format!("mongodb://{text}"));
        let _ = ConnectionString::parse(format!("mongodb+srv://{text}"));
        let _ = ConnectionString::parse(format!("mongodb://h/{text}"));
        let _ = ConnectionString::parse(format!("mongodb://h/?{text}"));
    }

    #[test]
    fn option_parser_never_panics(
        options in proptest::collection::vec(("[a-zA-Z]{1,10}|tls|w|readPreferenceTags|compressors|\
            authMechanismProperties|srvMaxHosts|timeoutMS|authMechanism", "[ -~]{0,20}"), 0..5),
        srv in any::<bool>(),
    ) {
        let options: Vec<_> = options.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let scheme = if srv { "mongodb+srv" } else { "mongodb" };
        let _ = ConnectionString::parse(format!("{scheme}://a.example.com/?{}", options.join("&")));
    }

    #[test]
    fn connection_string_debug_never_contains_the_password(password in "\\PC{6,30}") {
        // pitfall 40: excludes passwords that every output contains anyway.
        let empty = parse("mongodb://alice:@h/db");
        prop_assume!(!format!("{empty:?} {empty:#?}").contains(&password));
        let encoded = percent_encode(&password);
        let uri = parse(&format!("mongodb://alice:{encoded}@h/db"));
        let credential = uri.credential.as_ref().unwrap();
        prop_assert_eq!(credential.password.as_deref(), Some(password.as_str()));
        let shown = format!("{uri:?} {uri:#?}");
        prop_assert!(!shown.contains(&password) && !shown.contains(&encoded));
    }

    #[test]
    fn no_error_contains_an_unencoded_password(
        password in "[a-z0-9]{0,5}[:/?%@#][a-z0-9]{0,5}Zx9Q[a-z0-9:/?%@]{0,5}",
    ) {
        let shown = match ConnectionString::parse(format!("mongodb://alice:{password}@h/db")) {
            Ok(uri) => uri.warnings.concat(),
            Err(error) => format!("{error} {error:?}"),
        };
        prop_assert!(!shown.contains("Zx9Q"), "{}", shown);
    }
}
