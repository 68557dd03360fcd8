//! `listDatabases` and `dropDatabase`.

use std::sync::Arc;

use bson::{RawDocument, raw::cstr};
use serde::Deserialize;

use super::add_write_concern;
use crate::command::Concern;
use crate::{
    Database,
    command::{Command, CommandKind, Target},
    error::Result,
    error::command_error::parse,
    namespace::check_database_name,
    options::{DropDatabaseOptions, ListDatabasesOptions, SelectionCriteria},
    results::DatabaseSpecification,
};

pub(crate) fn list(name_only: bool, options: Option<&ListDatabasesOptions>) -> Result<Command> {
    // The specification on enumerating databases: always on the primary.
    let target = Target::Read(SelectionCriteria::default());
    let mut command =
        Command::new(cstr!("listDatabases"), 1, &Arc::from("admin"), target, CommandKind::Read);
    if name_only {
        command.field(cstr!("nameOnly"), true);
    }
    if let Some(options) = options {
        command.fields_of(options)?;
    }
    Ok(command)
}

pub(crate) fn read_list(body: &RawDocument) -> Result<Vec<DatabaseSpecification>> {
    #[derive(Deserialize)]
    struct Listed {
        databases: Vec<DatabaseSpecification>,
    }
    Ok(parse::<Listed>(body)?.databases)
}

pub(crate) fn drop(database: &Database, options: Option<&DropDatabaseOptions>) -> Result<Command> {
    check_database_name(&database.name)?;
    let mut command =
        Command::new(cstr!("dropDatabase"), 1, &database.name, Target::Write, CommandKind::Write);
    let own = options.and_then(|options| options.write_concern.as_ref());
    add_write_concern(&mut command, Concern { own, inherited: database.write_concern() })?;
    command.limit(options.and_then(|options| options.timeout), database.timeout());
    Ok(command)
}

#[cfg(test)]
mod tests {
    use bson::{Bson, doc};
    use steadfast_core::concern::WriteConcern;

    use super::*;
    use crate::operation::fixture::{assert_invalid_response, body, database, raw};

    #[test]
    fn list_databases_runs_on_admin() {
        let command = list(false, None).unwrap();
        assert_eq!(body(&command), doc! { "listDatabases": 1 });
        assert_eq!(&*command.database, "admin");
        let options = ListDatabasesOptions::builder()
            .authorized_databases(true)
            .filter(doc! { "name": "x" })
            .comment(Bson::from("note"))
            .build();
        assert_eq!(
            body(&list(true, Some(&options)).unwrap()),
            doc! {
                "listDatabases": 1, "nameOnly": true, "authorizedDatabases": true,
                "comment": "note", "filter": { "name": "x" },
            }
        );
    }

    #[test]
    fn list_databases_reply_is_read_with_and_without_sizes() {
        let listed = read_list(&raw(doc! {
            "databases": [{ "name": "a", "sizeOnDisk": 8192.0, "empty": false }, { "name": "b" }],
            "ok": 1,
        }))
        .unwrap();
        assert_eq!((listed[0].size_on_disk, &*listed[1].name), (8192, "b"));
        for reply in [doc! {}, doc! { "databases": [{}] }, doc! { "databases": [1] }] {
            assert_invalid_response(read_list(&raw(reply)));
        }
    }

    #[tokio::test]
    async fn drop_database_runs_on_its_database() {
        let command = drop(&database(), None).unwrap();
        assert_eq!(body(&command), doc! { "dropDatabase": 1 });
        assert_eq!(&*command.database, "library");
        let options =
            DropDatabaseOptions::builder().write_concern(WriteConcern::majority()).build();
        assert_eq!(
            body(&drop(&database(), Some(&options)).unwrap()),
            doc! { "dropDatabase": 1, "writeConcern": { "w": "majority" } }
        );
    }
}
