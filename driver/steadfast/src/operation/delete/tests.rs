//! The `delete` command and its reply.

use bson::{Bson, ToStr, doc};
use steadfast_core::concern::WriteConcern;

use super::*;
use crate::operation::fixture::{assert_invalid_response, body, collection, raw};
use crate::options::{Collation, Hint};

fn statement(command: &Command) -> Document {
    let sequence = command.sequence.as_ref().unwrap();
    assert_eq!(sequence.identifier.to_str(), "deletes");
    bson::deserialize_from_slice(&sequence.documents).unwrap()
}

#[tokio::test]
async fn limit_selects_one_or_all() {
    // pitfall 12
    for (multi, limit, kind) in
        [(false, 1, CommandKind::RetryableWrite), (true, 0, CommandKind::Write)]
    {
        let command = delete(&collection(), &doc! { "x": 1 }, multi, None).unwrap();
        assert_eq!(body(&command), doc! { "delete": "books", "ordered": true });
        assert_eq!(statement(&command), doc! { "q": { "x": 1 }, "limit": limit });
        assert_eq!(command.kind, kind);
    }
}

#[tokio::test]
async fn options_are_sent_in_the_statement_or_in_the_command() {
    let options = DeleteOptions::builder()
        .collation(Collation::builder().locale("de").build())
        .write_concern(WriteConcern::nodes(0))
        .hint(Hint::Name("x_1".to_owned()))
        .let_vars(doc! { "v": 1 })
        .comment(Bson::from("note"))
        .build();
    let command = delete(&collection(), &doc! {}, false, Some(&options)).unwrap();
    assert_eq!(
        body(&command),
        doc! {
            "delete": "books", "ordered": true, "let": { "v": 1 }, "comment": "note",
            "writeConcern": { "w": 0 },
        }
    );
    assert_eq!(
        statement(&command),
        doc! { "q": {}, "limit": 1, "collation": { "locale": "de" }, "hint": "x_1" }
    );
    assert!(!command.acknowledged);
}

#[tokio::test]
async fn nul_byte_in_a_field_name_is_rejected() {
    assert!(delete(&collection(), &doc! { "a\0b": 1 }, false, None).is_err());
}

#[test]
fn deleted_count_is_read_from_the_reply() {
    assert_eq!(read(&raw(doc! { "ok": 1, "n": 5 })).unwrap().deleted_count, 5);
    assert_invalid_response(read(&raw(doc! { "ok": 1 })));
}
