//! Execution of an update statement, with upserts.

use std::sync::Arc;

use bson::{Bson, Document};
use steadfast_query::{Code, Environment, Fault, Filter, Update};

use super::{
    super::WriteContext,
    ends_command,
    insert_statement::insert,
    query::{StatementQuery, writable},
    reject_multi, statement,
    validation::Validator,
};
use crate::{
    change::{Change, UpdateForm},
    namespace::Namespace,
    version_gate,
};

/// An update statement.
#[derive(Debug)]
pub(in super::super) struct UpdateStatement<'a> {
    pub(in super::super) namespace: &'a Namespace,
    pub(in super::super) query: StatementQuery<'a>,
    /// Update operators, a replacement document, or a pipeline.
    pub(in super::super) update: &'a Bson,
    pub(in super::super) array_filters: Vec<Document>,
    /// Variables of this statement only (`c`).
    pub(in super::super) constants: Option<&'a Document>,
    /// Updates all matching documents (`multi`), not only the first.
    pub(in super::super) multi: bool,
    /// Inserts a document if none matches (`upsert`).
    pub(in super::super) upsert: bool,
    /// Skips schema validation (`bypassDocumentValidation`).
    pub(in super::super) bypass_validation: bool,
    /// Prefix of errors that occur while a document is updated.
    pub(in super::super) error_prefix: &'static str,
}

/// Result of an update statement.
#[derive(Clone, Debug, Default)]
pub(in super::super) struct UpdateResult {
    pub(in super::super) matched: usize,
    pub(in super::super) modified: usize,
    /// The `_id` of the inserted document.
    pub(in super::super) upserted: Option<Bson>,
    /// First matching document before the update.
    pub(in super::super) before: Option<Arc<Document>>,
    /// The same document after the update, or the inserted document.
    pub(in super::super) after: Option<Arc<Document>>,
}

/// A parsed and checked statement.
struct ParsedUpdate {
    env: Environment,
    filter: Filter,
    update: Update,
    validator: Option<Validator>,
}

impl UpdateStatement<'_> {
    /// Executes the statement. `outcome` of the result is recorded.
    pub(in super::super) fn run(
        &self,
        writing: &mut WriteContext<'_>,
        id: Option<i32>,
        outcome: impl Fn(&UpdateResult) -> Document,
    ) -> Result<UpdateResult, Fault> {
        if self.multi {
            reject_multi(writing.call, "multi=true")?;
            if self.query.sort.is_some() {
                return Err(Fault::failed_to_parse("Cannot specify sort with multi=true"));
            }
        }
        let collection = writable(writing.changes.store(), self.namespace)?;
        let env = self.with_constants(self.query.environment(writing.env, collection)?);
        let plan = ParsedUpdate {
            update: self.parse(&env)?,
            filter: Filter::parse(self.query.filter, &env)?,
            validator: Validator::of(collection, self.bypass_validation, writing.env)?,
            env,
        };
        if self.upsert && plan.filter.has_expression() {
            return Err(Fault::new(
                Code::named(224, "QueryFeatureNotAllowed"),
                "$expr is not allowed in the query predicate for an upsert",
            ));
        }
        let max_count = if self.multi { usize::MAX } else { 1 };
        let found = self.query.find(collection, &plan.filter, &plan.env, max_count)?;
        let result = if found.is_empty() && self.upsert {
            self.insert(writing, &plan, id, outcome)
        } else {
            self.change(writing, &plan, found, id, outcome)
        };
        result.map_err(|fault| self.with_prefix(fault))
    }

    /// Inserts the document that filter and update produce.
    fn insert(
        &self,
        writing: &mut WriteContext<'_>,
        plan: &ParsedUpdate,
        id: Option<i32>,
        outcome: impl Fn(&UpdateResult) -> Document,
    ) -> Result<UpdateResult, Fault> {
        let document = plan.update.upserted(&plan.filter, &plan.env)?;
        version_gate::check_updated(&document, &writing.server_info.version)?;
        plan.check(&document, None)?;
        let document = Arc::new(document);
        let updated = UpdateResult {
            upserted: document.get("_id").cloned(),
            after: Some(Arc::clone(&document)),
            ..UpdateResult::default()
        };
        let statement = statement(id, || outcome(&updated));
        insert(writing, self.namespace, document, statement)?;
        Ok(updated)
    }

    /// Updates documents one after the other. After an error the documents before it stay changed.
    fn change(
        &self,
        writing: &mut WriteContext<'_>,
        plan: &ParsedUpdate,
        found: Vec<Arc<Document>>,
        id: Option<i32>,
        outcome: impl Fn(&UpdateResult) -> Document,
    ) -> Result<UpdateResult, Fault> {
        let mut changed = Vec::new();
        let mut fault = None;
        for document in &found {
            match plan.apply(document) {
                Ok(Some(document)) => {
                    version_gate::check_updated(&document, &writing.server_info.version)?;
                    changed.push(Arc::new(document));
                }
                Ok(None) => {}
                Err(why) => {
                    fault = Some(why);
                    break;
                }
            }
        }
        let updated = UpdateResult {
            matched: found.len(),
            modified: changed.len(),
            upserted: None,
            after: changed.first().or(found.first()).cloned(),
            before: found.into_iter().next(),
        };
        if !changed.is_empty() {
            let ids: Vec<&Bson> = changed.iter().filter_map(|it| it.get("_id")).collect();
            writing.changes.reserve(self.namespace, &ids)?;
        }
        let by = UpdateForm::of(self.update);
        for document in changed {
            let (namespace, by) = (self.namespace.clone(), by.clone());
            let change = Change::Replace { namespace, document, by };
            writing.changes.apply_change(change, statement(id, || outcome(&updated)))?;
        }
        fault.map_or(Ok(updated), Err)
    }

    fn parse(&self, env: &Environment) -> Result<Update, Fault> {
        let update = Update::parse(self.update, &self.array_filters, env)?;
        if self.constants.is_some() && !update.is_pipeline() {
            return Err(Fault::location(
                51198,
                "Constant values may only be specified for pipeline updates",
            ));
        }
        if self.multi {
            update.check_multi()?;
        }
        Ok(update)
    }

    fn with_constants(&self, mut env: Environment) -> Environment {
        for (name, value) in self.constants.into_iter().flatten() {
            env.variables.insert(name, value.clone());
        }
        env
    }

    /// Adds the command's prefix to an error of the execution.
    fn with_prefix(&self, mut fault: Fault) -> Fault {
        if !self.error_prefix.is_empty() && !ends_command(&fault) {
            fault.message = format!("{} :: caused by :: {}", self.error_prefix, fault.message);
        }
        fault
    }
}

impl ParsedUpdate {
    /// Applies the update. `None` if the document does not change.
    fn apply(&self, document: &Document) -> Result<Option<Document>, Fault> {
        let Some(changed) = self.update.apply(document, &self.filter, &self.env)? else {
            return Ok(None);
        };
        self.check(&changed, Some(document))?;
        Ok(Some(changed))
    }

    fn check(&self, document: &Document, before: Option<&Document>) -> Result<(), Fault> {
        match &self.validator {
            Some(validator) => validator.check(document, before),
            None => Ok(()),
        }
    }
}
