//! Effect of a second execution, for each update operator.

use bson::{Bson, Document};

use super::{Idempotence, filter, paths::ChangedPaths};

/// Checks an operator at all its paths, and records the paths.
pub(super) fn of_operator(
    operator: &str,
    arguments: &Bson,
    changed: &mut ChangedPaths,
) -> Idempotence {
    let Some(known) = Operator::of(operator) else {
        return Idempotence::Unknown(format!("the check does not support the operator {operator}"));
    };
    let Bson::Document(arguments) = arguments else {
        return Idempotence::Unknown(format!("the argument of {operator} is not a document"));
    };
    changed.all(arguments.keys());
    if known == Operator::Rename {
        changed.all(arguments.values().filter_map(Bson::as_str));
    }
    let checks = arguments.iter().map(|(path, argument)| known.at(operator, path, argument));
    checks.fold(Idempotence::Idempotent, |all, one| all.and(|| one))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    /// Sets a value independent of the current one.
    SetsValue,
    Rename,
    Pull,
    Bit,
    /// Changes the document at each execution; the verb of the message.
    Accumulates(&'static str),
}

impl Operator {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "$set" | "$setOnInsert" | "$unset" | "$min" | "$max" | "$addToSet" | "$pullAll" => {
                Self::SetsValue
            }
            "$rename" => Self::Rename,
            "$pull" => Self::Pull,
            "$bit" => Self::Bit,
            "$inc" => Self::Accumulates("adds"),
            "$mul" => Self::Accumulates("multiplies"),
            "$push" => Self::Accumulates("appends"),
            "$pop" => Self::Accumulates("removes an element"),
            "$currentDate" => Self::Accumulates("sets another time"),
            _ => return None,
        })
    }

    /// Checks the operator at one path.
    fn at(self, name: &str, path: &str, argument: &Bson) -> Idempotence {
        match self {
            Self::SetsValue | Self::Rename => Idempotence::Idempotent,
            Self::Pull => of_pull(path, argument),
            Self::Bit => of_bit(path, argument),
            Self::Accumulates(verb) => {
                Idempotence::NotIdempotent(format!("{name} of {path:?} {verb} at each execution"))
            }
        }
    }
}

/// `$pull` leaves no matching element, unless its condition is random.
fn of_pull(path: &str, condition: &Bson) -> Idempotence {
    match condition.as_document().and_then(filter::random_operator) {
        None => Idempotence::Idempotent,
        Some(operator) => Idempotence::Unknown(format!(
            "with {operator}, $pull from {path:?} may remove other elements at the second execution"
        )),
    }
}

/// Any sequence of `and` and `or` sets each bit, clears it or leaves it.
fn of_bit(path: &str, argument: &Bson) -> Idempotence {
    let operations = argument.as_document().into_iter().flat_map(Document::keys);
    for operation in operations {
        match operation.as_str() {
            "and" | "or" => {}
            "xor" => {
                return Idempotence::NotIdempotent(format!(
                    "$bit with xor of {path:?} flips bits at each execution"
                ));
            }
            other => {
                return Idempotence::Unknown(format!(
                    "the check does not support $bit of {path:?} with {other:?}"
                ));
            }
        }
    }
    Idempotence::Idempotent
}
