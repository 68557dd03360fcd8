//! `configureFailPoint: "failCommand"`, as servers with test commands enabled know it, turned into
//! rules.

use bson::{Bson, Document};

use super::{
    reaction::{ErrorReply, Reaction, WriteConcernError},
    rule::Rule,
};
use blackpipe_base::number::{code as code_of, is_true, number, whole};

/// What is asked for.
#[derive(Debug, PartialEq)]
pub(crate) enum FailPoint {
    Off,
    /// A rule that delays, if that is asked for, and one that decides.
    On(Vec<Rule>),
}

/// The fail point that the proxy answers itself; all others are the server's.
pub(crate) fn is_ours(command: &Document) -> bool {
    command.get_str("configureFailPoint").is_ok_and(|name| name == "failCommand")
}

/// The names of the rules of the fail point of a server. Like a server's own, it is no other
/// server's business.
pub(crate) fn rule_names(server: &str) -> [String; 2] {
    [format!("failCommand delay {server}"), format!("failCommand {server}")]
}

/// Reads the command.
pub(crate) fn parse(command: &Document, server: &str) -> Result<FailPoint, String> {
    let mut template = Rule::new(Reaction::cut_request()).server(server);
    match command.get("mode") {
        Some(Bson::String(mode)) if mode == "off" => return Ok(FailPoint::Off),
        Some(Bson::String(mode)) if mode == "alwaysOn" => {}
        Some(Bson::Document(mode)) => template = counted(template, mode)?,
        other => return Err(format!("mode: {} is none", shown(other))),
    }
    let data =
        command.get_document("data").map_err(|_| "data: a document is missing".to_owned())?;
    let delay = delay(data)?;
    let decision = decision(data)?;
    if delay.is_none() && decision.is_none() {
        return Err("data: it says neither errorCode nor closeConnection, writeConcernError or \
                    blockConnection"
            .to_owned());
    }
    for (key, value) in data {
        template = conditions(template, key, value)?;
    }
    if template.command.is_empty() {
        return Err("data.failCommands: it names no command".to_owned());
    }
    let [delay_name, name] = rule_names(server);
    let rule = |(then, name)| Rule { then, name: Some(name), ..template.clone() };
    let rules = delay.map(|then| (then, delay_name)).into_iter();
    Ok(FailPoint::On(rules.chain(decision.map(|then| (then, name))).map(rule).collect()))
}

fn counted(rule: Rule, mode: &Document) -> Result<Rule, String> {
    let mut entries = mode.iter();
    let (Some((key, value)), None) = (entries.next(), entries.next()) else {
        return Err("mode: one of times, skip and activationProbability".to_owned());
    };
    let count = || whole(value).ok_or_else(|| format!("mode.{key}: {value} is no count"));
    match key.as_str() {
        "times" => Ok(rule.times(count()?)),
        "skip" => Ok(rule.skip(count()?)),
        "activationProbability" => match number(value) {
            Some(chance @ 0.0..=1.0) => Ok(rule.probability(chance)),
            Some(_) | None => Err(format!("mode.{key}: {value} is no probability")),
        },
        _ => Err(format!("mode.{key}: one of times, skip and activationProbability is known")),
    }
}

fn conditions(rule: Rule, key: &str, value: &Bson) -> Result<Rule, String> {
    let text = || value.as_str().ok_or_else(|| format!("data.{key}: {value} is no string"));
    match key {
        "failCommands" => {
            let names = value.as_array().ok_or("data.failCommands: it is a list of names")?;
            names.iter().try_fold(rule, |rule, name| {
                let name = name.as_str().ok_or(format!("data.failCommands: {name} is no name"))?;
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
        _ => Err(format!("data.{key}: the proxy does not know it")),
    }
}

fn delay(data: &Document) -> Result<Option<Reaction>, String> {
    if !data.get("blockConnection").is_some_and(is_true) {
        return Ok(None);
    }
    let ms = data.get("blockTimeMS").and_then(whole);
    let ms = ms.ok_or("data.blockTimeMS: with blockConnection it says how long")?;
    Ok(Some(Reaction::Delay { ms, direction: super::Direction::Request }))
}

/// What comes of the command. Closing the connection goes before errors, as it does in servers.
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
            ..ErrorReply::new(code_of(code).ok_or(format!("data.errorCode: {code} is no number"))?)
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
        ..WriteConcernError::new(code.ok_or("data.writeConcernError.code: a number is missing")?)
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
        assert!(is_ours(&command));
        match parse(&command, "a:1")? {
            FailPoint::On(rules) => Ok(rules),
            FailPoint::Off => panic!("it is on"),
        }
    }

    #[test]
    fn all_that_a_server_knows_becomes_rules() {
        let rules = on(
            doc! { "times": 2 },
            doc! {
                "failCommands": ["insert", "update"], "errorCode": 10107, "appName": "till",
                "namespace": "shop.orders", "errorLabels": ["Mine"],
                "blockConnection": true, "blockTimeMS": 50_i64,
            },
        );
        let [delay, fail] = &rules.unwrap()[..] else { panic!("two rules") };
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
        let Reaction::Error(error) = &fail.then else { panic!("an error") };
        assert_eq!((error.code, error.labels.clone()), (10107, Some(vec!["Mine".to_owned()])));
    }

    #[test]
    fn modes_and_other_ends_are_understood() {
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
        let Reaction::WriteConcernError(error) = &rules[0].then else { panic!("another") };
        assert_eq!((error.code, error.fields.clone()), (91, Some(doc! { "x": 1 })));
        let off = doc! { "configureFailPoint": "failCommand", "mode": "off" };
        assert_eq!(parse(&off, "a:1"), Ok(FailPoint::Off));
        assert!(!is_ours(&doc! { "configureFailPoint": "onPrimaryTransactionalWrite" }));
    }

    #[test]
    fn what_is_not_understood_is_said() {
        let close = doc! { "failCommands": ["insert"], "closeConnection": true };
        assert!(on("sometimes", close.clone()).unwrap_err().contains("sometimes"));
        assert!(on(doc! { "time": 1 }, close).unwrap_err().contains("mode.time"));
        let nothing = doc! { "failCommands": ["insert"] };
        assert!(on("alwaysOn", nothing).unwrap_err().contains("errorCode"));
        let typo = doc! { "failCommand": ["insert"], "closeConnection": true };
        assert!(on("alwaysOn", typo).unwrap_err().contains("data.failCommand:"));
        let nobody = doc! { "closeConnection": true };
        assert!(on("alwaysOn", nobody).unwrap_err().contains("failCommands"));
    }
}
