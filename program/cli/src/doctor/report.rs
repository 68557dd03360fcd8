//! A diagnosis as people read it, on eighty columns.

use std::{fmt::Write, time::Duration};

use steadfast::options::Tls;

use super::{
    facts::{Facts, Kind, Server, Shard},
    findings::{Finding, Level},
};
use crate::{duration, paint::Paint, wrap::wrapped};

const COLUMNS: usize = 80;
/// As wide as the longest level.
const MARGIN: usize = 9;

/// The whole report.
pub(super) fn text(facts: &Facts, findings: &[Finding], paint: Paint) -> String {
    let mut text = String::new();
    // To a string, writing does not fail.
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
        Kind::Standalone => format!("{seeds}: a standalone server"),
        Kind::ReplicaSet if facts.is_direct() => {
            format!("{seeds}: a member of the replica set {}", facts.set_name().unwrap_or("?"))
        }
        Kind::ReplicaSet => {
            let name = facts.set_name().unwrap_or("?");
            format!("the replica set {name}, {}", counted(facts.servers.len(), "member"))
        }
        Kind::Sharded => {
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
        Kind::LoadBalanced => format!("{seeds}: a load balancer"),
        Kind::Unknown if facts.left_out.is_empty() => format!("{seeds}: not reached"),
        Kind::Unknown => format!("{seeds}: not what was asked for"),
    }
}

fn counted(count: usize, noun: &str) -> String {
    if count == 1 { format!("1 {noun}") } else { format!("{count} {noun}s") }
}

/// A table, of which only columns are shown that say something.
fn servers(facts: &Facts, text: &mut String) {
    if facts.servers.is_empty() {
        return;
    }
    let heads = ["server", "is", "version", "ping", "worst", "lag", "clock", "tags"];
    let rows: Vec<[String; 8]> = facts.servers.iter().map(|it| row(facts, it)).collect();
    let widths: Vec<usize> = (0..heads.len())
        .map(|place| {
            let widest = rows.iter().map(|row| row[place].chars().count()).max().unwrap_or(0);
            if widest == 0 { 0 } else { widest.max(heads[place].len()) }
        })
        .collect();
    text.push('\n');
    let mut line = |cells: Vec<&str>| {
        let shown = cells.iter().zip(&widths).filter(|(_, width)| **width > 0);
        let padded: Vec<_> = shown.map(|(cell, width)| format!("{cell:width$}")).collect();
        let _ = writeln!(text, "  {}", padded.join("  ").trim_end());
    };
    line(heads.to_vec());
    for row in &rows {
        line(row.iter().map(String::as_str).collect());
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
        server.median().map(millis).unwrap_or_default(),
        server.worst().filter(|_| server.round_trips.len() > 1).map(millis).unwrap_or_default(),
        facts.lag(server).map(|lag| format!("{} s", lag.as_secs())).unwrap_or_default(),
        server.clock.map(|clock| offset(clock.ahead_ms)).unwrap_or_default(),
        tags.join(", "),
    ]
}

fn millis(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1000.0;
    if millis < 10.0 { format!("{millis:.1} ms") } else { format!("{millis:.0} ms") }
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
        // The host is the set's name and then its members.
        let hosts = shard.host.split_once('/').map_or(shard.host.as_str(), |(_, hosts)| hosts);
        let members: Vec<_> = hosts.split(',').map(|host| member(shard, host)).collect();
        let entry = format!("shard {}: {}", shard.name, members.join(", "));
        wrapped(COLUMNS, &entry, "  ", "    ", text);
    }
}

/// A member of a shard, with its state if it was asked.
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

/// Who is logged in; the password is nowhere.
fn login(facts: &Facts) -> String {
    let Some(credential) = &facts.uri.credential else { return "none".to_owned() };
    let mechanism = credential.mechanism.map_or("SCRAM (negotiated)", |it| it.as_str());
    match (facts.login.users.first(), &credential.username) {
        (Some(user), _) => format!("{user}, by {mechanism}"),
        (None, Some(user)) => format!("as {user}, by {mechanism}: not done"),
        (None, None) => format!("by {mechanism}: not done"),
    }
}

/// The level in the margin, then what, why and what to do.
fn entry(finding: &Finding, paint: Paint, text: &mut String) {
    let level = finding.level.name();
    let shown =
        if finding.level == Level::Problem { level.to_uppercase() } else { level.to_owned() };
    let (first, rest) = (format!("{shown:MARGIN$}"), " ".repeat(MARGIN));
    let began = text.len();
    wrapped(COLUMNS, &finding.what, &first, &rest, text);
    let painted = match finding.level {
        Level::Problem => paint.bad(&shown),
        Level::Warning => paint.doubtful(&shown),
        Level::Note => paint.faint(&shown),
        Level::Ok => paint.good(&shown),
    };
    text.replace_range(began..began + shown.len(), &painted);
    for (label, said) in [("why: ", &finding.why), ("do:  ", &finding.next)] {
        if !said.is_empty() {
            let (first, further) = (format!("{rest}{label}"), " ".repeat(MARGIN + label.len()));
            wrapped(COLUMNS, said, &first, &further, text);
        }
    }
}

/// How many of each level there are.
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
    fn lines_are_wrapped_at_eighty_columns() {
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
    fn times_are_short() {
        assert_eq!(millis(Duration::from_micros(420)), "0.4 ms");
        assert_eq!(millis(Duration::from_micros(12_700)), "13 ms");
        assert_eq!(offset(-3), "-3 ms");
        assert_eq!(offset(90_500), "+1m30s");
    }
}
