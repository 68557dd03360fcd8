//! Commands that the proxy replies to itself: `blackPipe` and `configureFailPoint: "failCommand"`.

use bson::{Bson, Document, doc};

use super::{
    fail_point::{self, FailPoint},
    members::Member,
    rule::Rule,
    state::ProxyState,
};

/// Usage of the command `blackPipe`, for error messages.
const USAGE: &str = "{ blackPipe: 1, add: <rule> }, { …, remove: <name> }, { …, list: 1 }, \
                     { …, clear: 'rules' | 'ledger' | 'all' }, \
                     { …, ledger: 1 | { command: …, namespace: … } }, { …, members: 1 }";

const BAD_VALUE: i32 = 2;
const COMMAND_NOT_FOUND: i32 = 59;

/// Returns `true` if the proxy may have to reply to the command itself. The caller then checks its
/// arguments.
pub(crate) fn is_proxy_command(command: &str) -> bool {
    matches!(command, "blackPipe" | "configureFailPoint")
}

/// Returns the proxy's own reply, or `None` if the server must reply.
pub(crate) fn answer(state: &ProxyState, member: &Member, command: &Document) -> Option<Document> {
    let answer = if command.contains_key("blackPipe") {
        black_pipe(state, command)
    } else if fail_point::is_fail_command(command) {
        fail_command(state, member, command).map_err(|problem| (BAD_VALUE, problem))
    } else {
        return None;
    };
    Some(match answer {
        Ok(mut reply) => {
            reply.insert("ok", 1.0);
            reply
        }
        Err((code, problem)) => {
            let name = if code == BAD_VALUE { "BadValue" } else { "CommandNotFound" };
            doc! { "ok": 0.0, "errmsg": problem, "code": code, "codeName": name }
        }
    })
}

/// Sets the fail point of one server. Like a server, replies with the number of times the previous
/// one was applied.
fn fail_command(
    state: &ProxyState,
    member: &Member,
    command: &Document,
) -> Result<Document, String> {
    let wanted = fail_point::parse(command, &member.name)?;
    let names = fail_point::rule_names(&member.name);
    let count = state.with_rules(|rules| {
        let counts = names.iter().filter_map(|name| rules.remove(name));
        let count = counts.max().unwrap_or(0);
        if let FailPoint::On(new) = wanted {
            for rule in new {
                rules.add(rule).map_err(|error| error.to_string())?;
            }
        }
        Ok::<_, String>(count)
    })?;
    Ok(doc! { "count": i64::try_from(count).unwrap_or(i64::MAX) })
}

fn black_pipe(state: &ProxyState, command: &Document) -> Result<Document, (i32, String)> {
    let unknown = |problem: String| (COMMAND_NOT_FOUND, format!("{problem}; usage: {USAGE}"));
    let mut verbs = command.iter().filter(|(key, _)| is_verb(key));
    let Some((verb, argument)) = verbs.next() else {
        return Ok(doc! { "usage": USAGE, "rules": list(state), "members": members(state) });
    };
    if let Some((second, _)) = verbs.next() {
        return Err(unknown(format!("one operation per command, found {verb} and {second}")));
    }
    let bad = |problem: String| (BAD_VALUE, problem);
    match verb.as_str() {
        "add" => add(state, argument).map_err(bad),
        "remove" => {
            let name = argument
                .as_str()
                .ok_or_else(|| bad("remove: expected the name of a rule".to_owned()))?;
            let removed = state.with_rules(|rules| rules.remove(name));
            let applied = removed.ok_or_else(|| bad(format!("no rule has the name \"{name}\"")))?;
            Ok(doc! { "applied": i64::try_from(applied).unwrap_or(i64::MAX) })
        }
        "list" => Ok(doc! { "rules": list(state) }),
        "clear" => clear(state, argument).map_err(bad),
        "ledger" => {
            let filter = argument.as_document();
            let text = |key| filter.and_then(|filter| filter.get_str(key).ok());
            Ok(state.ledger().to_document(text("command"), text("namespace")))
        }
        "members" => Ok(doc! { "members": members(state) }),
        _ => Err(unknown(format!("unknown operation {verb}"))),
    }
}

/// Returns `false` for the fields that drivers add to every command.
fn is_verb(key: &str) -> bool {
    const ADDED: [&str; 8] = [
        "blackPipe",
        "lsid",
        "txnNumber",
        "apiVersion",
        "apiStrict",
        "apiDeprecationErrors",
        "maxTimeMS",
        "comment",
    ];
    !key.starts_with('$') && !ADDED.contains(&key)
}

/// Adds one rule or a list of rules.
fn add(state: &ProxyState, argument: &Bson) -> Result<Document, String> {
    let documents = match argument {
        Bson::Document(rule) => vec![rule.clone()],
        Bson::Array(rules) => {
            let document = |rule: &Bson| rule.as_document().cloned();
            let all = rules.iter().map(document).collect::<Option<Vec<_>>>();
            all.ok_or("add: expected a list of documents")?
        }
        _ => return Err("add: expected a rule or a list of rules".to_owned()),
    };
    let parsed: Result<Vec<Rule>, _> = documents
        .into_iter()
        .map(with_whole_numbers)
        .map(bson::deserialize_from_document)
        .collect();
    let rules = parsed.map_err(|error| format!("add: {error}"))?;
    for rule in &rules {
        rule.check().map_err(|error| error.to_string())?;
    }
    let names = state.with_rules(|book| {
        rules.into_iter().map(|rule| book.add(rule)).collect::<Result<Vec<_>, _>>()
    });
    Ok(doc! { "added": names.map_err(|error| error.to_string())? })
}

/// Some languages send every number as a double; the counts of a rule are integers.
fn with_whole_numbers(mut rule: Document) -> Document {
    for (key, value) in rule.iter_mut() {
        match value {
            #[expect(clippy::cast_possible_truncation, reason = "an integer below 9e15")]
            Bson::Double(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
                *value = Bson::Int64(*number as i64);
            }
            // `fields` are copied to replies unchanged.
            Bson::Document(inner) if key != "fields" => {
                *inner = with_whole_numbers(std::mem::take(inner));
            }
            _ => {}
        }
    }
    rule
}

fn clear(state: &ProxyState, argument: &Bson) -> Result<Document, String> {
    match argument.as_str() {
        Some("rules") => state.with_rules(super::rulebook::Rulebook::clear),
        Some("ledger") => state.clear_ledger(),
        Some("all") => {
            state.with_rules(super::rulebook::Rulebook::clear);
            state.clear_ledger();
        }
        Some(_) | None => return Err("clear: expected 'rules', 'ledger' or 'all'".to_owned()),
    }
    Ok(doc! {})
}

fn list(state: &ProxyState) -> Vec<Bson> {
    let listed = state.with_rules(|rules| rules.list().to_vec());
    let shown = listed.iter().map(|state| {
        let mut shown = bson::serialize_to_document(state.rule()).unwrap_or_default();
        shown.insert("met", i64::try_from(state.met()).unwrap_or(i64::MAX));
        shown.insert("applied", i64::try_from(state.applied()).unwrap_or(i64::MAX));
        shown.into()
    });
    shown.collect()
}

fn members(state: &ProxyState) -> Vec<Bson> {
    let all = state.members.all();
    let shown = all.iter().map(|member| {
        doc! { "server": &*member.name, "proxy": &member.client_address, "names": member.names() }.into()
    });
    shown.collect()
}
