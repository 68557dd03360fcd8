//! A client of a test, with all that is observed of it.

use std::time::Duration;

use bson::Document;
use steadfast::{
    Client,
    options::{ClientOptions, ServerApi, ServerApiVersion},
};

use super::uri;
use crate::unified::{
    deployment::Deployment,
    events::{Journal, Watch},
    schema::{ClientSpec, LogComponents, ServerApiSpec, TopologyName},
    stop::{Step, Stop},
};

/// A client of a test. Clones share it.
#[derive(Clone, Debug)]
pub(crate) struct ClientEntity {
    pub(crate) client: Client,
    pub(crate) journal: Journal,
    /// Which of its log messages are looked at.
    pub(crate) logs: Option<LogComponents>,
}

/// Log messages are to show whole documents.
const SHOWN_DOCUMENT_BYTES: usize = 100_000;

impl ClientEntity {
    /// Opens a client. The `defaults` are options that it gets unless the test gives them itself.
    pub(crate) async fn open(
        deployment: &Deployment,
        defaults: &Document,
        spec: &ClientSpec,
    ) -> Step<Self> {
        if spec.auto_encrypt_opts.is_some() {
            return Err(Stop::needs("client-side encryption"));
        }
        if spec.observe_tracing_messages.is_some() {
            return Err(Stop::needs("OpenTelemetry"));
        }
        if spec.store_events_as_entities.is_some() {
            return Err(Stop::needs("events as entities, which the format has given up"));
        }
        let uri = uri_for(deployment, spec.use_multiple_mongoses)?;
        let uri = uri::with_options(&uri, defaults)?;
        let uri = uri::with_options(&uri, &spec.uri_options)?;
        let mut options = ClientOptions::parse(&uri).await?;
        options.server_api = spec.server_api.as_ref().map(server_api).transpose()?;
        options.tracing_max_document_length_bytes = Some(SHOWN_DOCUMENT_BYTES);
        let journal = Journal::new(Watch::of(spec));
        journal.listen(&mut options);
        let min_pool_size = options.min_pool_size.unwrap_or(0);
        let client = Client::with_options(options)?;
        if let Some(limit) = spec.await_min_pool_size_ms.filter(|_| min_pool_size > 0) {
            await_min_pool_size(&journal, min_pool_size, limit).await?;
        }
        Ok(Self { client, journal, logs: spec.observe_log_messages })
    }
}

/// The connection string that `useMultipleMongoses` asks for.
fn uri_for(deployment: &Deployment, use_multiple_mongoses: Option<bool>) -> Step<String> {
    let uri = &deployment.uri;
    Ok(match (deployment.facts.topology, use_multiple_mongoses) {
        (TopologyName::Sharded, Some(false)) => uri::with_one_seed(uri),
        (TopologyName::Sharded, Some(true)) if deployment.mongos.len() < 2 => {
            return Err(Stop::needs("several mongos"));
        }
        (TopologyName::LoadBalanced, Some(false)) => {
            let one = deployment.balanced.as_ref().map(|balanced| &balanced.one_mongos_uri);
            one.unwrap_or(uri).clone()
        }
        _ => uri.clone(),
    })
}

fn server_api(spec: &ServerApiSpec) -> Step<ServerApi> {
    let version: ServerApiVersion = spec
        .version
        .parse()
        .map_err(|_| Stop::failed(format!("the driver does not know API {}", spec.version)))?;
    Ok(ServerApi::builder()
        .version(version)
        .strict(spec.strict)
        .deprecation_errors(spec.deprecation_errors)
        .build())
}

async fn await_min_pool_size(journal: &Journal, connections: u32, limit_ms: u64) -> Step<()> {
    let connections = usize::try_from(connections).unwrap_or(usize::MAX);
    let limit = Duration::from_millis(limit_ms);
    if journal.wait(limit, |journal| journal.pools_are_populated(connections)).await {
        journal.forget();
        return Ok(());
    }
    Err(Stop::failed(format!("no {connections} connections within {limit_ms} ms")))
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
        assert_eq!(hosts(&deployment, Some(true)), Err(Stop::needs("several mongos")));
    }
}
