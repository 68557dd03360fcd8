//! `count`: counts the documents that match a filter.

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Fault, Filter, value};

use super::{
    super::namespace::Namespace,
    ReadContext,
    arguments::{Arguments, whole},
    environment::command_environment,
    resolved_namespace::ResolvedNamespace,
    select::{AccessPath, Hint, Selected, select},
};
use crate::call::Call;

/// Runs `count`.
pub(crate) fn count(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    let request = CountCommand::read(reading.call)?;
    let resolved = ResolvedNamespace::of(reading.store, &request.namespace, reading.env)?;
    let counted = match (resolved.collection(), &request) {
        // Without a filter the size of the collection is the answer.
        (Some(collection), CountCommand { query, hint: Hint::None, .. }) if query.is_empty() => {
            collection.len()
        }
        _ => request.run(reading, &resolved)?.1.documents.len(),
    };
    Ok(doc! { "n": number(request.apply_skip_and_limit(counted)) })
}

/// Parsed arguments of `count`.
pub(super) struct CountCommand<'a> {
    pub(super) namespace: Namespace,
    pub(super) query: Document,
    pub(super) hint: Hint,
    collation: Option<&'a Document>,
    skip: usize,
    limit: Option<usize>,
}

impl<'a> CountCommand<'a> {
    pub(super) fn read(call: &'a Call) -> Result<Self, Fault> {
        let fields = ["query", "limit", "skip", "hint", "collation", "fields"];
        let arguments = Arguments::of(call, "count", &fields)?;
        let namespace = match call.body.get(&call.name) {
            name @ Some(Bson::String(_)) => Namespace::of_command(&call.database, name)?,
            other => {
                let found = other.map_or("missing", value::type_name);
                return Err(Fault::new(
                    Code::INVALID_NAMESPACE,
                    format!("collection name has invalid type {found}"),
                ));
            }
        };
        // A negative limit means the same as the positive one.
        let limit = match arguments.value("limit") {
            None => 0,
            Some(limit) => whole(limit)
                .ok_or_else(|| Fault::bad_value("limit value is not a valid number"))?
                .unsigned_abs(),
        };
        Ok(Self {
            namespace,
            query: arguments.document("query")?.cloned().unwrap_or_default(),
            hint: Hint::read(arguments.value("hint"))?,
            collation: arguments.document("collation")?,
            skip: arguments.natural("skip")?.unwrap_or(0),
            limit: usize::try_from(limit).ok().filter(|limit| *limit > 0),
        })
    }

    /// Selects matching documents, before `skip` and `limit`, and returns the access path.
    pub(super) fn run<'s>(
        &self,
        reading: &ReadContext<'_>,
        resolved: &ResolvedNamespace<'s>,
    ) -> Result<(AccessPath<'s>, Selected), Fault> {
        let env = command_environment(reading.env, None, self.collation, resolved.collection())?;
        let filter = Filter::parse(&self.query, &env)?;
        let access_path = AccessPath::choose(resolved, &self.query, &filter, &self.hint, &env)?;
        let selected = select(resolved, access_path, &filter, &env, usize::MAX)?;
        Ok((access_path, selected))
    }

    /// Applies `skip` and `limit` to a count.
    pub(super) fn apply_skip_and_limit(&self, counted: usize) -> usize {
        counted.saturating_sub(self.skip).min(self.limit.unwrap_or(usize::MAX))
    }
}

/// Count as replies have it: an int if it fits, otherwise a long.
pub(super) fn number(count: usize) -> Bson {
    match i32::try_from(count) {
        Ok(count) => Bson::Int32(count),
        Err(_) => Bson::Int64(i64::try_from(count).unwrap_or(i64::MAX)),
    }
}
