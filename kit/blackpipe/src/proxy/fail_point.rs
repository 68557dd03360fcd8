//! `configureFailPoint: "failCommand"`, translated into rules.

use bson::{Bson, Document};

use super::{
    reaction::{ErrorReply, Reaction, WriteConcernError},
    rule::Rule,
};
use blackpipe_base::number::{code as code_of, is_true, number, whole};

/// Requested state of the fail point.
#[derive(Debug, PartialEq)]
pub(crate) enum FailPoint {
    Off,
    /// Rules of the fail point: a delay (`blockConnection`), if requested, and the failure.
    On(Vec<Rule>),
}

/// Returns `true` for the fail point `failCommand`. Servers reply to all others.
pub(crate) fn is_fail_command(command: &Document) -> bool {
    command.get_str("configureFailPoint").is_ok_and(|name| name == "failCommand")
}

/// Names of the rules of a server's fail point. A fail point applies to one server.
pub(crate) fn rule_names(server: &str) -> [String; 2] {
    [format!("failCommand delay {server}"), format!("failCommand {server}")]
}

/// Parses the command.
pub(crate) fn parse(command: &Document, server: &str) -> Result<FailPoint, String> {
    let mut template = Rule::new(Reaction::cut_request()).server(server);
    match command.get("mode") {
        Some(Bson::String(mode)) if mode == "off" => return Ok(FailPoint::Off),
        Some(Bson::String(mode)) if mode == "alwaysOn" => {}
        Some(Bson::Document(mode)) => template = counted(template, mode)?,
        other => return Err(format!("mode: invalid value {}", shown(other))),
    }
    let data = command.get_document("data").map_err(|_| "data: expected a document".to_owned())?;
    let delay = delay(data)?;
    let decision = decision(data)?;
    if delay.is_none() && decision.is_none() {
        return Err("data: expected errorCode, closeConnection, writeConcernError or \
                    blockConnection"
            .to_owned());
    }
    for (key, value) in data {
        template = conditions(template, key, value)?;
    }
    if template.command.is_empty() {
        return Err("data.failCommands: expected at least one command".to_owned());
    }
    let [delay_name, name] = rule_names(server);
    let rule = |(then, name)| Rule { then, name: Some(name), ..template.clone() };
    let rules = delay.map(|then| (then, delay_name)).into_iter();
    Ok(FailPoint::On(rules.chain(decision.map(|then| (then, name))).map(rule).collect()))
}

fn counted(rule: Rule, mode: &Document) -> Result<Rule, String> {
    let mut entries = mode.iter();
    let (Some((key, value)), None) = (entries.next(), entries.next()) else {
        return Err("mode: expected one of times, skip and activationProbability".to_owned());
    };
    let count =
        || whole(value).ok_or_else(|| format!("mode.{key}: expected a count, found {value}"));
    match key.as_str() {
        "times" => Ok(rule.times(count()?)),
        "skip" => Ok(rule.skip(count()?)),
        "activationProbability" => match number(value) {
            Some(chance @ 0.0..=1.0) => Ok(rule.probability(chance)),
            Some(_) | None => {
                Err(format!("mode.{key}: expected a number from 0 to 1, found {value}"))
            }
        },
        _ => Err(format!("mode.{key}: expected times, skip or activationProbability")),
    }
}

fn conditions(rule: Rule, key: &str, value: &Bson) -> Result<Rule, String> {
    let text =
        || value.as_str().ok_or_else(|| format!("data.{key}: expected a string, found {value}"));
    match key {
        "failCommands" => {
            let names =
                value.as_array().ok_or("data.failCommands: expected a list of command names")?;
            names.iter().try_fold(rule, |rule, name| {
                let name = name
                    .as_str()
                    .ok_or(format!("data.failCommands: expected a command name, found {name}"))?;
                Ok(rule.command(name))
            })
        }
        "appName" => Ok(rule.app_name(text()?)),
        "namespace" => Ok(rule.namespace(text()?)),
        "errorCode"
        | "errorLabels"
        | "writeConcernError"
        | "closeConnection"
        | "blockConnection"
        | "blockTimeMS"
        | "errorExtraInfo"
        | "failInternalCommands" => Ok(rule),
        _ => Err(format!("data.{key}: not supported by the proxy")),
    }
}

fn delay(data: &Document) -> Result<Option<Reaction>, String> {
    if !data.get("blockConnection").is_some_and(is_true) {
        return Ok(None);
    }
    let ms = data.get("blockTimeMS").and_then(whole);
    let ms = ms.ok_or("data.blockTimeMS: required by blockConnection")?;
    Ok(Some(Reaction::Delay { ms, direction: super::Direction::Request }))
}

/// Returns the failure. `closeConnection` takes precedence over errors, as in servers.
fn decision(data: &Document) -> Result<Option<Reaction>, String> {
    if data.get("closeConnection").is_some_and(is_true) {
        return Ok(Some(Reaction::cut_request()));
    }
    let labels = match data.get_array("errorLabels") {
        Ok(labels) => {
            Some(labels.iter().filter_map(|label| Some(label.as_str()?.to_owned())).collect())
        }
        Err(_) => None,
    };
    if let Some(code) = data.get("errorCode") {
        let error = ErrorReply {
            message: Some("Failing command via 'failCommand' failpoint".to_owned()),
            labels,
            fields: data.get_document("errorExtraInfo").ok().cloned(),
            ..ErrorReply::new(
                code_of(code).ok_or(format!("data.errorCode: expected a number, found {code}"))?,
            )
        };
        return Ok(Some(Reaction::Error(error)));
    }
    let Ok(error) = data.get_document("writeConcernError") else { return Ok(None) };
    let code = error.get("code").and_then(code_of);
    let mut fields = error.clone();
    for key in ["code", "codeName", "errmsg", "errorLabels"] {
        fields.remove(key);
    }
    let own_labels = error.get_array("errorLabels").ok();
    let own_labels = own_labels
        .map(|own| own.iter().filter_map(|label| Some(label.as_str()?.to_owned())).collect());
    Ok(Some(Reaction::WriteConcernError(WriteConcernError {
        code_name: error.get_str("codeName").ok().map(str::to_owned),
        message: Some(error.get_str("errmsg").unwrap_or_default().to_owned()),
        labels: labels.or(own_labels),
        fields: Some(fields),
        ..WriteConcernError::new(code.ok_or("data.writeConcernError.code: expected a number")?)
    })))
}

fn shown(value: Option<&Bson>) -> String {
    value.map_or_else(|| "nothing".to_owned(), ToString::to_string)
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn on(mode: impl Into<Bson>, data: Document) -> Result<Vec<Rule>, String> {
        let command =
            doc! { "configureFailPoint": "failCommand", "mode": mode.into(), "data": data };
        assert!(is_fail_command(&command));
        match parse(&command, "a:1")? {
            FailPoint::On(rules) => Ok(rules),
            FailPoint::Off => panic!("expected rules"),
        }
    }

    #[test]
    fn fail_command_data_becomes_rules() {
        let rules = on(
            doc! { "times": 2 },
            doc! {
                "failCommands": ["insert", "update"], "errorCode": 10107, "appName": "till",
                "namespace": "shop.orders", "errorLabels": ["Mine"],
                "blockConnection": true, "blockTimeMS": 50_i64,
            },
        );
        let [delay, fail] = &rules.unwrap()[..] else { panic!("expected two rules") };
        let same = Rule::new(Reaction::delay(std::time::Duration::from_millis(50)))
            .server("a:1")
            .times(2)
            .command("insert")
            .command("update")
            .app_name("till")
            .namespace("shop.orders")
            .name("failCommand delay a:1");
        assert_eq!(*delay, same);
        assert_eq!(fail.name.as_deref(), Some("failCommand a:1"));
        let Reaction::Error(error) = &fail.then else { panic!("expected an error") };
        assert_eq!((error.code, error.labels.clone()), (10107, Some(vec!["Mine".to_owned()])));
    }

    #[test]
    fn modes_and_actions_are_parsed() {
        let data = |extra: Document| {
            let mut data = doc! { "failCommands": ["insert"] };
            data.extend(extra);
            data
        };
        let close = data(doc! { "closeConnection": true });
        let rules = on("alwaysOn", close.clone()).unwrap();
        assert_eq!(rules[0].then, Reaction::cut_request());
        assert_eq!(on(doc! { "skip": 3.0 }, close.clone()).unwrap()[0].skip, Some(3));
        let chance = on(doc! { "activationProbability": 0.5 }, close.clone()).unwrap();
        assert_eq!(chance[0].probability.map(f64::from), Some(0.5));
        let concern = data(doc! { "writeConcernError": { "code": 91, "errmsg": "no", "x": 1 } });
        let rules = on("alwaysOn", concern).unwrap();
        let Reaction::WriteConcernError(error) = &rules[0].then else {
            panic!("expected a write concern error")
        };
        assert_eq!((error.code, error.fields.clone()), (91, Some(doc! { "x": 1 })));
        let off = doc! { "configureFailPoint": "failCommand", "mode": "off" };
        assert_eq!(parse(&off, "a:1"), Ok(FailPoint::Off));
        assert!(!is_fail_command(&doc! { "configureFailPoint": "onPrimaryTransactionalWrite" }));
    }

    #[test]
    fn invalid_fail_command_fails_with_a_reason() {
        let close = doc! { "failCommands": ["insert"], "closeConnection": true };
        assert!(on("sometimes", close.clone()).unwrap_err().contains("sometimes"));
        assert!(on(doc! { "time": 1 }, close).unwrap_err().contains("mode.time"));
        let nothing = doc! { "failCommands": ["insert"] };
        assert!(on("alwaysOn", nothing).unwrap_err().contains("errorCode"));
        let typo = doc! { "failCommand": ["insert"], "closeConnection": true };
        assert!(on("alwaysOn", typo).unwrap_err().contains("data.failCommand:"));
        let no_commands = doc! { "closeConnection": true };
        assert!(on("alwaysOn", no_commands).unwrap_err().contains("failCommands"));
    }
}
