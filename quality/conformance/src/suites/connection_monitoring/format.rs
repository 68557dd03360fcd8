//! Files of the suite. An unknown field is an error, so that no case passes because a part of it was ignored.

use serde::Deserialize;
use serde_json::Value;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CmapTest {
    #[serde(rename = "version")]
    _version: Value,
    #[serde(rename = "style")]
    _style: Style,
    pub(super) description: String,
    /// Server versions with the fail points. The simulated server has all of them.
    #[serde(rename = "runOn")]
    _run_on: Option<Value>,
    pub(super) fail_point: Option<FailPoint>,
    #[serde(default)]
    pub(super) pool_options: PoolOptions,
    pub(super) operations: Vec<CmapOperation>,
    pub(super) error: Option<ExpectedCheckOutError>,
    #[serde(default)]
    pub(super) events: Vec<Value>,
    #[serde(default)]
    pub(super) ignore: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum Style {
    Unit,
    Integration,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct PoolOptions {
    pub(super) max_pool_size: Option<u32>,
    pub(super) min_pool_size: Option<u32>,
    pub(super) max_connecting: Option<u32>,
    #[serde(rename = "maxIdleTimeMS")]
    pub(super) max_idle_time_ms: Option<u64>,
    #[serde(rename = "waitQueueTimeoutMS")]
    pub(super) wait_queue_timeout_ms: Option<u64>,
    #[serde(rename = "backgroundThreadIntervalMS")]
    pub(super) background_thread_interval_ms: Option<i64>,
    pub(super) app_name: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct FailPoint {
    #[serde(rename = "configureFailPoint")]
    _name: FailPointName,
    pub(super) mode: FailPointMode,
    pub(super) data: FailPointData,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
enum FailPointName {
    FailCommand,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) enum FailPointMode {
    AlwaysOn,
    Times(u32),
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct FailPointData {
    pub(super) fail_commands: Vec<String>,
    #[serde(default)]
    pub(super) close_connection: bool,
    #[serde(default)]
    pub(super) block_connection: bool,
    #[serde(default, rename = "blockTimeMS")]
    pub(super) block_time_ms: u64,
    pub(super) error_code: Option<i32>,
    pub(super) app_name: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CmapOperation {
    pub(super) thread: Option<String>,
    #[serde(flatten)]
    pub(super) action: Action,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "name", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub(super) enum Action {
    Start {
        target: String,
    },
    Wait {
        ms: u64,
    },
    WaitForThread {
        target: String,
    },
    WaitForEvent {
        event: String,
        count: usize,
        timeout: Option<u64>,
    },
    CheckOut {
        label: Option<String>,
    },
    CheckIn {
        connection: String,
    },
    Clear {
        #[serde(default)]
        interrupt_in_use_connections: bool,
    },
    Ready,
    Close,
}

#[derive(Debug, Deserialize)]
pub(super) struct ExpectedCheckOutError {
    #[serde(rename = "type")]
    pub(super) kind: String,
    pub(super) message: String,
}
