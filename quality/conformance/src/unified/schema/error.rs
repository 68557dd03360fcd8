//! Expected errors (`expectError`).

use bson::{Bson, Document};
use serde::Deserialize;

use super::primitives::{NonEmpty, present};

/// An expected error with at least one field.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "ExpectedErrorFields")]
pub(crate) struct ExpectedError {
    pub(crate) is_client_error: Option<bool>,
    pub(crate) is_timeout_error: Option<bool>,
    pub(crate) error_contains: Option<String>,
    pub(crate) error_code: Option<i32>,
    pub(crate) error_code_name: Option<String>,
    pub(crate) error_labels_contain: Vec<String>,
    pub(crate) error_labels_omit: Vec<String>,
    pub(crate) write_errors: Option<Document>,
    pub(crate) write_concern_errors: Option<Vec<Document>>,
    pub(crate) error_response: Option<Document>,
    pub(crate) expect_result: Option<Bson>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ExpectedErrorFields {
    is_error: Option<bool>,
    is_client_error: Option<bool>,
    is_timeout_error: Option<bool>,
    error_contains: Option<String>,
    error_code: Option<i32>,
    error_code_name: Option<String>,
    error_labels_contain: Option<NonEmpty<String>>,
    error_labels_omit: Option<NonEmpty<String>>,
    write_errors: Option<Document>,
    write_concern_errors: Option<Vec<Document>>,
    error_response: Option<Document>,
    #[serde(default, deserialize_with = "present")]
    expect_result: Option<Bson>,
}

impl TryFrom<ExpectedErrorFields> for ExpectedError {
    type Error = &'static str;

    fn try_from(fields: ExpectedErrorFields) -> Result<Self, Self::Error> {
        let list =
            |list: Option<NonEmpty<String>>| list.map(|list| list.to_vec()).unwrap_or_default();
        if fields.is_error == Some(false) {
            return Err("isError must be true");
        }
        let is_error = fields.is_error.is_some();
        let expected = Self {
            is_client_error: fields.is_client_error,
            is_timeout_error: fields.is_timeout_error,
            error_contains: fields.error_contains,
            error_code: fields.error_code,
            error_code_name: fields.error_code_name,
            error_labels_contain: list(fields.error_labels_contain),
            error_labels_omit: list(fields.error_labels_omit),
            write_errors: fields.write_errors,
            write_concern_errors: fields.write_concern_errors,
            error_response: fields.error_response,
            expect_result: fields.expect_result,
        };
        if is_error || !expected.is_empty() { Ok(expected) } else { Err("nothing is expected") }
    }
}

impl ExpectedError {
    fn is_empty(&self) -> bool {
        self.is_client_error.is_none()
            && self.is_timeout_error.is_none()
            && self.error_contains.is_none()
            && self.error_code.is_none()
            && self.error_code_name.is_none()
            && self.error_labels_contain.is_empty()
            && self.error_labels_omit.is_empty()
            && self.write_errors.is_none()
            && self.write_concern_errors.is_none()
            && self.error_response.is_none()
            && self.expect_result.is_none()
    }
}
