//! Writes BSON elements to the end of a send buffer.

use bson::{RawArray, RawDocument, spec::ElementType};

use crate::{
    draft::{patch_length, write_cstring},
    error::WireError,
};

/// Writer for the elements of one open document.
///
/// The length of the document is written when it is finished: by
/// [`MessageWriter`](crate::MessageWriter), or at the end of [`append_with`](Self::append_with). A
/// key that contains a NUL is an error and leaves the document unchanged.
///
/// Duplicate keys are not detected.
#[derive(Debug)]
pub struct ElementWriter<'b> {
    out: &'b mut Vec<u8>,
}

impl<'b> ElementWriter<'b> {
    pub(crate) fn new(out: &'b mut Vec<u8>) -> Self {
        Self { out }
    }

    /// Appends a 32-bit integer.
    ///
    /// # Errors
    ///
    /// Fails if the key contains a NUL. Then nothing is appended.
    pub fn append_i32(&mut self, key: &str, value: i32) -> Result<&mut Self, WireError> {
        self.append_raw(key, ElementType::Int32, &value.to_le_bytes())
    }

    /// Appends a 64-bit integer.
    ///
    /// # Errors
    ///
    /// Fails if the key contains a NUL. Then nothing is appended.
    pub fn append_i64(&mut self, key: &str, value: i64) -> Result<&mut Self, WireError> {
        self.append_raw(key, ElementType::Int64, &value.to_le_bytes())
    }

    /// Appends a 64-bit floating-point number.
    ///
    /// # Errors
    ///
    /// Fails if the key contains a NUL. Then nothing is appended.
    pub fn append_f64(&mut self, key: &str, value: f64) -> Result<&mut Self, WireError> {
        self.append_raw(key, ElementType::Double, &value.to_le_bytes())
    }

    /// Appends a boolean.
    ///
    /// # Errors
    ///
    /// Fails if the key contains a NUL. Then nothing is appended.
    pub fn append_bool(&mut self, key: &str, value: bool) -> Result<&mut Self, WireError> {
        self.append_raw(key, ElementType::Boolean, &[u8::from(value)])
    }

    /// Appends a string. The value may contain NULs, the key may not.
    ///
    /// # Errors
    ///
    /// Fails if the key contains a NUL, or if the value is longer than a BSON string can be. Then nothing is appended.
    pub fn append_str(&mut self, key: &str, value: &str) -> Result<&mut Self, WireError> {
        let length = i32::try_from(value.len() + 1)
            .map_err(|_| WireError::TooLongToWrite { what: "a string", length: value.len() })?;
        self.key(key, ElementType::String)?;
        self.out.extend_from_slice(&length.to_le_bytes());
        self.out.extend_from_slice(value.as_bytes());
        self.out.push(0);
        Ok(self)
    }

    /// Appends a document.
    ///
    /// # Errors
    ///
    /// Fails if the key contains a NUL. Then nothing is appended.
    pub fn append_document(
        &mut self,
        key: &str,
        value: impl AsRef<RawDocument>,
    ) -> Result<&mut Self, WireError> {
        self.append_raw(key, ElementType::EmbeddedDocument, value.as_ref().as_bytes())
    }

    /// Appends an array.
    ///
    /// # Errors
    ///
    /// Fails if the key contains a NUL. Then nothing is appended.
    pub fn append_array(
        &mut self,
        key: &str,
        value: impl AsRef<RawArray>,
    ) -> Result<&mut Self, WireError> {
        self.append_raw(key, ElementType::Array, value.as_ref().as_bytes())
    }

    /// Appends a value of any type, given as its BSON encoding. The encoding is not validated.
    ///
    /// # Errors
    ///
    /// Fails if the key contains a NUL. Then nothing is appended.
    pub fn append_raw(
        &mut self,
        key: &str,
        element_type: ElementType,
        value: &[u8],
    ) -> Result<&mut Self, WireError> {
        self.key(key, element_type)?;
        self.out.extend_from_slice(value);
        Ok(self)
    }

    /// Appends a copy of all elements of a document, such as a prepared command.
    pub fn append_elements_of(&mut self, document: impl AsRef<RawDocument>) -> &mut Self {
        let bytes = document.as_ref().as_bytes();
        // Skips the length (four bytes) and the terminator (one byte).
        self.out.extend_from_slice(&bytes[4..bytes.len() - 1]);
        self
    }

    /// Appends an embedded document whose elements `write` writes in place. If `write` fails, the
    /// document is removed again.
    ///
    /// ```
    /// use steadfast_wire::{MessageWriter, MsgFlags};
    ///
    /// let mut buffer = Vec::new();
    /// let mut message = MessageWriter::request(&mut buffer, 1, MsgFlags::empty());
    /// message.body().append_i32("aggregate", 1)?.append_with("cursor", |cursor| {
    ///     cursor.append_i32("batchSize", 10)?;
    ///     Ok(())
    /// })?;
    /// message.finish()?;
    /// # Ok::<(), steadfast_wire::WireError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the key contains a NUL, or if `write` fails.
    pub fn append_with(
        &mut self,
        key: &str,
        write: impl FnOnce(&mut ElementWriter<'_>) -> Result<(), WireError>,
    ) -> Result<&mut Self, WireError> {
        let before = self.out.len();
        self.key(key, ElementType::EmbeddedDocument)?;
        let start = self.out.len();
        self.out.extend_from_slice(&[0; 4]);
        let written = write(&mut ElementWriter::new(self.out)).and_then(|()| {
            self.out.push(0);
            patch_length(self.out, start, "a document")
        });
        if written.is_err() {
            self.out.truncate(before);
        }
        written.map(|()| self)
    }

    fn key(&mut self, key: &str, element_type: ElementType) -> Result<(), WireError> {
        let before = self.out.len();
        self.out.push(element_type as u8);
        let written = write_cstring(self.out, key, "a key");
        if written.is_err() {
            self.out.truncate(before);
        }
        written
    }
}
