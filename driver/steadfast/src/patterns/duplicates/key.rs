//! What names an event: the fields that all its copies share, and where a document stands by them.

use std::cmp::Ordering;

use bson::{Bson, Document, RawDocument, doc, oid::ObjectId, raw::RawBsonRef};
use steadfast_value::{BinaryOrder, compare};

use super::MARK;
use crate::{
    error::{Error, Result},
    patterns::path::overlaps,
};

/// The fields that name an event, in their order.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    fields: Vec<String>,
}

impl Key {
    /// Refuses what could never name an event, or what a server could not sort by.
    pub(crate) fn new(fields: &[String], datacenter: &str) -> Result<Self> {
        let refuse = |why: String| Err(Error::invalid_argument(why));
        if fields.is_empty() {
            return refuse(
                "there is no key: say which fields name an event, as in `.key([\"message_id\"])`"
                    .to_owned(),
            );
        }
        for (index, field) in fields.iter().enumerate() {
            if field.contains('\0')
                || field.split('.').any(|part| part.is_empty() || part.starts_with('$'))
            {
                return refuse(format!("{field:?} is not the name of a field"));
            }
            if overlaps(field, MARK) {
                return refuse(format!("{field:?} is no key: a trim keeps its mark there"));
            }
            if overlaps(field, "_id") {
                return refuse(format!("{field:?} is no key: each copy has an `_id` of its own"));
            }
            if overlaps(field, datacenter) {
                return refuse(format!(
                    "{field:?} is no key: each copy has a {datacenter:?} of its own"
                ));
            }
            if let Some(other) = fields[..index].iter().find(|other| overlaps(field, other)) {
                return refuse(format!("{field:?} and {other:?} are in each other's way in a key"));
            }
        }
        if overlaps(datacenter, MARK) {
            return refuse(format!(
                "{datacenter:?} names no datacenter: a trim keeps its mark there"
            ));
        }
        Ok(Self { fields: fields.to_vec() })
    }

    /// By the key, and among copies by their age.
    pub(crate) fn sort(&self) -> Document {
        self.fields.iter().map(|field| (field.clone(), Bson::Int32(1))).chain([by_id()]).collect()
    }

    /// What it takes to tell copies from each other, and no more.
    pub(crate) fn projection(&self, datacenter: &str) -> Document {
        let mut projection = self.sort();
        projection.insert(datacenter, 1);
        projection.insert(MARK, 1);
        projection
    }

    /// Where a document stands.
    pub(crate) fn place(&self, document: &RawDocument) -> Result<Place> {
        let mut values = Vec::with_capacity(self.fields.len());
        for field in &self.fields {
            match value_at(document, field)? {
                Found::Value(value) => values.push(value),
                Found::Nothing => return Ok(Place::Apart(Apart::NoKey)),
                Found::Array => return Ok(Place::Apart(Apart::ArrayKey)),
            }
        }
        Ok(match document.get("_id")? {
            Some(RawBsonRef::ObjectId(id)) => Place::Named(Named { event: Event(values), id }),
            Some(_) | None => Place::Ageless(Event(values)),
        })
    }

    /// The key's fields with the values that an event has there.
    pub(crate) fn shown(&self, event: &Event) -> Document {
        self.fields.iter().cloned().zip(event.0.iter().cloned()).collect()
    }

    /// A filter that only documents of this event match.
    pub(crate) fn filter(&self, event: &Event) -> Document {
        let equals = |value: &Bson| Bson::Document(doc! { "$eq": value.clone() });
        self.fields.iter().cloned().zip(event.0.iter().map(equals)).collect()
    }
}

fn by_id() -> (String, Bson) {
    ("_id".to_owned(), Bson::Int32(1))
}

/// Where a document stands among others.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// It is a copy of an event.
    Named(Named),
    /// It has a key, but its `_id` is not an ObjectId: nothing says which was first.
    Ageless(Event),
    /// It has no copies, as far as can be told.
    Apart(Apart),
}

/// Why a document is nobody's copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Apart {
    /// A field of the key is missing or null.
    NoKey,
    /// A field of the key is an array, or lies within one: a server sorts it by one of the elements.
    ArrayKey,
}

/// A copy of an event. They are in the order that a server sorts them in: by key, then by age.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Named {
    pub(crate) event: Event,
    /// Its bytes begin with the seconds of its timestamp, so that they compare as the ages do.
    pub(crate) id: ObjectId,
}

/// The values of a key, in the order of a server's sorts: `1`, `1.0` and `NumberLong(1)` are one event.
#[derive(Clone, Debug)]
pub(crate) struct Event(Vec<Bson>);

impl Ord for Event {
    fn cmp(&self, other: &Self) -> Ordering {
        let orders =
            self.0.iter().zip(&other.0).map(|(left, right)| compare(left, right, &BinaryOrder));
        orders.fold(Ordering::Equal, Ordering::then)
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Event {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Event {}

enum Found {
    Value(Bson),
    Nothing,
    Array,
}

fn value_at(document: &RawDocument, path: &str) -> Result<Found> {
    let (first, rest) = match path.split_once('.') {
        Some((first, rest)) => (first, Some(rest)),
        None => (path, None),
    };
    Ok(match (document.get(first)?, rest) {
        (None | Some(RawBsonRef::Null | RawBsonRef::Undefined), _) => Found::Nothing,
        (Some(RawBsonRef::Array(_)), _) => Found::Array,
        (Some(RawBsonRef::Document(inner)), Some(rest)) => value_at(inner, rest)?,
        (Some(_), Some(_)) => Found::Nothing,
        (Some(value), None) => Found::Value(value.try_into()?),
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
    fn keys_that_name_no_event_are_refused() {
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
    fn numbers_of_all_types_name_one_event() {
        let key = key(&["n"]);
        let event = |document: &RawDocument| match key.place(document).unwrap() {
            Place::Named(named) => named.event,
            other => panic!("{other:?}"),
        };
        let one = event(&rawdoc! { "_id": id(1), "n": 1 });
        assert_eq!(one, event(&rawdoc! { "_id": id(2), "n": 1.0 }));
        assert_eq!(one, event(&rawdoc! { "_id": id(3), "n": 1_i64 }));
        assert_ne!(one, event(&rawdoc! { "_id": id(4), "n": "1" }));
        assert!(one < event(&rawdoc! { "_id": id(4), "n": 1.5 }));
    }

    #[test]
    fn a_document_without_a_single_key_or_an_object_id_stands_apart() {
        let key = key(&["a.b", "c"]);
        let why = |document: &RawDocument| match key.place(document).unwrap() {
            Place::Named(_) | Place::Ageless(_) => None,
            Place::Apart(why) => Some(why),
        };
        assert_eq!(why(&rawdoc! { "_id": id(1), "a": { "b": 1 }, "c": 1 }), None);
        assert_eq!(why(&rawdoc! { "_id": id(1), "a": { "b": {} }, "c": "x" }), None);
        for none in [
            rawdoc! { "_id": id(1), "a": { "b": 1 } },
            rawdoc! { "_id": id(1), "a": { "b": 1 }, "c": null },
            rawdoc! { "_id": id(1), "a": { "x": 1 }, "c": 1 },
            rawdoc! { "_id": id(1), "a": 1, "c": 1 },
        ] {
            assert_eq!(why(&none), Some(Apart::NoKey), "{none:?}");
        }
        for array in [
            rawdoc! { "_id": id(1), "a": { "b": [1] }, "c": 1 },
            rawdoc! { "_id": id(1), "a": [{ "b": 1 }], "c": 1 },
        ] {
            assert_eq!(why(&array), Some(Apart::ArrayKey), "{array:?}");
        }
        let ageless = rawdoc! { "_id": 7, "a": { "b": 1 }, "c": 1 };
        assert!(matches!(key.place(&ageless).unwrap(), Place::Ageless(_)));
    }
}
