//! Operations of clients.

use bson::Document;
use steadfast::options::{DriverInfo, DropDatabaseOptions, ListDatabasesOptions};

use super::{
    Arguments, CallResult, OperationResult, awaited, bulk_write, change_streams,
    results::documents, unknown,
};
use crate::unified::entities::ClientEntity;

pub(super) async fn call(
    entity: &ClientEntity,
    name: &str,
    mut arguments: Arguments,
) -> CallResult {
    let client = &entity.client;
    if name == "createChangeStream" {
        return change_streams::create(client.watch(), arguments).await;
    }
    if name == "clientBulkWrite" {
        return bulk_write::client_bulk_write(client, arguments).await;
    }
    let mut session = arguments.session();
    match name {
        "listDatabases" => {
            let options: ListDatabasesOptions = arguments.options()?;
            Ok(documents(&awaited!(session, client.list_databases().with_options(options))?)?)
        }
        "listDatabaseNames" => {
            let options: ListDatabasesOptions = arguments.options()?;
            Ok(awaited!(session, client.list_database_names().with_options(options))?.into())
        }
        // The driver lists names; applications create handles from them without a command. Tests do not compare handles.
        "listDatabaseObjects" => {
            let options: ListDatabasesOptions = arguments.options()?;
            let names = awaited!(session, client.list_database_names().with_options(options))?;
            names.iter().map(|name| client.database(name)).for_each(drop);
            Ok(OperationResult::Nothing)
        }
        "dropDatabase" => {
            let name: String = arguments.required("database")?;
            let options: DropDatabaseOptions = arguments.options()?;
            let database = client.database(&name);
            Ok(awaited!(session, database.drop().with_options(options))?.into())
        }
        "appendMetadata" => {
            let given: Document = arguments.required("driverInfoOptions")?;
            arguments.done()?;
            let mut given = Arguments::new("driverInfoOptions", given);
            let mut info = DriverInfo::new(given.required::<String>("name")?);
            info.version = given.optional("version")?;
            info.platform = given.optional("platform")?;
            given.done()?;
            client.append_metadata(info)?;
            Ok(OperationResult::Nothing)
        }
        "close" => {
            arguments.done()?;
            client.clone().shutdown().await;
            Ok(OperationResult::Nothing)
        }
        _ => Err(unknown("client", name)),
    }
}
