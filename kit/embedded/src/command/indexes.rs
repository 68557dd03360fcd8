//! `createIndexes` and `dropIndexes`.

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Environment, Fault, Index as Definition, value};

use super::{
    super::{
        change::Change,
        namespace::Namespace,
        store::{Collection, Index},
    },
    WriteContext,
    arguments::Arguments,
    collections::{create_if_missing, full_collation},
    count::number,
    listing::is_a_view,
};

/// Runs `createIndexes`. If one index cannot be built, none is.
pub(crate) fn create(writing: &mut WriteContext<'_>) -> Result<Document, Fault> {
    let call = writing.call;
    let fields = ["indexes", "commitQuorum", "ignoreUnknownIndexOptions"];
    let arguments = Arguments::of(call, "createIndexes", &fields)?;
    let namespace = Namespace::to_write(&call.database, call.body.get(&call.name))?;
    let requested_specifications = requested_specifications(&arguments)?;
    let quorum = commit_quorum(&arguments, writing.server_info.set_name.is_some())?;

    let existing = writing.changes.store().collection(&namespace);
    if existing.is_some_and(Collection::is_view) {
        return Err(is_a_view(&namespace));
    }
    let before = existing.map_or(1, |it| it.indexes().len());
    let new = new_definitions(&requested_specifications, existing, writing.env)?;
    let created = existing.is_none();
    if new.is_empty() && !created {
        let mut reply = doc! {
            "numIndexesBefore": number(before),
            "numIndexesAfter": number(before),
        };
        if let Some(quorum) = quorum {
            reply.insert("commitQuorum", quorum);
        }
        reply.insert("note", "all indexes already exist");
        return Ok(reply);
    }
    create_if_missing(writing.changes, &namespace, writing.env)?;
    let count = new.len();
    build(writing, &namespace, &new)?;
    let mut reply = doc! {
        "numIndexesBefore": number(before),
        "numIndexesAfter": number(before + count),
        // In a transaction, a server reports every collection as created automatically.
        "createdCollectionAutomatically": created || call.in_transaction(),
    };
    if let Some(quorum) = quorum {
        reply.insert("commitQuorum", quorum);
    }
    Ok(reply)
}

/// Builds indexes one after the other. If one fails, those built before are dropped.
fn build(
    writing: &mut WriteContext<'_>,
    namespace: &Namespace,
    definitions: &[Definition],
) -> Result<(), Fault> {
    let mut built: Vec<String> = Vec::new();
    for definition in definitions {
        let (namespace, specification) = (namespace.clone(), definition.description());
        let change = Change::CreateIndex { namespace: namespace.clone(), specification };
        if let Err(fault) = writing.changes.apply_change(change, None) {
            for name in built {
                let namespace = namespace.clone();
                writing.changes.apply_change(Change::DropIndex { namespace, name }, None)?;
            }
            return Err(fault);
        }
        built.push(definition.name().to_owned());
    }
    Ok(())
}

fn requested_specifications<'a>(arguments: &Arguments<'a>) -> Result<Vec<&'a Document>, Fault> {
    let indexes = arguments.required("indexes", arguments.array("indexes")?)?;
    if indexes.is_empty() {
        return Err(Fault::bad_value("Must specify at least one index to create"));
    }
    indexes
        .iter()
        .enumerate()
        .map(|(at, index)| match index {
            Bson::Document(index) => Ok(index),
            other => Err(arguments.mistyped(&format!("indexes.{at}"), other, "type 'object'")),
        })
        .collect()
}

/// `commitQuorum` of the reply. A standalone server has none.
fn commit_quorum(arguments: &Arguments<'_>, replicates: bool) -> Result<Option<Bson>, Fault> {
    match arguments.value("commitQuorum") {
        None => Ok(replicates.then(|| Bson::from("votingMembers"))),
        Some(_) if !replicates => Err(Fault::bad_value("Standalones can't specify commitQuorum")),
        Some(Bson::String(word)) if !matches!(word.as_str(), "majority" | "votingMembers") => {
            Err(Fault::new(
                Code::UNKNOWN_REPL_WRITE_CONCERN,
                format!("No write concern mode named '{word}' found in replica set configuration"),
            ))
        }
        Some(quorum @ (Bson::String(_) | Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_))) => {
            Ok(Some(quorum.clone()))
        }
        Some(other) => Err(Fault::type_mismatch(format!(
            "commitQuorum must be a number or a string, but found {}",
            value::type_name(other)
        ))),
    }
}

/// Definitions of the indexes that do not exist yet. The collation defaults to that of the
/// collection.
fn new_definitions(
    requested_specifications: &[&Document],
    collection: Option<&Collection>,
    env: &Environment,
) -> Result<Vec<Definition>, Fault> {
    let default = collection.and_then(|it| it.options().get_document("collation").ok());
    let existing = match collection {
        Some(collection) => collection
            .indexes()
            .iter()
            .map(|it| Definition::parse(it.specification(), env))
            .collect::<Result<Vec<_>, Fault>>()?,
        None => vec![Definition::id_index()],
    };
    let mut new: Vec<Definition> = Vec::new();
    for requested_specifications in requested_specifications {
        let mut requested_specifications = (*requested_specifications).clone();
        let collation = match requested_specifications.get_document("collation") {
            Ok(own) => full_collation(own)?,
            Err(_) => default.cloned(),
        };
        if let Some(collation) = collation {
            requested_specifications.insert("collation", collation);
        }
        let definition = Definition::parse(&requested_specifications, env)?;
        if definition.is_id_index() || definition.exists_among(&existing)? {
            continue;
        }
        if definition.exists_among(&new)? {
            return Err(Fault::new(
                Code::named(68, "IndexAlreadyExists"),
                format!("Identical index already exists: {}", definition.name()),
            ));
        }
        new.push(definition);
    }
    Ok(new)
}

/// Runs `dropIndexes`.
pub(crate) fn drop(writing: &mut WriteContext<'_>) -> Result<Document, Fault> {
    let call = writing.call;
    let arguments = Arguments::of(call, "dropIndexes", &["index"])?;
    let namespace = Namespace::of_command(&call.database, call.body.get(&call.name))?;
    let requested_specifications = arguments.required("index", arguments.value("index"))?;
    let Some(collection) = writing.changes.store().collection(&namespace) else {
        return Err(Fault::new(Code::NAMESPACE_NOT_FOUND, format!("ns not found {namespace}")));
    };
    if collection.is_view() {
        return Err(is_a_view(&namespace));
    }
    let before = number(collection.indexes().len());
    let all = *requested_specifications == Bson::String(String::from("*"));
    let names = match requested_specifications {
        Bson::String(_) if all => {
            collection.indexes().iter().skip(1).map(|it| it.name().to_owned()).collect()
        }
        Bson::String(name) => vec![droppable(collection, name)?],
        Bson::Document(pattern) => vec![by_pattern(collection, pattern)?],
        Bson::Array(names) => names
            .iter()
            .map(|name| match name {
                Bson::String(name) => droppable(collection, name),
                other => Err(arguments.mistyped("index", other, "type 'string'")),
            })
            .collect::<Result<Vec<String>, Fault>>()?,
        other => return Err(arguments.mistyped("index", other, "types '[string, object']")),
    };
    for name in names {
        writing
            .changes
            .apply_change(Change::DropIndex { namespace: namespace.clone(), name }, None)?;
    }
    let mut reply = doc! { "nIndexesWas": before };
    if all {
        reply.insert("msg", "non-_id indexes dropped for collection");
    }
    Ok(reply)
}

fn droppable(collection: &Collection, name: &str) -> Result<String, Fault> {
    match collection.index(name) {
        None => {
            Err(Fault::new(Code::INDEX_NOT_FOUND, format!("index not found with name [{name}]")))
        }
        Some(index) if index.name() == "_id_" => {
            Err(Fault::new(Code::INVALID_OPTIONS, "cannot drop _id index"))
        }
        Some(index) => Ok(index.name().to_owned()),
    }
}

fn by_pattern(collection: &Collection, pattern: &Document) -> Result<String, Fault> {
    let requested_specifications = Bson::Document(pattern.clone());
    let is_meant = |it: &&Index| {
        value::equal(&Bson::Document(it.pattern().clone()), &requested_specifications)
    };
    let meant: Vec<&Index> = collection.indexes().iter().filter(is_meant).collect();
    match meant.as_slice() {
        [] => Err(Fault::new(
            Code::INDEX_NOT_FOUND,
            format!(
                "can't find index with key: {}",
                value::format_value(&requested_specifications)
            ),
        )),
        [index] => droppable(collection, index.name()),
        several => Err(Fault::new(
            Code::named(181, "AmbiguousIndexKeyPattern"),
            format!(
                "{} indexes found for key: {}, identify by name instead. Conflicting indexes",
                several.len(),
                value::format_value(&requested_specifications)
            ),
        )),
    }
}
