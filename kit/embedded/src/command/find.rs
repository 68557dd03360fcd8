//! `find`: filters, sorts and projects documents, and opens a cursor.

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Environment, Fault, Filter, Projection, Sort, value};

use super::{
    super::{
        call::Call,
        cursor::{Cursor, FIRST_BATCH, Found, Owner, Source},
        era,
        namespace::Namespace,
    },
    Reading,
    arguments::Arguments,
    lock,
    scope::{again, scope},
    select::{Hint, Range, Selected, Way, natural, select},
    sight::Sight,
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
pub(crate) fn find(reading: &Reading<'_>) -> Result<Document, Fault> {
    let mut request = Request::read(reading.call)?;
    request.closes_at_limit = !era::is_since(&reading.about.version, (5, 0, 0));
    let sight = Sight::of(reading.store, &request.namespace, reading.env)?;
    let env = scope(reading.env, request.variables, request.collation, sight.collection())?;
    let filter = Filter::parse(&request.filter, &env)?;
    let way = request.way(&sight, &filter, &env)?;
    let projection = request.projection.map(|it| Projection::parse(it, &env)).transpose()?;
    let selected = request.run(&sight, way, &filter, &env)?;
    if matches!(sight, Sight::Nothing) {
        let namespace = request.namespace.to_string();
        return Ok(doc! { "cursor": { "firstBatch": [], "id": 0_i64, "ns": namespace } });
    }
    let found = request.found(selected, way, (filter, projection), &sight, &env)?;
    let mut cursor =
        Cursor::new(request.namespace.clone(), Owner::of(reading.call), Source::Found(found));
    cursor.stays = request.stays;
    let batch_size = request.batch_size.unwrap_or(FIRST_BATCH);
    if request.single_batch {
        return cursor.open_and_shut(batch_size);
    }
    cursor.open(Some(batch_size), &mut lock(reading.cursors), &env)
}

/// Parsed arguments of `find`.
pub(super) struct Request<'a> {
    pub(super) namespace: Namespace,
    pub(super) filter: Document,
    pub(super) sort: Option<&'a Document>,
    pub(super) projection: Option<&'a Document>,
    pub(super) variables: Option<&'a Document>,
    pub(super) collation: Option<&'a Document>,
    pub(super) hint: Hint,
    pub(super) skip: usize,
    pub(super) limit: Option<usize>,
    range: Range<'a>,
    shows_records: bool,
    /// Returns index keys instead of documents (`returnKey`).
    returns_key: bool,
    /// `true` if a sorted cursor is exhausted with the last document of its limit.
    closes_at_limit: bool,
    batch_size: Option<usize>,
    single_batch: bool,
    stays: bool,
}

impl<'a> Request<'a> {
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
        refuse_what_is_not_known(&arguments)?;
        let sort = object(&arguments, "sort")?.filter(|it| !it.is_empty());
        // A sort by `$natural` is a hint.
        let natural = sort.and_then(natural);
        Ok(Self {
            namespace,
            filter: object(&arguments, "filter")?.cloned().unwrap_or_default(),
            sort: sort.filter(|_| natural.is_none()),
            projection: object(&arguments, "projection")?.filter(|it| !it.is_empty()),
            variables: arguments.document("let")?,
            collation: arguments.document("collation")?,
            hint: match Hint::read(arguments.value("hint"))? {
                Hint::None => natural.unwrap_or(Hint::None),
                hint => hint,
            },
            skip: arguments.natural("skip")?.unwrap_or(0),
            limit: arguments.natural("limit")?.filter(|limit| *limit > 0),
            range: Range {
                min: arguments.document("min")?.filter(|it| !it.is_empty()),
                max: arguments.document("max")?.filter(|it| !it.is_empty()),
            },
            shows_records: flag(&arguments, "showRecordId")?,
            returns_key: flag(&arguments, "returnKey")?,
            closes_at_limit: false,
            batch_size: arguments.natural("batchSize")?,
            single_batch: flag(&arguments, "singleBatch")?,
            stays: flag(&arguments, "noCursorTimeout")?,
        })
    }

    /// Chooses the access path.
    pub(super) fn way<'s>(
        &'s self,
        sight: &Sight<'s>,
        filter: &Filter,
        env: &Environment,
    ) -> Result<Way<'s>, Fault> {
        let way = Way::choose(sight, &self.filter, filter, &self.hint, env)?;
        self.range.within(way, &self.hint)
    }

    /// Selects documents, sorts them and applies `skip` and `limit`.
    pub(super) fn run(
        &self,
        sight: &Sight<'_>,
        way: Way<'_>,
        filter: &Filter,
        env: &Environment,
    ) -> Result<Selected, Fault> {
        let end = self.limit.map_or(usize::MAX, |limit| self.skip.saturating_add(limit));
        let mut selected = match self.sort {
            Some(sort) => {
                let sort = Sort::parse(sort)?;
                let mut selected = select(sight, way, filter, env, usize::MAX)?;
                // A document found by its `_id` is not sorted, so parallel arrays are no error.
                if self.skip > 0 || !matches!(way, Way::Id) {
                    sort.try_sort(&mut selected.documents, env)?;
                }
                selected
            }
            None => select(sight, way, filter, env, end)?,
        };
        selected.documents.truncate(end);
        selected.documents.drain(..self.skip.min(selected.documents.len()));
        Ok(selected)
    }

    /// Documents of the cursor, with projection.
    fn found(
        &self,
        selected: Selected,
        way: Way<'_>,
        (filter, projection): (Filter, Option<Projection>),
        sight: &Sight<'_>,
        env: &Environment,
    ) -> Result<Found, Fault> {
        // A server knows the last document of a limit or of an `_id` lookup. After a sort it needs
        // another `getMore` to find the end.
        let reached = self.limit.is_some_and(|limit| selected.documents.len() >= limit);
        let by_id = |sort: &Document| sort.len() == 1 && sort.contains_key("_id");
        let sorts = self.sort.is_some_and(|sort| !by_id(sort));
        let known = matches!(way, Way::Id) || (reached && (!sorts || self.closes_at_limit));
        let found = match known {
            true => Found::all(selected.documents),
            false => Found::new(selected.documents),
        };
        if self.returns_key {
            return self.keys(found, way);
        }
        // The current collection. A clone shares its contents.
        let records = sight.collection().filter(|_| self.shows_records).cloned();
        if projection.is_none() && records.is_none() {
            return Ok(found);
        }
        let env = again(env);
        Ok(found.shaped(move |document| {
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

impl Request<'_> {
    /// Replaces documents by their index keys (`returnKey`).
    fn keys(&self, found: Found, way: Way<'_>) -> Result<Found, Fault> {
        let of_id = |pattern: &Document| pattern.len() == 1 && pattern.contains_key("_id");
        let sorted_by_id = self.sort.is_some_and(of_id);
        let by_id = match way {
            Way::Id => true,
            Way::Scan { .. } => sorted_by_id,
            Way::Nothing => false,
            Way::Index(index) | Way::Range(index, _) if of_id(index.pattern()) => true,
            Way::Index(_) | Way::Range(..) => {
                return Err(Fault::new(
                    Code::NOT_IMPLEMENTED,
                    "the option 'returnKey' of find is implemented for the index on _id alone",
                ));
            }
        };
        Ok(found.shaped(move |document| {
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

fn refuse_what_is_not_known(arguments: &Arguments<'_>) -> Result<(), Fault> {
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
