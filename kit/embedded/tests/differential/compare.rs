//! Whether two servers gave the same answer.

use bson::{Bson, Document};
use testbed::Version;

use crate::operations::Operation;

/// What is a server's own: times, elections, ids of cursors, and the words of errors, except those
/// that applications are known to read.
const OWN: [&str; 8] = [
    "$clusterTime",
    "operationTime",
    "electionId",
    "opTime",
    "topologyVersion",
    "errmsg",
    "codeName",
    "errInfo",
];

/// What counts in an answer.
pub(crate) fn essence(operation: &Operation, reply: &Document, version: Version) -> Bson {
    let mut reply = without_own(reply);
    if version >= Version::V8_2 && operation.has_ties() {
        return without_order(reply, operation);
    }
    // Which of several bad expressions is found first is not said, not even by one server twice.
    if operation.command.contains_key("aggregate") && reply.contains_key("code") {
        return "refused".into();
    }
    // Nor is with which document an expression fails, or which of a pipeline's operands.
    let command = operation.command.to_string();
    if command.contains("$expr")
        || command.contains("\"u\": [")
        || command.contains("\"update\": [")
    {
        if reply.contains_key("code") {
            return "refused".into();
        }
        if let Ok(errors) = reply.get_array_mut("writeErrors") {
            for error in errors.iter_mut().filter_map(Bson::as_document_mut) {
                error.remove("code");
            }
        }
    }
    if let Ok(cursor) = reply.get_document_mut("cursor") {
        cursor.remove("id");
        // Whether it takes an empty batch to find out that there are no more is a server's own.
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

/// What counts where 8.2 sorts documents that are equal in an order of its own.
fn without_order(mut reply: Document, operation: &Operation) -> Bson {
    if reply.contains_key("code") {
        return "refused".into();
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

fn without_own(document: &Document) -> Document {
    let mut kept = document.clone();
    OWN.iter().for_each(|name| drop(kept.remove(name)));
    if let Ok(errors) = kept.get_array_mut("writeErrors") {
        for error in errors.iter_mut().filter_map(Bson::as_document_mut) {
            *error = without_own(error);
        }
    }
    kept
}

/// Equal in every bit: NaN is NaN, -0.0 is not 0.0, and an int32 is no int64.
pub(crate) fn are_same(left: &Bson, right: &Bson) -> bool {
    shown(left) == shown(right)
}

pub(crate) fn shown(value: &Bson) -> String {
    format!("{value:?}")
}

/// The path of the first value that differs, and both values.
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
        _ if are_same(left, right) => None,
        _ => Some(format!("{path}: {} is not {}", shown(left), shown(right))),
    }
}

/// Whether this is an error that the optimizer came upon before there was a document: which parts it
/// computes beforehand is its own.
pub(crate) fn is_optimizers(reply: &Document) -> bool {
    let says_so =
        |it: &Document| it.get_str("errmsg").is_ok_and(|it| it.contains("Failed to optimize"));
    let errors = reply.get_array("writeErrors").into_iter().flatten();
    says_so(reply) || errors.filter_map(Bson::as_document).any(says_so)
}
