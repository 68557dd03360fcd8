//! `$bitsAllSet` and its kin.

use std::borrow::Cow;

use bson::{Binary, Bson, spec::BinarySubtype};

use super::operators::whole_number;
use crate::{Code, Dialect, Fault, value::Number};

/// Which bits a value must have, or lack.
#[derive(Clone, Debug)]
pub(crate) struct Bits {
    rule: Rule,
    positions: Vec<u32>,
    dialect: Dialect,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Rule {
    AllSet,
    AllClear,
    AnySet,
    AnyClear,
}

impl Bits {
    /// Reads a mask, as a number or as bytes, or a list of positions.
    pub(super) fn parse(
        path: &str,
        operator: &str,
        rule: Rule,
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
                    crate::value::show(other)
                )));
            }
        };
        Ok(Self { rule, positions, dialect })
    }

    pub(super) fn order(&self) -> u8 {
        match self.rule {
            Rule::AllSet => 0,
            Rule::AllClear => 1,
            Rule::AnySet => 2,
            Rule::AnyClear => 3,
        }
    }

    pub(super) fn hold(&self, value: &Bson) -> bool {
        match value {
            Bson::Binary(binary) => {
                let bytes = stored_bytes(binary);
                self.hold_of(|at| bytes.get(at / 8).is_some_and(|it| it >> (at % 8) & 1 == 1))
            }
            number => match Number::of(number).and_then(|number| integer(number, self.dialect)) {
                // Beyond the 64th bit, the sign goes on.
                Some(number) => self.hold_of(|at| number >> at.min(63) & 1 == 1),
                None => false,
            },
        }
    }

    fn hold_of(&self, is_set: impl Fn(usize) -> bool) -> bool {
        let mut bits = self.positions.iter().map(|at| is_set(*at as usize));
        match self.rule {
            Rule::AllSet => bits.all(|it| it),
            Rule::AllClear => bits.all(|it| !it),
            Rule::AnySet => bits.any(|it| it),
            Rule::AnyClear => bits.any(|it| !it),
        }
    }
}

/// The bytes as they are stored: those of the old subtype begin with their length.
pub(crate) fn stored_bytes(binary: &Binary) -> Cow<'_, [u8]> {
    match binary.subtype {
        BinarySubtype::BinaryOld => {
            let length = u32::try_from(binary.bytes.len()).unwrap_or(u32::MAX);
            Cow::Owned([&length.to_le_bytes(), binary.bytes.as_slice()].concat())
        }
        _ => Cow::Borrowed(&binary.bytes),
    }
}

/// The integer whose bits a number has. Before 8.2, a decimal has those of the nearest; if there is none,
/// those of the least.
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
            crate::value::show(position)
        ))
    })
}

fn set_bits(mask: &[u8]) -> Vec<u32> {
    let bits = mask.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1));
    (0..).zip(bits).filter(|(_, set)| *set).map(|(at, _)| at).collect()
}
