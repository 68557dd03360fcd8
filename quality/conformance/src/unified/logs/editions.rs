//! Log messages in which PyMongo's edition of the suites differs from the specification's edition.

use bson::Document;

use crate::unified::schema::{ExpectedLogMessage, Severity};

/// Converts expected messages to the specification's edition.
pub(super) fn specification_edition(messages: &[ExpectedLogMessage]) -> Vec<ExpectedLogMessage> {
    let mut messages = messages.to_vec();
    for message in &mut messages {
        // PyMongo's edition expects `debug`.
        if text(&message.data) == "Waiting for suitable server to become available" {
            message.level = Severity::Info;
        }
    }
    // After a connection could not be established, the pool is cleared first.
    const PYMONGO_ORDER: [&str; 3] =
        ["Connection closed", "Connection checkout failed", "Connection pool cleared"];
    for at in 0..messages.len().saturating_sub(PYMONGO_ORDER.len() - 1) {
        let window = &mut messages[at..at + PYMONGO_ORDER.len()];
        if window.iter().map(|message| text(&message.data)).eq(PYMONGO_ORDER) {
            window.rotate_right(1);
        }
    }
    messages
}

fn text(data: &Document) -> &str {
    data.get_str("message").unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn expected(text: &str) -> ExpectedLogMessage {
        let message = doc! {
            "level": "debug",
            "component": "connection",
            "data": { "message": text },
        };
        bson::deserialize_from_document(message).unwrap()
    }

    fn texts(messages: &[&str]) -> Vec<String> {
        let messages: Vec<_> = messages.iter().map(|text| expected(text)).collect();
        specification_edition(&messages)
            .iter()
            .map(|message| text(&message.data).to_owned())
            .collect()
    }

    #[test]
    fn only_pool_cleared_is_reordered() {
        assert_eq!(
            texts(&[
                "Connection created",
                "Connection closed",
                "Connection checkout failed",
                "Connection pool cleared",
            ]),
            [
                "Connection created",
                "Connection pool cleared",
                "Connection closed",
                "Connection checkout failed",
            ]
        );
        let unchanged = ["Connection pool cleared", "Connection closed"];
        assert_eq!(texts(&unchanged), unchanged);
    }

    #[test]
    fn waiting_for_a_server_is_logged_at_level_info() {
        let waits = expected("Waiting for suitable server to become available");
        assert_eq!(specification_edition(&[waits])[0].level, Severity::Info);
        assert_eq!(
            specification_edition(&[expected("Connection closed")])[0].level,
            Severity::Debug
        );
    }
}
