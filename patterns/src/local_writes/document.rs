//! Documents before and after their datacenter is chosen. Pure.

use bson::{
    RawDocumentBuf,
    oid::ObjectId,
    raw::{CString, cstr},
};
use serde::Serialize;

use steadfast::error::{Error, Result};

/// A document without `_id` and datacenter.
#[derive(Clone, Debug)]
pub(super) struct Unaddressed(RawDocumentBuf);

impl Unaddressed {
    /// Rejects values that are not documents, and documents with an `_id`: each copy gets its own.
    pub(super) fn new<T: Serialize + ?Sized>(document: &T) -> Result<Self> {
        let mut bytes = Vec::new();
        bson::serialize_to_buffer(&document, &mut bytes)?;
        let document = RawDocumentBuf::from_bytes(bytes)?;
        for element in document.iter() {
            let (key, _) = element?;
            if key.as_str() == "_id" {
                return Err(Error::invalid_argument(
                    "it has an _id. A local writer makes one for each copy, so that the copies of a \
                     document can be told apart; name the application's own key otherwise",
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
    /// `field`, in the place where the document has it, or at the end.
    pub(super) fn addressed(
        &self,
        id: ObjectId,
        field: &CString,
        datacenter: &str,
    ) -> Result<RawDocumentBuf> {
        let mut addressed = RawDocumentBuf::new();
        addressed.append(cstr!("_id"), id);
        let mut has_field = false;
        for element in self.0.iter() {
            match element? {
                (key, _) if key.as_str() == field.as_str() => {
                    has_field = true;
                    addressed.append(key, datacenter);
                }
                (key, value) => addressed.append(key, value),
            }
        }
        if !has_field {
            addressed.append(field, datacenter);
        }
        Ok(addressed)
    }
}

#[cfg(test)]
mod tests {
    use bson::{Document, doc};

    use super::*;

    fn addressed(document: Document) -> Document {
        let field = CString::try_from("datacenter").unwrap();
        let id = ObjectId::from_bytes([7; 12]);
        let raw = Unaddressed::new(&document).unwrap().addressed(id, &field, "bravo").unwrap();
        Document::try_from(raw).unwrap()
    }

    #[test]
    fn the_id_comes_first_and_the_datacenter_last() {
        let id = ObjectId::from_bytes([7; 12]);
        assert_eq!(
            addressed(doc! { "message_id": 329620, "userid": 123 }),
            doc! { "_id": id, "message_id": 329620, "userid": 123, "datacenter": "bravo" },
        );
        assert_eq!(addressed(doc! {}), doc! { "_id": id, "datacenter": "bravo" });
    }

    #[test]
    fn a_datacenter_that_is_named_already_is_replaced_in_its_place() {
        let id = ObjectId::from_bytes([7; 12]);
        assert_eq!(
            addressed(doc! { "datacenter": "alfa", "of": { "datacenter": "alfa", "_id": 1 } }),
            doc! { "_id": id, "datacenter": "bravo", "of": { "datacenter": "alfa", "_id": 1 } },
        );
        assert_eq!(
            addressed(doc! { "datacenter": null, "a": 1 }),
            doc! { "_id": id, "datacenter": "bravo", "a": 1 },
        );
    }

    #[test]
    fn a_document_with_an_id_and_what_is_no_document_are_refused() {
        let error = Unaddressed::new(&doc! { "a": 1, "_id": 2 }).unwrap_err();
        assert!(error.is_invalid_argument(), "{error}");
        assert!(Unaddressed::new(&5).is_err());
        assert!(Unaddressed::new("text").is_err());
    }

    #[test]
    fn all_values_come_through() {
        let document = doc! { "a": [1, "b", null], "c": { "d": 1.5 }, "e": i64::MAX, "f": true };
        let mut expected = doc! { "_id": ObjectId::from_bytes([7; 12]) };
        expected.extend(document.clone());
        expected.insert("datacenter", "bravo");
        assert_eq!(addressed(document), expected);
    }
}
