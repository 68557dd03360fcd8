//! Parsing of projections.

use bson::{Bson, Document, doc};

use super::{FieldProjection, ProjectedFields, Projection, ProjectionKind, Slice};
use crate::{
    Code, Environment, Expression, Fault, Filter,
    path::check_field_path,
    value::{self, Number, format_document, format_value, is_truthy, type_name},
};

/// Parses the projection of a `find`.
pub(super) fn projection(projection: &Document, env: &Environment) -> Result<Projection, Fault> {
    let mut reader = ProjectionParser::new(env);
    for (name, value) in projection {
        reader.field(name, &[], value)?;
    }
    Ok(reader.finished())
}

struct ProjectionParser<'e> {
    env: &'e Environment,
    kind: Option<ProjectionKind>,
    id: Option<bool>,
    has_element: bool,
    root: ProjectedFields,
    slices: Vec<(Vec<String>, Slice)>,
    positional: Option<Vec<String>>,
}

impl<'e> ProjectionParser<'e> {
    fn new(env: &'e Environment) -> Self {
        Self {
            env,
            kind: None,
            id: None,
            has_element: false,
            root: ProjectedFields::default(),
            slices: Vec::new(),
            positional: None,
        }
    }

    fn finished(self) -> Projection {
        // Without other fields, `_id`, `$slice` and `$elemMatch` determine the kind.
        let elements_alone = self.has_element && self.slices.is_empty();
        let kind = self.kind.unwrap_or(if elements_alone || self.id == Some(true) {
            ProjectionKind::Inclusion
        } else {
            ProjectionKind::Exclusion
        });
        let id = self.id.unwrap_or(true);
        Projection { kind, id, root: self.root, slices: self.slices, positional: self.positional }
    }

    /// Parses a field, at the top level or nested.
    fn field(&mut self, name: &str, parents: &[String], value: &Bson) -> Result<(), Fault> {
        if let Some(before) = positional_path(name)? {
            return self.positional(ProjectedPath { name: before, parents }, value);
        }
        check_field_path(name)?;
        let place = ProjectedPath { name, parents };
        match value {
            Bson::Boolean(_) => self.named(place, is_truthy(value)),
            number if value::is_number(number) => self.named(place, is_truthy(value)),
            Bson::Document(inner) => self.inner(place, inner),
            other => self.literal(place, other),
        }
    }

    /// Parses a value: a path or a literal.
    fn literal(&mut self, place: ProjectedPath<'_>, value: &Bson) -> Result<(), Fault> {
        let expression = Expression::parse(value, self.env)?;
        self.insert_field(place, FieldProjection::Computed(Box::new(expression)))?;
        if self.kind == Some(ProjectionKind::Exclusion) {
            let what = format!("{}: {}", place.name, format_value(value));
            let text = format!("Cannot use an expression {what} in an exclusion projection");
            return Err(Fault::location(31310, text));
        }
        self.kind = Some(ProjectionKind::Inclusion);
        Ok(())
    }

    fn named(&mut self, place: ProjectedPath<'_>, included: bool) -> Result<(), Fault> {
        self.insert_field(place, FieldProjection::Named)?;
        if place.name == "_id" && place.parents.is_empty() {
            self.id = Some(included);
            return Ok(());
        }
        self.must_be(
            if included { ProjectionKind::Inclusion } else { ProjectionKind::Exclusion },
            place.name,
        )
    }

    fn must_be(&mut self, kind: ProjectionKind, name: &str) -> Result<(), Fault> {
        match (*self.kind.get_or_insert(kind), kind) {
            (ProjectionKind::Inclusion, ProjectionKind::Exclusion) => Err(Fault::location(
                31254,
                format!("Cannot do exclusion on field {name} in inclusion projection"),
            )),
            (ProjectionKind::Exclusion, ProjectionKind::Inclusion) => Err(Fault::location(
                31253,
                format!("Cannot do inclusion on field {name} in exclusion projection"),
            )),
            _ => Ok(()),
        }
    }

    fn computed(&mut self, place: ProjectedPath<'_>, expression: &Bson) -> Result<(), Fault> {
        if self.kind == Some(ProjectionKind::Exclusion) {
            return Err(Fault::location(
                31252,
                "Cannot use expression other than $meta in exclusion projection",
            ));
        }
        let expression = Expression::parse(expression, self.env)?;
        self.kind = Some(ProjectionKind::Inclusion);
        self.insert_field(place, FieldProjection::Computed(Box::new(expression)))
    }

    /// Parses a document: an operator or nested fields.
    fn inner(&mut self, place: ProjectedPath<'_>, inner: &Document) -> Result<(), Fault> {
        let Some((first, argument)) = inner.iter().next() else {
            return Err(Fault::location(
                51270,
                "An empty sub-projection is not a valid value. Found empty object at path",
            ));
        };
        if inner.len() == 1 && first.starts_with('$') {
            return self.operator(place, first, argument, inner);
        }
        self.insert_field(place, FieldProjection::Nested(ProjectedFields::default()))?;
        let parents = place.path();
        inner.iter().try_for_each(|(name, value)| self.field(name, &parents, value))
    }

    fn operator(
        &mut self,
        place: ProjectedPath<'_>,
        operator: &str,
        argument: &Bson,
        whole: &Document,
    ) -> Result<(), Fault> {
        match operator {
            "$slice" => self.slice(place, argument, whole),
            "$elemMatch" => self.element(place, argument),
            "$meta" => Err(invalid_meta(argument)),
            _ => {
                let unknown = format!("Unrecognized expression '{operator}'");
                self.computed(place, &Bson::Document(whole.clone())).map_err(|it| {
                    if it.message == unknown {
                        Fault::location(31325, format!("Unknown expression {operator}"))
                    } else {
                        it
                    }
                })
            }
        }
    }

    /// Parses the `$slice` of a `find`. Other arguments are an aggregation expression.
    fn slice(
        &mut self,
        place: ProjectedPath<'_>,
        argument: &Bson,
        whole: &Document,
    ) -> Result<(), Fault> {
        let grown = slice_of(argument).and_then(|slice| {
            self.insert_field(place, FieldProjection::Sliced)?;
            Ok(slice)
        });
        let wrong = match grown {
            Ok(slice) => {
                self.slices.push((place.path(), slice));
                return Ok(());
            }
            Err(wrong) => wrong,
        };
        self.computed(place, &Bson::Document(whole.clone())).map_err(|fault| {
            let collision = matches!(wrong.code.number, 31249 | 31250);
            let syntax = matches!(fault.code.number, 28667 | 31249 | 31250 | 31252);
            // Errors in values, as opposed to syntax, are reported unchanged.
            let fault = match (syntax, collision) {
                (true, _) => fault,
                (false, true) => wrong.clone(),
                (false, false) => return fault,
            };
            let text = format!(
                "Invalid $slice syntax. The given syntax {} did not match the find() syntax because \
                 :: {}: {} :: The given syntax did not match the expression $slice syntax. :: caused \
                 by :: {}",
                format_document(whole),
                wrong.code.name(),
                wrong.message,
                fault.message
            );
            Fault::new(fault.code, text)
        })
    }

    fn element(&mut self, place: ProjectedPath<'_>, argument: &Bson) -> Result<(), Fault> {
        if !matches!(argument, Bson::Document(_)) {
            let kind = type_name(argument);
            return Err(Fault::location(
                31274,
                format!("elemMatch: Invalid argument, object required, but got {kind}"),
            ));
        }
        if self.positional.is_some() {
            let text = "Cannot specify positional operator and $elemMatch.";
            return Err(Fault::location(31255, text));
        }
        if place.path().len() > 1 {
            let text = "Cannot use $elemMatch projection on a nested field.";
            return Err(Fault::location(31275, text));
        }
        let filter = doc! { place.name: { "$elemMatch": argument.clone() } };
        let filter = Filter::parse(&filter, self.env)?;
        self.has_element = true;
        self.insert_field(place, FieldProjection::Element(Box::new(filter)))
    }

    fn positional(&mut self, place: ProjectedPath<'_>, value: &Bson) -> Result<(), Fault> {
        let fault = |number, text: &str| Err(Fault::location(number, text));
        if matches!(value, Bson::Document(_)) {
            let text = "positional projection cannot be used with an expression or sub object";
            return fault(31271, text);
        }
        if !matches!(value, Bson::Boolean(_)) && !value::is_number(value) {
            return fault(31308, "positional projection cannot be used with a literal");
        }
        if !is_truthy(value) {
            return fault(31395, "positional projection cannot be used with exclusion");
        }
        if self.has_element {
            return fault(31256, "Cannot specify positional operator and $elemMatch.");
        }
        if self.positional.is_some() {
            return fault(31276, "Cannot specify more than one positional projection per query.");
        }
        check_field_path(place.name)?;
        self.insert_field(place, FieldProjection::Named)?;
        self.must_be(ProjectionKind::Inclusion, &format!("{}.$", place.name))?;
        self.positional = Some(place.path());
        Ok(())
    }

    /// Adds a field. Fails on a collision; nested fields can share a parent.
    fn insert_field(
        &mut self,
        place: ProjectedPath<'_>,
        field: FieldProjection,
    ) -> Result<(), Fault> {
        let mut branch = &mut self.root;
        for name in place.parents {
            let at = branch.place(name);
            let FieldProjection::Nested(inner) = &mut branch.fields[at].1 else { return Ok(()) };
            branch = inner;
        }
        let path: Vec<&str> = place.name.split('.').collect();
        let last = path[path.len() - 1];
        for (depth, name) in path[..path.len() - 1].iter().enumerate() {
            let at = branch.place(name);
            match &mut branch.fields[at].1 {
                FieldProjection::Nested(inner) => branch = inner,
                FieldProjection::Named
                | FieldProjection::Sliced
                | FieldProjection::Computed(_)
                | FieldProjection::Element(_) => {
                    // Messages of servers start one component earlier, except for the first.
                    let rest = path[depth.max(1)..].join(".");
                    let text = format!("Path collision at {} remaining portion {rest}", place.name);
                    return Err(Fault::location(31249, text));
                }
            }
        }
        match (branch.field(last), &field) {
            (None, _) => branch.fields.push((last.to_owned(), field)),
            (Some(FieldProjection::Nested(_)), FieldProjection::Nested(_)) => {}
            (Some(_), _) => {
                let text = format!("Path collision at {}", place.name);
                return Err(Fault::location(31250, text));
            }
        }
        Ok(())
    }
}

/// Path of a projected field: its name, possibly dotted, and its parents.
#[derive(Clone, Copy)]
struct ProjectedPath<'p> {
    name: &'p str,
    parents: &'p [String],
}

impl ProjectedPath<'_> {
    fn path(&self) -> Vec<String> {
        let own = self.name.split('.').map(str::to_owned);
        self.parents.iter().cloned().chain(own).collect()
    }
}

impl ProjectedFields {
    /// Returns the position of a field. Adds it with nested fields if it does not exist.
    fn place(&mut self, name: &str) -> usize {
        let found = self.fields.iter().position(|(other, _)| other == name);
        found.unwrap_or_else(|| {
            self.fields
                .push((name.to_owned(), FieldProjection::Nested(ProjectedFields::default())));
            self.fields.len() - 1
        })
    }
}

/// Returns the path before a trailing `$`.
fn positional_path(name: &str) -> Result<Option<&str>, Fault> {
    if let Some(before) = name.strip_suffix(".$") {
        return Ok(Some(before));
    }
    if name.contains(".$.") {
        return Err(Fault::location(
            31394,
            "As of 4.4, it's illegal to specify positional operator in the middle of a \
             path.Positional projection may only be used at the end, for example: a.b.$. If the \
             query previously used a form like a.b.$.d, remove the parts following the '$' and the \
             results will be equivalent.",
        ));
    }
    Ok(None)
}

/// Parses the argument of the `$slice` of a `find`.
fn slice_of(argument: &Bson) -> Result<Slice, Fault> {
    let whole = |it: &Bson| {
        let number = Number::of(it)?;
        let beyond = if number.to_f64() < 0.0 { i64::MIN } else { i64::MAX };
        let number = number.truncated().unwrap_or(beyond);
        Some(number.clamp(i32::MIN.into(), i32::MAX.into()))
    };
    let size = |it: i64| usize::try_from(it.unsigned_abs()).unwrap_or(usize::MAX);
    let wrong = |number, text: &str| Err(Fault::location(number, text));
    match (whole(argument), argument) {
        (Some(count), _) if count < 0 => Ok(Slice::Last(size(count))),
        (Some(count), _) => Ok(Slice::First(size(count))),
        (None, Bson::Array(list)) => match list.as_slice() {
            [skip, limit] => match (whole(skip), whole(limit)) {
                (Some(skip), Some(limit)) if limit > 0 => {
                    Ok(Slice::Range { skip, limit: size(limit) })
                }
                (Some(_), Some(_)) => wrong(31259, "$slice limit must be positive"),
                _ => wrong(31272, "$slice array argument should be of form [skip, limit]"),
            },
            _ => wrong(31272, "$slice array argument should be of form [skip, limit]"),
        },
        _ => wrong(31273, "$slice only supports numbers and [skip, limit] arrays"),
    }
}

fn invalid_meta(argument: &Bson) -> Fault {
    match argument {
        Bson::String(name) if name == "textScore" => {
            Fault::location(40218, "query requires text score metadata, but it is not available")
        }
        Bson::String(name)
            if matches!(name.as_str(), "recordId" | "indexKey" | "sortKey" | "randVal")
                || name.starts_with("geoNear")
                || name.starts_with("search") =>
        {
            Fault::new(Code::NOT_IMPLEMENTED, format!("$meta: {name} is not implemented"))
        }
        Bson::String(name) => {
            Fault::location(17308, format!("Unsupported argument to $meta: {name}"))
        }
        _ => Fault::location(17307, "$meta only supports string arguments"),
    }
}
