//! `updateDescription`: a difference as change events show it.

use bson::{Bson, Document, doc};

/// Fields of the description that depend on the server version.
#[derive(Clone, Copy, Debug)]
pub(super) struct DescriptionFields {
    /// `truncatedArrays`.
    pub(super) truncated: bool,
    /// `disambiguatedPaths`.
    pub(super) disambiguated: bool,
}

/// A path, and its parts if they are ambiguous (`disambiguatedPaths`).
#[derive(Clone, Debug, Default)]
struct UpdatePath {
    text: String,
    parts: Vec<Bson>,
    is_ambiguous: bool,
}

impl UpdatePath {
    fn field(&self, name: &str) -> Self {
        let is_number = !name.is_empty() && name.bytes().all(|digit| digit.is_ascii_digit());
        self.with(name, name.into(), is_number || name.contains('.'))
    }

    fn element(&self, at: &str) -> Self {
        self.with(at, Bson::Int32(at.parse().unwrap_or(i32::MAX)), false)
    }

    fn with(&self, text: &str, part: Bson, is_ambiguous: bool) -> Self {
        let mut path = self.clone();
        if !path.parts.is_empty() {
            path.text.push('.');
        }
        path.text.push_str(text);
        // A number at the start of a path can only be a field name.
        let is_number = !text.contains('.');
        path.is_ambiguous |= is_ambiguous && !(path.parts.is_empty() && is_number);
        path.parts.push(part);
        path
    }
}

/// Fields of the description.
#[derive(Default)]
struct DescriptionBuilder {
    updated: Document,
    removed: Vec<Bson>,
    truncated: Vec<Bson>,
    disambiguated: Document,
}

/// Converts a difference to an `updateDescription`.
pub(super) fn description(difference: &Document, details: DescriptionFields) -> Document {
    let mut builder = DescriptionBuilder::default();
    builder.document(difference, &UpdatePath::default());
    let mut description =
        doc! { "updatedFields": builder.updated, "removedFields": builder.removed };
    if details.truncated {
        description.insert("truncatedArrays", builder.truncated);
    }
    if details.disambiguated {
        description.insert("disambiguatedPaths", builder.disambiguated);
    }
    description
}

impl DescriptionBuilder {
    fn document(&mut self, difference: &Document, path: &UpdatePath) {
        for (section, value) in difference {
            let Bson::Document(fields) = value else { continue };
            match section.as_str() {
                "d" => {
                    for name in fields.keys() {
                        let path = self.seen(path.field(name));
                        self.removed.push(path.into());
                    }
                }
                "u" | "i" => {
                    for (name, value) in fields {
                        let path = self.seen(path.field(name));
                        self.updated.insert(path, value.clone());
                    }
                }
                inside => self.inside(fields, &path.field(&inside[1..])),
            }
        }
    }

    fn inside(&mut self, difference: &Document, path: &UpdatePath) {
        match difference.get("a") {
            Some(Bson::Boolean(true)) => self.array(difference, path),
            _ => self.document(difference, path),
        }
    }

    fn array(&mut self, difference: &Document, path: &UpdatePath) {
        for (section, value) in difference.iter().skip(1) {
            let at = &section[1..];
            match (&section[..1], value) {
                ("l", length) => {
                    let field = self.seen(path.clone());
                    self.truncated.push(doc! { "field": field, "newSize": length }.into());
                }
                ("s", Bson::Document(inside)) => self.inside(inside, &path.element(at)),
                (_, value) => {
                    let path = self.seen(path.element(at));
                    self.updated.insert(path, value.clone());
                }
            }
        }
    }

    fn seen(&mut self, path: UpdatePath) -> String {
        if path.is_ambiguous {
            self.disambiguated.insert(path.text.as_str(), path.parts);
        }
        path.text
    }
}
