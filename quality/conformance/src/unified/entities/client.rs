//! A client of a test, with its recorded events and log messages.

use std::time::Duration;

use bson::Document;
use steadfast::{
    Client,
    options::{ClientOptions, ServerApi, ServerApiVersion},
};

use super::uri;
use crate::unified::{
    deployment::Deployment,
    events::{EventRecorder, ObservedEvents},
    schema::{ClientSpec, LogComponents, ServerApiSpec, TopologyName},
    test_error::{TestError, TestResult},
};

/// A client of a test. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct ClientEntity {
    pub(crate) client: Client,
    pub(crate) recorder: EventRecorder,
    /// Observed log messages; `None` if the test observes none.
    pub(crate) logs: Option<LogComponents>,
}

/// Maximal document length in log messages, so that they contain whole documents.
const MAX_DOCUMENT_LENGTH_BYTES: usize = 100_000;

impl ClientEntity {
    /// Opens a client. Options of the test override `defaults`.
    pub(crate) async fn open(
        deployment: &Deployment,
        defaults: &Document,
        spec: &ClientSpec,
    ) -> TestResult<Self> {
        if spec.auto_encrypt_opts.is_some() {
            return Err(TestError::needs("client-side encryption"));
        }
        if spec.observe_tracing_messages.is_some() {
            return Err(TestError::needs("OpenTelemetry"));
        }
        if spec.store_events_as_entities.is_some() {
            return Err(TestError::needs("events as entities, which the format has deprecated"));
        }
        let uri = uri_for(deployment, spec.use_multiple_mongoses)?;
        let uri = uri::with_options(&uri, defaults)?;
        let uri = uri::with_options(&uri, &spec.uri_options)?;
        let mut options = ClientOptions::parse(&uri).await?;
        options.server_api = spec.server_api.as_ref().map(server_api).transpose()?;
        options.tracing_max_document_length_bytes = Some(MAX_DOCUMENT_LENGTH_BYTES);
        let recorder = EventRecorder::new(ObservedEvents::of(spec));
        recorder.set_handlers(&mut options);
        let min_pool_size = options.min_pool_size.unwrap_or(0);
        let client = Client::with_options(options)?;
        if let Some(limit) = spec.await_min_pool_size_ms.filter(|_| min_pool_size > 0) {
            await_min_pool_size(&recorder, min_pool_size, limit).await?;
        }
        Ok(Self { client, recorder, logs: spec.observe_log_messages })
    }
}

/// Chooses the connection string by `useMultipleMongoses`.
fn uri_for(deployment: &Deployment, use_multiple_mongoses: Option<bool>) -> TestResult<String> {
    let uri = &deployment.uri;
    Ok(match (deployment.facts.topology, use_multiple_mongoses) {
        (TopologyName::Sharded, Some(false)) => uri::with_one_seed(uri),
        (TopologyName::Sharded, Some(true)) if deployment.mongos.len() < 2 => {
            return Err(TestError::needs("several mongos"));
        }
        (TopologyName::LoadBalanced, Some(false)) => {
            let one = deployment.load_balancer.as_ref().map(|uris| &uris.one_mongos_uri);
            one.unwrap_or(uri).clone()
        }
        _ => uri.clone(),
    })
}

fn server_api(spec: &ServerApiSpec) -> TestResult<ServerApi> {
    let version: ServerApiVersion = spec.version.parse().map_err(|_| {
        TestError::failed(format!("the driver does not support API version {}", spec.version))
    })?;
    Ok(ServerApi::builder()
        .version(version)
        .strict(spec.strict)
        .deprecation_errors(spec.deprecation_errors)
        .build())
}

async fn await_min_pool_size(
    recorder: &EventRecorder,
    connections: u32,
    limit_ms: u64,
) -> TestResult<()> {
    let connections = usize::try_from(connections).unwrap_or(usize::MAX);
    let limit = Duration::from_millis(limit_ms);
    if recorder.wait(limit, |recorder| recorder.pools_are_populated(connections)).await {
        recorder.clear_events();
        return Ok(());
    }
    Err(TestError::failed(format!("fewer than {connections} connections after {limit_ms} ms")))
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;
    use crate::{Context, SpecDir, Target, unified::schema::TestFile};

    #[test]
    fn use_multiple_mongoses_chooses_the_hosts_of_the_connection_string() {
        let file = doc! {
            "description": "a file",
            "schemaVersion": "1.0",
            "tests": [{ "description": "a test", "operations": [] }],
        };
        let file = TestFile::parse(file).unwrap();
        let spec = SpecDir::open(testbed::require!(testbed::spec_tests())).unwrap();
        let context = Context::new(spec, Target::EmbeddedSharded);
        let Ok(mut deployment) = Deployment::for_test(&context, &file, None) else { panic!() };
        let hosts = |deployment: &Deployment, multiple| {
            uri_for(deployment, multiple).map(|uri| uri.matches("127.0.0.1:").count())
        };
        assert_eq!(hosts(&deployment, Some(true)), Ok(2));
        assert_eq!(hosts(&deployment, None), Ok(2));
        assert_eq!(hosts(&deployment, Some(false)), Ok(1));
        deployment.mongos.truncate(1);
        assert_eq!(hosts(&deployment, Some(true)), Err(TestError::needs("several mongos")));
    }
}
