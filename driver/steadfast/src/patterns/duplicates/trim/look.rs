//! Looking at copies once more, at the primaries, before any of them is deleted.

use std::collections::BTreeMap;

use bson::{Bson, RawDocument, RawDocumentBuf, doc, oid::ObjectId, raw::RawBsonRef};
use sha2::{Digest, Sha256};
use steadfast_core::{concern::ReadConcern, read_preference::ReadPreference};
use steadfast_value::{BinaryOrder, compare};

use super::{
    Deployments, Finding,
    group::{Copy, Group},
    value_in,
};
use crate::{
    error::Result,
    patterns::duplicates::{
        MARK,
        key::{Event, Place},
    },
};

/// The copies that are there, of all that were looked for.
#[derive(Debug, Default)]
pub(super) struct Seen {
    copies: BTreeMap<(usize, ObjectId), Vec<Sight>>,
}

/// A copy that is there.
#[derive(Debug)]
struct Sight {
    event: Event,
    datacenter: Option<Bson>,
    /// A digest of all that copies have in common, so that no more than one document is held at a time.
    content: [u8; 32],
}

impl Deployments {
    /// Looks for all copies of these events, or for those that bear a mark.
    pub(super) async fn look(&self, groups: &[Group], mark: Option<ObjectId>) -> Result<Seen> {
        let mut seen = Seen::default();
        for (source, collection) in self.collections.iter().enumerate() {
            let copies = groups.iter().flat_map(Group::copies);
            let ids: Vec<_> = copies.filter(|it| it.source == source).map(|it| it.id).collect();
            if ids.is_empty() {
                continue;
            }
            let mut filter = doc! { "_id": { "$in": ids } };
            filter.extend(mark.map(|mark| (MARK.to_owned(), mark.into())));
            let mut cursor = collection
                .clone_with_type::<RawDocumentBuf>()
                .find(filter)
                .selection_criteria(ReadPreference::Primary.into())
                .read_concern(ReadConcern::majority())
                .await?;
            while cursor.advance().await? {
                let document = cursor.current();
                let Place::Named(named) = self.key.place(document)? else { continue };
                let sight = Sight {
                    event: named.event,
                    datacenter: value_in(document, &self.datacenter_field)?,
                    content: content(document, &self.datacenter_field)?,
                };
                seen.copies.entry((source, named.id)).or_default().push(sight);
            }
        }
        Ok(seen)
    }
}

/// A digest of a document without what each copy has of its own. It goes by the bytes: fields that a document has
/// twice are two fields.
fn content(document: &RawDocument, datacenter_field: &str) -> Result<[u8; 32]> {
    let common = without(document, &["_id", MARK, datacenter_field])?;
    Ok(Sha256::digest(common.as_bytes()).into())
}

/// The document without these fields, which may be named with dots.
fn without(document: &RawDocument, paths: &[&str]) -> Result<RawDocumentBuf> {
    let mut rest = RawDocumentBuf::new();
    for element in document {
        let (name, value) = element?;
        if paths.contains(&name.as_str()) {
            continue;
        }
        let inner = paths.iter().find_map(|it| it.strip_prefix(name.as_str())?.strip_prefix('.'));
        match (inner, value) {
            (Some(inner), RawBsonRef::Document(value)) => {
                rest.append(name, without(value, &[inner])?);
            }
            (_, value) => rest.append(name, value),
        }
    }
    Ok(rest)
}

impl Seen {
    /// A copy, if it is there, and whether nothing tells it from another: two shards of a datacenter may have
    /// documents with one `_id`, and a write would meet both.
    fn sight(&self, event: &Event, copy: &Copy) -> Option<(&Sight, bool)> {
        let sights = self.copies.get(&(copy.source, copy.id))?.iter();
        let mut sights =
            sights.filter(|it| it.event == *event && is_same(&it.datacenter, &copy.datacenter));
        sights.next().map(|sight| (sight, sights.next().is_some()))
    }

    /// Whether a copy is among them.
    pub(super) fn has(&self, event: &Event, copy: &Copy) -> bool {
        self.sight(event, copy).is_some()
    }

    /// What is to be done with each of the copies beside the one to keep, in their order.
    pub(super) fn findings(&self, group: &Group) -> Vec<Finding> {
        let kept = self.sight(&group.event, &group.kept);
        let finding = |copy: &Copy| match (kept, self.sight(&group.event, copy)) {
            (None, _) | (_, None) => Finding::Gone,
            (Some((_, true)), _) | (_, Some((_, true))) => Finding::Indistinguishable,
            _ if copy.is_as_old_as(&group.kept) => Finding::Indistinguishable,
            (Some((kept, _)), Some((copy, _))) if kept.content == copy.content => Finding::Surplus,
            (Some(_), Some(_)) => Finding::Differs,
        };
        group.others.iter().map(finding).collect()
    }
}

/// Whether a filter for the one finds the other.
fn is_same(one: &Option<Bson>, other: &Option<Bson>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => compare(one, other, &BinaryOrder).is_eq(),
        (one, other) => one.is_none() && other.is_none(),
    }
}

#[cfg(test)]
mod tests {
    use bson::{raw::cstr, rawdoc};

    use super::*;
    use crate::patterns::duplicates::{key::Key, trim::group::Groups};

    fn same(one: &RawDocument, other: &RawDocument, field: &str) -> bool {
        content(one, field).unwrap() == content(other, field).unwrap()
    }

    #[test]
    fn copies_may_differ_in_their_id_their_datacenter_and_a_mark() {
        let one = rawdoc! { "_id": 1, "dc": "alfa", "n": 1 };
        assert!(same(
            &one,
            &rawdoc! { "_id": 2, "n": 1, "steadfast_trim": 7, "dc": "bravo" },
            "dc"
        ));
        assert!(!same(&one, &rawdoc! { "_id": 2, "dc": "bravo", "n": 1_i64 }, "dc"));
        let one = rawdoc! { "_id": 1, "meta": { "dc": "alfa", "_id": 1 } };
        assert!(same(&one, &rawdoc! { "_id": 2, "meta": { "dc": "bravo", "_id": 1 } }, "meta.dc"));
        assert!(!same(&one, &rawdoc! { "_id": 2, "meta": { "dc": "bravo", "_id": 2 } }, "meta.dc"));
        assert!(!same(&one, &rawdoc! { "_id": 2, "meta": "alfa" }, "meta.dc"));
    }

    #[test]
    fn a_field_that_a_document_has_twice_is_compared_twice() {
        let twice = |first: i32| {
            let mut document = rawdoc! { "_id": first };
            document.append(cstr!("n"), first);
            document.append(cstr!("n"), 3);
            document
        };
        assert!(!same(&twice(1), &twice(2), "dc"));
    }

    /// What is found of the other copies when these are there, as they were when they were listed.
    fn found(documents: &[RawDocumentBuf]) -> Vec<Finding> {
        let key = Key::new(&["n".to_owned()], "dc").unwrap();
        let (mut groups, mut seen) = (Groups::default(), Seen::default());
        for document in documents {
            let Place::Named(named) = key.place(document).unwrap() else { panic!("{document:?}") };
            let datacenter = value_in(document, "dc").unwrap();
            let datacenter_of_copy = datacenter.clone();
            let copy = Copy { source: 0, id: named.id, datacenter: datacenter_of_copy, mark: None };
            groups.add(named.event.clone(), copy);
            let content = content(document, "dc").unwrap();
            let sight = Sight { event: named.event, datacenter, content };
            seen.copies.entry((0, named.id)).or_default().push(sight);
        }
        seen.findings(&groups.finish().expect("there are several"))
    }

    fn id(last: u8) -> ObjectId {
        ObjectId::from_bytes([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, last])
    }

    #[test]
    fn documents_of_one_datacenter_with_one_id_are_left_alone() {
        let copy = |last, text| rawdoc! { "_id": id(last), "n": 1, "dc": "alfa", "text": text };
        assert_eq!(found(&[copy(1, "a"), copy(2, "a")]), [Finding::Surplus]);
        let twins = [copy(1, "a"), copy(2, "a"), copy(2, "other")];
        assert_eq!(found(&twins), [Finding::Indistinguishable; 2]);
        let kept_twice = [copy(1, "a"), copy(1, "a"), copy(2, "a")];
        assert_eq!(found(&kept_twice), [Finding::Indistinguishable; 2]);
    }

    #[test]
    fn a_datacenter_that_is_not_a_number_is_found_again() {
        let copy = |last| rawdoc! { "_id": id(last), "n": 1, "dc": f64::NAN };
        assert_eq!(found(&[copy(1), copy(2)]), [Finding::Surplus]);
    }
}
