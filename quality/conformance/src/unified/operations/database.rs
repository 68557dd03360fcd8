//! Operations of databases.

use bson::{Document, doc};
use steadfast::{
    Database,
    options::{
        AggregateOptions, CreateCollectionOptions, DropCollectionOptions, DropDatabaseOptions,
        ListCollectionsOptions, RunCommandOptions, RunCursorCommandOptions,
    },
};

use super::{
    Arguments, CallResult, OperationError, OperationResult, awaited, change_streams, collected,
    results::{self, documents},
    unknown,
};
use crate::unified::entities::HeldCursor;

pub(super) async fn call(database: &Database, name: &str, arguments: Arguments) -> CallResult {
    match name {
        "aggregate" => aggregate(database, arguments).await,
        "createChangeStream" => change_streams::create(database.watch(), arguments).await,
        "createCollection" => create_collection(database, arguments).await,
        "createCommandCursor" => create_command_cursor(database, arguments).await,
        "drop" => drop(database, arguments).await,
        "dropCollection" => drop_collection(database, arguments).await,
        "listCollectionNames" => list_collection_names(database, arguments).await,
        "listCollectionObjects" => list_collection_objects(database, arguments).await,
        "listCollections" => list_collections(database, arguments).await,
        "modifyCollection" => modify_collection(database, arguments).await,
        "runCommand" => run_command(database, arguments).await,
        "runCursorCommand" => run_cursor_command(database, arguments).await,
        _ => Err(unknown("database", name)),
    }
}

async fn aggregate(database: &Database, mut arguments: Arguments) -> CallResult {
    let mut session = arguments.session();
    let pipeline: Vec<Document> = arguments.required("pipeline")?;
    let mode = arguments.timeout_mode()?;
    let mut options: AggregateOptions = arguments.options()?;
    options.timeout_mode = mode;
    Ok(collected!(session, database.aggregate(pipeline).with_options(options))?.into())
}

async fn create_collection(database: &Database, mut arguments: Arguments) -> CallResult {
    let mut session = arguments.session();
    let name: String = arguments.required("collection")?;
    let options: CreateCollectionOptions = arguments.options()?;
    awaited!(session, database.create_collection(&name).with_options(options))?;
    Ok(OperationResult::Collection(database.collection(&name)))
}

async fn drop_collection(database: &Database, mut arguments: Arguments) -> CallResult {
    let mut session = arguments.session();
    let name: String = arguments.required("collection")?;
    let options: DropCollectionOptions = arguments.options()?;
    let collection = database.collection::<Document>(&name);
    Ok(awaited!(session, collection.drop().with_options(options))?.into())
}

async fn drop(database: &Database, mut arguments: Arguments) -> CallResult {
    let mut session = arguments.session();
    let options: DropDatabaseOptions = arguments.options()?;
    Ok(awaited!(session, database.drop().with_options(options))?.into())
}

async fn list_collections(database: &Database, mut arguments: Arguments) -> CallResult {
    let mut session = arguments.session();
    let mode = arguments.timeout_mode()?;
    let mut options: ListCollectionsOptions = arguments.options()?;
    options.timeout_mode = mode;
    let collections = collected!(session, database.list_collections().with_options(options))?;
    Ok(documents(&collections)?)
}

async fn list_collection_names(database: &Database, mut arguments: Arguments) -> CallResult {
    let mut session = arguments.session();
    let mode = arguments.timeout_mode()?;
    let mut options: ListCollectionsOptions = arguments.options()?;
    options.timeout_mode = mode;
    Ok(awaited!(session, database.list_collection_names().with_options(options))?.into())
}

/// The driver lists names; applications create handles from them without a command. Tests do not compare handles.
async fn list_collection_objects(database: &Database, mut arguments: Arguments) -> CallResult {
    let mut session = arguments.session();
    let options: ListCollectionsOptions = arguments.options()?;
    let names = awaited!(session, database.list_collection_names().with_options(options))?;
    names.iter().map(|name| database.collection::<Document>(name)).for_each(std::mem::drop);
    Ok(OperationResult::Nothing)
}

/// Runs `collMod`: the driver has no method for it.
async fn modify_collection(database: &Database, mut arguments: Arguments) -> CallResult {
    let mut session = arguments.session();
    let name: String = arguments.required("collection")?;
    let mut command = doc! { "collMod": name };
    for change in ["validator", "index", "changeStreamPreAndPostImages"] {
        command.extend(arguments.bson(change).map(|value| (change.to_owned(), value)));
    }
    arguments.done()?;
    Ok(OperationResult::Value(awaited!(session, database.run_command(command))?.into()))
}

async fn run_command(database: &Database, mut arguments: Arguments) -> CallResult {
    let mut session = arguments.session();
    let command = command(&mut arguments)?;
    let options: RunCommandOptions = arguments.options()?;
    let reply = awaited!(session, database.run_command(command).with_options(options))?;
    Ok(OperationResult::Value(reply.into()))
}

async fn run_cursor_command(database: &Database, mut arguments: Arguments) -> CallResult {
    let mut session = arguments.session();
    let command = command(&mut arguments)?;
    let mode = arguments.timeout_mode()?;
    let mut options: RunCursorCommandOptions = arguments.options()?;
    options.timeout_mode = mode;
    Ok(collected!(session, database.run_cursor_command(command).with_options(options))?.into())
}

async fn create_command_cursor(database: &Database, mut arguments: Arguments) -> CallResult {
    let session = arguments.session();
    let command = command(&mut arguments)?;
    let mode = arguments.timeout_mode()?;
    let mut options: RunCursorCommandOptions = arguments.options()?;
    options.timeout_mode = mode;
    let action = database.run_cursor_command(command).with_options(options);
    Ok(OperationResult::Cursor(HeldCursor::shared(match session {
        None => HeldCursor::Alone(action.await?),
        Some(mut in_use) => {
            HeldCursor::InSession(action.session(in_use.session()).await?, in_use.entity())
        }
    })))
}

/// Takes the command, and puts its name first, as servers require.
fn command(arguments: &mut Arguments) -> Result<Document, OperationError> {
    let mut given: Document = arguments.required("command")?;
    let name: Option<String> = arguments.optional("commandName")?;
    let first = || given.keys().next().cloned();
    let name = name.or_else(first).ok_or("the command is empty")?;
    let value = given.remove(&name).ok_or("the command lacks its name")?;
    let mut command = Document::from_iter([(name, value)]);
    command.extend(given);
    Ok(command)
}
