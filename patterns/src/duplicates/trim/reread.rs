//! Second read of copies, from the primaries, before any is deleted.

use std::collections::BTreeMap;

use bson::{Bson, RawDocument, RawDocumentBuf, ToStr, doc, oid::ObjectId, raw::RawBsonRef};
use sha2::{Digest, Sha256};
use steadfast::options::{ReadConcern, ReadPreference};
use steadfast_value::{BinaryOrder, compare};

use super::{
    Deployments, Finding,
    group::{CopyGroup, ListedCopy},
    value_in,
};
use crate::duplicates::{
    MARK,
    key::{EventKey, KeyPosition},
};
use steadfast::error::Result;

/// Copies that exist.
#[derive(Debug, Default)]
pub(super) struct FoundCopies {
    copies: BTreeMap<(usize, ObjectId), Vec<FoundCopy>>,
}

/// A copy that exists.
#[derive(Debug)]
struct FoundCopy {
    event: EventKey,
    datacenter: Option<Bson>,
    /// Digest of the fields that copies have in common, so that only one document is in memory.
    content: [u8; 32],
}

impl Deployments {
    /// Reads all copies of these events, or those with a mark.
    pub(super) async fn reread(
        &self,
        groups: &[CopyGroup],
        mark: Option<ObjectId>,
    ) -> Result<FoundCopies> {
        let mut found_copies = FoundCopies::default();
        for (source, collection) in self.collections.iter().enumerate() {
            let copies = groups.iter().flat_map(CopyGroup::copies);
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
                let KeyPosition::EventCopy(copy) = self.key.position(document)? else { continue };
                let found = FoundCopy {
                    event: copy.event,
                    datacenter: value_in(document, &self.datacenter_field)?,
                    content: content(document, &self.datacenter_field)?,
                };
                found_copies.copies.entry((source, copy.id)).or_default().push(found);
            }
        }
        Ok(found_copies)
    }
}

/// Returns a digest of a document without the fields that differ between copies. It covers the bytes: a
/// repeated field counts twice.
fn content(document: &RawDocument, datacenter_field: &str) -> Result<[u8; 32]> {
    let common = without(document, &["_id", MARK, datacenter_field])?;
    Ok(Sha256::digest(common.as_bytes()).into())
}

/// Returns the document without these paths.
fn without(document: &RawDocument, paths: &[&str]) -> Result<RawDocumentBuf> {
    let mut rest = RawDocumentBuf::new();
    for element in document {
        let (name, value) = element?;
        if paths.contains(&name.to_str()) {
            continue;
        }
        let inner = paths.iter().find_map(|it| it.strip_prefix(name.to_str())?.strip_prefix('.'));
        match (inner, value) {
            (Some(inner), RawBsonRef::Document(value)) => {
                rest.append(name, without(value, &[inner])?);
            }
            (_, value) => bson::append_ref(&mut rest, name, value),
        }
    }
    Ok(rest)
}

impl FoundCopies {
    /// Returns a copy if it exists, and `true` if another one is not distinguishable from it: two shards of a
    /// datacenter may have documents with one `_id`, and a write would match both.
    fn found(&self, event: &EventKey, copy: &ListedCopy) -> Option<(&FoundCopy, bool)> {
        let copies = self.copies.get(&(copy.source, copy.id))?.iter();
        let mut copies =
            copies.filter(|it| it.event == *event && is_same(&it.datacenter, &copy.datacenter));
        copies.next().map(|found| (found, copies.next().is_some()))
    }

    /// Returns `true` if the copy exists.
    pub(super) fn has(&self, event: &EventKey, copy: &ListedCopy) -> bool {
        self.found(event, copy).is_some()
    }

    /// Returns the finding of each copy other than the one to keep, in order.
    pub(super) fn findings(&self, group: &CopyGroup) -> Vec<Finding> {
        let kept = self.found(&group.event, &group.kept);
        let finding = |copy: &ListedCopy| match (kept, self.found(&group.event, copy)) {
            (None, _) | (_, None) => Finding::Missing,
            (Some((_, true)), _) | (_, Some((_, true))) => Finding::Indistinguishable,
            _ if copy.has_same_age_as(&group.kept) => Finding::Indistinguishable,
            (Some((kept, _)), Some((copy, _))) if kept.content == copy.content => Finding::Surplus,
            (Some(_), Some(_)) => Finding::Differs,
        };
        group.others.iter().map(finding).collect()
    }
}

/// Returns `true` if a filter on one value matches the other.
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
    use crate::duplicates::{key::Key, trim::group::CopyGroups};

    fn same(one: &RawDocument, other: &RawDocument, field: &str) -> bool {
        content(one, field).unwrap() == content(other, field).unwrap()
    }

    #[test]
    fn copies_may_differ_in_id_datacenter_and_mark() {
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
    fn repeated_fields_are_compared_one_by_one() {
        let twice = |first: i32| {
            let mut document = rawdoc! { "_id": first };
            document.append(cstr!("n"), first);
            document.append(cstr!("n"), 3);
            document
        };
        assert!(!same(&twice(1), &twice(2), "dc"));
    }

    /// Findings when these documents exist as they were listed.
    fn found(documents: &[RawDocumentBuf]) -> Vec<Finding> {
        let key = Key::new(&["n".to_owned()], "dc").unwrap();
        let (mut groups, mut found_copies) = (CopyGroups::default(), FoundCopies::default());
        for document in documents {
            let KeyPosition::EventCopy(copy) = key.position(document).unwrap() else {
                panic!("{document:?}")
            };
            let datacenter = value_in(document, "dc").unwrap();
            let listed =
                ListedCopy { source: 0, id: copy.id, datacenter: datacenter.clone(), mark: None };
            groups.add(copy.event.clone(), listed);
            let content = content(document, "dc").unwrap();
            let found = FoundCopy { event: copy.event, datacenter, content };
            found_copies.copies.entry((0, copy.id)).or_default().push(found);
        }
        found_copies.findings(&groups.finish().expect("there are several"))
    }

    fn id(last: u8) -> ObjectId {
        ObjectId::from_bytes([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, last])
    }

    #[test]
    fn documents_of_one_datacenter_with_the_same_id_are_kept() {
        let copy = |last, text| rawdoc! { "_id": id(last), "n": 1, "dc": "alfa", "text": text };
        assert_eq!(found(&[copy(1, "a"), copy(2, "a")]), [Finding::Surplus]);
        let twins = [copy(1, "a"), copy(2, "a"), copy(2, "other")];
        assert_eq!(found(&twins), [Finding::Indistinguishable; 2]);
        let kept_twice = [copy(1, "a"), copy(1, "a"), copy(2, "a")];
        assert_eq!(found(&kept_twice), [Finding::Indistinguishable; 2]);
    }

    #[test]
    fn datacenter_with_a_nan_value_is_found_again() {
        let copy = |last| rawdoc! { "_id": id(last), "n": 1, "dc": f64::NAN };
        assert_eq!(found(&[copy(1), copy(2)]), [Finding::Surplus]);
    }
}
