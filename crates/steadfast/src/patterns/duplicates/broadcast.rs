//! Queries that reach every copy: those that do not name the datacenter.

use bson::{Bson, Document};

use crate::{
    error::{Error, Result},
    patterns::path::overlaps,
};

/// Refuses a filter that names the datacenter's field.
pub(crate) fn check(filter: &Document, datacenter: &str) -> Result<()> {
    if !names(filter, datacenter) {
        return Ok(());
    }
    Err(Error::invalid_argument(format!(
        "the filter names {datacenter:?}: nobody knows which datacenter a document was written to, so that \
         such a query would miss some; leave it out, and all datacenters are asked"
    )))
}

fn names(filter: &Document, field: &str) -> bool {
    filter.iter().any(|(name, value)| match (name.as_str(), value) {
        ("$and" | "$or" | "$nor", Bson::Array(parts)) => {
            parts.iter().filter_map(Bson::as_document).any(|part| names(part, field))
        }
        ("$expr", expression) => expresses(expression, field),
        (name, _) => overlaps(name, field),
    })
}

/// Whether an expression reads the field. (That a string begins with a dollar sign and is no path is so
/// rare that it is not looked for.)
fn expresses(expression: &Bson, field: &str) -> bool {
    match expression {
        Bson::String(text) => {
            let path = ["$$ROOT.", "$$CURRENT.", "$"].iter().find_map(|it| text.strip_prefix(it));
            path.is_some_and(|path| overlaps(path, field))
        }
        Bson::Array(parts) => parts.iter().any(|part| expresses(part, field)),
        Bson::Document(parts) => parts.values().any(|part| expresses(part, field)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn a_filter_that_names_the_datacenter_is_refused_however_deep_it_does() {
        for filter in [
            doc! { "datacenter": "alfa" },
            doc! { "userid": 1, "datacenter": { "$in": ["alfa"] } },
            doc! { "$or": [{ "userid": 1 }, { "$and": [{ "datacenter": "alfa" }] }] },
            doc! { "$expr": { "$eq": ["$datacenter", "alfa"] } },
            doc! { "$expr": { "$not": { "$eq": ["$$ROOT.datacenter", "alfa"] } } },
            doc! { "datacenter.name": "alfa" },
        ] {
            let error = check(&filter, "datacenter").expect_err(&filter.to_string());
            assert!(error.to_string().contains("leave it out"), "{error}");
        }
        assert!(check(&doc! { "meta": { "dc": "alfa" } }, "meta.dc").is_err());
    }

    #[test]
    fn other_filters_pass() {
        for filter in [
            doc! {},
            doc! { "userid": 123 },
            doc! { "datacenters": 2, "text": "datacenter" },
            doc! { "$or": [{ "userid": 1 }, { "text": "$datacenter" }] },
            doc! { "$expr": { "$eq": ["$userid", "$text"] } },
        ] {
            check(&filter, "datacenter").unwrap();
        }
    }
}
