//! Server selection: suitable servers, the latency window, the less busy of two servers, and the average round trip
//! time. (The logging cases of the folder need a deployment and are a suite of their own.)

mod in_window;
mod round_trip;
pub(super) mod scenario;

use crate::{Case, Context, LoadError, Suite};

use scenario::Scenario;

/// The suite.
pub const SUITE: Suite = Suite { name: "server_selection", load };

fn load(context: &Context) -> Result<Vec<Case>, LoadError> {
    let mut cases = in_window::cases(context)?;
    cases.extend(round_trip::cases(context)?);
    for file in context.spec.files_in(SUITE.name, &["server_selection"])? {
        let scenario = Scenario::read(&file)?;
        cases.push(Case::new(file.name.clone(), file.name, move || scenario.run()));
    }
    Ok(cases)
}
