//! Rules from a TOML file: one `[[rule]]` each, in the order of evaluation.

use std::{collections::BTreeSet, fs, path::Path};

use serde::Deserialize;

use super::{error::ProxyError, rule::Rule};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RulesFile {
    #[serde(default)]
    rule: Vec<Rule>,
}

/// Parses rules from TOML.
///
/// ```
/// let rules = blackpipe::proxy::parse_rules(
///     r#"
///     [[rule]]
///     command = ["insert", "update"]
///     every = 10
///     then = "loseReply"
///     "#,
/// )?;
/// assert_eq!(rules.len(), 1);
/// # Ok::<(), blackpipe::proxy::ProxyError>(())
/// ```
///
/// # Errors
///
/// Fails if the text is not valid TOML, a rule is invalid, or two rules have the same name.
pub fn parse_rules(text: &str) -> Result<Vec<Rule>, ProxyError> {
    let file: RulesFile =
        toml::from_str(text).map_err(|error| ProxyError::Rules(error.to_string()))?;
    let mut names = BTreeSet::new();
    for rule in &file.rule {
        rule.check().map_err(|error| ProxyError::Rules(error.to_string()))?;
        if let Some(name) = rule.as_name()
            && !names.insert(name)
        {
            // The second rule would replace the first.
            return Err(ProxyError::Rules(format!("two rules have the name \"{name}\"")));
        }
    }
    Ok(file.rule)
}

/// Reads rules from a TOML file.
///
/// # Errors
///
/// Fails if the file cannot be read, and in the cases of [`parse_rules`].
pub fn read_rules(path: impl AsRef<Path>) -> Result<Vec<Rule>, ProxyError> {
    let path = path.as_ref();
    let in_file = |problem: String| ProxyError::Rules(format!("{}: {problem}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| in_file(error.to_string()))?;
    parse_rules(&text).map_err(|error| match error {
        ProxyError::Rules(problem) => in_file(problem),
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::{Direction, ErrorReply, Reaction};

    #[test]
    fn rules_file_supports_all_fields_and_reactions() {
        let rules = parse_rules(
            r#"
            [[rule]]
            name = "all of them"
            command = "insert"
            namespace = "shop.orders"
            appName = "till"
            server = "127.0.0.1:27017"
            connection = 3
            retry = false
            skip = 1
            nth = 2
            every = 2
            probability = 0.5
            seed = 42
            times = 7
            then = "loseReply"

            [[rule]]
            command = ["update", "delete"]
            then = { cutRequest = { after = 20, reset = true } }
            [[rule]]
            then = { cutReply = { after = 16 } }
            [[rule]]
            then = { delay = { ms = 100, direction = "reply" } }
            [[rule]]
            then = { throttle = { bytesPerSecond = 1000 } }
            [[rule]]
            then = "stall"
            [[rule]]
            then = { error = { code = 11600, labels = ["RetryableWriteError"], execute = true } }
            [[rule]]
            then = { error = { code = 462, replaces = 449 } }
            [[rule]]
            then.writeConcernError = { code = 64, message = "too slow" }
            [[rule]]
            then = "refuse"
            "#,
        )
        .unwrap();
        let all = Rule::new(Reaction::lose_reply())
            .name("all of them")
            .command("insert")
            .namespace("shop.orders")
            .app_name("till")
            .server("127.0.0.1:27017")
            .connection(3)
            .retry(false)
            .skip(1)
            .nth(2)
            .every(2)
            .probability(0.5)
            .seed(42)
            .times(7);
        assert_eq!(rules[0], all);
        let reactions: Vec<_> = rules[1..].iter().map(|rule| rule.then.clone()).collect();
        let error = ErrorReply::new(11600).with_labels(["RetryableWriteError"]).executed();
        assert_eq!(reactions[0], Reaction::cut_request_after(20).with_reset());
        assert_eq!(reactions[1], Reaction::cut_reply_after(16));
        assert_eq!(reactions[2], Reaction::Delay { ms: 100, direction: Direction::Reply });
        assert_eq!(reactions[3], Reaction::throttle(1000));
        assert_eq!(reactions[4], Reaction::stall(Direction::Reply));
        assert_eq!(reactions[5], Reaction::Error(error));
        let replacement = ErrorReply::new(462).replacing(449);
        assert_eq!(reactions[6], Reaction::Error(replacement));
        assert!(matches!(&reactions[7], Reaction::WriteConcernError(e) if e.code == 64));
        assert_eq!(reactions[8], Reaction::Refuse);
    }

    #[test]
    fn rule_round_trips_through_a_document() {
        let rules = parse_rules(
            "[[rule]]\ncommand = 'insert'\nnth = 2\nthen = { error = { code = 1 } }\n\
             [[rule]]\nthen = 'refuse'\n[[rule]]\nprobability = 0.25\nthen.delay.ms = 3\n",
        );
        for rule in rules.unwrap() {
            let document = bson::serialize_to_document(&rule).unwrap();
            assert_eq!(bson::deserialize_from_document::<Rule>(document).unwrap(), rule);
        }
    }

    #[test]
    fn invalid_rules_file_names_line_and_allowed_values() {
        let wrong = |text: &str| parse_rules(text).unwrap_err().to_string();
        let error = wrong("[[rule]]\ncommand = 'insert'\nnht = 2\nthen = 'loseReply'\n");
        assert!(error.contains("line 3") && error.contains("`nht`"), "{error}");
        assert!(error.contains("`nth`") && error.contains("`namespace`"), "{error}");
        let error = wrong("[[rule]]\nthen = 'looseReply'\n");
        assert!(error.contains("line 2") && error.contains("`loseReply`"), "{error}");
        let error = wrong("[[rule]]\nprobability = 1.5\nthen = 'loseReply'\n");
        assert!(error.contains("line 2") && error.contains("between 0 and 1"), "{error}");
        let error = wrong("[[rule]]\nnth = 0\nthen = 'loseReply'\n");
        assert!(error.contains("line 2") && error.contains("nonzero"), "{error}");
        let error = wrong("[[rule]]\nthen = { cutReply = { bytes = 3 } }\n");
        assert!(error.contains("line 2") && error.contains("`after`"), "{error}");
        let error = wrong("[[rule]]\nthen = { loseReply = {}, delay = { ms = 3 } }\n");
        assert!(error.contains("line 2") && error.contains("one reaction"), "{error}");
        let error = wrong("[[rule]]\ncommand = []\nthen = 'loseReply'\n");
        assert!(error.contains("line 2") && error.contains("at least one"), "{error}");
        let error = wrong(&"[[rule]]\nname = 'a'\nthen = 'loseReply'\n".repeat(2));
        assert!(error.contains("two rules have the name \"a\""), "{error}");
        let error = wrong("[[rule]]\ncommand = 'insert'\n");
        assert!(error.contains("then"), "{error}");
        let error = wrong("[[rule]]\ncommand = 'insert'\nthen = 'refuse'\n");
        assert!(error.contains("before the first request"), "{error}");
    }
}
