//! `distinct`.

use bson::{Bson, Document, RawDocument, raw::cstr};
use serde::Deserialize;

use super::add_read_concern;
use crate::{
    collection::CollectionHandle,
    command::{Command, CommandKind},
    error::Result,
    error::command_error::parse,
    options::DistinctOptions,
};

pub(crate) fn distinct(
    collection: &CollectionHandle,
    field: &str,
    filter: &Document,
    options: Option<&DistinctOptions>,
) -> Result<Command> {
    let none = DistinctOptions::default();
    let options = options.unwrap_or(&none);
    let target = collection.read_target(options.selection_criteria.as_ref());
    let name = collection.checked_name()?;
    let mut command =
        Command::new(cstr!("distinct"), name, &collection.database, target, CommandKind::Read);
    command.explicit.criteria = options.selection_criteria.is_some();
    command.field(cstr!("key"), field);
    command.field(cstr!("query"), bson::to_raw_document(filter)?);
    command.fields_of(options)?;
    add_read_concern(&mut command, collection.read_concern(options.read_concern.as_ref()))?;
    command.limit(options.timeout, collection.timeout);
    Ok(command)
}

pub(crate) fn read(body: &RawDocument) -> Result<Vec<Bson>> {
    #[derive(Deserialize)]
    struct Found {
        values: Vec<Bson>,
    }
    Ok(parse::<Found>(body)?.values)
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;
    use crate::{
        operation::fixture::{assert_invalid_response, body, collection, raw},
        options::{Hint, ReadConcern},
    };

    #[tokio::test]
    async fn distinct_sends_key_and_query() {
        let command = distinct(&collection(), "x.y", &doc! { "z": 1 }, None).unwrap();
        assert_eq!(body(&command), doc! { "distinct": "books", "key": "x.y", "query": { "z": 1 } });
        let options = DistinctOptions::builder()
            .hint(Hint::Name("i".to_owned()))
            .read_concern(ReadConcern::local())
            .build();
        let command = distinct(&collection(), "x", &doc! {}, Some(&options)).unwrap();
        assert_eq!(
            body(&command),
            doc! {
                "distinct": "books", "key": "x", "query": {}, "hint": "i",
                "readConcern": { "level": "local" },
            }
        );
    }

    #[test]
    fn values_of_every_type_are_read() {
        let values = read(&raw(doc! { "values": [1, "two", { "three": 3 }], "ok": 1 })).unwrap();
        assert_eq!(values.len(), 3);
        assert_invalid_response(read(&raw(doc! { "ok": 1 })));
        assert_invalid_response(read(&raw(doc! { "values": 1 })));
    }
}
