//! The paths that an update touches, and how they choose elements of arrays.

use std::collections::BTreeMap;

use super::Idempotence;
use crate::patterns::path::overlaps;

/// The paths that an update touches.
#[derive(Clone, Debug, Default)]
pub(super) struct Touched {
    paths: Vec<String>,
}

impl Touched {
    pub(super) fn all(&mut self, paths: impl IntoIterator<Item = impl AsRef<str>>) {
        self.paths.extend(paths.into_iter().map(|path| path.as_ref().to_owned()));
    }

    /// Whether one of the paths is this, leads to it, or begins with it.
    pub(super) fn meets(&self, path: &str) -> bool {
        self.paths.iter().any(|touched| overlaps(touched, path))
    }

    /// Whether the paths name the same elements of arrays the second time.
    ///
    /// What no path changes is chosen again, or left out again, as it was. What was changed, and is
    /// chosen again, is changed in the same way; so one way to choose an array's elements is safe. Of two
    /// ways, the one may change what the other looks at.
    pub(super) fn idempotence(&self) -> Idempotence {
        let mut chosen: BTreeMap<String, &str> = BTreeMap::new();
        for path in &self.paths {
            let parts: Vec<&str> = path.split('.').collect();
            for (at, part) in parts.iter().enumerate().skip(1) {
                if *part == "$" {
                    return Idempotence::NotIdempotent(format!(
                        "the $ in {path:?} is the element that matched, and the second time another \
                         one may match"
                    ));
                }
                if !part.starts_with("$[") {
                    continue;
                }
                let array = parts[..at].join(".");
                let before = *chosen.entry(array.clone()).or_insert(*part);
                if before != *part {
                    return Idempotence::Unknown(format!(
                        "elements of {array:?} are chosen both by {before} and by {part}, and what \
                         the one changes may make the other match more"
                    ));
                }
            }
        }
        Idempotence::Idempotent
    }
}
