//! Parsing of index definitions.

use std::sync::Arc;

use bson::{Bson, Document, doc};

use crate::{
    Code, Collation, Environment, Fault, Filter,
    path::Path,
    text,
    value::{self, Number, type_name},
};

use super::{
    Index, PartialFilter,
    key::KeyOrder,
    key_pattern::{self, KeyDirection},
    partial,
};

/// Options parsed so far.
#[derive(Default)]
struct IndexDraft {
    pattern: Option<(Document, Vec<KeyDirection>)>,
    name: Option<String>,
    version: i32,
    unique: bool,
    sparse: Option<bool>,
    hidden: bool,
    partial: Option<PartialFilter>,
    expire_after_seconds: Option<i32>,
    collation: Option<(Document, Collation)>,
    /// Options of the description, in the given order.
    described: Document,
}

pub(super) fn parse(specification: &Document, env: &Environment) -> Result<Index, Fault> {
    let caused = |specification: &Document| {
        let specification = text::document(specification);
        move |fault: Fault| Fault {
            message: format!(
                "Error in specification {specification} :: caused by :: {}",
                fault.message
            ),
            ..fault
        }
    };
    let mut draft = IndexDraft { version: 2, ..IndexDraft::default() };
    for (option, value) in specification {
        draft.read(option, value, specification, env).map_err(caused(specification))?;
    }
    let missing = |option: &str| {
        Fault::failed_to_parse(format!(
            "The '{option}' field is a required property of an index specification"
        ))
    };
    let (pattern, directions) =
        draft.pattern.take().ok_or_else(|| missing("key")).map_err(caused(specification))?;
    let name = draft.name.take().ok_or_else(|| missing("name")).map_err(caused(specification))?;
    // From here on, error messages show the definition with its version.
    let mut versioned = specification.clone();
    if !versioned.contains_key("v") {
        versioned.insert("v", 2);
    }
    if is_id_index(&pattern) {
        return id_index(&versioned, draft.collation.map(|(described, _)| described));
    }
    check_id_pattern(&pattern)?;
    check_name(&name, &pattern).map_err(|fault| match fault.code {
        Code::CANNOT_CREATE_INDEX => caused(&versioned)(fault),
        _ => fault,
    })?;
    draft.check_expiry(specification, &pattern)?;
    key_pattern::check_fields(&pattern, &directions)?;
    if draft.unique && directions.contains(&KeyDirection::Hashed) {
        let message = "Currently hashed indexes cannot guarantee uniqueness. Use a regular index.";
        return Err(Fault::location(16764, message));
    }
    draft.check_partial().map_err(caused(&versioned))?;
    Ok(draft.finish(name, pattern, directions))
}

fn is_id_index(pattern: &Document) -> bool {
    pattern.len() == 1 && pattern.get("_id").is_some_and(|it| value::equal(it, &Bson::Int32(1)))
}

fn id_index(specification: &Document, collation: Option<Document>) -> Result<Index, Fault> {
    let known = ["key", "name", "v", "ns", "collation"];
    match specification.keys().find(|it| !known.contains(&it.as_str())) {
        Some(option) => Err(Fault::new(
            Code::INVALID_INDEX_SPECIFICATION_OPTION,
            format!(
                "The field '{option}' is not valid for an _id index specification. Specification: {}",
                text::document(specification)
            ),
        )),
        None => collation
            .map_or_else(|| Ok(Index::id_index()), |it| Index::id_index_with_collation(&it)),
    }
}

fn check_id_pattern(pattern: &Document) -> Result<(), Fault> {
    let alone = pattern.len() == 1 && pattern.get("_id").is_some_and(value::is_number);
    if alone {
        return Err(Fault::bad_value(format!(
            "The field 'key' for an _id index must be {{_id: 1}}, but got {}",
            text::document(pattern)
        )));
    }
    Ok(())
}

fn check_name(name: &str, pattern: &Document) -> Result<(), Fault> {
    let invalid = |message: &str| Err(Fault::new(Code::CANNOT_CREATE_INDEX, message));
    match name {
        "" => invalid("index name cannot be empty"),
        "*" => Err(Fault::bad_value("The index name '*' is not valid.")),
        "_id_" => Err(Fault::bad_value(format!(
            "The index name '_id_' is reserved for the _id index, which must have key pattern {{_id: \
             1}}, found key: {}",
            text::document(pattern)
        ))),
        name if name.contains('\0') => invalid("index name cannot contain NUL bytes"),
        _ => Ok(()),
    }
}

impl IndexDraft {
    fn read(
        &mut self,
        option: &str,
        value: &Bson,
        specification: &Document,
        env: &Environment,
    ) -> Result<(), Fault> {
        match option {
            "key" => {
                let pattern = document(option, value)?;
                let directions = key_pattern::directions(pattern)?;
                self.pattern = Some((pattern.clone(), directions));
            }
            "name" => match value {
                Bson::String(name) => self.name = Some(name.clone()),
                other => return Err(must_be(option, "a string", other)),
            },
            "v" => self.version = version(value, specification)?,
            "unique" => {
                self.unique = boolean(option, value)?;
                if self.unique {
                    self.described.insert(option, true);
                }
            }
            "hidden" => {
                self.hidden = boolean(option, value)?;
                if self.hidden {
                    self.described.insert(option, true);
                }
            }
            "sparse" => {
                let sparse = boolean(option, value)?;
                self.sparse = Some(sparse);
                self.described.insert(option, sparse);
            }
            "background" => {
                self.described.insert(option, boolean(option, value)?);
            }
            "partialFilterExpression" => {
                let expression = document(option, value)?;
                partial::check_operators(expression)?;
                let filter = Filter::parse(expression, env)?;
                self.partial = Some(PartialFilter { expression: expression.clone(), filter });
                self.described.insert(option, expression.clone());
            }
            // Checked later, because its errors have another prefix.
            "expireAfterSeconds" => {
                self.expire_after_seconds = seconds(value);
                self.described.insert(option, self.expire_after_seconds);
            }
            "collation" => self.read_collation(document(option, value)?)?,
            // Obsolete options that servers ignore.
            "ns" | "dropDups" => {}
            // Servers keep these options for any index.
            "storageEngine" => {
                self.described.insert(option, document(option, value)?.clone());
            }
            "default_language" | "language_override" => match value {
                Bson::String(text) => {
                    self.described.insert(option, text.as_str());
                }
                other => return Err(must_be(option, "a string", other)),
            },
            "bits" | "min" | "max" | "bucketSize" | "textIndexVersion" | "2dsphereIndexVersion" => {
                if !value::is_number(value) {
                    return Err(must_be(option, "a number", value));
                }
                self.described.insert(option, value.clone());
            }
            "weights" | "wildcardProjection" => return Err(of_other_kind(option, specification)),
            other => {
                return Err(Fault::new(
                    Code::INVALID_INDEX_SPECIFICATION_OPTION,
                    format!(
                        "The field '{other}' is not valid for an index specification. Specification: \
                         {}",
                        text::document(specification)
                    ),
                ));
            }
        }
        Ok(())
    }

    fn read_collation(&mut self, options: &Document) -> Result<(), Fault> {
        let collation = Collation::parse(options)?;
        if let Some(described) = collation.to_document() {
            self.described.insert("collation", described.clone());
            self.collation = Some((described, collation));
        }
        Ok(())
    }

    /// Checks `expireAfterSeconds`. Servers check it after the other options, with different
    /// messages.
    fn check_expiry(&self, specification: &Document, pattern: &Document) -> Result<(), Fault> {
        let Some(value) = specification.get("expireAfterSeconds") else { return Ok(()) };
        let invalid = |what: String| {
            let specification = text::document(specification);
            let message = format!("{what}. Index spec: {specification}");
            Err(Fault::new(Code::CANNOT_CREATE_INDEX, message))
        };
        let of = "TTL index 'expireAfterSeconds' option";
        let Some(number) = Number::of(value) else {
            let name = type_name(value);
            return invalid(format!("{of} must be numeric, but received a type of '{name}'"));
        };
        if number.truncated().is_some_and(|it| it < 0) {
            return invalid(format!("{of} cannot be less than 0"));
        }
        if self.expire_after_seconds.is_none() {
            return invalid(format!("{of} must be within an acceptable range, try a lower number"));
        }
        if pattern.len() > 1 {
            let what = "TTL indexes are single-field indexes, compound indexes do not support TTL";
            return invalid(what.to_owned());
        }
        Ok(())
    }

    fn check_partial(&self) -> Result<(), Fault> {
        let Some(partial) = &self.partial else { return Ok(()) };
        if self.sparse == Some(true) {
            return Err(Fault::new(
                Code::CANNOT_CREATE_INDEX,
                "cannot mix \"partialFilterExpression\" and \"sparse\" options",
            ));
        }
        partial::check(&partial.expression)
    }

    fn finish(self, name: String, pattern: Document, directions: Vec<KeyDirection>) -> Index {
        let mut description =
            doc! { "v": self.version, "key": pattern.clone(), "name": name.as_str() };
        description.extend(self.described);
        let (collation_options, collation) = match self.collation {
            Some((options, collation)) => (Some(options), collation),
            None => (None, Collation::simple()),
        };
        Index {
            name,
            paths: pattern.keys().map(|path| Path::new(path)).collect(),
            hashed: directions.iter().position(|it| *it == KeyDirection::Hashed),
            unique: self.unique,
            sparse: self.sparse == Some(true),
            hidden: self.hidden,
            partial: self.partial,
            expire_after_seconds: self.expire_after_seconds,
            collation: collation_options,
            order: Arc::new(KeyOrder::new(directions, collation)),
            description,
            pattern,
        }
    }
}

fn of_other_kind(option: &str, specification: &Document) -> Fault {
    if option == "wildcardProjection" {
        return Fault::bad_value(
            "The field 'wildcardProjection' is only allowed in an 'wildcard' index",
        );
    }
    let message = format!(
        "Invalid index specification {}; the field '{option}' can only be specified with text indexes",
        text::document(specification)
    );
    Fault::new(Code::CANNOT_CREATE_INDEX, message)
}

fn must_be(option: &str, what: &str, value: &Bson) -> Fault {
    let name = type_name(value);
    Fault::type_mismatch(format!("The field '{option}' must be {what}, but got {name}"))
}

fn document<'v>(option: &str, value: &'v Bson) -> Result<&'v Document, Fault> {
    value.as_document().ok_or_else(|| must_be(option, "an object", value))
}

fn boolean(option: &str, value: &Bson) -> Result<bool, Fault> {
    match value {
        Bson::Boolean(truth) => Ok(*truth),
        number if value::is_number(number) => Ok(value::is_truthy(number)),
        other => Err(Fault::type_mismatch(format!(
            "The field '{option} has value {}, which is not convertible to bool",
            text::field(option, other)
        ))),
    }
}

fn version(value: &Bson, specification: &Document) -> Result<i32, Fault> {
    let number = Number::of(value).ok_or_else(|| must_be("v", "a number", value))?;
    match number.to_integer() {
        Some(1) => Ok(1),
        Some(2) => Ok(2),
        Some(_) | None => Err(Fault::new(
            Code::CANNOT_CREATE_INDEX,
            format!(
                "Invalid index specification {}; cannot create an index with v={}",
                text::document(specification),
                text::value(value)
            ),
        )),
    }
}

/// Truncates to a non-negative int.
fn seconds(value: &Bson) -> Option<i32> {
    let seconds = Number::of(value)?.truncated()?;
    i32::try_from(seconds).ok().filter(|it| *it >= 0)
}
