//! Result of `doctor` as JSON. Fields may be added, but are not removed.

use std::time::Duration;

use serde_json::{Map, Value, json};
use steadfast::options::Tls;

use super::{
    facts::{Facts, MemberState, RecordLifetime, Server, ShardMember},
    findings::{Finding, Level},
};

pub(super) fn document(facts: &Facts, findings: &[Finding]) -> Value {
    let seeds: Vec<_> = facts.seeds.iter().map(ToString::to_string).collect();
    let servers: Vec<_> = facts.servers.iter().map(|it| server(facts, it)).collect();
    let shards = facts.shards.as_ref().map(|shards| {
        let shard = |it: &super::facts::Shard| {
            let members: Vec<_> = it.members.iter().map(member).collect();
            json!({ "name": it.name, "host": it.host, "draining": it.draining, "members": members })
        };
        shards.iter().map(shard).collect::<Vec<_>>()
    });
    json!({
        "connected": facts.failure.is_none() && facts.reached().next().is_some(),
        "seeds": seeds,
        "deployment": {
            "type": facts.kind.name(),
            "setName": facts.set_name(),
            "direct": facts.is_direct(),
        },
        "servers": servers,
        "shards": shards,
        "recordLifetimes": facts.record_lifetimes.iter().map(record_lifetime).collect::<Vec<_>>(),
        "tls": tls(facts),
        "login": login(facts),
        "findings": findings.iter().map(finding).collect::<Vec<_>>(),
        "counts": counts(findings),
    })
}

fn server(facts: &Facts, server: &Server) -> Value {
    json!({
        "address": server.address.to_string(),
        "type": server.server_type.name(),
        "error": server.error,
        "version": server.version,
        "maxWireVersion": server.max_wire_version,
        "setName": server.set_name,
        "tags": server.tags,
        "sessionTimeoutMinutes": server.session_timeout.map(|time| time.as_secs() / 60),
        "lagMs": facts.lag(server).map(|lag| lag.as_millis()),
        "pingMedianMs": server.median().map(millis),
        "pingWorstMs": server.worst().map(millis),
        "clockAheadMs": server.clock.map(|clock| clock.ahead_ms),
        "clockUncertaintyMs": server.clock.map(|clock| millis(clock.uncertainty)),
    })
}

fn member(member: &ShardMember) -> Value {
    let error = match &member.state {
        MemberState::Unreached(why) => Some(why),
        MemberState::Primary | MemberState::Secondary { .. } | MemberState::Other => None,
    };
    json!({ "host": member.host, "state": member.state.name(), "error": error })
}

fn record_lifetime((server, lifetime): &(String, RecordLifetime)) -> Value {
    let (minutes, error) = match lifetime {
        RecordLifetime::Known(lifetime) => (Some(lifetime.as_secs() / 60), None),
        RecordLifetime::Denied => (None, Some("not authorized to run getParameter")),
        RecordLifetime::NotRead(why) => (None, Some(why.as_str())),
    };
    json!({ "server": server, "minutes": minutes, "error": error })
}

fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1000.0
}

fn tls(facts: &Facts) -> Value {
    let options = match &facts.uri.tls {
        Some(Tls::Enabled(options)) => Some(options),
        _ => None,
    };
    json!({
        "enabled": options.is_some(),
        "verifiesCertificates": options.map(|it| it.verifies_certificates()),
        "verifiesHostnames": options.map(|it| it.verifies_hostnames()),
    })
}

fn login(facts: &Facts) -> Value {
    let credential = facts.uri.credential.as_ref();
    json!({
        "attempted": credential.is_some(),
        "mechanism": credential.and_then(|it| it.mechanism).map(|it| it.as_str()),
        "users": facts.login.users,
        "roles": facts.login.roles,
        "required": facts.login.required,
    })
}

fn finding(finding: &Finding) -> Value {
    let optional = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    json!({
        "level": finding.level.name(),
        "code": finding.code,
        "what": finding.what,
        "why": optional(&finding.why),
        "next": optional(&finding.next),
    })
}

fn counts(findings: &[Finding]) -> Value {
    let count = |level| findings.iter().filter(|finding| finding.level == level).count();
    let counts = Level::ALL.map(|level| (level.name().to_owned(), count(level).into()));
    Value::Object(Map::from_iter(counts))
}
