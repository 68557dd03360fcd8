//! Bit operators: `$bitsAllSet`, `$bitsAllClear`, `$bitsAnySet`, `$bitsAnyClear`.

use std::borrow::Cow;

use bson::{Binary, Bson, spec::BinarySubtype};

use super::operators::whole_number;
use crate::{Code, Dialect, Fault, value::Number};

/// Condition on the bits of a value.
#[derive(Clone, Debug)]
pub(crate) struct BitTest {
    rule: BitRule,
    positions: Vec<u32>,
    dialect: Dialect,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum BitRule {
    AllSet,
    AllClear,
    AnySet,
    AnyClear,
}

impl BitTest {
    /// Parses a bit mask (number or binary) or a list of positions.
    pub(super) fn parse(
        path: &str,
        operator: &str,
        rule: BitRule,
        argument: &Bson,
        dialect: Dialect,
    ) -> Result<Self, Fault> {
        let positions = match argument {
            Bson::Array(list) => list
                .iter()
                .enumerate()
                .map(|(index, it)| position(index, it))
                .collect::<Result<_, _>>()?,
            Bson::Binary(mask) => set_bits(&stored_bytes(mask)),
            number if Number::of(number).is_some() => {
                let mask = whole_number(operator, number)
                    .map_err(|it| Fault { code: Code::FAILED_TO_PARSE, ..it })?;
                set_bits(&mask.to_le_bytes())
            }
            other => {
                return Err(Fault::bad_value(format!(
                    "{path} takes an Array, a number, or a BinData but received: {operator}: {}",
                    crate::value::format_value(other)
                )));
            }
        };
        Ok(Self { rule, positions, dialect })
    }

    pub(super) fn order(&self) -> u8 {
        match self.rule {
            BitRule::AllSet => 0,
            BitRule::AllClear => 1,
            BitRule::AnySet => 2,
            BitRule::AnyClear => 3,
        }
    }

    pub(super) fn hold(&self, value: &Bson) -> bool {
        match value {
            Bson::Binary(binary) => {
                let bytes = stored_bytes(binary);
                self.hold_of(|at| bytes.get(at / 8).is_some_and(|it| it >> (at % 8) & 1 == 1))
            }
            number => match Number::of(number).and_then(|number| integer(number, self.dialect)) {
                // Sign extension beyond the 64th bit.
                Some(number) => self.hold_of(|at| number >> at.min(63) & 1 == 1),
                None => false,
            },
        }
    }

    fn hold_of(&self, is_set: impl Fn(usize) -> bool) -> bool {
        let mut bits = self.positions.iter().map(|at| is_set(*at as usize));
        match self.rule {
            BitRule::AllSet => bits.all(|it| it),
            BitRule::AllClear => bits.all(|it| !it),
            BitRule::AnySet => bits.any(|it| it),
            BitRule::AnyClear => bits.any(|it| !it),
        }
    }
}

/// Returns the stored bytes. The old subtype starts with its length.
pub(crate) fn stored_bytes(binary: &Binary) -> Cow<'_, [u8]> {
    match binary.subtype {
        BinarySubtype::BinaryOld => {
            let length = u32::try_from(binary.bytes.len()).unwrap_or(u32::MAX);
            Cow::Owned([&length.to_le_bytes(), binary.bytes.as_slice()].concat())
        }
        _ => Cow::Borrowed(&binary.bytes),
    }
}

/// Returns the integer whose bits are tested. Before 8.2, decimals are rounded; out of range they
/// count as the minimum.
fn integer(number: Number, dialect: Dialect) -> Option<i64> {
    match number {
        Number::Decimal(number) if dialect < Dialect::V8_2 => {
            Some(number.rounded().to_integer().unwrap_or(i64::MIN))
        }
        _ => number.to_integer(),
    }
}

fn position(index: usize, position: &Bson) -> Result<u32, Fault> {
    let wrong =
        |it: Fault| Fault::bad_value(format!("Failed to parse bit position. {}", it.message));
    let number = whole_number(&index.to_string(), position).map_err(wrong)?;
    u32::try_from(number).ok().filter(|it| i32::try_from(*it).is_ok()).ok_or_else(|| {
        Fault::bad_value(format!(
            "Failed to parse bit position. Cannot represent {index}: {} in an int",
            crate::value::format_value(position)
        ))
    })
}

fn set_bits(mask: &[u8]) -> Vec<u32> {
    let bits = mask.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1));
    (0..).zip(bits).filter(|(_, set)| *set).map(|(at, _)| at).collect()
}
