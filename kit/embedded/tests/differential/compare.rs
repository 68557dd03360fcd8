//! Comparison of the replies of two servers.

use bson::{Bson, Document};
use testbed::Version;

use crate::operations::Operation;

/// Fields that differ between servers: times, elections, error messages.
const UNCOMPARED: [&str; 8] = [
    "$clusterTime",
    "operationTime",
    "electionId",
    "opTime",
    "topologyVersion",
    "errmsg",
    "codeName",
    "errInfo",
];

/// Comparable part of a reply.
pub(crate) fn comparable_part(operation: &Operation, reply: &Document, version: Version) -> Bson {
    let mut reply = without_uncompared(reply);
    if version >= Version::V8_2 && operation.has_ties() {
        return without_order(reply, operation);
    }
    // A server does not define which of several invalid expressions it reports, and may report
    // different ones for equal commands.
    if operation.command.contains_key("aggregate") && reply.contains_key("code") {
        return "rejected".into();
    }
    // Nor does it define the document or the operand at which an expression fails.
    let command = operation.command.to_string();
    if command.contains("$expr")
        || command.contains("\"u\": [")
        || command.contains("\"update\": [")
    {
        if reply.contains_key("code") {
            return "rejected".into();
        }
        if let Ok(errors) = reply.get_array_mut("writeErrors") {
            for error in errors.iter_mut().filter_map(Bson::as_document_mut) {
                error.remove("code");
            }
        }
    }
    if let Ok(cursor) = reply.get_document_mut("cursor") {
        cursor.remove("id");
        // Whether a cursor needs an empty batch to find its end is not defined.
        if let Ok(sizes) = cursor.get_array_mut("sizes") {
            while sizes.pop_if(|size| *size == Bson::Int32(0)).is_some() {}
        }
        if let (false, Ok(batch)) = (operation.ordered, cursor.get_array_mut("firstBatch")) {
            batch.sort_by_cached_key(shown);
        }
    }
    if let Ok(values) = reply.get_array_mut("values") {
        values.sort_by_cached_key(shown);
    }
    reply.into()
}

/// Comparable part of a reply where 8.2 sorts equal documents in an undefined order.
fn without_order(mut reply: Document, operation: &Operation) -> Bson {
    if reply.contains_key("code") {
        return "rejected".into();
    }
    let batch = reply.get_document_mut("cursor").and_then(|it| it.get_array_mut("firstBatch"));
    let Ok(batch) = batch else { return reply.into() };
    if operation.takes_some() {
        return Bson::Int64(batch.len().try_into().expect("few documents"));
    }
    for facets in batch.iter_mut().filter_map(Bson::as_document_mut) {
        if let Ok(some) = facets.get_array_mut("some") {
            some.sort_by_cached_key(shown);
        }
    }
    batch.sort_by_cached_key(shown);
    Bson::Array(std::mem::take(batch))
}

fn without_uncompared(document: &Document) -> Document {
    let mut kept = document.clone();
    UNCOMPARED.iter().for_each(|name| drop(kept.remove(name)));
    if let Ok(errors) = kept.get_array_mut("writeErrors") {
        for error in errors.iter_mut().filter_map(Bson::as_document_mut) {
            *error = without_uncompared(error);
        }
    }
    kept
}

/// Returns `true` for bitwise equal values: NaN equals NaN, -0.0 differs from 0.0, and int differs
/// from long.
pub(crate) fn are_identical(left: &Bson, right: &Bson) -> bool {
    shown(left) == shown(right)
}

pub(crate) fn shown(value: &Bson) -> String {
    format!("{value:?}")
}

/// Path and values of the first difference.
pub(crate) fn difference(path: &str, left: &Bson, right: &Bson) -> Option<String> {
    let below = |name: &str| format!("{path}.{name}");
    match (left, right) {
        (Bson::Document(left), Bson::Document(right)) if left.keys().eq(right.keys()) => left
            .iter()
            .zip(right)
            .find_map(|((name, left), (_, right))| difference(&below(name), left, right)),
        (Bson::Array(left), Bson::Array(right)) if left.len() == right.len() => left
            .iter()
            .zip(right)
            .enumerate()
            .find_map(|(at, (left, right))| difference(&below(&at.to_string()), left, right)),
        _ if are_identical(left, right) => None,
        _ => Some(format!("{path}: {} is not {}", shown(left), shown(right))),
    }
}

/// Returns `true` for an error that the optimizer raised before it had a document. Which parts it
/// computes in advance is not defined.
pub(crate) fn is_optimizer_error(reply: &Document) -> bool {
    let says_so =
        |it: &Document| it.get_str("errmsg").is_ok_and(|it| it.contains("Failed to optimize"));
    let errors = reply.get_array("writeErrors").into_iter().flatten();
    says_so(reply) || errors.filter_map(Bson::as_document).any(says_so)
}
