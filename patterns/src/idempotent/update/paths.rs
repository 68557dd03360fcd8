//! Paths that an update changes, and their selection of array elements.

use std::collections::BTreeMap;

use super::Idempotence;
use crate::path::overlaps;

/// Paths that an update changes.
#[derive(Clone, Debug, Default)]
pub(super) struct ChangedPaths {
    paths: Vec<String>,
}

impl ChangedPaths {
    pub(super) fn all(&mut self, paths: impl IntoIterator<Item = impl AsRef<str>>) {
        self.paths.extend(paths.into_iter().map(|path| path.as_ref().to_owned()));
    }

    /// Returns `true` if one of the paths overlaps with this one.
    pub(super) fn overlaps_with(&self, path: &str) -> bool {
        self.paths.iter().any(|changed| overlaps(changed, path))
    }

    /// Checks that the paths select the same elements of arrays the second time.
    ///
    /// An element that no path changes is selected again, or not again. A changed element that is selected again
    /// is changed in the same way. So one selector for the elements of an array is safe. With two, the change of
    /// one may make the other match more.
    pub(super) fn idempotence(&self) -> Idempotence {
        let mut selectors: BTreeMap<String, &str> = BTreeMap::new();
        for path in &self.paths {
            let parts: Vec<&str> = path.split('.').collect();
            for (at, part) in parts.iter().enumerate().skip(1) {
                if *part == "$" {
                    return Idempotence::NotIdempotent(format!(
                        "the $ in {path:?} is the element that matched; another one may match at the \
                         second execution"
                    ));
                }
                if !part.starts_with("$[") {
                    continue;
                }
                let array = parts[..at].join(".");
                let before = *selectors.entry(array.clone()).or_insert(*part);
                if before != *part {
                    return Idempotence::Unknown(format!(
                        "elements of {array:?} are selected by {before} and by {part}: the change of one \
                         may make the other match more elements"
                    ));
                }
            }
        }
        Idempotence::Idempotent
    }
}
