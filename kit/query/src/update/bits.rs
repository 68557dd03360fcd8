//! `$bit`.

use bson::Bson;

use crate::{Fault, text, value::type_name};

/// Operations of a `$bit`, applied in order.
#[derive(Clone, Debug)]
pub(super) struct BitwiseUpdate {
    steps: Vec<(Step, Bson)>,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    And,
    Or,
    Xor,
}

impl Step {
    fn of(self, left: i64, right: i64) -> i64 {
        match self {
            Self::And => left & right,
            Self::Or => left | right,
            Self::Xor => left ^ right,
        }
    }
}

impl BitwiseUpdate {
    pub(super) fn parse(argument: &Bson) -> Result<Self, Fault> {
        let Bson::Document(operations) = argument else {
            return Err(Fault::bad_value(format!(
                "The $bit modifier is not compatible with a {}. You must pass in an embedded \
                 document: {{$bit: {{field: {{and/or/xor: #}}}}",
                type_name(argument)
            )));
        };
        let mut steps = Vec::new();
        for (name, operand) in operations {
            let step = match name.as_str() {
                "and" => Step::And,
                "or" => Step::Or,
                "xor" => Step::Xor,
                other => {
                    return Err(Fault::bad_value(format!(
                        "The $bit modifier only supports 'and', 'or', and 'xor', not '{other}' \
                         which is an unknown operator: {{{}}}",
                        text::field(name, operand)
                    )));
                }
            };
            if integer(operand).is_none() {
                return Err(Fault::bad_value(format!(
                    "The $bit modifier field must be an Integer(32/64 bit); a '{}' is not supported \
                     here: {{{}}}",
                    type_name(operand),
                    text::field(name, operand)
                )));
            }
            steps.push((step, operand.clone()));
        }
        if steps.is_empty() {
            return Err(Fault::bad_value(
                "You must pass in at least one bitwise operation. The format is: {$bit: {field: \
                 {and/or/xor: #}}",
            ));
        }
        Ok(Self { steps })
    }

    /// Applies the operations. `None` for other types. A long operand gives a long.
    pub(super) fn applied(&self, value: &Bson) -> Option<Bson> {
        let (mut bits, mut long) = integer(value)?;
        for (step, operand) in &self.steps {
            let (operand, is_long) = integer(operand)?;
            bits = step.of(bits, operand);
            long |= is_long;
        }
        match i32::try_from(bits) {
            Ok(bits) if !long => Some(Bson::Int32(bits)),
            Ok(_) | Err(_) => Some(Bson::Int64(bits)),
        }
    }
}

/// Returns an integer; the flag is `true` for a long.
fn integer(value: &Bson) -> Option<(i64, bool)> {
    match value {
        Bson::Int32(number) => Some(((*number).into(), false)),
        Bson::Int64(number) => Some((*number, true)),
        _ => None,
    }
}
