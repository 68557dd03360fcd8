//! `$out`: replaces a collection by the result of a pipeline.

use std::sync::Arc;

use bson::{Bson, Document};
use steadfast_query::{Code, Environment, Fault, update};

use super::{
    super::{
        change::{Change, ChangeWriter},
        namespace::Namespace,
        store::Collection,
    },
    WriteContext,
    listing::is_a_view,
    write::{insert_statement::uuid, validation::Validator},
};

/// Replaces the documents of a collection, which keeps its options and indexes. Readers see the new
/// documents only when all are written.
pub(super) fn out(
    writing: &mut WriteContext<'_>,
    to: &Namespace,
    documents: Vec<Document>,
    bypass_validation: bool,
) -> Result<(), Fault> {
    to.check_writable().map_err(|fault| {
        Fault::new(
            Code::ILLEGAL_OPERATION,
            format!("error with target namespace: {}", fault.message),
        )
    })?;
    let target = writing.changes.store().collection(to);
    if target.is_some_and(Collection::is_view) {
        return Err(is_a_view(to));
    }
    if target.is_some_and(Collection::is_capped) {
        return Err(Fault::location(
            17152,
            format!("namespace '{to}' is capped so it can't be used for $out"),
        ));
    }
    let uuid = uuid(writing.env);
    let temporary = Namespace::new(&to.database, format!("tmp.agg_out.{uuid}"));
    let options = target.map(|it| it.options().clone()).unwrap_or_default();
    let specifications: Vec<Document> = target
        .map(|it| it.indexes().iter().skip(1).map(|it| it.specification().clone()).collect())
        .unwrap_or_default();
    let validator = Validator::of(target, bypass_validation, writing.env)?;

    let changes = &mut *writing.changes;
    changes.apply_change(
        Change::CreateCollection { namespace: temporary.clone(), uuid, options },
        None,
    )?;
    let filled =
        fill(changes, &temporary, specifications, documents, validator.as_ref(), writing.env);
    match filled {
        Ok(()) => {
            changes.apply_change(Change::RenameCollection { from: temporary, to: to.clone() }, None)
        }
        Err(fault) => {
            changes.apply_change(Change::DropCollection { namespace: temporary }, None)?;
            Err(fault)
        }
    }
}

fn fill(
    changes: &mut dyn ChangeWriter,
    namespace: &Namespace,
    specifications: Vec<Document>,
    documents: Vec<Document>,
    validator: Option<&Validator>,
    env: &Environment,
) -> Result<(), Fault> {
    for specification in specifications {
        changes.apply_change(
            Change::CreateIndex { namespace: namespace.clone(), specification },
            None,
        )?;
    }
    for document in documents {
        let document = Arc::new(update::stored(document, env)?);
        if let Some(validator) = validator {
            validator.check(&document, None)?;
        }
        changes.reserve(namespace, &[document.get("_id").unwrap_or(&Bson::Null)])?;
        changes.apply_change(Change::Insert { namespace: namespace.clone(), document }, None)?;
    }
    Ok(())
}
