//! Numbers in commands. Languages differ in which type of number they send.

use bson::Bson;

/// Whether it is true, or a number other than 0.
pub(crate) fn is_true(value: &Bson) -> bool {
    value.as_bool().unwrap_or_else(|| number(value).is_some_and(|number| number != 0.0))
}

/// The number of an error.
pub(crate) fn code(value: &Bson) -> Option<i32> {
    whole(value).and_then(|code| i32::try_from(code).ok())
}

/// A count.
pub(crate) fn whole(value: &Bson) -> Option<u64> {
    match value {
        Bson::Int32(number) => u64::try_from(*number).ok(),
        Bson::Int64(number) => u64::try_from(*number).ok(),
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked")]
        Bson::Double(number) if number.fract() == 0.0 && (0.0..9e15).contains(number) => {
            Some(*number as u64)
        }
        _ => None,
    }
}

/// Any number.
pub(crate) fn number(value: &Bson) -> Option<f64> {
    match value {
        Bson::Int32(number) => Some(f64::from(*number)),
        Bson::Int64(number) => Some(*number as f64),
        Bson::Double(number) => Some(*number),
        _ => None,
    }
}
