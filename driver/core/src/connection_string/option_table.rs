//! The options of a connection string, one row each, and the parsers of their values.

use std::{path::PathBuf, time::Duration};

use bson::UuidRepresentation;
use zeroize::Zeroizing;

use super::{UriError, draft::UriDraft, text::percent_decode};
use crate::{
    concern::{Acknowledgment, ReadConcern},
    credential::InvalidCredential,
    description::TagSet,
    read_preference::{ReadPreference, max_staleness_from_seconds},
    srv,
};

/// An option: its name, the type of its value and its field.
struct OptionRow {
    name: &'static str,
    value: OptionValue,
    on_repeat: OnRepeat,
}

/// Type of an option's value.
enum OptionValue {
    /// `true` or `false`.
    Flag(Field<bool>),
    /// A 32-bit number of milliseconds with a minimum.
    Millis(u32, Field<Duration>),
    /// A 32-bit number with a minimum.
    Count(u32, Field<u32>),
    /// Text that is not empty.
    Text(Field<String>),
    /// A path that is not empty.
    Path(Field<PathBuf>),
    /// A value with a parser of its own.
    Other(fn(&mut UriDraft, &str) -> Result<(), InvalidValue>),
}

type Field<T> = fn(&mut UriDraft) -> &mut Option<T>;

/// Treatment of an option that appears more than once.
#[derive(PartialEq)]
enum OnRepeat {
    /// The first appearance counts; the others give a warning.
    UseFirst,
    /// Every appearance is parsed.
    ParseAll,
    /// An error.
    Reject,
}

/// A fault of an option's value.
enum InvalidValue {
    /// The option is ignored with a warning that names the expected value.
    Ignore(&'static str),
    /// The connection string is invalid.
    Reject(UriError),
}

const fn row(name: &'static str, value: OptionValue) -> OptionRow {
    OptionRow { name, value, on_repeat: OnRepeat::UseFirst }
}

const fn row_repeated(name: &'static str, on_repeat: OnRepeat, value: OptionValue) -> OptionRow {
    OptionRow { name, value, on_repeat }
}

use OptionValue::{Count, Flag, Millis, Other, Path, Text};

#[rustfmt::skip]
const ROWS: &[OptionRow] = &[
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
    row_repeated("proxyHost", OnRepeat::Reject, Text(|draft| &mut draft.proxy.host)),
    row_repeated("proxyPassword", OnRepeat::Reject, Text(|draft| &mut draft.proxy.password)),
    row_repeated("proxyPort", OnRepeat::Reject, Other(proxy_port)),
    row_repeated("proxyUsername", OnRepeat::Reject, Text(|draft| &mut draft.proxy.username)),
    row("readConcernLevel", Other(read_concern_level)),
    row("readPreference", Other(read_preference)),
    row_repeated("readPreferenceTags", OnRepeat::ParseAll, Other(read_preference_tags)),
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
    row_repeated("ssl", OnRepeat::ParseAll, Other(tls)),
    row("timeoutMS", Millis(0, |draft| &mut draft.uri.timeout)),
    row_repeated("tls", OnRepeat::ParseAll, Other(tls)),
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

/// Deprecated option names and their replacements.
const DEPRECATED: &[(&str, &str)] = &[("j", "journal"), ("wtimeout", "wTimeoutMS")];

/// Parses the options after the question mark.
pub(super) fn read(options: &str, draft: &mut UriDraft) -> Result<(), UriError> {
    let pairs = options
        .split('&')
        .filter(|pair| !pair.is_empty())
        .map(|pair| pair.split_once('=').ok_or(UriError::IncompleteOption))
        .collect::<Result<Vec<_>, _>>()?;
    // With an '@', this can be the rest of a password that is not percent-encoded.
    let names_may_be_shown = !options.contains('@');
    for (name, value) in &pairs {
        let renamed = DEPRECATED.iter().find(|(old, _)| old.eq_ignore_ascii_case(name));
        let current = renamed.map_or(*name, |(_, new)| new);
        if let Some((old, new)) = renamed {
            if pairs.iter().any(|(name, _)| name.eq_ignore_ascii_case(new)) {
                draft.warn(format!("the deprecated option {old} is ignored: {new} is present"));
                continue;
            }
            draft.warn(format!("the option {old} is deprecated: use {new}"));
        }
        match ROWS.iter().find(|row| row.name.eq_ignore_ascii_case(current)) {
            Some(row) => apply(row, value, draft)?,
            None if names_may_be_shown => {
                draft.warn(format!("the option {name} is unknown: ignored"));
            }
            None => draft.warn("an option is unknown: ignored".to_owned()),
        }
    }
    Ok(())
}

fn apply(row: &OptionRow, value: &str, draft: &mut UriDraft) -> Result<(), UriError> {
    let name = row.name;
    if !draft.present.insert(name) {
        match row.on_repeat {
            OnRepeat::ParseAll => {}
            OnRepeat::Reject => {
                return Err(UriError::Option { name, problem: "must not appear more than once" });
            }
            OnRepeat::UseFirst => {
                draft.warn(format!(
                    "the option {name} appears more than once: the first value is used"
                ));
                return Ok(());
            }
        }
    }
    let value = percent_decode(value)
        .ok_or(UriError::Option { name, problem: "is not valid percent-encoded UTF-8" })?;
    // The values of some options are passwords.
    let value = Zeroizing::new(value);
    match row.value.read_into(draft, &value) {
        Ok(()) => Ok(()),
        Err(InvalidValue::Reject(error)) => Err(error),
        Err(InvalidValue::Ignore(expected)) => {
            draft.warn(format!("the option {name} is ignored: expected {expected}"));
            Ok(())
        }
    }
}

impl OptionValue {
    fn read_into(&self, draft: &mut UriDraft, text: &str) -> Result<(), InvalidValue> {
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

fn flag(text: &str) -> Result<bool, InvalidValue> {
    match text {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(InvalidValue::Ignore("true or false")),
    }
}

/// Parses a number with an optional minus sign. Unlike `str::parse`, rejects a plus sign.
fn number(text: &str) -> Option<i64> {
    if text.starts_with('+') { None } else { text.parse().ok() }
}

/// Parses a 32-bit number, the width of all numbers unless specified otherwise.
fn count(text: &str, least: u32) -> Result<u32, InvalidValue> {
    number(text)
        .and_then(|number| i32::try_from(number).ok())
        .and_then(|number| u32::try_from(number).ok())
        .filter(|number| *number >= least)
        .ok_or(match least {
            0 => InvalidValue::Ignore("a non-negative 32-bit integer"),
            1 => InvalidValue::Ignore("a positive 32-bit integer"),
            _ => InvalidValue::Ignore("a 32-bit integer of at least 500"),
        })
}

fn some_text(text: &str) -> Result<&str, InvalidValue> {
    if text.is_empty() { Err(InvalidValue::Ignore("a value that is not empty")) } else { Ok(text) }
}

/// Splits `name:value` pairs separated by commas. A value may contain colons, but no comma.
fn pairs(text: &str) -> Result<Vec<(&str, &str)>, InvalidValue> {
    let pairs = text.split(',').filter(|pair| !pair.is_empty()).map(|pair| {
        pair.split_once(':')
            .filter(|(name, _)| !name.is_empty())
            .ok_or(InvalidValue::Ignore("name:value pairs, separated by commas"))
    });
    pairs.collect()
}

fn app_name(draft: &mut UriDraft, text: &str) -> Result<(), InvalidValue> {
    if text.is_empty() || text.len() > 128 {
        return Err(InvalidValue::Ignore("a name of at most 128 bytes"));
    }
    draft.uri.app_name = Some(text.to_owned());
    Ok(())
}

fn auth_mechanism(draft: &mut UriDraft, text: &str) -> Result<(), InvalidValue> {
    draft.mechanism = Some(text.parse().map_err(|error: InvalidCredential| reject(error))?);
    Ok(())
}

fn auth_mechanism_properties(draft: &mut UriDraft, text: &str) -> Result<(), InvalidValue> {
    let pairs = pairs(some_text(text)?)?;
    // Names of properties are case-insensitive.
    let properties =
        pairs.into_iter().map(|(name, value)| (name.to_ascii_uppercase(), value.into()));
    draft.mechanism_properties = Some(properties.collect());
    Ok(())
}

fn auth_source(draft: &mut UriDraft, text: &str) -> Result<(), InvalidValue> {
    if text.is_empty() || text.contains('\0') {
        return Err(reject(InvalidCredential::InvalidSource));
    }
    draft.uri.auth_source = Some(text.to_owned());
    Ok(())
}

fn compressors(draft: &mut UriDraft, text: &str) -> Result<(), InvalidValue> {
    let mut known = Vec::new();
    for name in some_text(text)?.split(',') {
        match name.parse() {
            Ok(compressor) if !known.contains(&compressor) => known.push(compressor),
            Ok(_) => {}
            Err(_) => {
                draft.warn("the option compressors has an unknown compressor: ignored".to_owned());
            }
        }
    }
    draft.uri.compressors = Some(known);
    Ok(())
}

fn max_staleness(draft: &mut UriDraft, text: &str) -> Result<(), InvalidValue> {
    // The minimum depends on the heartbeat frequency and is checked by server selection.
    draft.max_staleness = number(text)
        .filter(|seconds| i32::try_from(*seconds).is_ok())
        .and_then(|seconds| max_staleness_from_seconds(seconds).ok())
        .ok_or(InvalidValue::Ignore("-1 or a number of seconds of at least 90"))?;
    Ok(())
}

fn proxy_port(draft: &mut UriDraft, text: &str) -> Result<(), InvalidValue> {
    let port = number(text).and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0);
    draft.proxy.port = Some(port.ok_or(InvalidValue::Ignore("a port number"))?);
    Ok(())
}

fn read_concern_level(draft: &mut UriDraft, text: &str) -> Result<(), InvalidValue> {
    draft.uri.read_concern = Some(ReadConcern::custom(some_text(text)?));
    Ok(())
}

fn read_preference(draft: &mut UriDraft, text: &str) -> Result<(), InvalidValue> {
    let mode = ReadPreference::from_mode(text).map_err(|_| {
        InvalidValue::Ignore("primary, primaryPreferred, secondary, secondaryPreferred or nearest")
    })?;
    draft.read_mode = Some(mode.mode());
    Ok(())
}

/// Parses one tag set per appearance. An empty one matches every server.
fn read_preference_tags(draft: &mut UriDraft, text: &str) -> Result<(), InvalidValue> {
    let tags = pairs(text)?.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    draft.tag_sets.push(tags.collect::<TagSet>());
    Ok(())
}

fn server_monitoring_mode(draft: &mut UriDraft, text: &str) -> Result<(), InvalidValue> {
    let mode = text.parse().map_err(|_| InvalidValue::Ignore("stream, poll or auto"))?;
    draft.uri.server_monitoring_mode = Some(mode);
    Ok(())
}

fn srv_allowed_hosts_suffix(draft: &mut UriDraft, text: &str) -> Result<(), InvalidValue> {
    let suffix = srv::allowed_suffix(text).map_err(reject)?;
    draft.uri.srv_allowed_hosts_suffix = Some(suffix);
    Ok(())
}

fn srv_service_name(draft: &mut UriDraft, text: &str) -> Result<(), InvalidValue> {
    draft.uri.srv_service_name = Some(srv::service_name(text).map_err(reject)?.to_owned());
    Ok(())
}

/// Parses `tls` or `ssl`. All appearances must agree.
fn tls(draft: &mut UriDraft, text: &str) -> Result<(), InvalidValue> {
    let enabled = flag(text)?;
    if draft.tls.is_some_and(|earlier| earlier != enabled) {
        return Err(InvalidValue::Reject(UriError::conflict(
            "tls or ssl=true",
            "tls or ssl=false",
        )));
    }
    draft.tls = Some(enabled);
    Ok(())
}

fn tls_certificate_key_file_password(draft: &mut UriDraft, text: &str) -> Result<(), InvalidValue> {
    draft.tls_options.tls_certificate_key_file_password = Some(some_text(text)?.into());
    Ok(())
}

fn uuid_representation(draft: &mut UriDraft, text: &str) -> Result<(), InvalidValue> {
    draft.uri.uuid_representation = Some(match text {
        "standard" => UuidRepresentation::Standard,
        "csharpLegacy" => UuidRepresentation::CSharpLegacy,
        "javaLegacy" => UuidRepresentation::JavaLegacy,
        "pythonLegacy" => UuidRepresentation::PythonLegacy,
        _ => {
            return Err(InvalidValue::Ignore("standard, csharpLegacy, javaLegacy or pythonLegacy"));
        }
    });
    Ok(())
}

/// Parses `w`. An invalid number is an error, because ignoring it would make writes less durable
/// than requested.
fn w(draft: &mut UriDraft, text: &str) -> Result<(), InvalidValue> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    draft.write_concern.w = Some(if is_number {
        Acknowledgment::try_from(number(text).unwrap_or(-1)).map_err(reject)?
    } else {
        some_text(text)?.into()
    });
    Ok(())
}

/// Parses `wTimeoutMS`, the only 64-bit number.
fn w_timeout(draft: &mut UriDraft, text: &str) -> Result<(), InvalidValue> {
    let millis = number(text)
        .and_then(|millis| u64::try_from(millis).ok())
        .ok_or(InvalidValue::Ignore("a non-negative 64-bit integer"))?;
    draft.write_concern.w_timeout = Some(Duration::from_millis(millis));
    Ok(())
}

fn zlib_compression_level(draft: &mut UriDraft, text: &str) -> Result<(), InvalidValue> {
    let level = number(text).and_then(|level| i32::try_from(level).ok());
    let level = level.filter(|level| (-1..=9).contains(level));
    draft.uri.zlib_compression_level =
        Some(level.ok_or(InvalidValue::Ignore("an integer from -1 to 9"))?);
    Ok(())
}

fn reject(error: impl Into<UriError>) -> InvalidValue {
    InvalidValue::Reject(error.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn option_names_are_unique() {
        let names = ROWS.iter().map(|row| row.name).chain(DEPRECATED.iter().map(|(old, _)| *old));
        let mut names: Vec<_> = names.map(str::to_ascii_lowercase).collect();
        names.sort();
        let count = names.len();
        names.dedup();
        assert_eq!(names.len(), count);
    }

    #[test]
    fn deprecated_options_have_existing_replacements() {
        for (_, new) in DEPRECATED {
            assert!(ROWS.iter().any(|row| row.name == *new), "{new}");
        }
    }
}
