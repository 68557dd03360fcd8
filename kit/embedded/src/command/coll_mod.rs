//! `collMod`: changes options of a collection or of one of its indexes.

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Fault, Pipeline, value::format_document};

use super::{
    super::{
        change::Change,
        namespace::Namespace,
        store::{Collection, Index},
    },
    WriteContext,
    arguments::{Arguments, truth, whole},
    collections::validate,
};

const FIELDS: &[&str] = &[
    "cappedMax",
    "cappedSize",
    "changeStreamPreAndPostImages",
    "expireAfterSeconds",
    "index",
    "pipeline",
    "timeseries",
    "validationAction",
    "validationLevel",
    "validator",
    "viewOn",
];

/// Runs `collMod`.
pub(crate) fn coll_mod(writing: &mut WriteContext<'_>) -> Result<Document, Fault> {
    let call = writing.call;
    let arguments = Arguments::of(call, "collMod", FIELDS)?;
    let namespace = Namespace::of_command(&call.database, call.body.get(&call.name))?;
    let Some(collection) = writing.changes.store().collection(&namespace) else {
        return Err(Fault::new(Code::NAMESPACE_NOT_FOUND, "ns does not exist"));
    };
    reject_unsupported(&arguments, collection)?;
    let mut options = collection.options().clone();
    view(&arguments, collection, &namespace, writing, &mut options)?;
    validate(&arguments, writing.env, &mut options)?;
    if let Some(images) = arguments.document("changeStreamPreAndPostImages")? {
        let name = "collMod.changeStreamPreAndPostImages";
        match Arguments::within(images, name, &["enabled"])?.boolean("enabled")? {
            true => options.insert("changeStreamPreAndPostImages", doc! { "enabled": true }),
            false => options.remove("changeStreamPreAndPostImages"),
        };
    }
    let index = match arguments.document("index")? {
        Some(index) => Some(modified_index(index, collection, &namespace)?),
        None => None,
    };
    // A server writes an oplog entry even if no option changes.
    if index.is_none() || options != *collection.options() {
        let change = Change::ModifyCollection { namespace: namespace.clone(), options };
        writing.changes.apply_change(change, None)?;
    }
    let Some((before, after, reply)) = index else { return Ok(doc! {}) };
    if before != after {
        let name = before.get_str("name").unwrap_or_default().to_owned();
        let change = Change::ModifyIndex { namespace, name, specification: after };
        writing.changes.apply_change(change, None)?;
    }
    Ok(reply)
}

fn invalid(message: &str) -> Fault {
    Fault::new(Code::INVALID_OPTIONS, message)
}

fn reject_unsupported(arguments: &Arguments<'_>, collection: &Collection) -> Result<(), Fault> {
    let asks = |field| arguments.value(field).is_some();
    if asks("cappedSize") || asks("cappedMax") {
        return Err(match collection.is_capped() {
            true => Fault::new(Code::NOT_IMPLEMENTED, "a capped collection keeps its size"),
            false => invalid("Collection must be capped."),
        });
    }
    if asks("expireAfterSeconds") {
        return Err(invalid(
            "'expireAfterSeconds' option is only supported on collections clustered by _id",
        ));
    }
    if asks("timeseries") {
        return Err(invalid("option only supported on a time-series collection: timeseries"));
    }
    Ok(())
}

fn view(
    arguments: &Arguments<'_>,
    collection: &Collection,
    namespace: &Namespace,
    writing: &WriteContext<'_>,
    options: &mut Document,
) -> Result<(), Fault> {
    let (base, stages) = (arguments.text("viewOn")?, arguments.array("pipeline")?);
    if !collection.is_view() {
        return match (stages, base) {
            (Some(_), _) => Err(invalid("option only supported on a view: pipeline")),
            (None, Some(_)) => Err(invalid("option only supported on a view: viewOn")),
            (None, None) => Ok(()),
        };
    }
    if let Some(stages) = stages {
        let parsed: Vec<Document> =
            stages.iter().map(|it| it.as_document().cloned().unwrap_or_default()).collect();
        Pipeline::parse(&parsed, &namespace.database, writing.env)?;
        options.insert("pipeline", stages.to_vec());
    }
    if let Some(base) = base {
        options.insert("viewOn", base);
    }
    Ok(())
}

/// Specification of an index before and after, and the fields of the reply.
fn modified_index(
    asked: &Document,
    collection: &Collection,
    namespace: &Namespace,
) -> Result<(Document, Document, Document), Fault> {
    let known = ["name", "keyPattern", "expireAfterSeconds", "hidden", "unique", "prepareUnique"];
    let arguments = Arguments::within(asked, "collMod.index", &known)?;
    let index = named(&arguments, collection, namespace)?;
    let before = index.specification().clone();
    let mut after = before.clone();
    let mut reply = Document::new();
    if let Some(seconds) = arguments.value("expireAfterSeconds") {
        let seconds = whole(seconds).ok_or_else(|| {
            arguments.mistyped(
                "expireAfterSeconds",
                seconds,
                "types '[long, int, decimal, double']",
            )
        })?;
        if let Some(old) = before.get("expireAfterSeconds").and_then(whole) {
            reply.insert("expireAfterSeconds_old", old);
        }
        reply.insert("expireAfterSeconds_new", seconds);
        after.insert(
            "expireAfterSeconds",
            i32::try_from(seconds).map_or(Bson::Int64(seconds), Bson::Int32),
        );
    }
    if let Some(hidden) = arguments.value("hidden").and_then(truth) {
        if index.name() == "_id_" {
            return Err(Fault::bad_value("can't hide _id index"));
        }
        reply.insert("hidden_old", before.get_bool("hidden").unwrap_or(false));
        reply.insert("hidden_new", hidden);
        match hidden {
            true => after.insert("hidden", true),
            false => after.remove("hidden"),
        };
    }
    for field in ["unique", "prepareUnique"] {
        if arguments.value(field).is_some() {
            return Err(Fault::new(
                Code::NOT_IMPLEMENTED,
                format!("collMod cannot change '{field}' of an index"),
            ));
        }
    }
    if reply.is_empty() {
        return Err(invalid("no expireAfterSeconds, hidden, unique, or prepareUnique field"));
    }
    Ok((before, after, reply))
}

fn named<'a>(
    arguments: &Arguments<'_>,
    collection: &'a Collection,
    namespace: &Namespace,
) -> Result<&'a Index, Fault> {
    let (found, asked) = match (arguments.text("name")?, arguments.document("keyPattern")?) {
        (None, None) => return Err(invalid("Must specify either index name or key pattern.")),
        (Some(_), Some(_)) => {
            return Err(invalid("Cannot specify both key pattern and name."));
        }
        (Some(name), None) => (collection.index(name), name.to_owned()),
        (None, Some(pattern)) => (
            collection.indexes().iter().find(|it| it.pattern() == pattern),
            format_document(pattern),
        ),
    };
    found.ok_or_else(|| {
        Fault::new(Code::INDEX_NOT_FOUND, format!("cannot find index {asked} for ns {namespace}"))
    })
}
