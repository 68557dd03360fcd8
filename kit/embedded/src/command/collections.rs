//! Commands on whole collections: `create`, `drop`, `dropDatabase`, `renameCollection`.

mod options;

use bson::{Document, doc};
use steadfast_query::{Code, Environment, Fault, value::format_document};

use super::{
    super::{
        change::{Change, ChangeWriter},
        namespace::Namespace,
    },
    WriteContext,
    arguments::{Arguments, only_on_admin, whole},
    write::insert_statement::uuid,
};

pub(super) use options::{full_collation, validate};

/// First wire version in which `create` of an identical collection and `drop` of a missing one
/// succeed (MongoDB 7.0).
const IDEMPOTENT_DDL: i32 = 21;

/// Runs `create`.
pub(crate) fn create(writing: &mut WriteContext<'_>) -> Result<Document, Fault> {
    let call = writing.call;
    let namespace = Namespace::of_command(&call.database, call.body.get(&call.name))?;
    let options = options::read(call, writing.env, writing.server_info)?;
    if namespace.collection != "system.views" {
        namespace.check_writable()?;
    }
    if let Some(existing) = writing.changes.store().collection(&namespace) {
        let message = match writing.server_info.max_wire_version {
            IDEMPOTENT_DDL.. if *existing.options() == options && !call.in_transaction() => {
                return Ok(doc! {});
            }
            IDEMPOTENT_DDL.. if call.in_transaction() => {
                format!("Collection {namespace} already exists.")
            }
            IDEMPOTENT_DDL.. => format!(
                "namespace {namespace} already exists, but with different options: {}",
                format_document(existing.options())
            ),
            _ => format!("Collection {namespace} already exists."),
        };
        return Err(Fault::new(Code::NAMESPACE_EXISTS, message));
    }
    let uuid = uuid(writing.env);
    writing.changes.apply_change(Change::CreateCollection { namespace, uuid, options }, None)?;
    Ok(doc! {})
}

/// Creates a missing collection before a write.
pub(crate) fn create_if_missing(
    changes: &mut dyn ChangeWriter,
    namespace: &Namespace,
    env: &Environment,
) -> Result<(), Fault> {
    if changes.store().collection(namespace).is_some() {
        return Ok(());
    }
    namespace.check_writable()?;
    let namespace = namespace.clone();
    let (uuid, options) = (uuid(env), Document::new());
    changes.apply_change(Change::CreateCollection { namespace, uuid, options }, None)
}

/// Runs `drop`.
pub(crate) fn drop(writing: &mut WriteContext<'_>) -> Result<Document, Fault> {
    let call = writing.call;
    Arguments::of(call, "drop", &["collectionUUID"])?;
    let namespace = Namespace::of_command(&call.database, call.body.get(&call.name))?;
    let Some(collection) = writing.changes.store().collection(&namespace) else {
        return match writing.server_info.max_wire_version {
            IDEMPOTENT_DDL.. => Ok(doc! {}),
            _ => Err(Fault::new(Code::NAMESPACE_NOT_FOUND, "ns not found")),
        };
    };
    if (namespace.database.as_str(), namespace.collection.as_str()) == ("admin", "system.version") {
        return Err(Fault::new(
            Code::ILLEGAL_OPERATION,
            format!("can't drop system collection {namespace}"),
        ));
    }
    let mut reply = Document::new();
    if !collection.is_view() {
        reply.insert("nIndexesWas", i32::try_from(collection.indexes().len()).unwrap_or(i32::MAX));
    }
    reply.insert("ns", namespace.to_string());
    writing.changes.apply_change(Change::DropCollection { namespace }, None)?;
    Ok(reply)
}

/// Runs `dropDatabase`.
pub(crate) fn drop_database(writing: &mut WriteContext<'_>) -> Result<Document, Fault> {
    let call = writing.call;
    let arguments = Arguments::of(call, "dropDatabase", &[])?;
    if arguments.value("dropDatabase").and_then(whole) != Some(1) {
        return Err(Fault::location(5255100, "Have to pass 1 as 'drop' parameter"));
    }
    let database = &call.database;
    let illegal = |message: String| Err(Fault::new(Code::ILLEGAL_OPERATION, message));
    match database.as_str() {
        "admin" => return illegal(String::from("Dropping the 'admin' database is prohibited.")),
        "local" if writing.server_info.set_name.is_some() => {
            return illegal(String::from(
                "Cannot drop 'local' database while replication is active",
            ));
        }
        _ => {}
    }
    let existed = writing.changes.store().collections(database).next().is_some();
    // Views are dropped with the database, without events.
    let collections = writing.changes.store().collections(database).filter(|(_, it)| !it.is_view());
    let namespaces: Vec<Namespace> = collections.map(|(name, _)| name.clone()).collect();
    for namespace in namespaces {
        writing.changes.apply_change(Change::DropCollection { namespace }, None)?;
    }
    if existed {
        writing.changes.apply_change(Change::DropDatabase { database: database.clone() }, None)?;
    }
    // Before 5.0 the reply named the dropped database.
    if existed && writing.server_info.max_wire_version < 13 {
        return Ok(doc! { "dropped": database });
    }
    Ok(doc! {})
}

/// Runs `renameCollection`.
pub(crate) fn rename(writing: &mut WriteContext<'_>) -> Result<Document, Fault> {
    let call = writing.call;
    only_on_admin(call)?;
    let arguments = Arguments::of(
        call,
        "renameCollection",
        &["to", "dropTarget", "stayTemp", "collectionUUID"],
    )?;
    let from = arguments.required("renameCollection", arguments.text("renameCollection")?)?;
    let to = arguments.required("to", arguments.text("to")?)?;
    let drops = arguments.boolean("dropTarget")?;
    let from = namespace(from, "source")?;
    let to = namespace(to, "target")?;
    let rejected = |code, message: String| Err(Fault::new(code, message));
    if from == to {
        return rejected(
            Code::ILLEGAL_OPERATION,
            String::from("Can't rename a collection to itself"),
        );
    }
    to.check_writable().map_err(|fault| {
        Fault::new(
            Code::ILLEGAL_OPERATION,
            format!("error with target namespace: {}", fault.message),
        )
    })?;
    let store = writing.changes.store();
    match store.collection(&from) {
        None => {
            return rejected(
                Code::NAMESPACE_NOT_FOUND,
                format!("Source collection {from} does not exist"),
            );
        }
        Some(view) if view.is_view() => {
            return rejected(
                Code::COMMAND_NOT_SUPPORTED_ON_VIEW,
                format!("cannot rename view: {from}"),
            );
        }
        Some(_) => {}
    }
    if store.collection(&to).is_some() && !drops {
        return rejected(Code::NAMESPACE_EXISTS, String::from("target namespace exists"));
    }
    writing.changes.apply_change(Change::RenameCollection { from, to }, None)?;
    Ok(doc! {})
}

/// Splits `database.collection`.
fn namespace(name: &str, which: &str) -> Result<Namespace, Fault> {
    let invalid =
        || Fault::new(Code::INVALID_NAMESPACE, format!("Invalid {which} namespace: {name}"));
    let (database, collection) = name.split_once('.').ok_or_else(invalid)?;
    Namespace::named(database, collection).map_err(|_| invalid())
}
