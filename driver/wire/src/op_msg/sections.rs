//! Walks over the sections of an encoded OP_MSG without decoding their documents.

use super::{BODY, SEQUENCE};
use crate::{document::split_document, error::WireError};

/// A section of an encoded message.
pub(super) enum Section<'a> {
    /// The bytes of a body document.
    Body(&'a [u8]),
    /// The identifier of a document sequence.
    Sequence(&'a [u8]),
}

/// Returns the command name of an OP_MSG payload: the first key of its body. Empty if the body is
/// empty.
pub(crate) fn command_name(payload: &[u8]) -> Result<String, WireError> {
    let mut sections = payload.get(4..).unwrap_or_default();
    loop {
        let (section, rest) = split_section(sections)?.ok_or(WireError::MissingBody)?;
        if let Section::Body(body) = section {
            // Skips the length (four bytes) and the element type of the first field.
            let key = cstring(body.get(5..).unwrap_or_default());
            return Ok(String::from_utf8_lossy(key).into_owned());
        }
        sections = rest;
    }
}

/// Returns `true` if `payload` contains a document sequence with this identifier.
pub(super) fn has_sequence(payload: &[u8], identifier: &str) -> Result<bool, WireError> {
    let mut sections = payload.get(4..).unwrap_or_default();
    while let Some((section, rest)) = split_section(sections)? {
        if matches!(section, Section::Sequence(name) if name == identifier.as_bytes()) {
            return Ok(true);
        }
        sections = rest;
    }
    Ok(false)
}

/// Splits off the first section. Returns `None` at the end.
fn split_section(sections: &[u8]) -> Result<Option<(Section<'_>, &[u8])>, WireError> {
    let Some((kind, payload)) = sections.split_first() else {
        return Ok(None);
    };
    // Both kinds begin with their size, its own four bytes included.
    let (section, rest) = split_document(payload)
        .map_err(|fault| WireError::Document { what: "a section", fault })?;
    match *kind {
        BODY => Ok(Some((Section::Body(section), rest))),
        SEQUENCE => Ok(Some((Section::Sequence(cstring(&section[4..])), rest))),
        kind => Err(WireError::UnknownSectionKind { kind }),
    }
}

fn cstring(bytes: &[u8]) -> &[u8] {
    bytes.split(|byte| *byte == 0).next().unwrap_or_default()
}
