//! Value of `--datacenters`: names of one cluster, or names with connection strings.

use std::error::Error;

use steadfast::{Namespace, bson::RawDocumentBuf};
use steadfast_patterns::local_writes::LocalWriter;

use crate::{
    database::{OptionalUriArg, UriArg},
    notes::{Notes, WrongArguments},
};

/// Datacenters, nearest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Datacenters {
    /// Datacenters of one sharded cluster with zones.
    OfCluster(Vec<String>),
    /// Separate deployments: names and connection strings.
    Separate(Vec<(String, Address)>),
}

/// A connection string. `Debug` hides it because it may contain a password.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Address(String);

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Address")
    }
}

/// Parses the value of `--datacenters`.
pub(super) fn parse(text: &str) -> Result<Datacenters, String> {
    let mut parts: Vec<String> = Vec::new();
    for part in text.split(',') {
        match parts.last_mut() {
            // A connection string may have commas, between its hosts.
            Some(last) if last.contains("=mongodb") && name_and_uri(part).is_none() => {
                last.push(',');
                last.push_str(part);
            }
            Some(_) | None => parts.push(part.to_owned()),
        }
    }
    if parts.iter().any(String::is_empty) {
        return Err("a datacenter name is empty".to_owned());
    }
    let apart: Vec<_> = parts.iter().filter_map(|part| name_and_uri(part)).collect();
    if apart.len() == parts.len() {
        return Ok(Datacenters::Separate(apart));
    }
    if apart.is_empty() && !parts.iter().any(|part| part.contains(['=', '/'])) {
        return Ok(Datacenters::OfCluster(parts));
    }
    Err("expected names, such as alfa,bravo, or names with connection strings, such as \
         alfa=mongodb://a,bravo=mongodb://b"
        .to_owned())
}

/// Parses a name with a connection string.
fn name_and_uri(part: &str) -> Option<(String, Address)> {
    let (name, uri) = part.split_once('=')?;
    let is_name = !name.is_empty() && !name.contains(['/', ':', '?', '&', '@']);
    let is_uri = uri.starts_with("mongodb://") || uri.starts_with("mongodb+srv://");
    (is_name && is_uri).then(|| (name.to_owned(), Address(uri.to_owned())))
}

impl Datacenters {
    /// Returns a writer for all datacenters. An unreachable separate deployment is a warning, unless all are
    /// unreachable; an invalid connection string is an error.
    pub(super) async fn connect(
        &self,
        on: &OptionalUriArg,
        collection: &Namespace,
        notes: &Notes,
    ) -> Result<LocalWriter, Box<dyn Error>> {
        let Namespace { db, coll } = collection;
        let mut builder = LocalWriter::builder();
        // Separate deployments do not use the connection string of the environment.
        let on = match self {
            Self::OfCluster(_) => on.to_uri_arg(),
            Self::Separate(_) => on.as_typed(),
        };
        match (self, on) {
            (Self::OfCluster(names), Some(on)) => {
                let client = on.connect(notes).await?;
                let collection = client.database(db).collection::<RawDocumentBuf>(coll);
                builder = builder.cluster(collection, names);
            }
            (Self::OfCluster(_), None) => {
                return Err(WrongArguments(
                    "--datacenters with names requires the connection string of their cluster: use --uri".to_owned(),
                )
                .into());
            }
            (Self::Separate(_), Some(_)) => {
                return Err(WrongArguments(
                    "--datacenters with connection strings cannot be combined with --uri"
                        .to_owned(),
                )
                .into());
            }
            (Self::Separate(positions), None) => {
                let mut failed = 0;
                for (name, address) in positions {
                    let on = UriArg::new(&address.0)?;
                    let client = match on.connect(notes).await {
                        Ok(client) => client,
                        Err(error) if error.is::<WrongArguments>() => return Err(error),
                        Err(error) if failed + 1 == positions.len() => return Err(error),
                        Err(error) => {
                            failed += 1;
                            notes.warn(format_args!("datacenter {name}: {error}"));
                            on.client(notes).await?
                        }
                    };
                    let collection = client.database(db).collection::<RawDocumentBuf>(coll);
                    builder = builder.datacenter(name, collection);
                }
            }
        }
        builder.build().map_err(|error| WrongArguments(error.to_string()).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datacenters_are_names_or_have_connection_strings() {
        let names = |names: &[&str]| {
            Datacenters::OfCluster(names.iter().map(|name| (*name).to_owned()).collect())
        };
        assert_eq!(parse("alfa,bravo"), Ok(names(&["alfa", "bravo"])));
        let apart = |positions: &[(&str, &str)]| {
            let address = |uri: &str| Address(uri.to_owned());
            let positions = positions.iter().map(|(name, uri)| ((*name).to_owned(), address(uri)));
            Datacenters::Separate(positions.collect())
        };
        assert_eq!(
            parse("alfa=mongodb://a1,a2/?replicaSet=alfa,bravo=mongodb://b"),
            Ok(apart(&[("alfa", "mongodb://a1,a2/?replicaSet=alfa"), ("bravo", "mongodb://b")]))
        );
        for wrong in ["", "alfa,", "alfa=b", "alfa,bravo=mongodb://b", "mongodb://a"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn debug_hides_connection_strings() {
        let positions = parse("alfa=mongodb://root:secret@a").unwrap();
        assert!(!format!("{positions:?}").contains("secret"));
    }
}
