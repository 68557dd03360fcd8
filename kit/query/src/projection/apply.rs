//! Application of projections.

use bson::{Bson, Document, doc};

use super::{FieldProjection, ProjectedFields, Projection, ProjectionKind, Slice};
use crate::{Environment, Fault, Filter};

/// Projects a document.
pub(super) fn projected(
    projection: &Projection,
    document: &Document,
    filter: &Filter,
    env: &Environment,
) -> Result<Document, Fault> {
    let application = ProjectionRun { kind: projection.kind, root: document, env };
    let mut output = application.document(document, &projection.root, Some(projection.id))?;
    if let Some(path) = &projection.positional {
        let position = filter.projected_position(document, env)?;
        only_element(&mut output, path, position)?;
    }
    for (path, slice) in &projection.slices {
        slice_field(&mut output, path, *slice);
    }
    Ok(output)
}

struct ProjectionRun<'a> {
    kind: ProjectionKind,
    root: &'a Document,
    env: &'a Environment,
}

impl ProjectionRun<'_> {
    /// Projects fields in the order of the document, then adds computed ones. `id` is set for the
    /// top-level document: `true` includes `_id`.
    fn document(
        &self,
        document: &Document,
        branch: &ProjectedFields,
        id: Option<bool>,
    ) -> Result<Document, Fault> {
        let mut output = Document::new();
        for (name, value) in document {
            let kept = match branch.field(name) {
                None | Some(FieldProjection::Named) if id.is_some() && name == "_id" => {
                    (id == Some(true)).then(|| value.clone())
                }
                Some(FieldProjection::Sliced) => Some(value.clone()),
                None => self.unnamed(value),
                Some(FieldProjection::Named) => match self.kind {
                    ProjectionKind::Inclusion => Some(value.clone()),
                    ProjectionKind::Exclusion => None,
                },
                Some(FieldProjection::Nested(branch)) => self.value(value, branch)?,
                // Computed fields come last. In an exclusion they take the position of the existing
                // field.
                Some(FieldProjection::Computed(_) | FieldProjection::Element(_)) => match self.kind
                {
                    ProjectionKind::Inclusion => None,
                    ProjectionKind::Exclusion => self.computed(branch.field(name), document)?,
                },
            };
            if let Some(value) = kept {
                output.insert(name, value);
            }
        }
        self.compute_missing(document, branch, &mut output)?;
        Ok(output)
    }

    fn compute_missing(
        &self,
        document: &Document,
        branch: &ProjectedFields,
        output: &mut Document,
    ) -> Result<(), Fault> {
        for (name, field) in &branch.fields {
            if !field.computes()
                || self.kind == ProjectionKind::Exclusion
                || output.contains_key(name)
            {
                continue;
            }
            if let Some(value) = self.computed(Some(field), document)? {
                output.insert(name, value);
            }
        }
        Ok(())
    }

    fn computed(
        &self,
        field: Option<&FieldProjection>,
        document: &Document,
    ) -> Result<Option<Bson>, Fault> {
        match field {
            Some(FieldProjection::Computed(expression)) => expression.evaluate(self.root, self.env),
            Some(FieldProjection::Element(filter)) => self.first_element(filter, document),
            Some(FieldProjection::Nested(branch)) => {
                let empty = Document::new();
                Ok(Some(Bson::Document(self.document(&empty, branch, None)?)))
            }
            Some(FieldProjection::Named | FieldProjection::Sliced) | None => Ok(None),
        }
    }

    /// Returns the matched element. The filter is an `$elemMatch` on one field.
    fn first_element(&self, filter: &Filter, document: &Document) -> Result<Option<Bson>, Fault> {
        let Some(position) = filter.matched(document, self.env)?.and_then(|it| it.position) else {
            return Ok(None);
        };
        let field = filter.only_field().and_then(|name| document.get(name));
        let element = field.and_then(Bson::as_array).and_then(|it| it.get(position));
        Ok(element.map(|it| Bson::Array(vec![it.clone()])))
    }

    /// Projects a value with nested fields.
    fn value(&self, value: &Bson, branch: &ProjectedFields) -> Result<Option<Bson>, Fault> {
        Ok(match value {
            Bson::Document(document) => {
                Some(Bson::Document(self.document(document, branch, None)?))
            }
            Bson::Array(elements) => {
                let kept = elements.iter().map(|it| self.value(it, branch));
                let kept = kept.filter_map(Result::transpose).collect::<Result<_, _>>()?;
                Some(Bson::Array(kept))
            }
            _ if branch.computes() => {
                Some(Bson::Document(self.document(&doc! {}, branch, None)?))
            }
            other => self.unnamed(other),
        })
    }

    /// Projects a value that is not named.
    fn unnamed(&self, value: &Bson) -> Option<Bson> {
        match self.kind {
            ProjectionKind::Inclusion => None,
            ProjectionKind::Exclusion => Some(value.clone()),
        }
    }
}

/// Reduces the first array on a path to one element.
fn only_element(
    document: &mut Document,
    path: &[String],
    position: Option<usize>,
) -> Result<(), Fault> {
    let Some((name, rest)) = path.split_first() else { return Ok(()) };
    match document.get_mut(name) {
        Some(Bson::Document(inner)) => only_element(inner, rest, position),
        Some(Bson::Array(elements)) => {
            let Some(position) = position else {
                let text = "positional operator '.$' couldn't find a matching element in the array";
                return Err(Fault::location(51246, text));
            };
            if position >= elements.len() {
                return Err(Fault::location(51247, "positional operator '.$' element mismatch"));
            }
            let element = elements.swap_remove(position);
            *elements = vec![element];
            Ok(())
        }
        _ => Ok(()),
    }
}

fn slice_field(document: &mut Document, path: &[String], slice: Slice) {
    let Some((name, rest)) = path.split_first() else { return };
    match document.get_mut(name) {
        Some(Bson::Array(elements)) if rest.is_empty() => slice_elements(elements, slice),
        Some(value) => slice_inside(value, rest, slice),
        None => {}
    }
}

fn slice_inside(value: &mut Bson, rest: &[String], slice: Slice) {
    match value {
        Bson::Document(inner) => slice_field(inner, rest, slice),
        Bson::Array(elements) => {
            elements.iter_mut().for_each(|it| slice_inside(it, rest, slice));
        }
        _ => {}
    }
}

fn slice_elements(elements: &mut Vec<Bson>, slice: Slice) {
    let length = elements.len();
    let (skip, limit) = match slice {
        Slice::First(limit) => (0, limit),
        Slice::Last(limit) => (length.saturating_sub(limit), limit),
        Slice::Range { skip, limit } => {
            let size = usize::try_from(skip.unsigned_abs()).unwrap_or(usize::MAX);
            let from = if skip < 0 { length.saturating_sub(size) } else { size.min(length) };
            (from, limit)
        }
    };
    elements.drain(..skip.min(length));
    elements.truncate(limit);
}
