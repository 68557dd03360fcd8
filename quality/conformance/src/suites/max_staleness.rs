//! Read preferences with `maxStalenessSeconds`.

use super::server_selection::scenario::Scenario;
use crate::{Case, Context, LoadError, Suite};

/// The suite.
pub const SUITE: Suite = Suite { name: "max_staleness", load };

fn load(context: &Context) -> Result<Vec<Case>, LoadError> {
    let files = context.spec.files(SUITE.name)?;
    files
        .into_iter()
        .map(|file| {
            let scenario = Scenario::read(&file)?;
            Ok(Case::new(file.name.clone(), file.name, move || scenario.run()))
        })
        .collect()
}
