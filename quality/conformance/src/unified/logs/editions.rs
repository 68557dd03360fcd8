//! Where PyMongo's edition of the suites departs from the specification's own.

use bson::Document;

use crate::unified::schema::{ExpectedLogMessage, Severity};

/// The messages as the specification's own edition of the suites expects them.
pub(super) fn by_the_book(messages: &[ExpectedLogMessage]) -> Vec<ExpectedLogMessage> {
    let mut messages = messages.to_vec();
    for message in &mut messages {
        // PyMongo, whose logging has no such level here, asks for `debug`.
        if text(&message.data) == "Waiting for suitable server to become available" {
            message.level = Severity::Info;
        }
    }
    // When a connection cannot be established, the pool is cleared first.
    const PYMONGO: [&str; 3] =
        ["Connection closed", "Connection checkout failed", "Connection pool cleared"];
    for at in 0..messages.len().saturating_sub(PYMONGO.len() - 1) {
        let window = &mut messages[at..at + PYMONGO.len()];
        if window.iter().map(|message| text(&message.data)).eq(PYMONGO) {
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
        by_the_book(&messages).iter().map(|message| text(&message.data).to_owned()).collect()
    }

    #[test]
    fn only_the_order_in_dispute_is_changed() {
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
        let settled = ["Connection pool cleared", "Connection closed"];
        assert_eq!(texts(&settled), settled);
    }

    #[test]
    fn waiting_for_a_server_is_worth_more_than_debugging() {
        let waits = expected("Waiting for suitable server to become available");
        assert_eq!(by_the_book(&[waits])[0].level, Severity::Info);
        assert_eq!(by_the_book(&[expected("Connection closed")])[0].level, Severity::Debug);
    }
}
