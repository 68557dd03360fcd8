//! Values of counters.

use bson::{Bson, Document, doc};

use super::{Counters, Fields};
use steadfast::error::{Error, Result};

/// Value of a counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Value {
    /// Count.
    pub counted: i64,
    /// Sum of the pending increments.
    pub pending: i64,
}

impl Counters {
    /// Returns the count; `None` if the counter does not exist. Uses the collection's read concern and read
    /// preference.
    ///
    /// # Errors
    ///
    /// An [invalid response](steadfast::error::ErrorKind::InvalidResponse) if the field is not a whole number.
    ///
    /// ```no_run
    /// # async fn run(events: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast_patterns::counter::Counters;
    ///
    /// let visits = Counters::new(&events).value("2016-06-28").await?.unwrap_or(0);
    /// println!("{visits} visits");
    /// # Ok(()) }
    /// ```
    pub async fn value(&self, id: impl Into<Bson>) -> Result<Option<i64>> {
        Ok(self.value_with_pending(id).await?.map(|value| value.counted))
    }

    /// Returns the count and the sum of pending increments, which are in progress or were left behind.
    ///
    /// # Errors
    ///
    /// Those of [`value`](Self::value).
    pub async fn value_with_pending(&self, id: impl Into<Bson>) -> Result<Option<Value>> {
        let intent = self.intend(id, 0);
        intent.check()?;
        self.fields.check()?;
        let Fields { counter, pending, .. } = &self.fields;
        let found = self
            .collection
            .find_one(doc! { "_id": intent.id })
            .projection(doc! { counter: 1, pending: 1 })
            .await?;
        found.map(|document| read(&self.fields, &document)).transpose()
    }
}

fn read(fields: &Fields, document: &Document) -> Result<Value> {
    let mut value = Value::default();
    if let Some(counter) = at(document, &fields.counter) {
        value.counted = whole(counter).ok_or_else(|| {
            let message = format!("the counter's field {:?} is not a whole number", fields.counter);
            Error::invalid_response(message)
        })?;
    }
    if let Some(Bson::Array(pending)) = at(document, &fields.pending) {
        let by = |entry: &Bson| match entry {
            Bson::Document(entry) => entry.get("by").and_then(whole).unwrap_or(0),
            Bson::ObjectId(_) => 1,
            _ => 0,
        };
        value.pending = pending.iter().map(by).fold(0, i64::saturating_add);
    }
    Ok(value)
}

/// Returns the value at a path with dots.
fn at<'d>(document: &'d Document, name: &str) -> Option<&'d Bson> {
    match name.split_once('.') {
        Some((outer, inner)) => at(document.get_document(outer).ok()?, inner),
        None => document.get(name),
    }
}

fn whole(number: &Bson) -> Option<i64> {
    match number {
        Bson::Int32(number) => Some((*number).into()),
        Bson::Int64(number) => Some(*number),
        #[expect(clippy::cast_possible_truncation, reason = "it is a whole number within 2^53")]
        Bson::Double(number)
            if number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_992.0 =>
        {
            Some(*number as i64)
        }
        _ => None,
    }
}
