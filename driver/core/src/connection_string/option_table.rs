//! The options of a connection string, one row each, and how their values are read.

use std::{path::PathBuf, time::Duration};

use bson::UuidRepresentation;
use zeroize::Zeroizing;

use super::{UriError, draft::Draft, text::percent_decode};
use crate::{
    concern::{Acknowledgment, ReadConcern},
    credential::InvalidCredential,
    description::TagSet,
    read_preference::{ReadPreference, max_staleness_from_seconds},
    srv,
};

/// An option: its name, how its value is read and where it goes.
struct Row {
    name: &'static str,
    value: Value,
    repeated: Repeated,
}

/// What kind of value an option has.
enum Value {
    /// `true` or `false`.
    Flag(Field<bool>),
    /// A 32-bit number of milliseconds, at least so many.
    Millis(u32, Field<Duration>),
    /// A 32-bit number, at least so large.
    Count(u32, Field<u32>),
    /// Any text but none.
    Text(Field<String>),
    /// A path.
    Path(Field<PathBuf>),
    /// Read by a function of its own.
    Other(fn(&mut Draft, &str) -> Result<(), Problem>),
}

type Field<T> = fn(&mut Draft) -> &mut Option<T>;

/// What it means if an option appears more than once.
#[derive(PartialEq)]
enum Repeated {
    /// The first counts, with a warning.
    Warned,
    /// Each counts; the reading function decides.
    Taken,
    /// It is an error.
    Refused,
}

/// What is wrong with a value.
enum Problem {
    /// The option is left out with a warning that names what was expected.
    Ignored(&'static str),
    /// The connection string cannot be used.
    Refused(UriError),
}

const fn row(name: &'static str, value: Value) -> Row {
    Row { name, value, repeated: Repeated::Warned }
}

const fn row_repeated(name: &'static str, repeated: Repeated, value: Value) -> Row {
    Row { name, value, repeated }
}

use Value::{Count, Flag, Millis, Other, Path, Text};

#[rustfmt::skip]
const ROWS: &[Row] = &[
    row("appname", Other(app_name)),
    row("authMechanism", Other(auth_mechanism)),
    row("authMechanismProperties", Other(auth_mechanism_properties)),
    row("authSource", Other(auth_source)),
    row("compressors", Other(compressors)),
    row("connectTimeoutMS", Millis(0, |draft| &mut draft.uri.connect_timeout)),
    row("directConnection", Flag(|draft| &mut draft.uri.direct_connection)),
    row("enableOverloadRetargeting", Flag(|draft| &mut draft.uri.enable_overload_retargeting)),
    row("heartbeatFrequencyMS", Millis(500, |draft| &mut draft.uri.heartbeat_frequency)),
    row("journal", Flag(|draft| &mut draft.write_concern.journal)),
    row("loadBalanced", Flag(|draft| &mut draft.uri.load_balanced)),
    row("localThresholdMS", Millis(0, |draft| &mut draft.uri.local_threshold)),
    row("maxAdaptiveRetries", Count(0, |draft| &mut draft.uri.max_adaptive_retries)),
    row("maxConnecting", Count(1, |draft| &mut draft.uri.max_connecting)),
    row("maxIdleTimeMS", Millis(0, |draft| &mut draft.uri.max_idle_time)),
    row("maxPoolSize", Count(0, |draft| &mut draft.uri.max_pool_size)),
    row("maxStalenessSeconds", Other(max_staleness)),
    row("minPoolSize", Count(0, |draft| &mut draft.uri.min_pool_size)),
    row_repeated("proxyHost", Repeated::Refused, Text(|draft| &mut draft.proxy.host)),
    row_repeated("proxyPassword", Repeated::Refused, Text(|draft| &mut draft.proxy.password)),
    row_repeated("proxyPort", Repeated::Refused, Other(proxy_port)),
    row_repeated("proxyUsername", Repeated::Refused, Text(|draft| &mut draft.proxy.username)),
    row("readConcernLevel", Other(read_concern_level)),
    row("readPreference", Other(read_preference)),
    row_repeated("readPreferenceTags", Repeated::Taken, Other(read_preference_tags)),
    row("replicaSet", Text(|draft| &mut draft.uri.replica_set)),
    row("retryReads", Flag(|draft| &mut draft.uri.retry_reads)),
    row("retryWrites", Flag(|draft| &mut draft.uri.retry_writes)),
    row("serverMonitoringMode", Other(server_monitoring_mode)),
    row("serverSelectionTimeoutMS", Millis(0, |draft| &mut draft.uri.server_selection_timeout)),
    row("serverSelectionTryOnce", Flag(|draft| &mut draft.uri.server_selection_try_once)),
    row("socketTimeoutMS", Millis(0, |draft| &mut draft.uri.socket_timeout)),
    row("srvAllowedHostsSuffix", Other(srv_allowed_hosts_suffix)),
    row("srvMaxHosts", Count(0, |draft| &mut draft.uri.srv_max_hosts)),
    row("srvServiceName", Other(srv_service_name)),
    row_repeated("ssl", Repeated::Taken, Other(tls)),
    row("timeoutMS", Millis(0, |draft| &mut draft.uri.timeout)),
    row_repeated("tls", Repeated::Taken, Other(tls)),
    row("tlsAllowInvalidCertificates", Flag(|draft| &mut draft.tls_options.allow_invalid_certificates)),
    row("tlsAllowInvalidHostnames", Flag(|draft| &mut draft.tls_options.allow_invalid_hostnames)),
    row("tlsCAFile", Path(|draft| &mut draft.tls_options.ca_file_path)),
    row("tlsCertificateKeyFile", Path(|draft| &mut draft.tls_options.cert_key_file_path)),
    row("tlsCertificateKeyFilePassword", Other(tls_certificate_key_file_password)),
    row("tlsDisableCertificateRevocationCheck", Flag(|draft| &mut draft.tls_options.disable_certificate_revocation_check)),
    row("tlsDisableOCSPEndpointCheck", Flag(|draft| &mut draft.tls_options.disable_ocsp_endpoint_check)),
    row("tlsInsecure", Flag(|draft| &mut draft.tls_options.insecure)),
    row("uuidRepresentation", Other(uuid_representation)),
    row("w", Other(w)),
    row("waitQueueTimeoutMS", Millis(1, |draft| &mut draft.uri.wait_queue_timeout)),
    row("wTimeoutMS", Other(w_timeout)),
    row("zlibCompressionLevel", Other(zlib_compression_level)),
];

/// Old names of options, and what took their place.
const RENAMED: &[(&str, &str)] = &[("j", "journal"), ("wtimeout", "wTimeoutMS")];

/// Reads everything after the question mark.
pub(super) fn read(options: &str, draft: &mut Draft) -> Result<(), UriError> {
    let pairs = options
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').ok_or(UriError::IncompleteOption))
        .collect::<Result<Vec<_>, _>>()?;
    // An '@' here may mean that these are no options at all but the rest of a password.
    let names_may_be_shown = !options.contains('@');
    for (name, value) in &pairs {
        let renamed = RENAMED.iter().find(|(old, _)| old.eq_ignore_ascii_case(name));
        let current = renamed.map_or(*name, |(_, new)| new);
        if let Some((old, new)) = renamed {
            if pairs.iter().any(|(name, _)| name.eq_ignore_ascii_case(new)) {
                draft.warn(format!("the deprecated option {old} is ignored because of {new}"));
                continue;
            }
            draft.warn(format!("the option {old} is deprecated: it is called {new} now"));
        }
        match ROWS.iter().find(|row| row.name.eq_ignore_ascii_case(current)) {
            Some(row) => apply(row, value, draft)?,
            None if names_may_be_shown => draft.warn(format!("unknown option {name}")),
            None => draft.warn("unknown option".to_owned()),
        }
    }
    Ok(())
}

fn apply(row: &Row, value: &str, draft: &mut Draft) -> Result<(), UriError> {
    let name = row.name;
    if !draft.mentioned.insert(name) {
        match row.repeated {
            Repeated::Taken => {}
            Repeated::Refused => {
                return Err(UriError::Option { name, problem: "appears more than once" });
            }
            Repeated::Warned => {
                draft.warn(format!("the option {name} appears more than once: the first counts"));
                return Ok(());
            }
        }
    }
    let value = percent_decode(value)
        .ok_or(UriError::Option { name, problem: "is not percent-encoded properly" })?;
    // Some options are passwords.
    let value = Zeroizing::new(value);
    match row.value.read_into(draft, &value) {
        Ok(()) => Ok(()),
        Err(Problem::Refused(error)) => Err(error),
        Err(Problem::Ignored(expected)) => {
            draft.warn(format!("the option {name} is ignored: expected {expected}"));
            Ok(())
        }
    }
}

impl Value {
    fn read_into(&self, draft: &mut Draft, text: &str) -> Result<(), Problem> {
        match self {
            Flag(field) => *field(draft) = Some(flag(text)?),
            Count(least, field) => *field(draft) = Some(count(text, *least)?),
            Millis(least, field) => {
                let millis = count(text, *least)?;
                *field(draft) = Some(Duration::from_millis(millis.into()));
            }
            Text(field) => *field(draft) = Some(some_text(text)?.to_owned()),
            Path(field) => *field(draft) = Some(some_text(text)?.into()),
            Other(read) => read(draft, text)?,
        }
        Ok(())
    }
}

fn flag(text: &str) -> Result<bool, Problem> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(Problem::Ignored("true or false")),
    }
}

/// A number, optionally negative; unlike the standard library, without a plus sign.
fn number(text: &str) -> Option<i64> {
    if text.starts_with('+') { None } else { text.parse().ok() }
}

/// Numbers in connection strings are 32 bits wide unless specified otherwise.
fn count(text: &str, least: u32) -> Result<u32, Problem> {
    number(text)
        .and_then(|number| i32::try_from(number).ok())
        .and_then(|number| u32::try_from(number).ok())
        .filter(|number| *number >= least)
        .ok_or(match least {
            0 => Problem::Ignored("a non-negative 32-bit integer"),
            1 => Problem::Ignored("a positive 32-bit integer"),
            _ => Problem::Ignored("a 32-bit integer of at least 500"),
        })
}

fn some_text(text: &str) -> Result<&str, Problem> {
    if text.is_empty() { Err(Problem::Ignored("a value")) } else { Ok(text) }
}

/// `name:value` pairs, separated by commas. A value may contain colons, but no comma.
fn pairs(text: &str) -> Result<Vec<(&str, &str)>, Problem> {
    let pairs = text.split(',').filter(|pair| !pair.is_empty()).map(|pair| {
        pair.split_once(':')
            .filter(|(name, _)| !name.is_empty())
            .ok_or(Problem::Ignored("name:value pairs, separated by commas"))
    });
    pairs.collect()
}

fn app_name(draft: &mut Draft, text: &str) -> Result<(), Problem> {
    if text.is_empty() || text.len() > 128 {
        return Err(Problem::Ignored("a name of at most 128 bytes"));
    }
    draft.uri.app_name = Some(text.to_owned());
    Ok(())
}

fn auth_mechanism(draft: &mut Draft, text: &str) -> Result<(), Problem> {
    draft.mechanism = Some(text.parse().map_err(|error: InvalidCredential| refused(error))?);
    Ok(())
}

fn auth_mechanism_properties(draft: &mut Draft, text: &str) -> Result<(), Problem> {
    let pairs = pairs(some_text(text)?)?;
    // The names of properties are told apart without regard to letter case.
    let properties =
        pairs.into_iter().map(|(name, value)| (name.to_ascii_uppercase(), value.into()));
    draft.mechanism_properties = Some(properties.collect());
    Ok(())
}

fn auth_source(draft: &mut Draft, text: &str) -> Result<(), Problem> {
    if text.is_empty() || text.contains('\0') {
        return Err(refused(InvalidCredential::InvalidSource));
    }
    draft.uri.auth_source = Some(text.to_owned());
    Ok(())
}

fn compressors(draft: &mut Draft, text: &str) -> Result<(), Problem> {
    let mut known = Vec::new();
    for name in some_text(text)?.split(',') {
        match name.parse() {
            Ok(compressor) if !known.contains(&compressor) => known.push(compressor),
            Ok(_) => {}
            Err(_) => draft.warn("compressors names one that is unknown and left out".to_owned()),
        }
    }
    draft.uri.compressors = Some(known);
    Ok(())
}

fn max_staleness(draft: &mut Draft, text: &str) -> Result<(), Problem> {
    // Whether it is long enough depends on the heartbeat frequency: server selection refuses what
    // is too short.
    draft.max_staleness = number(text)
        .filter(|seconds| i32::try_from(*seconds).is_ok())
        .and_then(|seconds| max_staleness_from_seconds(seconds).ok())
        .ok_or(Problem::Ignored("-1 or a number of seconds of at least 90"))?;
    Ok(())
}

fn proxy_port(draft: &mut Draft, text: &str) -> Result<(), Problem> {
    let port = number(text).and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0);
    draft.proxy.port = Some(port.ok_or(Problem::Ignored("a port number"))?);
    Ok(())
}

fn read_concern_level(draft: &mut Draft, text: &str) -> Result<(), Problem> {
    draft.uri.read_concern = Some(ReadConcern::custom(some_text(text)?));
    Ok(())
}

fn read_preference(draft: &mut Draft, text: &str) -> Result<(), Problem> {
    let mode = ReadPreference::from_mode(text).map_err(|_| {
        Problem::Ignored("primary, primaryPreferred, secondary, secondaryPreferred or nearest")
    })?;
    draft.read_mode = Some(mode.mode());
    Ok(())
}

/// Each appearance is one tag set; an empty one matches every server.
fn read_preference_tags(draft: &mut Draft, text: &str) -> Result<(), Problem> {
    let tags = pairs(text)?.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    draft.tag_sets.push(tags.collect::<TagSet>());
    Ok(())
}

fn server_monitoring_mode(draft: &mut Draft, text: &str) -> Result<(), Problem> {
    let mode = text.parse().map_err(|_| Problem::Ignored("stream, poll or auto"))?;
    draft.uri.server_monitoring_mode = Some(mode);
    Ok(())
}

fn srv_allowed_hosts_suffix(draft: &mut Draft, text: &str) -> Result<(), Problem> {
    let suffix = srv::allowed_suffix(text).map_err(refused)?;
    draft.uri.srv_allowed_hosts_suffix = Some(suffix);
    Ok(())
}

fn srv_service_name(draft: &mut Draft, text: &str) -> Result<(), Problem> {
    draft.uri.srv_service_name = Some(srv::service_name(text).map_err(refused)?.to_owned());
    Ok(())
}

/// All appearances of `tls` and of its old name must agree.
fn tls(draft: &mut Draft, text: &str) -> Result<(), Problem> {
    let enabled = flag(text)?;
    if draft.tls.is_some_and(|earlier| earlier != enabled) {
        return Err(Problem::Refused(UriError::conflict("tls or ssl=true", "tls or ssl=false")));
    }
    draft.tls = Some(enabled);
    Ok(())
}

fn tls_certificate_key_file_password(draft: &mut Draft, text: &str) -> Result<(), Problem> {
    draft.tls_options.tls_certificate_key_file_password = Some(some_text(text)?.into());
    Ok(())
}

fn uuid_representation(draft: &mut Draft, text: &str) -> Result<(), Problem> {
    draft.uri.uuid_representation = Some(match text {
        "standard" => UuidRepresentation::Standard,
        "csharpLegacy" => UuidRepresentation::CSharpLegacy,
        "javaLegacy" => UuidRepresentation::JavaLegacy,
        "pythonLegacy" => UuidRepresentation::PythonLegacy,
        _ => return Err(Problem::Ignored("standard, csharpLegacy, javaLegacy or pythonLegacy")),
    });
    Ok(())
}

/// An impossible number is refused rather than ignored: the writes would be less durable than was
/// asked for.
fn w(draft: &mut Draft, text: &str) -> Result<(), Problem> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    draft.write_concern.w = Some(if is_number {
        Acknowledgment::try_from(number(text).unwrap_or(-1)).map_err(refused)?
    } else {
        some_text(text)?.into()
    });
    Ok(())
}

/// The one number that is 64 bits wide.
fn w_timeout(draft: &mut Draft, text: &str) -> Result<(), Problem> {
    let millis = number(text)
        .and_then(|millis| u64::try_from(millis).ok())
        .ok_or(Problem::Ignored("a non-negative 64-bit integer"))?;
    draft.write_concern.w_timeout = Some(Duration::from_millis(millis));
    Ok(())
}

fn zlib_compression_level(draft: &mut Draft, text: &str) -> Result<(), Problem> {
    let level = number(text).and_then(|level| i32::try_from(level).ok());
    let level = level.filter(|level| (-1..=9).contains(level));
    draft.uri.zlib_compression_level =
        Some(level.ok_or(Problem::Ignored("an integer from -1 to 9"))?);
    Ok(())
}

fn refused(error: impl Into<UriError>) -> Problem {
    Problem::Refused(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_option_has_one_row_and_no_old_name_hides_one() {
        let names = ROWS.iter().map(|row| row.name).chain(RENAMED.iter().map(|(old, _)| *old));
        let mut names: Vec<_> = names.map(str::to_ascii_lowercase).collect();
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn every_new_name_of_an_option_exists() {
        for (_, new) in RENAMED {
            assert!(ROWS.iter().any(|row| row.name == *new), "{new}");
        }
    }
}
