//! `$redact`.

use bson::{Bson, Document};

use crate::{Environment, Expression, Fault};

#[derive(Clone, Debug)]
pub(super) struct Redact {
    decision: Expression,
}

/// Decision variables with their internal values.
const DECISIONS: [(&str, &str); 3] = [("DESCEND", "descend"), ("KEEP", "keep"), ("PRUNE", "prune")];

impl Redact {
    pub(super) fn parse(expression: &Bson, env: &Environment) -> Result<Self, Fault> {
        let variables = ["DESCEND", "KEEP", "PRUNE", "CURRENT"];
        Ok(Self { decision: Expression::parse_with(expression, env, &variables)? })
    }

    /// Applies the stage. `None` if the document is pruned.
    pub(super) fn apply(
        &self,
        document: &Document,
        env: &Environment,
    ) -> Result<Option<Document>, Fault> {
        self.level(document, document, env)
    }

    fn level(
        &self,
        document: &Document,
        root: &Document,
        env: &Environment,
    ) -> Result<Option<Document>, Fault> {
        let mut variables = DECISIONS.map(|(name, value)| (name, Some(Bson::from(value)))).to_vec();
        variables.push(("CURRENT", Some(document.clone().into())));
        let decision = self.decision.evaluate_with(root, env, &variables)?;
        match decision.as_ref().and_then(Bson::as_str) {
            Some("keep") => Ok(Some(document.clone())),
            Some("prune") => Ok(None),
            Some("descend") => {
                let mut kept = Document::new();
                for (name, value) in document {
                    if let Some(value) = self.inside(value, root, env)? {
                        kept.insert(name.as_str(), value);
                    }
                }
                Ok(Some(kept))
            }
            _ => Err(Fault::location(
                17053,
                "$redact's expression should not return anything aside from the variables $$KEEP, \
                 $$DESCEND, and $$PRUNE",
            )),
        }
    }

    fn inside(
        &self,
        value: &Bson,
        root: &Document,
        env: &Environment,
    ) -> Result<Option<Bson>, Fault> {
        match value {
            Bson::Document(document) => Ok(self.level(document, root, env)?.map(Bson::Document)),
            Bson::Array(array) => {
                let mut kept = Vec::with_capacity(array.len());
                for element in array {
                    kept.extend(self.inside(element, root, env)?);
                }
                Ok(Some(Bson::Array(kept)))
            }
            other => Ok(Some(other.clone())),
        }
    }
}
