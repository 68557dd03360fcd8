//! Options of a new collection, as `listCollections` shows them.

use bson::{Bson, Document, doc};
use steadfast_query::{
    Code, Collation, Environment, Fault, Filter, Pipeline, pipeline::Destination,
};

use super::super::{
    super::call::Call,
    ServerInfo,
    arguments::{Arguments, truth, whole},
};

const FIELDS: &[&str] = &[
    "autoIndexId",
    "capped",
    "changeStreamPreAndPostImages",
    "clusteredIndex",
    "collation",
    "encryptedFields",
    "expireAfterSeconds",
    "idIndex",
    "indexOptionDefaults",
    "max",
    "pipeline",
    "size",
    "storageEngine",
    "temp",
    "timeseries",
    "validationAction",
    "validationLevel",
    "validator",
    "viewOn",
];

/// Parses the arguments of `create`.
pub(super) fn read(
    call: &Call,
    env: &Environment,
    server_info: &ServerInfo,
) -> Result<Document, Fault> {
    let arguments = Arguments::of(call, "create", FIELDS)?;
    let unstable = ["autoIndexId", "capped", "indexOptionDefaults", "max", "size", "storageEngine"];
    arguments.without(&unstable)?;
    if arguments.value("timeseries").is_some() {
        return Err(Fault::new(
            Code::NOT_IMPLEMENTED,
            "time-series collections are not implemented",
        ));
    }
    if arguments.value("autoIndexId").and_then(truth) == Some(false) {
        return Err(Fault::location(
            50001,
            format!(
                "autoIndexId:false is not allowed for collection {}.{} because it can be replicated",
                call.database,
                call.body.get_str("create").unwrap_or_default()
            ),
        ));
    }
    if let Some(base) = arguments.text("viewOn")? {
        return view(&arguments, call, base, env);
    }
    if arguments.value("pipeline").is_some() {
        return Err(invalid("'pipeline' requires 'viewOn' to also be specified"));
    }
    let mut options = Document::new();
    cap(&arguments, server_info, &mut options)?;
    validate(&arguments, env, &mut options)?;
    for field in ["storageEngine", "indexOptionDefaults", "encryptedFields"] {
        if let Some(value) = arguments.document(field)?.filter(|it| !it.is_empty()) {
            options.insert(field, value.clone());
        }
    }
    if let Some(collation) = arguments.document("collation")?
        && let Some(collation) = full_collation(collation)?
    {
        options.insert("collation", collation);
    }
    cluster(&arguments, &mut options)?;
    if let Some(images) = arguments.document("changeStreamPreAndPostImages")? {
        let name = "create.changeStreamPreAndPostImages";
        let enabled = Arguments::within(images, name, &["enabled"])?.boolean("enabled")?;
        if enabled {
            options.insert("changeStreamPreAndPostImages", doc! { "enabled": true });
        }
    }
    Ok(options)
}

fn invalid(message: &str) -> Fault {
    Fault::new(Code::INVALID_OPTIONS, message)
}

fn view(
    arguments: &Arguments<'_>,
    call: &Call,
    base: &str,
    env: &Environment,
) -> Result<Document, Fault> {
    let stages = arguments.array("pipeline")?.unwrap_or_default();
    let parsed: Vec<Document> =
        stages.iter().map(|it| it.as_document().cloned().unwrap_or_default()).collect();
    let pipeline = Pipeline::parse(&parsed, &call.database, env)?;
    if !matches!(pipeline.destination(), Destination::Cursor) {
        return Err(Fault::new(
            Code::named(167, "OptionNotSupportedOnView"),
            "Invalid pipeline for view :: caused by :: The last aggregation stage cannot be used in \
             the view definition because it writes to disk",
        ));
    }
    if base.is_empty() {
        return Err(Fault::bad_value("'viewOn' cannot be empty"));
    }
    let mut options = doc! { "viewOn": base, "pipeline": stages.to_vec() };
    if let Some(collation) = arguments.document("collation")?
        && let Some(collation) = full_collation(collation)?
    {
        options.insert("collation", collation);
    }
    Ok(options)
}

/// Parses `capped`, `size` and `max`.
fn cap(
    arguments: &Arguments<'_>,
    server_info: &ServerInfo,
    options: &mut Document,
) -> Result<(), Fault> {
    let (size, max) = (arguments.integer("size")?, arguments.integer("max")?);
    if !arguments.boolean("capped")? {
        return match size.or(max) {
            Some(_) => Err(invalid(
                "the 'capped' field needs to be true when either the 'size' or 'max' fields are \
                 present",
            )),
            None => Ok(()),
        };
    }
    let Some(size) = size else {
        return Err(invalid("the 'size' field is required when 'capped' is true"));
    };
    // Before 6.1 sizes were rounded up.
    let size = match server_info.max_wire_version {
        18.. => size,
        _ => (size.max(1) + 255) / 256 * 256,
    };
    options.insert("capped", true);
    options.insert("size", number(size));
    if let Some(max) = max {
        options.insert("max", number(max));
    }
    Ok(())
}

fn number(value: i64) -> Bson {
    i32::try_from(value).map_or(Bson::Int64(value), Bson::Int32)
}

/// Parses `validator`, `validationLevel` and `validationAction`.
pub(in super::super) fn validate(
    arguments: &Arguments<'_>,
    env: &Environment,
    options: &mut Document,
) -> Result<(), Fault> {
    if let Some(validator) = arguments.document("validator")? {
        Filter::parse(validator, env)?;
        match validator.is_empty() {
            true => options.remove("validator"),
            false => options.insert("validator", validator.clone()),
        };
    }
    let words = [
        ("validationLevel", &["off", "strict", "moderate"]),
        ("validationAction", &["error", "warn", "errorAndLog"]),
    ];
    for (field, words) in words {
        if let Some(word) = arguments.text(field)? {
            if !words.contains(&word) {
                return Err(arguments.unlisted(field, word));
            }
            options.insert(field, word);
        }
    }
    Ok(())
}

/// Parses `clusteredIndex` and `expireAfterSeconds`.
fn cluster(arguments: &Arguments<'_>, options: &mut Document) -> Result<(), Fault> {
    let expires = arguments.value("expireAfterSeconds");
    let Some(index) = arguments.document("clusteredIndex")? else {
        return match expires {
            Some(_) => Err(invalid(
                "'expireAfterSeconds' is only supported on time-series collections or when the \
                 'clusteredIndex' option is specified",
            )),
            None => Ok(()),
        };
    };
    let known = ["v", "key", "name", "unique"];
    let index = Arguments::within(index, "create.clusteredIndex", &known)?;
    let key = index.required("key", index.document("key")?)?;
    if key.len() != 1 || key.get("_id").and_then(whole) != Some(1) {
        return Err(Fault::new(
            Code::INVALID_INDEX_SPECIFICATION_OPTION,
            "The clusteredIndex option is only supported for key: {_id: 1}",
        ));
    }
    if !index.boolean("unique")? {
        return Err(Fault::location(
            5979700,
            "The clusteredIndex option requires unique: true to be specified",
        ));
    }
    if expires.is_some() {
        return Err(Fault::new(
            Code::NOT_IMPLEMENTED,
            "clustered collections that expire are not implemented",
        ));
    }
    let name = index.text("name")?.unwrap_or("_id_");
    options.insert(
        "clusteredIndex",
        doc! { "v": 2, "key": { "_id": 1 }, "name": name, "unique": true },
    );
    Ok(())
}

/// Completes a collation with the defaults of its locale. `None` for the simple collation.
pub(in super::super) fn full_collation(collation: &Document) -> Result<Option<Document>, Fault> {
    Collation::parse(collation)?;
    if collation.get_str("locale").is_ok_and(|it| it == "simple") {
        return Ok(None);
    }
    let defaults = doc! {
        "locale": "",
        "caseLevel": false,
        "caseFirst": "off",
        "strength": 3,
        "numericOrdering": false,
        "alternate": "non-ignorable",
        "maxVariable": "punct",
        "normalization": false,
        "backwards": false,
        "version": "57.1",
    };
    let full = defaults.into_iter().map(|(field, default)| {
        let value = collation.get(&field).cloned().unwrap_or(default);
        (field, value)
    });
    Ok(Some(full.collect()))
}
