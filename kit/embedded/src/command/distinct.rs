//! `distinct`: distinct values of a field.

use bson::{Bson, Document, doc};
use steadfast_query::{
    Code, Dialect, Fault, Filter,
    path::{self, Path, TrailingArray},
    value,
};

use super::{
    super::{call::Call, namespace::Namespace, store::size_of_document},
    ReadContext,
    arguments::Arguments,
    environment::command_environment,
    resolved_namespace::ResolvedNamespace,
    select::{AccessPath, Hint, select},
};

/// Maximum size of the reply.
const MAX_REPLY_BYTES: usize = 16 * 1024 * 1024;

/// Runs `distinct`.
pub(crate) fn distinct(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    let request = DistinctCommand::read(reading)?;
    let resolved = ResolvedNamespace::of(reading.store, &request.namespace, reading.env)?;
    let env = command_environment(reading.env, None, request.collation, resolved.collection())?;
    let filter = Filter::parse(&request.query, &env)?;
    let access_path = AccessPath::choose(&resolved, &request.query, &filter, &request.hint, &env)?;
    let selected = select(&resolved, access_path, &filter, &env, usize::MAX)?;

    let key = Path::new(request.key);
    let mut values: Vec<&Bson> = Vec::new();
    for document in &selected.documents {
        if env.dialect >= Dialect::V8_2 {
            let parts: Vec<&str> = request.key.split('.').collect();
            gather(document, &parts, &mut values);
            continue;
        }
        key.visit(document, TrailingArray::Whole, &mut |place| {
            match place.value {
                None => {}
                Some(Bson::Array(elements)) => values.extend(elements),
                Some(value) => values.push(value),
            }
            false
        });
    }
    // Of equal values, the first one found is returned.
    values.sort_by(|left, right| value::compare(left, right, &env.collation));
    values.dedup_by(|right, left| value::compare(left, right, &env.collation).is_eq());
    let values: Vec<Bson> = values.into_iter().cloned().collect();
    let reply = doc! { "values": values };
    if size_of_document(&reply) > MAX_REPLY_BYTES {
        return Err(Fault::location(17217, "distinct too big, 16mb cap"));
    }
    Ok(reply)
}

/// Collects the values at a path as 8.2 does: within an array, a number is an index and never a
/// field of the array's documents.
fn gather<'d>(document: &'d Document, parts: &[&str], values: &mut Vec<&'d Bson>) {
    let Some((first, rest)) = parts.split_first() else { return };
    if let Some(value) = document.get(first) {
        gather_in(value, rest, values);
    }
}

fn gather_in<'d>(value: &'d Bson, parts: &[&str], values: &mut Vec<&'d Bson>) {
    match (value, parts.split_first()) {
        (Bson::Array(elements), None) => values.extend(elements),
        (value, None) => values.push(value),
        (Bson::Document(document), Some(_)) => gather(document, parts, values),
        (Bson::Array(elements), Some((first, rest))) => match path::index(first) {
            Some(index) => {
                if let Some(element) = elements.get(index) {
                    gather_in(element, rest, values);
                }
            }
            None => elements
                .iter()
                .filter_map(Bson::as_document)
                .for_each(|document| gather(document, parts, values)),
        },
        (_, Some(_)) => {}
    }
}

/// Parsed arguments of `distinct`.
pub(super) struct DistinctCommand<'a> {
    pub(super) namespace: Namespace,
    pub(super) query: Document,
    pub(super) hint: Hint,
    key: &'a str,
    collation: Option<&'a Document>,
}

impl<'a> DistinctCommand<'a> {
    pub(super) fn read(reading: &ReadContext<'a>) -> Result<Self, Fault> {
        let call: &Call = reading.call;
        let fields: &[&str] = match reading.server_info.max_wire_version {
            // Added in 7.1.
            22.. => &["key", "query", "collation", "hint"],
            _ => &["key", "query", "collation"],
        };
        let arguments = Arguments::of(call, "distinct", fields)?;
        let key = arguments.required("key", arguments.text("key")?)?;
        if key.is_empty() {
            return Err(Fault::new(
                Code::location(40352),
                "FieldPath cannot be constructed with empty string",
            ));
        }
        Ok(Self {
            namespace: Namespace::of_command(&call.database, call.body.get(&call.name))?,
            query: arguments.document("query")?.cloned().unwrap_or_default(),
            hint: Hint::read(arguments.value("hint"))?,
            key,
            collation: arguments.document("collation")?,
        })
    }
}
