//! Writing to collections, one operation at a time.

use bson::{Document, doc};
use steadfast::{
    Collection,
    options::{
        DeleteOptions, DropCollectionOptions, InsertManyOptions, InsertOneOptions, ReplaceOptions,
        UpdateModifications, UpdateOptions,
    },
};

use super::{Arguments, Done, Outcome, awaited};

pub(super) async fn insert_one(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> Done {
    let mut session = arguments.session();
    let document: Document = arguments.required("document")?;
    let options: InsertOneOptions = arguments.options()?;
    Ok(awaited!(session, collection.insert_one(document).with_options(options))?.into())
}

pub(super) async fn insert_many(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> Done {
    let mut session = arguments.session();
    let documents: Vec<Document> = arguments.required("documents")?;
    let options: InsertManyOptions = arguments.options()?;
    Ok(awaited!(session, collection.insert_many(documents).with_options(options))?.into())
}

pub(super) async fn update_one(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> Done {
    let mut session = arguments.session();
    let filter = arguments.required("filter")?;
    let update: UpdateModifications = arguments.required("update")?;
    let options: UpdateOptions = arguments.options()?;
    Ok(awaited!(session, collection.update_one(filter, update).with_options(options))?.into())
}

pub(super) async fn update_many(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> Done {
    let mut session = arguments.session();
    let filter = arguments.required("filter")?;
    let update: UpdateModifications = arguments.required("update")?;
    let options: UpdateOptions = arguments.options()?;
    Ok(awaited!(session, collection.update_many(filter, update).with_options(options))?.into())
}

pub(super) async fn replace_one(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> Done {
    let mut session = arguments.session();
    let filter = arguments.required("filter")?;
    let replacement: Document = arguments.required("replacement")?;
    let options: ReplaceOptions = arguments.options()?;
    Ok(awaited!(session, collection.replace_one(filter, replacement).with_options(options))?.into())
}

pub(super) async fn delete_one(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> Done {
    let mut session = arguments.session();
    let filter = arguments.required("filter")?;
    let options: DeleteOptions = arguments.options()?;
    Ok(awaited!(session, collection.delete_one(filter).with_options(options))?.into())
}

pub(super) async fn delete_many(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> Done {
    let mut session = arguments.session();
    let filter = arguments.required("filter")?;
    let options: DeleteOptions = arguments.options()?;
    Ok(awaited!(session, collection.delete_many(filter).with_options(options))?.into())
}

pub(super) async fn drop(collection: &Collection<Document>, mut arguments: Arguments) -> Done {
    let mut session = arguments.session();
    let options: DropCollectionOptions = arguments.options()?;
    Ok(awaited!(session, collection.drop().with_options(options))?.into())
}

/// The driver has no method for it: applications send the command.
pub(super) async fn rename(collection: &Collection<Document>, mut arguments: Arguments) -> Done {
    let mut session = arguments.session();
    let (from, to) = (collection.namespace(), arguments.required::<String>("to")?);
    let to = format!("{}.{to}", from.db);
    let mut command = doc! { "renameCollection": from.to_string(), "to": to };
    command.extend(arguments.bson("dropTarget").map(|value| ("dropTarget".to_owned(), value)));
    arguments.done()?;
    let admin = collection.client().database("admin");
    Ok(Outcome::Value(awaited!(session, admin.run_command(command))?.into()))
}
