//! `findAndModify`: changes or removes one document and returns it.

use bson::{Bson, Document, doc};
use steadfast_query::{Environment, Fault, Filter, Projection, Update};

use super::{
    Writing,
    arguments::Arguments,
    select::Hint,
    update::{array_filters, check_update},
    write::{
        deleting::Deleting,
        incompatible, is_retryable_write,
        query::Query,
        updating::{Updated, Updating},
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
const DURING: &str = "Plan executor error during findAndModify";

/// Field of a recorded result: the document that an upsert inserted. A retry with `new` returns it.
const INSERTED: &str = "inserted";

/// Runs `findAndModify`.
pub(crate) fn find_and_modify(writing: &mut Writing<'_>) -> Result<Document, Fault> {
    let call = writing.call;
    let arguments = Arguments::of(call, "findAndModify", FIELDS)?;
    let namespace = Namespace::of_command(&call.database, call.body.get(&call.name))?;
    let everything = Document::new();
    let request = Request::read(&arguments, namespace, &everything)?;
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
    let shape = request.shape(writing)?;
    let mut reply = match request.action {
        Action::Remove => request.remove(writing, on_record)?,
        Action::Update(update) => request.update(update, writing, on_record)?,
    };
    reply.remove(INSERTED);
    // The recorded result has the whole document.
    if let (Some(shape), Some(Bson::Document(document))) = (shape, reply.get_mut("value")) {
        *document = shape.projection.apply(document, &shape.filter, &shape.env)?;
    }
    Ok(reply)
}

/// Parsed arguments of `findAndModify`.
struct Request<'a> {
    namespace: Namespace,
    query: Query<'a>,
    action: Action<'a>,
    array_filters: Vec<Document>,
    fields: Option<&'a Document>,
    /// Returns the document after the update (`new`).
    new: bool,
    upsert: bool,
    bypass: bool,
}

#[derive(Clone, Copy)]
enum Action<'a> {
    Remove,
    Update(&'a Bson),
}

impl<'a> Request<'a> {
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
            query: Query {
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
            bypass: arguments.boolean("bypassDocumentValidation")?,
        })
    }

    fn remove(&self, writing: &mut Writing<'_>, id: Option<i32>) -> Result<Document, Fault> {
        let statement =
            Deleting { namespace: &self.namespace, query: self.query.clone(), multi: false };
        let removed = statement.run(writing, id, |document| removed_reply(Some(document)))?;
        Ok(removed_reply(removed.first().map(|document| &**document)))
    }

    fn update(
        &self,
        update: &Bson,
        writing: &mut Writing<'_>,
        id: Option<i32>,
    ) -> Result<Document, Fault> {
        let statement = Updating {
            namespace: &self.namespace,
            query: self.query.clone(),
            update,
            array_filters: self.array_filters.clone(),
            constants: None,
            multi: false,
            upsert: self.upsert,
            bypass: self.bypass,
            during: DURING,
        };
        let outcome = |updated: &Updated| updated_reply(updated, self.new);
        Ok(outcome(&statement.run(writing, id, outcome)?))
    }

    /// Projection of the returned document. It is parsed before anything changes.
    fn shape(&self, writing: &Writing<'_>) -> Result<Option<Shape>, Fault> {
        let Some(fields) = self.fields else { return Ok(None) };
        if self.new && fields.keys().any(|path| path.ends_with(".$")) {
            return Err(Fault::bad_value(
                "cannot use a positional projection and return the new document",
            ));
        }
        let collection = writing.changes.store().collection(&self.namespace);
        let env = self.query.environment(writing.env, collection)?;
        // Errors of the update come first.
        if let Action::Update(update) = self.action {
            Update::parse(update, &self.array_filters, &env)?;
        }
        Ok(Some(Shape {
            projection: Projection::parse(fields, &env)?,
            filter: Filter::parse(self.query.filter, &env)?,
            env,
        }))
    }
}

/// Projection of the returned document (`fields`).
struct Shape {
    projection: Projection,
    filter: Filter,
    env: Environment,
}

/// Chooses between update and removal. Rejects combinations that exclude each other.
fn action<'a>(arguments: &Arguments<'a>, new: bool, upsert: bool) -> Result<Action<'a>, Fault> {
    let refused = |message: &str| Err(Fault::failed_to_parse(message));
    let update = arguments.value("update");
    if !arguments.boolean("remove")? {
        let Some(update) = update else {
            return refused("Either an update or remove=true must be specified");
        };
        check_update(update)?;
        return Ok(Action::Update(update));
    }
    if update.is_some() {
        return refused("Cannot specify both an update and remove=true");
    }
    if upsert {
        return refused("Cannot specify both upsert=true and remove=true ");
    }
    if new {
        return refused(
            "Cannot specify both new=true and remove=true; 'remove' always returns the deleted \
             document",
        );
    }
    if arguments.value("arrayFilters").is_some() {
        return refused("Cannot specify arrayFilters and remove=true");
    }
    Ok(Action::Remove)
}

fn removed_reply(document: Option<&Document>) -> Document {
    doc! {
        "lastErrorObject": { "n": i32::from(document.is_some()) },
        "value": document.cloned(),
    }
}

fn updated_reply(updated: &Updated, new: bool) -> Document {
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
