//! Limits on the size and depth of computed values. A short expression can request more memory than
//! any machine has.

use bson::{Bson, Document};

use crate::{Code, Fault};

/// Maximum number of bytes that one operator may hold.
const MAX_BYTES: usize = 100 * 1024 * 1024;

/// Maximum nesting depth of documents and arrays.
const MAX_DEPTH: usize = 200;

/// Bytes that one operator holds, checked against the limit.
#[derive(Debug)]
pub(super) struct SizeLimit {
    operator: &'static str,
    bytes: usize,
}

impl SizeLimit {
    /// Starts with no bytes.
    pub(super) fn new(operator: &'static str) -> Self {
        Self { operator, bytes: 0 }
    }

    /// Adds the size of a value.
    pub(super) fn take(&mut self, value: &Bson) -> Result<(), Fault> {
        self.add_bytes(approximate_size(value, 1)?)
    }

    /// Adds a number of bytes.
    pub(super) fn add_bytes(&mut self, bytes: usize) -> Result<(), Fault> {
        self.bytes = self.bytes.saturating_add(bytes);
        match self.bytes <= MAX_BYTES {
            true => Ok(()),
            false => Err(exceeded_memory_limit(self.operator, self.bytes)),
        }
    }
}

/// Checks the nesting depth of a document.
pub(crate) fn check_depth(document: &Document) -> Result<(), Fault> {
    document.values().try_for_each(|it| approximate_size(it, 2).map(drop))
}

pub(super) fn exceeded_memory_limit(operator: &str, bytes: usize) -> Fault {
    Fault::new(
        Code::named(146, "ExceededMemoryLimit"),
        format!("{operator} would use too much memory ({bytes} bytes) and cannot spill to disk"),
    )
}

/// Returns the approximate size of a value, at 16 bytes per number. Fails if it is nested too
/// deeply.
fn approximate_size(value: &Bson, level: usize) -> Result<usize, Fault> {
    const VALUE_BYTES: usize = 16;
    if level > MAX_DEPTH {
        let message = format!("Document exceeds maximum nesting depth of {MAX_DEPTH}");
        return Err(Fault::new(Code::OVERFLOW, message));
    }
    Ok(match value {
        Bson::String(text) | Bson::Symbol(text) => VALUE_BYTES + text.len(),
        Bson::Binary(binary) => VALUE_BYTES + binary.bytes.len(),
        Bson::Array(array) => {
            let inner = array.iter().map(|it| approximate_size(it, level + 1));
            VALUE_BYTES + inner.sum::<Result<usize, _>>()?
        }
        Bson::Document(document) => {
            let inner = document.iter();
            let inner =
                inner.map(|(name, it)| approximate_size(it, level + 1).map(|it| it + name.len()));
            VALUE_BYTES + inner.sum::<Result<usize, _>>()?
        }
        _ => VALUE_BYTES,
    })
}

#[cfg(test)]
mod tests {
    use bson::{DateTime, Timestamp, doc};

    use super::*;
    use crate::{Environment, Expression};

    fn error_code(expression: Document) -> i32 {
        let env =
            Environment::new(DateTime::from_millis(0), Timestamp { time: 1, increment: 1 }, 1);
        // Constants are folded while parsing, so the values come from the document.
        let document = doc! { "text": "x".repeat(1 << 20), "many": vec![1; 1000] };
        let parsed = Expression::parse(&expression.into(), &env).unwrap();
        parsed.evaluate(&document, &env).unwrap_err().code.number
    }

    #[test]
    fn expression_memory_is_limited() {
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
            assert_eq!(error_code(expression.clone()), 146, "{expression}");
        }
    }

    #[test]
    fn expression_nesting_depth_is_limited() {
        let reduce = doc! {
            "$reduce": { "input": "$many", "initialValue": 1, "in": { "a": "$$value" } },
        };
        assert_eq!(error_code(reduce), 15);
    }
}
