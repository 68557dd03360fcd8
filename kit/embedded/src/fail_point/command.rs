//! The fail point `failCommand`.

use std::time::Duration;

use bson::{Bson, Document};
use steadfast_query::{Code, Fault};

use super::{FAIL_COMMAND, FailPoints};
use blackpipe_base::{
    codes::{self, ErrorContext},
    number::{code, is_true, whole},
};

/// Properties of a command that `failCommand` can match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatchedCommand<'a> {
    pub(crate) name: &'a str,
    /// `database.collection`, or only the database.
    pub(crate) namespace: &'a str,
    pub(crate) app_name: Option<&'a str>,
    pub(crate) context: ErrorContext,
}

/// Effect of `failCommand` on a command.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct FailCommandEffect {
    /// Blocks the connection first (`blockTimeMS`).
    pub(crate) block: Option<Duration>,
    pub(crate) then: FailCommandAction,
}

/// Action after blocking.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum FailCommandAction {
    /// Executes the command.
    #[default]
    Continue,
    /// Closes the connection.
    CloseConnection,
    /// Returns this error reply without executing the command.
    Reply(Document),
    /// Executes the command and adds this error to the reply.
    AddConcernError(WriteConcernFailure),
}

/// Injected `writeConcernError`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WriteConcernFailure {
    pub(crate) error: Document,
    pub(crate) labels: Vec<String>,
}

impl FailPoints {
    /// Effect on a command, or `None` if the fail point does not match it.
    pub(crate) fn effect_on(&self, case: MatchedCommand<'_>) -> Option<FailCommandEffect> {
        let data = self.enter(FAIL_COMMAND, |data| concerns(data, case))?;
        Some(parse_effect(&data, case.context).unwrap_or_else(|fault| FailCommandEffect {
            block: None,
            then: FailCommandAction::Reply(fault.to_reply()),
        }))
    }
}

fn concerns(data: &Document, case: MatchedCommand<'_>) -> bool {
    let is = |name: &Bson| name.as_str().is_some_and(|name| name.eq_ignore_ascii_case(case.name));
    // `configureFailPoint` is exempt, otherwise the fail point could not be turned off.
    if case.name == "configureFailPoint" {
        return false;
    }
    let named = data.get_bool("failAllCommands").unwrap_or(false)
        || data.get_array("failCommands").is_ok_and(|names| names.iter().any(is));
    let holds = |key: &str, has: Option<&str>| match data.get(key) {
        Some(Bson::String(expected)) => has == Some(expected.as_str()),
        Some(_) | None => true,
    };
    named
        && holds("appName", case.app_name)
        && holds("namespace", Some(case.namespace))
        && does_something(data)
}

fn does_something(data: &Document) -> bool {
    data.get("closeConnection").is_some_and(is_true)
        || data.get("blockConnection").is_some_and(is_true)
        || data.get("errorCode").and_then(code).is_some_and(|code| code != 0)
        || data.contains_key("writeConcernError")
}

fn parse_effect(data: &Document, context: ErrorContext) -> Result<FailCommandEffect, Fault> {
    let block = match data.get("blockConnection").is_some_and(is_true) {
        true => {
            let message = "must specify 'blockTimeMS' when 'blockConnection' is true";
            let ms = data.get("blockTimeMS").and_then(whole);
            Some(ms.ok_or_else(|| Fault::new(Code::INVALID_OPTIONS, message))?)
        }
        false => None,
    };
    let given = data.get_array("errorLabels").ok().map(|labels| {
        labels.iter().filter_map(|label| Some(label.as_str()?.to_owned())).collect::<Vec<_>>()
    });
    let labels = |code| given.clone().unwrap_or_else(|| codes::labels_of(code, context));
    let then = if data.get("closeConnection").is_some_and(is_true) {
        FailCommandAction::CloseConnection
    } else if let Some(code) = data.get("errorCode").and_then(code).filter(|code| *code != 0) {
        let fault =
            Fault::new(crate::codes::code_of(code), "Failing command via 'failCommand' failpoint");
        let extra = data.get_document("errorExtraInfo").ok();
        FailCommandAction::Reply(with_labels(with_extra(fault, extra)?.to_reply(), &labels(code)))
    } else if let Ok(error) = data.get_document("writeConcernError") {
        let code = error.get("code").and_then(code).unwrap_or_default();
        // A failed write concern does not abort a transaction.
        let context = ErrorContext { is_in_transaction: false, ..context };
        let labels = given.unwrap_or_else(|| codes::labels_of(code, context));
        FailCommandAction::AddConcernError(WriteConcernFailure { error: error.clone(), labels })
    } else {
        FailCommandAction::Continue
    };
    Ok(FailCommandEffect { block: block.map(Duration::from_millis), then })
}

/// Adds `errorExtraInfo` to errors that require it and ignores it for others.
fn with_extra(fault: Fault, extra: Option<&Document>) -> Result<Fault, Fault> {
    const REQUIRE_EXTRA: [i32; 4] = [121, 249, 11000, 13388];
    match (REQUIRE_EXTRA.contains(&fault.code.number), extra) {
        (true, Some(extra)) => Ok(fault.with(extra.clone())),
        (true, None) => {
            let name = fault.code.name();
            let message = format!("Missing required extra info for error code {name}");
            Err(Fault::location(40671, message))
        }
        (false, _) => Ok(fault),
    }
}

/// Adds error labels to a reply, if there are any.
pub(crate) fn with_labels(mut reply: Document, labels: &[String]) -> Document {
    if !labels.is_empty() {
        reply.insert("errorLabels", labels.to_vec());
    }
    reply
}
