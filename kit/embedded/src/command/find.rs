//! `find`: filters, sorts and projects documents, and opens a cursor.

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Environment, Fault, Filter, Projection, Sort, value};

use super::{
    super::{
        call::Call,
        cursor::{Cursor, CursorOwner, CursorSource, FIRST_BATCH, FoundDocuments},
        namespace::Namespace,
        version_gate,
    },
    ReadContext,
    arguments::Arguments,
    environment::{command_environment, copy_environment},
    lock,
    resolved_namespace::ResolvedNamespace,
    select::{AccessPath, Hint, IndexBounds, Selected, parse_natural, select},
};

const FIELDS: &[&str] = &[
    "allowDiskUse",
    "allowPartialResults",
    "awaitData",
    "batchSize",
    "collation",
    "filter",
    "hint",
    "let",
    "limit",
    "max",
    "min",
    "noCursorTimeout",
    "oplogReplay",
    "projection",
    "readOnce",
    "returnKey",
    "showRecordId",
    "singleBatch",
    "skip",
    "sort",
    "tailable",
];

/// Arguments outside of the stable API.
const UNSTABLE: &[&str] = &[
    "awaitData",
    "max",
    "min",
    "noCursorTimeout",
    "oplogReplay",
    "readOnce",
    "returnKey",
    "showRecordId",
    "tailable",
];

/// Runs `find`.
pub(crate) fn find(reading: &ReadContext<'_>) -> Result<Document, Fault> {
    let mut request = FindCommand::read(reading.call)?;
    request.closes_at_limit = !version_gate::is_at_least(&reading.server_info.version, (5, 0, 0));
    let resolved = ResolvedNamespace::of(reading.store, &request.namespace, reading.env)?;
    let env = command_environment(
        reading.env,
        request.variables,
        request.collation,
        resolved.collection(),
    )?;
    let filter = Filter::parse(&request.filter, &env)?;
    let access_path = request.access_path(&resolved, &filter, &env)?;
    let projection = request.projection.map(|it| Projection::parse(it, &env)).transpose()?;
    let selected = request.run(&resolved, access_path, &filter, &env)?;
    if matches!(resolved, ResolvedNamespace::Missing) {
        let namespace = request.namespace.to_string();
        return Ok(doc! { "cursor": { "firstBatch": [], "id": 0_i64, "ns": namespace } });
    }
    let found =
        request.cursor_documents(selected, access_path, (filter, projection), &resolved, &env)?;
    let mut cursor = Cursor::new(
        request.namespace.clone(),
        CursorOwner::of(reading.call),
        CursorSource::FoundDocuments(found),
    );
    cursor.no_cursor_timeout = request.no_cursor_timeout;
    let batch_size = request.batch_size.unwrap_or(FIRST_BATCH);
    if request.single_batch {
        return cursor.open_single_batch(batch_size);
    }
    cursor.open(Some(batch_size), &mut lock(reading.cursors), &env)
}

/// Parsed arguments of `find`.
pub(super) struct FindCommand<'a> {
    pub(super) namespace: Namespace,
    pub(super) filter: Document,
    pub(super) sort: Option<&'a Document>,
    pub(super) projection: Option<&'a Document>,
    pub(super) variables: Option<&'a Document>,
    pub(super) collation: Option<&'a Document>,
    pub(super) hint: Hint,
    pub(super) skip: usize,
    pub(super) limit: Option<usize>,
    range: IndexBounds<'a>,
    show_record_id: bool,
    /// Returns index keys instead of documents (`returnKey`).
    return_key: bool,
    /// `true` if a sorted cursor is exhausted with the last document of its limit.
    closes_at_limit: bool,
    batch_size: Option<usize>,
    single_batch: bool,
    no_cursor_timeout: bool,
}

impl<'a> FindCommand<'a> {
    pub(super) fn read(call: &'a Call) -> Result<Self, Fault> {
        let arguments = Arguments::of(call, "FindCommandRequest", FIELDS)?;
        arguments.without(UNSTABLE)?;
        let namespace = Namespace::of_find(&call.database, call.body.get(&call.name))?;
        if namespace.collection.contains('$') {
            return Err(Fault::new(
                Code::INVALID_NAMESPACE,
                format!("Invalid collection name specified '{namespace}"),
            ));
        }
        for field in ["allowDiskUse", "allowPartialResults", "oplogReplay", "readOnce"] {
            flag(&arguments, field)?;
        }
        reject_unsupported(&arguments)?;
        let sort = object(&arguments, "sort")?.filter(|it| !it.is_empty());
        // A sort by `$natural` is a hint.
        let parse_natural = sort.and_then(parse_natural);
        Ok(Self {
            namespace,
            filter: object(&arguments, "filter")?.cloned().unwrap_or_default(),
            sort: sort.filter(|_| parse_natural.is_none()),
            projection: object(&arguments, "projection")?.filter(|it| !it.is_empty()),
            variables: arguments.document("let")?,
            collation: arguments.document("collation")?,
            hint: match Hint::read(arguments.value("hint"))? {
                Hint::None => parse_natural.unwrap_or(Hint::None),
                hint => hint,
            },
            skip: arguments.natural("skip")?.unwrap_or(0),
            limit: arguments.natural("limit")?.filter(|limit| *limit > 0),
            range: IndexBounds {
                min: arguments.document("min")?.filter(|it| !it.is_empty()),
                max: arguments.document("max")?.filter(|it| !it.is_empty()),
            },
            show_record_id: flag(&arguments, "showRecordId")?,
            return_key: flag(&arguments, "returnKey")?,
            closes_at_limit: false,
            batch_size: arguments.natural("batchSize")?,
            single_batch: flag(&arguments, "singleBatch")?,
            no_cursor_timeout: flag(&arguments, "noCursorTimeout")?,
        })
    }

    /// Chooses the access path.
    pub(super) fn access_path<'s>(
        &'s self,
        resolved: &ResolvedNamespace<'s>,
        filter: &Filter,
        env: &Environment,
    ) -> Result<AccessPath<'s>, Fault> {
        let access_path = AccessPath::choose(resolved, &self.filter, filter, &self.hint, env)?;
        self.range.within(access_path, &self.hint)
    }

    /// Selects documents, sorts them and applies `skip` and `limit`.
    pub(super) fn run(
        &self,
        resolved: &ResolvedNamespace<'_>,
        access_path: AccessPath<'_>,
        filter: &Filter,
        env: &Environment,
    ) -> Result<Selected, Fault> {
        let end = self.limit.map_or(usize::MAX, |limit| self.skip.saturating_add(limit));
        let mut selected = match self.sort {
            Some(sort) => {
                let sort = Sort::parse(sort)?;
                let mut selected = select(resolved, access_path, filter, env, usize::MAX)?;
                // A document found by its `_id` is not sorted, so parallel arrays are no error.
                if self.skip > 0 || !matches!(access_path, AccessPath::IdLookup) {
                    sort.try_sort(&mut selected.documents, env)?;
                }
                selected
            }
            None => select(resolved, access_path, filter, env, end)?,
        };
        selected.documents.truncate(end);
        selected.documents.drain(..self.skip.min(selected.documents.len()));
        Ok(selected)
    }

    /// Documents of the cursor, with projection.
    fn cursor_documents(
        &self,
        selected: Selected,
        access_path: AccessPath<'_>,
        (filter, projection): (Filter, Option<Projection>),
        resolved: &ResolvedNamespace<'_>,
        env: &Environment,
    ) -> Result<FoundDocuments, Fault> {
        // A server knows the last document of a limit or of an `_id` lookup. After a sort it needs
        // another `getMore` to find the end.
        let reached = self.limit.is_some_and(|limit| selected.documents.len() >= limit);
        let by_id = |sort: &Document| sort.len() == 1 && sort.contains_key("_id");
        let sorts = self.sort.is_some_and(|sort| !by_id(sort));
        let known = matches!(access_path, AccessPath::IdLookup)
            || (reached && (!sorts || self.closes_at_limit));
        let found = match known {
            true => FoundDocuments::with_known_end(selected.documents),
            false => FoundDocuments::new(selected.documents),
        };
        if self.return_key {
            return self.keys(found, access_path);
        }
        // The current collection. A clone shares its contents.
        let records = resolved.collection().filter(|_| self.show_record_id).cloned();
        if projection.is_none() && records.is_none() {
            return Ok(found);
        }
        let env = copy_environment(env);
        Ok(found.transformed(move |document| {
            let mut shaped = match &projection {
                Some(projection) => projection.apply(document, &filter, &env)?,
                None => document.clone(),
            };
            let record = records.as_ref().zip(document.get("_id"));
            if let Some(number) = record.and_then(|(it, id)| it.record_number(id)) {
                shaped.insert("$recordId", i64::try_from(number).unwrap_or(i64::MAX));
            }
            Ok(shaped)
        }))
    }
}

impl FindCommand<'_> {
    /// Replaces documents by their index keys (`returnKey`).
    fn keys(
        &self,
        found: FoundDocuments,
        access_path: AccessPath<'_>,
    ) -> Result<FoundDocuments, Fault> {
        let of_id = |pattern: &Document| pattern.len() == 1 && pattern.contains_key("_id");
        let sorted_by_id = self.sort.is_some_and(of_id);
        let by_id = match access_path {
            AccessPath::IdLookup => true,
            AccessPath::CollectionScan { .. } => sorted_by_id,
            AccessPath::Empty => false,
            AccessPath::IndexScan(index) | AccessPath::IndexRange(index, _)
                if of_id(index.pattern()) =>
            {
                true
            }
            AccessPath::IndexScan(_) | AccessPath::IndexRange(..) => {
                return Err(Fault::new(
                    Code::NOT_IMPLEMENTED,
                    "the option 'returnKey' of find is implemented for the index on _id alone",
                ));
            }
        };
        Ok(found.transformed(move |document| {
            let id = document.get("_id").filter(|_| by_id);
            Ok(id.map(|id| doc! { "_id": id.clone() }).unwrap_or_default())
        }))
    }
}

/// Boolean argument that accepts no number.
fn flag(arguments: &Arguments<'_>, field: &str) -> Result<bool, Fault> {
    match arguments.value(field) {
        None => Ok(false),
        Some(Bson::Boolean(flag)) => Ok(*flag),
        Some(other) => Err(Fault::type_mismatch(format!(
            "Field '{field}' should be a boolean value, but found: {}",
            value::type_name(other)
        ))),
    }
}

/// Document argument that accepts no null.
fn object<'a>(arguments: &Arguments<'a>, field: &str) -> Result<Option<&'a Document>, Fault> {
    match arguments.raw(field) {
        None => Ok(None),
        Some(Bson::Document(document)) => Ok(Some(document)),
        Some(_) => Err(Fault::type_mismatch(format!("Expected field {field}to be of type object"))),
    }
}

fn reject_unsupported(arguments: &Arguments<'_>) -> Result<(), Fault> {
    let tailable = flag(arguments, "tailable")?;
    if flag(arguments, "awaitData")? && !tailable {
        return Err(Fault::failed_to_parse(
            "Cannot set 'awaitData' without also setting 'tailable'",
        ));
    }
    if tailable {
        return Err(Fault::bad_value(
            "error processing query: tailable cursor requested on non capped collection",
        ));
    }
    Ok(())
}
