//! The client that the load goes through: one for all tasks, as an application has it.

use std::time::Duration;

use steadfast::{
    Client,
    error::Result,
    options::{ClientOptions, WriteConcern},
};

use super::watch;
use crate::plan::{APP_NAME, Plan};

/// A server that answers no more is noticed when its monitor has waited for both of these together, two seconds;
/// then its connections are given up, those included on which a reply is awaited.
const HEARTBEAT: Duration = Duration::from_millis(500);
const CONNECT: Duration = Duration::from_millis(1_500);

/// Opens it. What the connection string says of heartbeats and connecting counts; the rest is the plan's.
pub(super) async fn open(uri: &str, plan: &Plan) -> Result<Client> {
    let mut options = ClientOptions::parse(uri).await?;
    options.app_name = Some(APP_NAME.to_owned());
    options.write_concern = Some(WriteConcern::majority());
    options.retry_writes = Some(plan.strategy.retry_writes());
    options.timeout = Some(plan.timeout);
    options.heartbeat_freq.get_or_insert(HEARTBEAT);
    options.connect_timeout.get_or_insert(CONNECT);
    // None, or no limit, is enough for a hundred.
    let enough = |limit: u32| if limit == 0 { 0 } else { limit.max(plan.tasks) };
    options.max_pool_size = Some(enough(options.max_pool_size.unwrap_or(100)));
    watch::listen(&mut options);
    Client::with_options(options)
}
