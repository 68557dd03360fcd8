//! Error codes of replies.

use blackpipe_base::codes::name_of;
use steadfast_query::Code;

/// Returns the code with this number, with its name if that is known.
pub(crate) fn code_of(number: i32) -> Code {
    match name_of(number) {
        Some(name) => Code::named(number, name),
        None => Code::numbered(number),
    }
}
