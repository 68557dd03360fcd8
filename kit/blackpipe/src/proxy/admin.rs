//! The commands that the proxy answers itself: `configureFailPoint: "failCommand"` and `blackPipe`.

use bson::{Bson, Document, doc};

use super::{
    fail_point::{self, FailPoint},
    members::Member,
    rule::Rule,
    shared::Shared,
};

/// What can be asked, for whoever asks wrongly.
const VERBS: &str = "{ blackPipe: 1, add: <rule> }, { …, remove: <name> }, { …, list: 1 }, \
                     { …, clear: 'rules' | 'ledger' | 'all' }, \
                     { …, ledger: 1 | { command: …, namespace: … } }, { …, members: 1 }";

const BAD_VALUE: i32 = 2;
const COMMAND_NOT_FOUND: i32 = 59;

/// Whether a command might be the proxy's to answer; the rest of it has to be looked at.
pub(crate) fn may_be_ours(command: &str) -> bool {
    matches!(command, "blackPipe" | "configureFailPoint")
}

/// The answer to a command, if it is the proxy's to give.
pub(crate) fn answer(shared: &Shared, member: &Member, command: &Document) -> Option<Document> {
    let answer = if command.contains_key("blackPipe") {
        black_pipe(shared, command)
    } else if fail_point::is_ours(command) {
        fail_command(shared, member, command).map_err(|problem| (BAD_VALUE, problem))
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

/// Switches the fail point of one server, and tells how often it was met, as servers do.
fn fail_command(shared: &Shared, member: &Member, command: &Document) -> Result<Document, String> {
    let wanted = fail_point::parse(command, &member.name)?;
    let names = fail_point::rule_names(&member.name);
    let count = shared.with_rules(|rules| {
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

fn black_pipe(shared: &Shared, command: &Document) -> Result<Document, (i32, String)> {
    let unknown = |problem: String| (COMMAND_NOT_FOUND, format!("{problem}. What is: {VERBS}"));
    let mut verbs = command.iter().filter(|(key, _)| is_verb(key));
    let Some((verb, argument)) = verbs.next() else {
        return Ok(doc! { "usage": VERBS, "rules": list(shared), "members": members(shared) });
    };
    if let Some((second, _)) = verbs.next() {
        return Err(unknown(format!("one thing at a time: not {verb} and {second}")));
    }
    let bad = |problem: String| (BAD_VALUE, problem);
    match verb.as_str() {
        "add" => add(shared, argument).map_err(bad),
        "remove" => {
            let name = argument.as_str().ok_or_else(|| bad("remove: it is a name".to_owned()))?;
            let removed = shared.with_rules(|rules| rules.remove(name));
            let applied = removed.ok_or_else(|| bad(format!("there is no rule \"{name}\"")))?;
            Ok(doc! { "applied": i64::try_from(applied).unwrap_or(i64::MAX) })
        }
        "list" => Ok(doc! { "rules": list(shared) }),
        "clear" => clear(shared, argument).map_err(bad),
        "ledger" => {
            let filter = argument.as_document();
            let text = |key| filter.and_then(|filter| filter.get_str(key).ok());
            Ok(shared.ledger().to_document(text("command"), text("namespace")))
        }
        "members" => Ok(doc! { "members": members(shared) }),
        _ => Err(unknown(format!("{verb} is unknown"))),
    }
}

/// Drivers add fields of their own to every command.
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

/// One rule, or a list of them.
fn add(shared: &Shared, argument: &Bson) -> Result<Document, String> {
    let documents = match argument {
        Bson::Document(rule) => vec![rule.clone()],
        Bson::Array(rules) => {
            let document = |rule: &Bson| rule.as_document().cloned();
            let all = rules.iter().map(document).collect::<Option<Vec<_>>>();
            all.ok_or("add: a list of rules, each a document")?
        }
        _ => return Err("add: a rule, or a list of rules".to_owned()),
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
    let names = shared.with_rules(|book| {
        rules.into_iter().map(|rule| book.add(rule)).collect::<Result<Vec<_>, _>>()
    });
    Ok(doc! { "added": names.map_err(|error| error.to_string())? })
}

/// Some languages send every number as a double; a rule's are counts.
fn with_whole_numbers(mut rule: Document) -> Document {
    for (key, value) in rule.iter_mut() {
        match value {
            #[expect(clippy::cast_possible_truncation, reason = "it is whole and not large")]
            Bson::Double(number) if number.fract() == 0.0 && number.abs() < 9e15 => {
                *value = Bson::Int64(*number as i64);
            }
            // These go into replies as they are.
            Bson::Document(inner) if key != "fields" => {
                *inner = with_whole_numbers(std::mem::take(inner));
            }
            _ => {}
        }
    }
    rule
}

fn clear(shared: &Shared, argument: &Bson) -> Result<Document, String> {
    match argument.as_str() {
        Some("rules") => shared.with_rules(super::rulebook::Rulebook::clear),
        Some("ledger") => shared.forget(),
        Some("all") => {
            shared.with_rules(super::rulebook::Rulebook::clear);
            shared.forget();
        }
        Some(_) | None => return Err("clear: 'rules', 'ledger' or 'all'".to_owned()),
    }
    Ok(doc! {})
}

fn list(shared: &Shared) -> Vec<Bson> {
    let listed = shared.with_rules(|rules| rules.list().to_vec());
    let shown = listed.iter().map(|state| {
        let mut shown = bson::serialize_to_document(state.rule()).unwrap_or_default();
        shown.insert("met", i64::try_from(state.met()).unwrap_or(i64::MAX));
        shown.insert("applied", i64::try_from(state.applied()).unwrap_or(i64::MAX));
        shown.into()
    });
    shown.collect()
}

fn members(shared: &Shared) -> Vec<Bson> {
    let all = shared.members.all();
    let shown = all.iter().map(|member| {
        doc! { "server": &*member.name, "proxy": &member.front, "names": member.names() }.into()
    });
    shown.collect()
}
