//! Command name from the first bytes of a message.

use steadfast_wire::{HEADER_LENGTH, OpCode};

/// Number of bytes that contain the name of any command.
pub(super) const PEEK_BYTES: usize = 64;

/// Returns the command name if the first bytes of a message contain it.
pub(super) fn command_name(message: &[u8]) -> Option<&str> {
    let (header, rest) = message.split_first_chunk::<HEADER_LENGTH>()?;
    let code = i32::from_le_bytes(*header.last_chunk()?);
    let document = match OpCode::from_code(code).ok()? {
        // Four bytes of flags, then section kind 0 (body).
        OpCode::Msg => rest.strip_prefix(rest.get(..4)?)?.strip_prefix(&[0])?,
        // Four bytes of flags, the namespace, and eight bytes for `numberToSkip` and
        // `numberToReturn`.
        OpCode::Query => until_nul(rest.get(4..)?)?.1.get(8..)?,
        _ => return None,
    };
    // Four bytes of length, one byte for the type of the first element.
    let (name, _) = until_nul(document.get(5..)?)?;
    std::str::from_utf8(name).ok()
}

/// Splits at the first NUL.
fn until_nul(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|byte| *byte == 0)?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

#[cfg(test)]
mod tests {
    use steadfast_wire::{MessageWriter, MsgFlags, write_legacy_hello};

    use super::*;

    #[test]
    fn command_name_is_found_in_the_first_bytes() {
        let mut bytes = Vec::new();
        write_legacy_hello(&mut bytes, 1, bson::rawdoc! { "isMaster": 1, "helloOk": true })
            .unwrap();
        assert_eq!(command_name(&bytes[..PEEK_BYTES]), Some("isMaster"));

        let mut bytes = Vec::new();
        let mut message = MessageWriter::request(&mut bytes, 1, MsgFlags::empty());
        message.body().append_str("findAndModify", "things").unwrap();
        message.finish().unwrap();
        let name_ends = 16 + 4 + 1 + 4 + 1 + "findAndModify\0".len();
        for length in 0..bytes.len() {
            let name = (length >= name_ends).then_some("findAndModify");
            assert_eq!(command_name(&bytes[..length]), name, "{length} bytes");
        }
    }

    #[test]
    fn invalid_bytes_have_no_command_name() {
        for length in 0..100 {
            assert_eq!(command_name(&vec![0xdd; length]), None);
            assert_eq!(command_name(&vec![0; length]), None);
        }
    }
}
