//! Sort orders.

use std::cmp::Ordering;

use bson::{Bson, Document};

use crate::{
    Code, Collation, Environment, Fault,
    path::{Path, check_field_path, each_key},
    value::{self, Number, format_document, format_value},
};

/// Maximum number of fields of a sort.
const MAX_SORT_FIELDS: usize = 32;

/// A parsed sort.
#[derive(Clone, Debug)]
pub struct Sort {
    paths: Vec<Path>,
    descending: Vec<bool>,
    /// `$natural: -1`.
    backward: bool,
}

impl Sort {
    /// Parses `{a: 1, b: -1}`, or the `{$natural: 1}` of a `find`.
    ///
    /// # Errors
    ///
    /// Fails for invalid sorts, with the error codes of servers.
    pub fn parse(sort: &Document) -> Result<Self, Fault> {
        match sort.get("$natural") {
            None => Self::parse_stage(sort),
            Some(_) if sort.len() > 1 => Err(Fault::bad_value(format!(
                "Cannot include '$natural' in compound sort: {}",
                format_document(sort)
            ))),
            Some(direction) => {
                let backward = Number::of(direction).is_some_and(|it| it.to_f64() < 0.0);
                Ok(Self { paths: Vec::new(), descending: Vec::new(), backward })
            }
        }
    }

    /// Parses the `$sort` of a pipeline, which has no `$natural`.
    ///
    /// # Errors
    ///
    /// Fails for invalid sorts, with the error codes of servers.
    pub fn parse_stage(sort: &Document) -> Result<Self, Fault> {
        let mut parsed = Self { paths: Vec::new(), descending: Vec::new(), backward: false };
        for (name, direction) in sort {
            parsed.descending.push(is_descending(name, direction)?);
            check_field_path(name)?;
            parsed.paths.push(Path::new(name));
        }
        if parsed.paths.len() > MAX_SORT_FIELDS {
            return Err(Fault::location(13103, "too many compound keys"));
        }
        Ok(parsed)
    }

    /// Returns `true` if the sort keeps the order of documents.
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty() && !self.backward
    }

    /// Returns the paths; the flag is `true` for descending ones.
    pub fn fields(&self) -> impl Iterator<Item = (&Path, bool)> {
        self.paths.iter().zip(self.descending.iter().copied())
    }

    /// Compares two documents. Documents without a key (see [`Sort::try_sort`]) come first.
    pub fn compare(&self, left: &Document, right: &Document, collation: &Collation) -> Ordering {
        let left = self.key(left, collation).unwrap_or_default();
        let right = self.key(right, collation).unwrap_or_default();
        self.compare_keys(&left, &right, collation)
    }

    /// Sorts documents; stable. Leaves them unchanged in the cases in which [`Sort::try_sort`]
    /// fails.
    pub fn sort<T: AsRef<Document>>(&self, documents: &mut [T], env: &Environment) {
        let _ = self.try_sort(documents, env);
    }

    /// Sorts documents; stable.
    ///
    /// # Errors
    ///
    /// Fails if a document has parallel arrays in the sort fields.
    pub fn try_sort<T: AsRef<Document>>(
        &self,
        documents: &mut [T],
        env: &Environment,
    ) -> Result<(), Fault> {
        if self.backward {
            documents.reverse();
        }
        if self.paths.is_empty() {
            return Ok(());
        }
        let order = {
            let keys = documents
                .iter()
                .map(|it| self.key(it.as_ref(), &env.collation))
                .collect::<Result<Vec<_>, _>>()?;
            let mut order: Vec<usize> = (0..documents.len()).collect();
            order.sort_by(|left, right| {
                self.compare_keys(&keys[*left], &keys[*right], &env.collation)
            });
            order
        };
        arrange(documents, order);
        Ok(())
    }

    /// Returns the sort key of a document: the first of the keys of its arrays.
    fn key<'d>(
        &'d self,
        document: &'d Document,
        collation: &Collation,
    ) -> Result<Vec<&'d Bson>, Fault> {
        let mut least: Option<Vec<&Bson>> = None;
        each_key(document, &self.paths, &mut |key| {
            let less = |it: &Vec<&Bson>| self.compare_keys(key, it, collation).is_lt();
            if least.as_ref().is_none_or(less) {
                least = Some(key.to_vec());
            }
        })
        .map_err(|it| match it.code.number {
            171 => Fault::bad_value("cannot sort with keys that are parallel arrays"),
            _ => it,
        })?;
        Ok(least.unwrap_or_default())
    }

    fn compare_keys(&self, left: &[&Bson], right: &[&Bson], collation: &Collation) -> Ordering {
        left.iter()
            .zip(right)
            .zip(&self.descending)
            .map(|((left, right), descending)| {
                let order = value::compare(left, right, collation);
                if *descending { order.reverse() } else { order }
            })
            .find(|order| order.is_ne())
            .unwrap_or_else(|| left.len().cmp(&right.len()))
    }
}

/// Permutes elements in place. `order` has the source index of each position.
fn arrange<T>(elements: &mut [T], mut order: Vec<usize>) {
    for place in 0..elements.len() {
        let mut from = order[place];
        // An earlier swap may have moved the element; follow it.
        while from < place {
            from = order[from];
        }
        order[place] = from;
        elements.swap(place, from);
    }
}

fn is_descending(name: &str, direction: &Bson) -> Result<bool, Fault> {
    if let Bson::Document(meta) = direction {
        return Err(invalid_meta(meta));
    }
    let Some(number) = Number::of(direction) else {
        return Err(Fault::location(
            15974,
            format!("Illegal key in $sort specification: {name}: {}", format_value(direction)),
        ));
    };
    match number.truncated() {
        Some(1) => Ok(false),
        Some(-1) => Ok(true),
        _ => Err(Fault::location(
            15975,
            "$sort key ordering must be 1 (for ascending) or -1 (for descending)",
        )),
    }
}

fn invalid_meta(meta: &Document) -> Fault {
    let Some(argument) = meta.get("$meta") else {
        let text = "$meta is the only expression supported by $sort right now";
        return Fault::location(17312, text);
    };
    if meta.len() > 1 {
        let text = "Cannot have additional keys in a $meta sort specification";
        return Fault::failed_to_parse(text);
    }
    match argument.as_str() {
        Some("textScore") => {
            Fault::location(40218, "query requires text score metadata, but it is not available")
        }
        Some("randVal") => Fault::new(Code::NOT_IMPLEMENTED, "$meta: randVal is not implemented"),
        _ => {
            Fault::location(31138, format!("Illegal $meta sort: $meta: {}", format_value(argument)))
        }
    }
}

#[cfg(test)]
mod tests;
