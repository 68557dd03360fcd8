//! Result of `doctor` as text, in 80 columns.

use std::{fmt::Write, time::Duration};

use steadfast::options::Tls;
use steadfast_report::{
    table::Table,
    words::{rough, wrapped},
};

use super::{
    facts::{DeploymentKind, Facts, Server, Shard},
    findings::{Finding, Level},
};
use crate::{duration, paint::Paint};

const COLUMNS: usize = 80;
/// Width of the longest level, with a gap.
const MARGIN: usize = 9;

/// Returns the whole report.
pub(super) fn text(facts: &Facts, findings: &[Finding], paint: Paint) -> String {
    let mut text = String::new();
    // Writing to a string does not fail.
    let _ = writeln!(text, "{}", paint.strong(headline(facts)));
    servers(facts, &mut text);
    shards(facts, &mut text);
    let _ = writeln!(text, "\nencryption: {}", encryption(facts));
    let _ = writeln!(text, "login: {}", login(facts));
    text.push('\n');
    for finding in findings {
        entry(finding, paint, &mut text);
    }
    let _ = write!(text, "\n{}", conclusion(findings));
    text
}

fn headline(facts: &Facts) -> String {
    let seeds: Vec<_> = facts.seeds.iter().map(ToString::to_string).collect();
    let seeds = match seeds.is_empty() {
        true => "the deployment".to_owned(),
        false => seeds.join(", "),
    };
    match facts.kind {
        DeploymentKind::Standalone => format!("{seeds}: a standalone server"),
        DeploymentKind::ReplicaSet if facts.is_direct() => {
            format!("{seeds}: a member of the replica set {}", facts.set_name().unwrap_or("?"))
        }
        DeploymentKind::ReplicaSet => {
            let name = facts.set_name().unwrap_or("?");
            format!("the replica set {name}, {}", counted(facts.servers.len(), "member"))
        }
        DeploymentKind::Sharded => {
            let mongos = facts.servers.len();
            match &facts.shards {
                Some(shards) => {
                    format!(
                        "a sharded cluster, {mongos} mongos, {}",
                        counted(shards.len(), "shard")
                    )
                }
                None => format!("a sharded cluster, {mongos} mongos"),
            }
        }
        DeploymentKind::LoadBalanced => format!("{seeds}: a load balancer"),
        DeploymentKind::Unknown if facts.left_out.is_empty() => format!("{seeds}: not reached"),
        DeploymentKind::Unknown => format!("{seeds}: not the requested deployment"),
    }
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// Adds the table of servers.
fn servers(facts: &Facts, text: &mut String) {
    if facts.servers.is_empty() {
        return;
    }
    let mut table = Table::new("server|role|version|ping|worst|lag|clock|tags");
    facts.servers.iter().for_each(|server| table.row(row(facts, server)));
    text.push('\n');
    for line in table.lines() {
        let _ = writeln!(text, "  {line}");
    }
}

fn row(facts: &Facts, server: &Server) -> [String; 8] {
    let tags: Vec<_> = server.tags.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let version = match (&server.version, server.max_wire_version) {
        (Some(version), Some(wire)) => format!("{version} (wire {wire})"),
        (Some(version), None) => version.clone(),
        (None, Some(wire)) => format!("wire {wire}"),
        (None, None) => String::new(),
    };
    [
        server.address.to_string(),
        server.role().to_owned(),
        version,
        server.median().map(rough).unwrap_or_default(),
        server.worst().filter(|_| server.round_trips.len() > 1).map(rough).unwrap_or_default(),
        facts.lag(server).map(|lag| format!("{} s", lag.as_secs())).unwrap_or_default(),
        server.clock.map(|clock| offset(clock.ahead_ms)).unwrap_or_default(),
        tags.join(", "),
    ]
}

fn offset(ahead_ms: i64) -> String {
    if ahead_ms.unsigned_abs() < 10_000 {
        return format!("{ahead_ms:+} ms");
    }
    let seconds = Duration::from_secs(ahead_ms.unsigned_abs() / 1000);
    format!("{}{}", if ahead_ms < 0 { '-' } else { '+' }, duration::show(seconds))
}

fn shards(facts: &Facts, text: &mut String) {
    let Some(shards) = facts.shards.as_ref().filter(|shards| !shards.is_empty()) else { return };
    text.push('\n');
    for shard in shards {
        // The host is the name of the set and its members.
        let hosts = shard.host.split_once('/').map_or(shard.host.as_str(), |(_, hosts)| hosts);
        let members: Vec<_> = hosts.split(',').map(|host| member(shard, host)).collect();
        let entry = format!("shard {}: {}", shard.name, members.join(", "));
        wrap(&entry, "  ", "    ", text);
    }
}

/// Formats a member of a shard, with its state if it is known.
fn member(shard: &Shard, host: &str) -> String {
    match shard.members.iter().find(|member| member.host == host) {
        Some(member) => format!("{host} ({})", member.state.name()),
        None => host.to_owned(),
    }
}

fn encryption(facts: &Facts) -> &'static str {
    match &facts.uri.tls {
        Some(Tls::Enabled(options)) if options.verifies_hostnames() => "TLS, verified",
        Some(Tls::Enabled(options)) if options.verifies_certificates() => "TLS, for any host name",
        Some(Tls::Enabled(_)) => "TLS, not verified",
        _ => "none",
    }
}

/// Returns the user and the mechanism, without the password.
fn login(facts: &Facts) -> String {
    let Some(credential) = &facts.uri.credential else { return "none".to_owned() };
    let mechanism = credential.mechanism.map_or("SCRAM (negotiated)", |it| it.as_str());
    match (facts.login.users.first(), &credential.username) {
        (Some(user), _) => format!("{user}, by {mechanism}"),
        (None, Some(user)) => format!("as {user}, by {mechanism}: not authenticated"),
        (None, None) => format!("by {mechanism}: not authenticated"),
    }
}

/// Adds a finding: the level in the margin, then what, why and what to do.
fn entry(finding: &Finding, paint: Paint, text: &mut String) {
    let level = finding.level.name();
    let shown =
        if finding.level == Level::Problem { level.to_uppercase() } else { level.to_owned() };
    let (first, rest) = (format!("{shown:MARGIN$}"), " ".repeat(MARGIN));
    let began = text.len();
    wrap(&finding.what, &first, &rest, text);
    let painted = match finding.level {
        Level::Problem => paint.bad(&shown),
        Level::Warning => paint.doubtful(&shown),
        Level::Note => paint.faint(&shown),
        Level::Ok => paint.good(&shown),
    };
    text.replace_range(began..began + shown.len(), &painted);
    for (label, words) in [("why: ", &finding.why), ("do:  ", &finding.next)] {
        if !words.is_empty() {
            let (first, further) = (format!("{rest}{label}"), " ".repeat(MARGIN + label.len()));
            wrap(words, &first, &further, text);
        }
    }
}

fn wrap(words: &str, first: &str, rest: &str, text: &mut String) {
    for line in wrapped(words.split_whitespace(), COLUMNS, first, rest) {
        let _ = writeln!(text, "{line}");
    }
}

/// Returns the number of findings of each level.
pub(super) fn conclusion(findings: &[Finding]) -> String {
    let counts = [Level::Problem, Level::Warning, Level::Note].map(|level| {
        let count = findings.iter().filter(|finding| finding.level == level).count();
        counted(count, level.name())
    });
    counts.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_wrapped_at_eighty_columns() {
        let finding = Finding {
            level: Level::Problem,
            code: "x",
            what: "word ".repeat(40),
            why: "w".repeat(100),
            next: String::new(),
        };
        let mut text = String::new();
        entry(&finding, Paint::default(), &mut text);
        let lines: Vec<_> = text.lines().collect();
        assert!(lines[0].starts_with("PROBLEM  word word"), "{text}");
        assert!(lines[1].starts_with("         word"), "{text}");
        let words = lines.iter().filter(|line| !line.contains("www"));
        assert!(words.clone().all(|line| line.len() <= COLUMNS), "{text}");
        assert!(text.ends_with(&format!("         why: {}\n", "w".repeat(100))), "{text}");
    }

    #[test]
    fn clock_offsets_are_short() {
        assert_eq!(offset(-3), "-3 ms");
        assert_eq!(offset(90_500), "+1m30s");
    }
}
