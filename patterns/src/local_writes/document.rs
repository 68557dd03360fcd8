//! Documents before and after the choice of their datacenter. Pure.

use bson::{
    RawDocumentBuf, ToStr,
    oid::ObjectId,
    raw::{CString, cstr},
};
use serde::Serialize;

use steadfast::error::{Error, Result};

/// A document without `_id` and datacenter.
#[derive(Clone, Debug)]
pub(super) struct UnroutedDocument(RawDocumentBuf);

impl UnroutedDocument {
    /// Rejects values that are not documents, and documents with an `_id`: each copy gets its own.
    pub(super) fn new<T: Serialize + ?Sized>(document: &T) -> Result<Self> {
        let mut bytes = Vec::new();
        bson::serialize_to_buffer(&document, &mut bytes)?;
        let document = RawDocumentBuf::from_bytes(bytes)?;
        for element in document.iter() {
            let (key, _) = element?;
            if key.to_str() == "_id" {
                return Err(Error::invalid_argument(
                    "the document has an _id: a local writer generates one for each copy; store the \
                     application's key in another field",
                ));
            }
        }
        Ok(Self(document))
    }

    /// Size in bytes, without `_id` and datacenter.
    pub(super) fn size(&self) -> usize {
        self.0.as_bytes().len()
    }

    /// Returns the document for a datacenter: with this `_id` in front, and the name of the datacenter in
    /// `field`. An existing field keeps its position; otherwise it is appended.
    pub(super) fn for_datacenter(
        &self,
        id: ObjectId,
        field: &CString,
        datacenter: &str,
    ) -> Result<RawDocumentBuf> {
        let mut routed = RawDocumentBuf::new();
        routed.append(cstr!("_id"), id);
        let mut has_field = false;
        for element in self.0.iter() {
            match element? {
                (key, _) if key.to_str() == field.as_str() => {
                    has_field = true;
                    routed.append(key, datacenter);
                }
                (key, value) => bson::append_ref(&mut routed, key, value),
            }
        }
        if !has_field {
            routed.append(field, datacenter);
        }
        Ok(routed)
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;

    fn routed(document: Document) -> Document {
        let field = CString::try_from("datacenter").unwrap();
        let id = ObjectId::from_bytes([7; 12]);
        let raw =
            UnroutedDocument::new(&document).unwrap().for_datacenter(id, &field, "bravo").unwrap();
        Document::try_from(raw).unwrap()
    }

    #[test]
    fn the_id_comes_first_and_the_datacenter_last() {
        let id = ObjectId::from_bytes([7; 12]);
        assert_eq!(
            routed(doc! { "message_id": 329620, "userid": 123 }),
            doc! { "_id": id, "message_id": 329620, "userid": 123, "datacenter": "bravo" },
        );
        assert_eq!(routed(doc! {}), doc! { "_id": id, "datacenter": "bravo" });
    }

    #[test]
    fn an_existing_datacenter_field_is_replaced_in_place() {
        let id = ObjectId::from_bytes([7; 12]);
        assert_eq!(
            routed(doc! { "datacenter": "alfa", "of": { "datacenter": "alfa", "_id": 1 } }),
            doc! { "_id": id, "datacenter": "bravo", "of": { "datacenter": "alfa", "_id": 1 } },
        );
        assert_eq!(
            routed(doc! { "datacenter": null, "a": 1 }),
            doc! { "_id": id, "datacenter": "bravo", "a": 1 },
        );
    }

    #[test]
    fn documents_with_an_id_and_values_that_are_not_documents_are_rejected() {
        let error = UnroutedDocument::new(&doc! { "a": 1, "_id": 2 }).unwrap_err();
        assert!(error.is_invalid_argument(), "{error}");
        assert!(UnroutedDocument::new(&5).is_err());
        assert!(UnroutedDocument::new("text").is_err());
    }

    #[test]
    fn all_values_are_kept() {
        let document = doc! { "a": [1, "b", null], "c": { "d": 1.5 }, "e": i64::MAX, "f": true };
        let mut expected = doc! { "_id": ObjectId::from_bytes([7; 12]) };
        expected.extend(document.clone());
        expected.insert("datacenter", "bravo");
        assert_eq!(routed(document), expected);
    }
}
