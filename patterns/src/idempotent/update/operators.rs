//! Effect of a second execution, for each update operator.

use bson::{Bson, Document};

use super::{Idempotence, filter, paths::Touched};

/// Checks an operator at all its paths, and records the paths.
pub(super) fn of_operator(operator: &str, arguments: &Bson, touched: &mut Touched) -> Idempotence {
    let Some(known) = Operator::of(operator) else {
        return Idempotence::Unknown(format!("{operator} is not an operator that is known here"));
    };
    let Bson::Document(arguments) = arguments else {
        return Idempotence::Unknown(format!("{operator} is not followed by a document"));
    };
    touched.all(arguments.keys());
    if known == Operator::Rename {
        touched.all(arguments.values().filter_map(Bson::as_str));
    }
    let verdicts = arguments.iter().map(|(path, argument)| known.at(operator, path, argument));
    verdicts.fold(Idempotence::Idempotent, |all, one| all.and(|| one))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    /// Sets a value independent of the current one.
    Says,
    Rename,
    Pull,
    Bit,
    /// Changes the document each time, in this way.
    Does(&'static str),
}

impl Operator {
    fn of(name: &str) -> Option<Self> {
        Some(match name {
            "$set" | "$setOnInsert" | "$unset" | "$min" | "$max" | "$addToSet" | "$pullAll" => {
                Self::Says
            }
            "$rename" => Self::Rename,
            "$pull" => Self::Pull,
            "$bit" => Self::Bit,
            "$inc" => Self::Does("adds"),
            "$mul" => Self::Does("multiplies"),
            "$push" => Self::Does("appends"),
            "$pop" => Self::Does("removes an element"),
            "$currentDate" => Self::Does("sets another time"),
            _ => return None,
        })
    }

    /// Checks the operator at one path.
    fn at(self, name: &str, path: &str, argument: &Bson) -> Idempotence {
        match self {
            Self::Says | Self::Rename => Idempotence::Idempotent,
            Self::Pull => of_pull(path, argument),
            Self::Bit => of_bit(path, argument),
            Self::Does(what) => Idempotence::NotIdempotent(format!(
                "{name} of {path:?} {what} each time that it is carried out"
            )),
        }
    }
}

/// `$pull` leaves no matching element, unless its condition is random.
fn of_pull(path: &str, condition: &Bson) -> Idempotence {
    match condition.as_document().and_then(filter::random_operator) {
        None => Idempotence::Idempotent,
        Some(operator) => Idempotence::Unknown(format!(
            "with {operator}, $pull from {path:?} may take other elements the second time"
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
                    "$bit with xor of {path:?} turns bits over each time that it is carried out"
                ));
            }
            other => {
                return Idempotence::Unknown(format!("$bit of {path:?} does not know {other:?}"));
            }
        }
    }
    Idempotence::Idempotent
}
