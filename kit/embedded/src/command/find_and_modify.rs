//! `findAndModify`: changes or removes one document and returns it.

use bson::{Bson, Document, doc};
use steadfast_query::{Environment, Fault, Filter, Projection, Update};

use super::{
    WriteContext,
    arguments::Arguments,
    select::Hint,
    update::{array_filters, check_update},
    write::{
        delete_statement::DeleteStatement,
        incompatible, is_retryable_write,
        query::StatementQuery,
        update_statement::{UpdateResult, UpdateStatement},
    },
};
use crate::namespace::Namespace;

const FIELDS: &[&str] = &[
    "arrayFilters",
    "bypassDocumentValidation",
    "collation",
    "fields",
    "hint",
    "let",
    "new",
    "query",
    "remove",
    "sort",
    "stmtId",
    "update",
    "upsert",
];

/// Prefix of errors that occur while the document is modified.
const ERROR_PREFIX: &str = "Plan executor error during findAndModify";

/// Field of a recorded result: the document that an upsert inserted. A retry with `new` returns it.
const INSERTED: &str = "inserted";

/// Runs `findAndModify`.
pub(crate) fn find_and_modify(writing: &mut WriteContext<'_>) -> Result<Document, Fault> {
    let call = writing.call;
    let arguments = Arguments::of(call, "findAndModify", FIELDS)?;
    let namespace = Namespace::of_command(&call.database, call.body.get(&call.name))?;
    let everything = Document::new();
    let request = FindAndModifyCommand::read(&arguments, namespace, &everything)?;
    request.namespace.check_writable()?;
    let id = i32::try_from(arguments.integer("stmtId")?.unwrap_or(0)).unwrap_or(-1);
    if let Some(mut outcome) = writing.changes.recorded(id) {
        let Ok(executed) = outcome.get_document("lastErrorObject") else {
            return Err(incompatible(&call.body, false));
        };
        // Only updates have `updatedExisting`. A removal with the `txnNumber` of an update returns
        // the recorded result, as a server does.
        if !executed.contains_key("updatedExisting") && !arguments.boolean("remove")? {
            return Err(incompatible(&call.body, true));
        }
        if let Some(inserted) = outcome.remove(INSERTED) {
            if !request.upsert {
                return Err(incompatible(&call.body, false));
            }
            if request.new {
                outcome.insert("value", inserted);
            }
        }
        outcome.insert("retriedStmtId", id);
        return Ok(outcome);
    }
    let on_record = is_retryable_write(call).then_some(id);
    let returned_document = request.returned_document(writing)?;
    let mut reply = match request.action {
        FindAndModifyAction::Remove => request.remove(writing, on_record)?,
        FindAndModifyAction::Update(update) => request.update(update, writing, on_record)?,
    };
    reply.remove(INSERTED);
    // The recorded result has the whole document.
    if let (Some(returned_document), Some(Bson::Document(document))) =
        (returned_document, reply.get_mut("value"))
    {
        *document = returned_document.projection.apply(
            document,
            &returned_document.filter,
            &returned_document.env,
        )?;
    }
    Ok(reply)
}

/// Parsed arguments of `findAndModify`.
struct FindAndModifyCommand<'a> {
    namespace: Namespace,
    query: StatementQuery<'a>,
    action: FindAndModifyAction<'a>,
    array_filters: Vec<Document>,
    fields: Option<&'a Document>,
    /// Returns the document after the update (`new`).
    new: bool,
    upsert: bool,
    bypass_validation: bool,
}

#[derive(Clone, Copy)]
enum FindAndModifyAction<'a> {
    Remove,
    Update(&'a Bson),
}

impl<'a> FindAndModifyCommand<'a> {
    fn read(
        arguments: &Arguments<'a>,
        namespace: Namespace,
        everything: &'a Document,
    ) -> Result<Self, Fault> {
        let filter = arguments.document("query")?.unwrap_or(everything);
        let sort = arguments.document("sort")?;
        let new = arguments.boolean("new")?;
        let upsert = arguments.boolean("upsert")?;
        let action = action(arguments, new, upsert)?;
        Ok(Self {
            namespace,
            query: StatementQuery {
                filter,
                sort,
                hint: Hint::read(arguments.value("hint"))?,
                collation: arguments.document("collation")?,
                variables: arguments.document("let")?,
            },
            action,
            array_filters: array_filters(arguments)?,
            fields: arguments.document("fields")?.filter(|fields| !fields.is_empty()),
            new,
            upsert,
            bypass_validation: arguments.boolean("bypassDocumentValidation")?,
        })
    }

    fn remove(&self, writing: &mut WriteContext<'_>, id: Option<i32>) -> Result<Document, Fault> {
        let statement =
            DeleteStatement { namespace: &self.namespace, query: self.query.clone(), multi: false };
        let removed = statement.run(writing, id, |document| removed_reply(Some(document)))?;
        Ok(removed_reply(removed.first().map(|document| &**document)))
    }

    fn update(
        &self,
        update: &Bson,
        writing: &mut WriteContext<'_>,
        id: Option<i32>,
    ) -> Result<Document, Fault> {
        let statement = UpdateStatement {
            namespace: &self.namespace,
            query: self.query.clone(),
            update,
            array_filters: self.array_filters.clone(),
            constants: None,
            multi: false,
            upsert: self.upsert,
            bypass_validation: self.bypass_validation,
            error_prefix: ERROR_PREFIX,
        };
        let outcome = |updated: &UpdateResult| updated_reply(updated, self.new);
        Ok(outcome(&statement.run(writing, id, outcome)?))
    }

    /// Projection of the returned document. It is parsed before anything changes.
    fn returned_document(
        &self,
        writing: &WriteContext<'_>,
    ) -> Result<Option<ReturnedDocument>, Fault> {
        let Some(fields) = self.fields else { return Ok(None) };
        if self.new && fields.keys().any(|path| path.ends_with(".$")) {
            return Err(Fault::bad_value(
                "cannot use a positional projection and return the new document",
            ));
        }
        let collection = writing.changes.store().collection(&self.namespace);
        let env = self.query.environment(writing.env, collection)?;
        // Errors of the update come first.
        if let FindAndModifyAction::Update(update) = self.action {
            Update::parse(update, &self.array_filters, &env)?;
        }
        Ok(Some(ReturnedDocument {
            projection: Projection::parse(fields, &env)?,
            filter: Filter::parse(self.query.filter, &env)?,
            env,
        }))
    }
}

/// Projection of the returned document (`fields`).
struct ReturnedDocument {
    projection: Projection,
    filter: Filter,
    env: Environment,
}

/// Chooses between update and removal. Rejects combinations that exclude each other.
fn action<'a>(
    arguments: &Arguments<'a>,
    new: bool,
    upsert: bool,
) -> Result<FindAndModifyAction<'a>, Fault> {
    let rejected = |message: &str| Err(Fault::failed_to_parse(message));
    let update = arguments.value("update");
    if !arguments.boolean("remove")? {
        let Some(update) = update else {
            return rejected("Either an update or remove=true must be specified");
        };
        check_update(update)?;
        return Ok(FindAndModifyAction::Update(update));
    }
    if update.is_some() {
        return rejected("Cannot specify both an update and remove=true");
    }
    if upsert {
        return rejected("Cannot specify both upsert=true and remove=true ");
    }
    if new {
        return rejected(
            "Cannot specify both new=true and remove=true; 'remove' always returns the deleted \
             document",
        );
    }
    if arguments.value("arrayFilters").is_some() {
        return rejected("Cannot specify arrayFilters and remove=true");
    }
    Ok(FindAndModifyAction::Remove)
}

fn removed_reply(document: Option<&Document>) -> Document {
    doc! {
        "lastErrorObject": { "n": i32::from(document.is_some()) },
        "value": document.cloned(),
    }
}

fn updated_reply(updated: &UpdateResult, new: bool) -> Document {
    let existing = updated.matched > 0;
    let mut last = doc! {
        "n": i32::from(existing || updated.upserted.is_some()),
        "updatedExisting": existing,
    };
    if let Some(id) = &updated.upserted {
        last.insert("upserted", id.clone());
    }
    let document = if new { &updated.after } else { &updated.before };
    let document = document.as_ref().map(|document| (**document).clone());
    let mut reply = doc! { "lastErrorObject": last, "value": document };
    if let (Some(_), Some(after)) = (&updated.upserted, &updated.after) {
        reply.insert(INSERTED, (**after).clone());
    }
    reply
}
