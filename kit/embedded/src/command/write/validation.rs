//! Schema validation: the validator of a collection.

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Environment, Fault, Filter};

use super::super::environment::command_environment;
use crate::store::Collection;

/// Validator of a collection.
pub(in super::super) struct Validator {
    filter: Filter,
    source: Document,
    /// `true` exempts documents that did not match before (`validationLevel: "moderate"`).
    moderate: bool,
    env: Environment,
}

impl Validator {
    /// Validator of a collection, unless it has none or validation is skipped.
    pub(in super::super) fn of(
        collection: Option<&Collection>,
        bypass_validation: bool,
        env: &Environment,
    ) -> Result<Option<Self>, Fault> {
        let Some(collection) = collection else { return Ok(None) };
        let options = collection.options();
        let Ok(source) = options.get_document("validator") else { return Ok(None) };
        let warns = options.get_str("validationAction").is_ok_and(|action| action == "warn");
        let level = options.get_str("validationLevel").unwrap_or("strict");
        if bypass_validation || warns || level == "off" || source.is_empty() {
            return Ok(None);
        }
        let env = command_environment(env, None, None, Some(collection))?;
        Ok(Some(Self {
            filter: Filter::parse(source, &env)?,
            source: source.clone(),
            moderate: level == "moderate",
            env,
        }))
    }

    /// Validates a document that is inserted or replaces another.
    pub(in super::super) fn check(
        &self,
        document: &Document,
        before: Option<&Document>,
    ) -> Result<(), Fault> {
        if self.filter.matches(document, &self.env)? {
            return Ok(());
        }
        if let Some(before) = before
            && self.moderate
            && !self.filter.matches(before, &self.env)?
        {
            return Ok(());
        }
        let mut info =
            doc! { "failingDocumentId": document.get("_id").cloned().unwrap_or(Bson::Null) };
        if let Some(details) = self.explain(&self.source, document)? {
            info.insert("details", details);
        }
        Err(Fault::new(Code::DOCUMENT_VALIDATION_FAILURE, "Document failed validation")
            .with(doc! { "errInfo": info }))
    }

    /// Details of a failed validation (`errInfo.details`), for the operators that are known here.
    fn explain(&self, filter: &Document, document: &Document) -> Result<Option<Document>, Fault> {
        let clauses: Vec<Document> = match (filter.len(), filter.get("$and")) {
            (1, Some(Bson::Array(clauses))) => {
                clauses.iter().filter_map(|clause| clause.as_document().cloned()).collect()
            }
            _ => filter.iter().flat_map(|(name, condition)| conditions(name, condition)).collect(),
        };
        if let [clause] = clauses.as_slice()
            && !filter.contains_key("$and")
        {
            return Ok(explain_one(clause, document));
        }
        let mut unsatisfied = Vec::new();
        for (at, clause) in clauses.iter().enumerate() {
            if Filter::parse(clause, &self.env)?.matches(document, &self.env)? {
                continue;
            }
            let Some(details) = self.explain(clause, document)? else { return Ok(None) };
            let at = i32::try_from(at).unwrap_or(i32::MAX);
            unsatisfied.push(doc! { "index": at, "details": details });
        }
        Ok(Some(doc! { "operatorName": "$and", "clausesNotSatisfied": unsatisfied }))
    }
}

/// Splits the conditions on a field: `{a: {$gt: 1, $lt: 3}}` has two.
fn conditions(name: &str, condition: &Bson) -> Vec<Document> {
    match condition {
        Bson::Document(operators)
            if !name.starts_with('$') && operators.keys().all(|key| key.starts_with('$')) =>
        {
            let one = |(operator, value): (&String, &Bson)| {
                doc! { name: { operator: value.clone() } }
            };
            operators.iter().map(one).collect()
        }
        other => vec![doc! { name: other.clone() }],
    }
}

/// Details of a failed condition on one field.
fn explain_one(clause: &Document, document: &Document) -> Option<Document> {
    let (path, condition) = clause.iter().next()?;
    if path.starts_with('$') || path.contains('.') {
        return None;
    }
    let operator = match condition {
        Bson::Document(operators) if operators.len() == 1 => operators.keys().next()?.as_str(),
        Bson::Document(_) | Bson::RegularExpression(_) => return None,
        _ => "$eq",
    };
    let mut details = doc! { "operatorName": operator, "specifiedAs": clause.clone() };
    let value = document.get(path);
    if matches!(value, Some(Bson::Array(_))) {
        return None;
    }
    let reason = match (operator, value) {
        ("$exists", None) => "path does not exist",
        ("$exists", Some(_)) => "path does exist",
        ("$eq" | "$gt" | "$gte" | "$lt" | "$lte" | "$in" | "$type", None) => "field was missing",
        ("$eq" | "$gt" | "$gte" | "$lt" | "$lte", Some(_)) => "comparison failed",
        ("$ne", Some(_)) => "comparison succeeded",
        ("$in", Some(_)) => "no matching value found in array",
        ("$type", Some(_)) => "type did not match",
        _ => return None,
    };
    details.insert("reason", reason);
    if let Some(value) = value
        && operator != "$exists"
    {
        details.insert("consideredValue", value.clone());
        if operator == "$type" {
            details.insert("consideredType", steadfast_query::value::type_name(value));
        }
    }
    Some(details)
}
