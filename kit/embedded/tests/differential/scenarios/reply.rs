//! Comparison of replies: everything except what differs between two servers of one version.

use bson::{Bson, Document, spec::BinarySubtype};

/// Fields whose presence is compared and whose value is not.
const UNCOMPARED: [&str; 8] = [
    "$clusterTime",
    "errmsg",
    "topologyVersion",
    // Resume tokens, of a format of their own.
    "_data",
    // Positions in the oplog.
    "opTime",
    "electionId",
    // Of a snapshot or of a cluster.
    "wallTime",
    "clusterId",
];

/// A field that differs.
#[derive(Clone, Debug)]
pub(crate) struct Difference {
    pub(crate) path: String,
    pub(crate) real: String,
    pub(crate) embedded: String,
}

/// Returns all fields in which two replies differ.
pub(crate) fn differences(real: &Document, embedded: &Document) -> Vec<Difference> {
    let mut found = Vec::new();
    let [real, embedded] = [real, embedded].map(|reply| Bson::from(comparable(reply)));
    compare("", Some(&real), Some(&embedded), &mut found);
    found
}

fn compare(path: &str, real: Option<&Bson>, embedded: Option<&Bson>, found: &mut Vec<Difference>) {
    let below =
        |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
    match (real, embedded) {
        (Some(Bson::Document(real)), Some(Bson::Document(embedded))) => {
            let names = real.keys().chain(embedded.keys().filter(|name| !real.contains_key(name)));
            names.for_each(|name| compare(&below(name), real.get(name), embedded.get(name), found));
        }
        (Some(Bson::Array(real)), Some(Bson::Array(embedded))) => {
            for at in 0..real.len().max(embedded.len()) {
                compare(&below(&at.to_string()), real.get(at), embedded.get(at), found);
            }
        }
        _ => {
            let [real, embedded] = [real, embedded].map(shown);
            if real != embedded {
                found.push(Difference { path: path.to_owned(), real, embedded });
            }
        }
    }
}

/// The reply without the values that are not compared.
fn comparable(reply: &Document) -> Document {
    let mut comparable = Document::new();
    for (name, value) in reply {
        let value = match (name.as_str(), value) {
            (name, _) if UNCOMPARED.contains(&name) => "(any)".into(),
            ("cursor", Bson::Document(cursor)) => with_unnumbered_id(cursor).into(),
            ("errorLabels", Bson::Array(labels)) => {
                let mut labels = labels.clone();
                labels.sort_by_key(|label| shown(Some(label)));
                labels.into()
            }
            // Orders of their own: of shards, or of hashes.
            ("cursorsKilled" | "cursorsNotFound", Bson::Array(ids)) => {
                let mut ids: Vec<_> = ids.iter().map(unnumbered).collect();
                ids.sort_by_key(|id| shown(Some(id)));
                ids.into()
            }
            ("values" | "retriedStmtIds", Bson::Array(values)) => {
                let mut values: Vec<_> = values.iter().map(masked).collect();
                values.sort_by_key(|value| shown(Some(value)));
                values.into()
            }
            (_, value) => masked(value),
        };
        comparable.insert(portless(name), value);
    }
    comparable
}

/// Masks a cursor id that a server has generated. Scenarios themselves use small numbers only.
fn unnumbered(id: &Bson) -> Bson {
    match id {
        Bson::Int64(id) if *id > 1_000_000_000 => "(id)".into(),
        other => masked(other),
    }
}

fn with_unnumbered_id(cursor: &Document) -> Document {
    let mut cursor = comparable(cursor);
    if cursor.get_i64("id").is_ok_and(|id| id != 0) {
        cursor.insert("id", "(open)");
    }
    cursor
}

/// Masks times and identifiers that servers generate.
fn masked(value: &Bson) -> Bson {
    match value {
        Bson::Document(document) => comparable(document).into(),
        Bson::Array(values) => values.iter().map(masked).collect::<Vec<_>>().into(),
        Bson::Timestamp(_) => "(timestamp)".into(),
        Bson::ObjectId(_) => "(ObjectId)".into(),
        Bson::DateTime(_) => "(date)".into(),
        Bson::Binary(binary) if binary.subtype == BinarySubtype::Uuid => "(UUID)".into(),
        other => other.clone(),
    }
}

/// The names of fields that are addresses, without the port.
fn portless(name: &str) -> String {
    match name.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|it| it.is_ascii_digit()) => {
            format!("{host}:(port)")
        }
        _ => name.to_owned(),
    }
}

/// A value with its type.
fn shown(value: Option<&Bson>) -> String {
    match value {
        None => "absent".to_owned(),
        Some(Bson::Int64(number)) => format!("{number}L"),
        Some(Bson::Double(number)) => format!("{number:?}"),
        Some(Bson::String(text)) if text.starts_with('(') => text.clone(),
        Some(Bson::Array(values)) => {
            let values: Vec<_> = values.iter().map(|value| shown(Some(value))).collect();
            format!("[{}]", values.join(", "))
        }
        Some(Bson::Document(document)) => {
            let fields: Vec<_> = document
                .iter()
                .map(|(name, value)| format!("{name}: {}", shown(Some(value))))
                .collect();
            format!("{{{}}}", fields.join(", "))
        }
        Some(other) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use bson::{Timestamp, doc};

    use super::*;

    #[test]
    fn every_difference_is_found() {
        let time = |time| Timestamp { time, increment: 1 };
        let real = doc! { "ok": 1.0, "n": 1, "operationTime": time(1), "cursor": { "id": 7_i64 } };
        let same = doc! { "ok": 1.0, "n": 1, "operationTime": time(2), "cursor": { "id": 8_i64 } };
        assert!(differences(&real, &same).is_empty());
        let other = doc! { "ok": 1.0, "n": 1_i64, "cursor": { "id": 0_i64 }, "more": [1] };
        let found: Vec<_> = differences(&real, &other)
            .into_iter()
            .map(|it| format!("{}: {} {}", it.path, it.real, it.embedded))
            .collect();
        let expected = [
            "n: 1 1L",
            "operationTime: (timestamp) absent",
            "cursor.id: (open) 0L",
            "more: absent [1]",
        ];
        assert_eq!(found, expected);
    }
}
