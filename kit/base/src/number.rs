//! Numbers in commands. Drivers of different languages send different BSON types.

use bson::Bson;

/// Returns `true` for `true` and for numbers other than 0.
#[must_use]
pub fn is_true(value: &Bson) -> bool {
    value.as_bool().unwrap_or_else(|| number(value).is_some_and(|number| number != 0.0))
}

/// Returns a number as an error code (an int32).
#[must_use]
pub fn code(value: &Bson) -> Option<i32> {
    whole(value).and_then(|code| i32::try_from(code).ok())
}

/// Returns a number as `u64`. `None` if it has a fraction or is negative.
#[must_use]
pub fn whole(value: &Bson) -> Option<u64> {
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

/// Returns a number of type int, long or double as `f64`.
#[must_use]
pub fn number(value: &Bson) -> Option<f64> {
    match value {
        Bson::Int32(number) => Some(f64::from(*number)),
        Bson::Int64(number) => Some(*number as f64),
        Bson::Double(number) => Some(*number),
        _ => None,
    }
}
