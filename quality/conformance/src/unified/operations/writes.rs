//! Single writes of collections.

use bson::{Document, doc};
use steadfast::{
    Collection,
    options::{
        DeleteOptions, DropCollectionOptions, InsertManyOptions, InsertOneOptions, ReplaceOptions,
        UpdateModifications, UpdateOptions,
    },
};

use super::{Arguments, CallResult, OperationResult, awaited};

/// Declares operations that call one method of a collection: name, arguments and options.
macro_rules! operations {
    ($($name:ident($($argument:ident: $type:ty),*; $options:ty);)*) => {
        $(
            pub(super) async fn $name(
                collection: &Collection<Document>,
                mut arguments: Arguments,
            ) -> CallResult {
                let mut session = arguments.session();
                $(let $argument: $type = arguments.required(stringify!($argument))?;)*
                let options: $options = arguments.options()?;
                let action = collection.$name($($argument),*).with_options(options);
                Ok(awaited!(session, action)?.into())
            }
        )*
    };
}

operations! {
    insert_one(document: Document; InsertOneOptions);
    insert_many(documents: Vec<Document>; InsertManyOptions);
    update_one(filter: Document, update: UpdateModifications; UpdateOptions);
    update_many(filter: Document, update: UpdateModifications; UpdateOptions);
    replace_one(filter: Document, replacement: Document; ReplaceOptions);
    delete_one(filter: Document; DeleteOptions);
    delete_many(filter: Document; DeleteOptions);
    drop(; DropCollectionOptions);
}

/// Runs `renameCollection`: the driver has no method for it.
pub(super) async fn rename(
    collection: &Collection<Document>,
    mut arguments: Arguments,
) -> CallResult {
    let mut session = arguments.session();
    let (from, to) = (collection.namespace(), arguments.required::<String>("to")?);
    let to = format!("{}.{to}", from.db);
    let mut command = doc! { "renameCollection": from.to_string(), "to": to };
    command.extend(arguments.bson("dropTarget").map(|value| ("dropTarget".to_owned(), value)));
    arguments.done()?;
    let admin = collection.client().database("admin");
    Ok(OperationResult::Value(awaited!(session, admin.run_command(command))?.into()))
}
