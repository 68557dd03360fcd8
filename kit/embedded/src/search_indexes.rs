//! Search index commands. They need a search service (`mongot`), which does not exist here.

use bson::Bson;
use steadfast_query::{Code, Fault};

use super::{call::Call, version_gate};

/// First version with search index commands.
const MIN_VERSION: version_gate::ServerVersion = (7, 0, 0);

const COMMANDS: [&str; 4] =
    ["createSearchIndexes", "dropSearchIndex", "listSearchIndexes", "updateSearchIndex"];

/// Rejects search index commands, like a server without a search service.
pub(crate) fn check(call: &Call, version: &str) -> Result<(), Fault> {
    let lists = |stage: &Bson| {
        stage.as_document().is_some_and(|stage| stage.contains_key("$listSearchIndexes"))
    };
    let is_about = COMMANDS.contains(&call.name.as_str())
        || call.name == "aggregate"
            && call
                .body
                .get_array("pipeline")
                .is_ok_and(|stages| stages.first().is_some_and(lists));
    if !is_about || !version_gate::is_at_least(version, MIN_VERSION) {
        return Ok(());
    }
    Err(Fault::new(
        Code::named(31082, "SearchNotEnabled"),
        "Using Atlas Search Database Commands and the $listSearchIndexes aggregation stage requires \
         additional configuration. Please connect to Atlas or an AtlasCLI local deployment to enable.",
    ))
}
