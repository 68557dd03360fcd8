//! `setParameter` and `getParameter`.
//!
//! Only parameters with an effect here can be set. Others get the error for an unknown parameter.

use std::sync::atomic::Ordering;

use bson::{Bson, Document, doc};
use steadfast_query::Fault;

use super::{limiter::RateLimiter, server::Server};
use blackpipe_base::number::{is_true, number};

/// Names of parameters. `true` if it can be set at run time.
const KNOWN: [(&str, bool); 16] = [
    ("TransactionRecordMinimumLifetimeMinutes", false),
    ("authenticationMechanisms", false),
    ("enableTestCommands", false),
    ("externalClientBaseBackoffMS", true),
    ("featureCompatibilityVersion", false),
    ("ingressConnectionEstablishmentBurstCapacitySecs", true),
    ("ingressConnectionEstablishmentMaxQueueDepth", true),
    ("ingressConnectionEstablishmentRateLimiterEnabled", true),
    ("ingressConnectionEstablishmentRatePerSec", true),
    ("ingressRequestAdmissionBurstCapacitySecs", true),
    ("ingressRequestAdmissionMaxQueueDepth", false),
    ("ingressRequestAdmissionRatePerSec", true),
    ("ingressRequestRateLimiterEnabled", true),
    ("localLogicalSessionTimeoutMinutes", false),
    ("requireApiVersion", true),
    ("scramSHA256IterationCount", false),
];

/// Returns `false` for generic arguments, which are not parameters.
fn is_parameter(key: &str, command: &str) -> bool {
    key != command
        && !key.starts_with('$')
        && !matches!(
            key,
            "lsid"
                | "comment"
                | "maxTimeMS"
                | "apiVersion"
                | "apiStrict"
                | "apiDeprecationErrors"
                | "readConcern"
                | "writeConcern"
                | "allParameters"
                | "txnNumber"
        )
}

/// Runs `setParameter`. All parameters are set, or none.
pub(crate) fn set(server: &Server, command: &Document) -> Result<Document, Document> {
    let rejected = |message: String| doc! { "ok": 0.0, "errmsg": message };
    let expected: Vec<_> =
        command.iter().filter(|(key, _)| is_parameter(key, "setParameter")).collect();
    if expected.is_empty() {
        return Err(rejected("no option found to set, use help:true to see options ".to_owned()));
    }
    for (name, _) in &expected {
        match KNOWN.iter().find(|(known, _)| known == name) {
            Some((_, true)) => {}
            Some((_, false)) => {
                return Err(rejected(format!("not allowed to change [{name}] at runtime")));
            }
            None => {
                return Err(rejected(format!(
                    "attempted to set unrecognized parameter [{name}], use help:true to see options "
                )));
            }
        }
    }
    let was =
        expected.first().and_then(|(name, _)| parameter_value(server, name)).unwrap_or(Bson::Null);
    for (name, value) in expected {
        apply(server, name, value).map_err(|fault| fault.to_reply())?;
    }
    Ok(doc! { "was": was, "ok": 1.0 })
}

fn apply(server: &Server, name: &str, value: &Bson) -> Result<(), Fault> {
    let invalid = || Fault::bad_value(format!("Invalid value for {name}: {value}"));
    let positive = || number(value).filter(|number| *number >= 0.0).ok_or_else(invalid);
    let change = |limiter: &RateLimiter, change: &dyn Fn(&mut super::limiter::RateLimit)| {
        let mut limit = limiter.limit();
        change(&mut limit);
        limiter.set(limit);
    };
    let limiter = match name.starts_with("ingressConnection") {
        true => &server.new_connections,
        false => &server.requests,
    };
    match name {
        "requireApiVersion" => {
            server.needs_api_version.store(is_true(value), Ordering::Relaxed);
        }
        "externalClientBaseBackoffMS" => {
            #[expect(clippy::cast_possible_truncation, reason = "saturates")]
            server.base_backoff.store(positive()? as i64, Ordering::Relaxed);
        }
        "ingressConnectionEstablishmentRateLimiterEnabled" | "ingressRequestRateLimiterEnabled" => {
            let is_on = is_true(value);
            change(limiter, &|limit| limit.is_on = is_on);
        }
        "ingressConnectionEstablishmentRatePerSec" | "ingressRequestAdmissionRatePerSec" => {
            let rate = positive()?;
            if rate < 1.0 {
                return Err(invalid());
            }
            change(limiter, &|limit| limit.per_second = rate);
        }
        "ingressConnectionEstablishmentBurstCapacitySecs"
        | "ingressRequestAdmissionBurstCapacitySecs" => {
            let seconds = positive()?;
            if seconds == 0.0 {
                return Err(invalid());
            }
            change(limiter, &|limit| limit.burst_seconds = seconds);
        }
        "ingressConnectionEstablishmentMaxQueueDepth" => {
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "checked above"
            )]
            let depth = positive()? as u64;
            change(limiter, &|limit| limit.queue = depth);
        }
        _ => return Err(Fault::bad_value(format!("{name} cannot be set"))),
    }
    Ok(())
}

/// Runs `getParameter`.
pub(crate) fn get(server: &Server, command: &Document) -> Document {
    let all = command.get_str("getParameter").is_ok_and(|star| star == "*")
        || command
            .get_document("getParameter")
            .is_ok_and(|options| options.get_bool("allParameters").unwrap_or(false));
    let names: Vec<&str> = match all {
        true => KNOWN.iter().map(|(name, _)| *name).collect(),
        false => command
            .keys()
            .map(String::as_str)
            .filter(|key| is_parameter(key, "getParameter"))
            .collect(),
    };
    let mut reply: Document = names
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), parameter_value(server, name)?)))
        .collect();
    if reply.is_empty() {
        return doc! { "ok": 0.0, "errmsg": "no option found to get" };
    }
    reply.insert("ok", 1.0);
    reply
}

fn parameter_value(server: &Server, name: &str) -> Option<Bson> {
    if let Some(point) = name.strip_prefix("failpoint.") {
        return server.fail_points.parameter_value(point).map(Bson::Document);
    }
    let (requests, new_connections) = (server.requests.limit(), server.new_connections.limit());
    Some(match name {
        "authenticationMechanisms" => {
            super::auth::MECHANISMS.map(super::auth::scram::ScramHash::mechanism).to_vec().into()
        }
        "enableTestCommands" => true.into(),
        "externalClientBaseBackoffMS" => server.base_backoff.load(Ordering::Relaxed).into(),
        "featureCompatibilityVersion" => {
            let version = &server.host.server_info().version;
            let major = version.splitn(3, '.').take(2).collect::<Vec<_>>().join(".");
            doc! { "version": major }.into()
        }
        "ingressConnectionEstablishmentBurstCapacitySecs" => new_connections.burst_seconds.into(),
        "ingressConnectionEstablishmentMaxQueueDepth" => int(new_connections.queue as f64),
        "ingressConnectionEstablishmentRateLimiterEnabled" => new_connections.is_on.into(),
        "ingressConnectionEstablishmentRatePerSec" => int(new_connections.per_second),
        "ingressRequestAdmissionBurstCapacitySecs" => requests.burst_seconds.into(),
        "ingressRequestAdmissionMaxQueueDepth" => 0.into(),
        "ingressRequestAdmissionRatePerSec" => int(requests.per_second),
        "ingressRequestRateLimiterEnabled" => requests.is_on.into(),
        // Records of retryable writes expire with their sessions.
        "localLogicalSessionTimeoutMinutes" | "TransactionRecordMinimumLifetimeMinutes" => {
            server.host.hello().get("logicalSessionTimeoutMinutes")?.clone()
        }
        "requireApiVersion" => server.needs_api_version.load(Ordering::Relaxed).into(),
        "scramSHA256IterationCount" => i64::from(server.users.iterations).into(),
        _ => return None,
    })
}

#[expect(clippy::cast_possible_truncation, reason = "saturates")]
fn int(number: f64) -> Bson {
    Bson::Int32(number as i32)
}
