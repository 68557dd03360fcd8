//! Reads the fields of a message one after another, each checked against the remaining bytes.

use bytes::{Buf, Bytes};

use crate::{
    document::{DocumentBytes, DocumentRun, split_document},
    error::WireError,
};

/// The remaining bytes of a message. Every method takes the field's name for its error.
#[derive(Debug)]
pub(crate) struct PayloadReader(Bytes);

impl PayloadReader {
    pub(crate) fn new(bytes: Bytes) -> Self {
        Self(bytes)
    }

    pub(crate) fn left(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn take(&mut self, needed: usize, what: &'static str) -> Result<Bytes, WireError> {
        self.check(needed, what)?;
        Ok(self.0.split_to(needed))
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, WireError> {
        self.check(1, what)?;
        Ok(self.0.get_u8())
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, WireError> {
        self.check(4, what)?;
        Ok(self.0.get_u32_le())
    }

    pub(crate) fn i32(&mut self, what: &'static str) -> Result<i32, WireError> {
        self.check(4, what)?;
        Ok(self.0.get_i32_le())
    }

    pub(crate) fn i64(&mut self, what: &'static str) -> Result<i64, WireError> {
        self.check(8, what)?;
        Ok(self.0.get_i64_le())
    }

    /// Reads a NUL-terminated string.
    pub(crate) fn cstring(&mut self, what: &'static str) -> Result<String, WireError> {
        let Some(length) = self.0.iter().position(|byte| *byte == 0) else {
            return Err(WireError::Unterminated { what, left: self.left() });
        };
        let string = std::str::from_utf8(&self.0[..length])
            .map_err(|error| WireError::NotUtf8 { what, valid_up_to: error.valid_up_to() })?
            .to_owned();
        self.0.advance(length + 1);
        Ok(string)
    }

    /// Reads one document and validates its structure.
    pub(crate) fn document(&mut self, what: &'static str) -> Result<DocumentBytes, WireError> {
        let fault = |fault| WireError::Document { what, fault };
        let length = split_document(&self.0).map_err(fault)?.0.len();
        DocumentBytes::parse(self.0.split_to(length)).map_err(fault)
    }

    /// Reads all remaining bytes as documents and validates their structure.
    pub(crate) fn documents(self, what: &'static str) -> Result<DocumentRun, WireError> {
        DocumentRun::parse(self.0).map_err(|fault| WireError::Document { what, fault })
    }

    /// Checks that no bytes remain.
    pub(crate) fn end(self, what: &'static str) -> Result<(), WireError> {
        match self.left() {
            0 => Ok(()),
            count => Err(WireError::TrailingBytes { what, count }),
        }
    }

    fn check(&self, needed: usize, what: &'static str) -> Result<(), WireError> {
        if needed <= self.left() {
            Ok(())
        } else {
            Err(WireError::Truncated { what, needed, left: self.left() })
        }
    }
}
