//! How large the values may become that expressions make of others: a short expression can ask for more
//! than any machine has.

use bson::{Bson, Document};

use crate::{Code, Fault};

/// How many bytes one operator may hold.
const MOST: usize = 100 * 1024 * 1024;

/// How deep documents and arrays may lie in each other.
const DEEPEST: usize = 200;

/// What an operator holds so far.
#[derive(Debug)]
pub(super) struct Room {
    operator: &'static str,
    bytes: usize,
}

impl Room {
    /// The room of an operator that holds nothing yet.
    pub(super) fn of(operator: &'static str) -> Self {
        Self { operator, bytes: 0 }
    }

    /// A value more.
    pub(super) fn take(&mut self, value: &Bson) -> Result<(), Fault> {
        self.take_bytes(weight(value, 1)?)
    }

    /// So many bytes more.
    pub(super) fn take_bytes(&mut self, bytes: usize) -> Result<(), Fault> {
        self.bytes = self.bytes.saturating_add(bytes);
        match self.bytes <= MOST {
            true => Ok(()),
            false => Err(too_much(self.operator, self.bytes)),
        }
    }
}

/// Refuses a document that is too deep to go on with.
pub(crate) fn check_depth(document: &Document) -> Result<(), Fault> {
    document.values().try_for_each(|it| weight(it, 2).map(drop))
}

pub(super) fn too_much(operator: &str, bytes: usize) -> Fault {
    Fault::new(
        Code::named(146, "ExceededMemoryLimit"),
        format!("{operator} would use too much memory ({bytes} bytes) and cannot spill to disk"),
    )
}

/// About how many bytes a value takes, at 16 for a number, if it is not too deep at this level.
fn weight(value: &Bson, level: usize) -> Result<usize, Fault> {
    const ALONE: usize = 16;
    if level > DEEPEST {
        let message = format!("Document exceeds maximum nesting depth of {DEEPEST}");
        return Err(Fault::new(Code::OVERFLOW, message));
    }
    Ok(match value {
        Bson::String(text) | Bson::Symbol(text) => ALONE + text.len(),
        Bson::Binary(binary) => ALONE + binary.bytes.len(),
        Bson::Array(array) => {
            let inner = array.iter().map(|it| weight(it, level + 1));
            ALONE + inner.sum::<Result<usize, _>>()?
        }
        Bson::Document(document) => {
            let inner = document.iter();
            let inner = inner.map(|(name, it)| weight(it, level + 1).map(|it| it + name.len()));
            ALONE + inner.sum::<Result<usize, _>>()?
        }
        _ => ALONE,
    })
}

#[cfg(test)]
mod tests {
    use bson::{DateTime, Timestamp, doc};

    use super::*;
    use crate::{Environment, Expression};

    fn refusal(expression: Document) -> i32 {
        let env =
            Environment::new(DateTime::from_millis(0), Timestamp { time: 1, increment: 1 }, 1);
        // What is constant is computed while it is read: so it comes from the document.
        let document = doc! { "text": "x".repeat(1 << 20), "many": vec![1; 1000] };
        let parsed = Expression::parse(&expression.into(), &env).unwrap();
        parsed.evaluate(&document, &env).unwrap_err().code.number
    }

    #[test]
    fn an_expression_cannot_ask_for_more_memory_than_there_is() {
        let inner = doc! { "$map": { "input": "$many", "in": "$many" } };
        let map = doc! { "$map": { "input": "$many", "in": inner } };
        let reduce = |inner: Document| {
            doc! { "$reduce": { "input": "$many", "initialValue": "$text", "in": inner } }
        };
        let replaced =
            doc! { "$replaceAll": { "input": "$text", "find": "x", "replacement": "$text" } };
        let mut nested = doc! { "$strLenBytes": "$$v" };
        for _ in 0..40 {
            let vars = doc! { "v": { "$concat": ["$$v", "$$v"] } };
            nested = doc! { "$let": { "vars": vars, "in": nested } };
        }
        let nested = doc! { "$let": { "vars": { "v": "$text" }, "in": nested } };
        for expression in [
            map,
            reduce(doc! { "$concat": ["$$value", "$$value"] }),
            reduce(doc! { "a": "$$value", "b": "$$value" }),
            reduce(doc! { "$concatArrays": [["$$value"], ["$$value"]] }),
            replaced,
            nested,
            doc! { "$concatArrays": vec![bson::Bson::from("$many"); 10_000] },
            doc! { "$size": [vec![bson::Bson::from("$text"); 200]] },
        ] {
            assert_eq!(refusal(expression.clone()), 146, "{expression}");
        }
    }

    #[test]
    fn an_expression_cannot_lay_documents_into_each_other_without_end() {
        let reduce = doc! {
            "$reduce": { "input": "$many", "initialValue": 1, "in": { "a": "$$value" } },
        };
        assert_eq!(refusal(reduce), 15);
    }
}
