//! The client of the load, which all tasks share.

use std::time::Duration;

use steadfast::{
    Client,
    error::Result,
    options::{ClientOptions, WriteConcern},
};

use super::events;
use crate::plan::{APP_NAME, Plan};

/// With these options, a frozen server is detected after two seconds, the sum of both. Its pool is cleared then, which
/// interrupts connections that await a reply.
const HEARTBEAT_FREQUENCY: Duration = Duration::from_millis(500);
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1_500);

/// Returns the client. `heartbeatFrequencyMS` and `connectTimeoutMS` of the connection string take precedence.
pub(super) async fn open(uri: &str, plan: &Plan) -> Result<Client> {
    let mut options = ClientOptions::parse(uri).await?;
    options.app_name = Some(APP_NAME.to_owned());
    options.write_concern = Some(WriteConcern::majority());
    options.retry_writes = Some(plan.strategy.retry_writes());
    options.timeout = Some(plan.timeout);
    options.heartbeat_freq.get_or_insert(HEARTBEAT_FREQUENCY);
    options.connect_timeout.get_or_insert(CONNECT_TIMEOUT);
    // At least one connection for each task. 0 is unlimited.
    let raised = |limit: u32| if limit == 0 { 0 } else { limit.max(plan.tasks) };
    options.max_pool_size = Some(raised(options.max_pool_size.unwrap_or(100)));
    events::listen(&mut options);
    Client::with_options(options)
}
