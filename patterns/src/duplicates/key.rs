//! Keys of events: the fields that all copies share, and the position of a document by them.

use std::cmp::Ordering;

use bson::{Bson, Document, RawDocument, doc, oid::ObjectId, raw::RawBsonRef};
use steadfast_value::{BinaryOrder, compare};

use super::MARK;
use crate::path::overlaps;
use steadfast::error::{Error, Result};

/// Fields of the key, in order.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    fields: Vec<String>,
}

impl Key {
    /// Rejects keys that cannot identify an event, or that a server cannot sort by.
    pub(crate) fn new(fields: &[String], datacenter: &str) -> Result<Self> {
        let reject = |reason: String| Err(Error::invalid_argument(reason));
        if fields.is_empty() {
            return reject(
                "the key is missing: set the fields that identify an event, such as `.key([\"message_id\"])`"
                    .to_owned(),
            );
        }
        for (index, field) in fields.iter().enumerate() {
            if field.contains('\0')
                || field.split('.').any(|part| part.is_empty() || part.starts_with('$'))
            {
                return reject(format!("{field:?} is not a field name"));
            }
            if overlaps(field, MARK) {
                return reject(format!(
                    "{field:?} cannot be a key: it is reserved for the marks of a trim"
                ));
            }
            if overlaps(field, "_id") {
                return reject(format!(
                    "{field:?} cannot be a key: each copy has a different `_id`"
                ));
            }
            if overlaps(field, datacenter) {
                return reject(format!(
                    "{field:?} cannot be a key: each copy has a different {datacenter:?}"
                ));
            }
            if let Some(other) = fields[..index].iter().find(|other| overlaps(field, other)) {
                return reject(format!("the fields {field:?} and {other:?} of the key overlap"));
            }
        }
        if overlaps(datacenter, MARK) {
            return reject(format!(
                "{datacenter:?} cannot be the datacenter field: it is reserved for the marks of a trim"
            ));
        }
        Ok(Self { fields: fields.to_vec() })
    }

    /// Sort by the key, then by age.
    pub(crate) fn sort(&self) -> Document {
        self.fields.iter().map(|field| (field.clone(), Bson::Int32(1))).chain([by_id()]).collect()
    }

    /// Projection of the fields that identify a copy.
    pub(crate) fn projection(&self, datacenter: &str) -> Document {
        let mut projection = self.sort();
        projection.insert(datacenter, 1);
        projection.insert(MARK, 1);
        projection
    }

    /// Returns the position of a document.
    pub(crate) fn position(&self, document: &RawDocument) -> Result<KeyPosition> {
        let mut values = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            match value_at(document, field)? {
                KeyValue::Value(value) => values.push(value),
                KeyValue::Nothing => return Ok(KeyPosition::NotACopy(NotACopy::NoKey)),
                KeyValue::Array => return Ok(KeyPosition::NotACopy(NotACopy::ArrayKey)),
            }
        }
        Ok(match document.get("_id")? {
            Some(RawBsonRef::ObjectId(id)) => {
                KeyPosition::EventCopy(EventCopy { event: EventKey(values), id })
            }
            Some(_) | None => KeyPosition::WithoutAge(EventKey(values)),
        })
    }

    /// Returns the fields of the key with the values of an event.
    pub(crate) fn to_document(&self, event: &EventKey) -> Document {
        self.fields.iter().cloned().zip(event.0.iter().cloned()).collect()
    }

    /// Returns a filter that matches documents of this event only.
    pub(crate) fn filter(&self, event: &EventKey) -> Document {
        let equals = |value: &Bson| Bson::Document(doc! { "$eq": value.clone() });
        self.fields.iter().cloned().zip(event.0.iter().map(equals)).collect()
    }
}

fn by_id() -> (String, Bson) {
    ("_id".to_owned(), Bson::Int32(1))
}

/// Position of a document among others.
#[derive(Clone, Debug)]
pub(crate) enum KeyPosition {
    /// A copy of an event.
    EventCopy(EventCopy),
    /// A document with a key whose `_id` is not an ObjectId: the order of copies is unknown.
    WithoutAge(EventKey),
    /// A document that is not recognisable as a copy.
    NotACopy(NotACopy),
}

/// Reason why a document is not a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NotACopy {
    /// A field of the key is missing or null.
    NoKey,
    /// A field of the key is an array, or lies within one: a server sorts it by one of the elements.
    ArrayKey,
}

/// Copy of an event, in the sort order of a server: by key, then by age.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct EventCopy {
    pub(crate) event: EventKey,
    /// Its bytes begin with the seconds of the timestamp, so their order is that of ages.
    pub(crate) id: ObjectId,
}

/// Values of a key, compared as a server sorts: `1`, `1.0` and `NumberLong(1)` are equal.
#[derive(Clone, Debug)]
pub(crate) struct EventKey(Vec<Bson>);

impl Ord for EventKey {
    fn cmp(&self, other: &Self) -> Ordering {
        let orders =
            self.0.iter().zip(&other.0).map(|(left, right)| compare(left, right, &BinaryOrder));
        orders.fold(Ordering::Equal, Ordering::then)
    }
}

impl PartialOrd for EventKey {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for EventKey {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for EventKey {}

enum KeyValue {
    Value(Bson),
    Nothing,
    Array,
}

fn value_at(document: &RawDocument, path: &str) -> Result<KeyValue> {
    let (first, rest) = match path.split_once('.') {
        Some((first, rest)) => (first, Some(rest)),
        None => (path, None),
    };
    Ok(match (document.get(first)?, rest) {
        (None | Some(RawBsonRef::Null | RawBsonRef::Undefined), _) => KeyValue::Nothing,
        (Some(RawBsonRef::Array(_)), _) => KeyValue::Array,
        (Some(RawBsonRef::Document(inner)), Some(rest)) => value_at(inner, rest)?,
        (Some(_), Some(_)) => KeyValue::Nothing,
        (Some(value), None) => KeyValue::Value(value.try_into()?),
    })
}

#[cfg(test)]
mod tests {
    use bson::rawdoc;

    use super::*;

    fn key(fields: &[&str]) -> Key {
        let fields: Vec<_> = fields.iter().map(ToString::to_string).collect();
        Key::new(&fields, "datacenter").unwrap()
    }

    fn id(last: u8) -> ObjectId {
        ObjectId::from_bytes([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, last])
    }

    #[test]
    fn invalid_keys_are_rejected() {
        for fields in [
            &[][..],
            &["_id"],
            &["_id.part"],
            &["datacenter"],
            &["a", "a"],
            &["a", "a.b"],
            &["a.b", "a"],
            &[""],
            &["a..b"],
            &["a."],
            &["$a"],
            &["a\0"],
            &["steadfast_trim"],
            &["a", "steadfast_trim.b"],
        ] {
            let fields: Vec<_> = fields.iter().map(ToString::to_string).collect();
            assert!(Key::new(&fields, "datacenter").is_err(), "{fields:?}");
        }
        assert!(Key::new(&["meta".to_owned()], "meta.datacenter").is_err());
        assert!(Key::new(&["a".to_owned()], "steadfast_trim").is_err());
        key(&["a", "ab", "b.c", "b.d"]);
    }

    #[test]
    fn equal_numbers_of_different_types_are_one_event() {
        let key = key(&["n"]);
        let event = |document: &RawDocument| match key.position(document).unwrap() {
            KeyPosition::EventCopy(copy) => copy.event,
            other => panic!("{other:?}"),
        };
        let one = event(&rawdoc! { "_id": id(1), "n": 1 });
        assert_eq!(one, event(&rawdoc! { "_id": id(2), "n": 1.0 }));
        assert_eq!(one, event(&rawdoc! { "_id": id(3), "n": 1_i64 }));
        assert_ne!(one, event(&rawdoc! { "_id": id(4), "n": "1" }));
        assert!(one < event(&rawdoc! { "_id": id(4), "n": 1.5 }));
    }

    #[test]
    fn documents_without_a_scalar_key_or_an_object_id_are_not_copies() {
        let key = key(&["a.b", "c"]);
        let reason = |document: &RawDocument| match key.position(document).unwrap() {
            KeyPosition::EventCopy(_) | KeyPosition::WithoutAge(_) => None,
            KeyPosition::NotACopy(reason) => Some(reason),
        };
        assert_eq!(reason(&rawdoc! { "_id": id(1), "a": { "b": 1 }, "c": 1 }), None);
        assert_eq!(reason(&rawdoc! { "_id": id(1), "a": { "b": {} }, "c": "x" }), None);
        for none in [
            rawdoc! { "_id": id(1), "a": { "b": 1 } },
            rawdoc! { "_id": id(1), "a": { "b": 1 }, "c": null },
            rawdoc! { "_id": id(1), "a": { "x": 1 }, "c": 1 },
            rawdoc! { "_id": id(1), "a": 1, "c": 1 },
        ] {
            assert_eq!(reason(&none), Some(NotACopy::NoKey), "{none:?}");
        }
        for array in [
            rawdoc! { "_id": id(1), "a": { "b": [1] }, "c": 1 },
            rawdoc! { "_id": id(1), "a": [{ "b": 1 }], "c": 1 },
        ] {
            assert_eq!(reason(&array), Some(NotACopy::ArrayKey), "{array:?}");
        }
        let ageless = rawdoc! { "_id": 7, "a": { "b": 1 }, "c": 1 };
        assert!(matches!(key.position(&ageless).unwrap(), KeyPosition::WithoutAge(_)));
    }
}
