//! Validation of client options and start of the topology.

use std::{sync::Arc, time::Duration};

use bson::oid::ObjectId;
use steadfast_core::{
    address::ServerAddress,
    connection_string::{self, Tls, TlsOptions},
    event::cmap::ConnectionPoolOptions,
    monitor::{DEFAULT_HEARTBEAT_FREQUENCY, MonitorSettings},
    sdam::TopologySettings,
    selection,
};
use steadfast_wire::{Compressor, ZlibLevel, ZstdLevel};

use crate::{
    auth::Authenticator,
    connection::{
        Establisher,
        metadata::{Metadata, runs_as_a_function},
    },
    error::{Error, Result},
    event::Outbox,
    options::ClientOptions,
    tls::TlsConnector,
    topology::{Topology, TopologyConfig},
    trace,
};

/// Default of `connectTimeoutMS`.
const DEFAULT_CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Default of `serverSelectionTimeoutMS`.
const DEFAULT_SELECTION_TIMEOUT: Duration = Duration::from_secs(30);

/// Starts the topology described by the options.
pub(super) fn topology(options: &ClientOptions) -> Result<Arc<Topology>> {
    validate(options)?;
    let runtime = tokio::runtime::Handle::try_current().map_err(|_| {
        Error::invalid_argument("no tokio runtime; create the client inside of one")
    })?;
    let heartbeat_frequency = options.heartbeat_freq.unwrap_or(DEFAULT_HEARTBEAT_FREQUENCY);
    let connect_timeout = options.connect_timeout.unwrap_or(DEFAULT_CONNECT_TIMEOUT);
    let mut selection = selection::SelectionSettings::default();
    selection.heartbeat_frequency = heartbeat_frequency;
    if let Some(threshold) = options.local_threshold {
        selection.local_threshold = threshold;
    }
    let id = ObjectId::new();
    let max_document_bytes = options.tracing_max_document_length_bytes;
    let parts = TopologyConfig {
        id,
        settings: settings(options, id),
        selection,
        selection_timeout: options.server_selection_timeout.unwrap_or(DEFAULT_SELECTION_TIMEOUT),
        pool: pool_options(options),
        monitor: MonitorSettings {
            heartbeat_frequency,
            connect_timeout: Some(connect_timeout),
            mode: options.server_monitoring_mode.unwrap_or_default(),
            on_faas: runs_as_a_function(),
        },
        establisher: Arc::new(establisher(options, runtime, connect_timeout)?),
        sdam_events: Outbox::new(
            options.sdam_event_handler.clone(),
            move |event| trace::topology(event, id, max_document_bytes),
            trace::topology_logging_enabled,
        ),
        cmap_events: Outbox::new(
            options.cmap_event_handler.clone(),
            move |event| trace::connection(event, id),
            trace::connection_logging_enabled,
        ),
    };
    let topology = Topology::open(parts);
    #[cfg(feature = "dns")]
    if let Some(name) = srv_name(options)? {
        topology.poll_srv_records(
            name,
            crate::dns::Resolver::configured(options.resolver_config.as_ref())?,
        );
    }
    Ok(topology)
}

/// Returns an error for contradicting options. Those of a connection string were validated by the
/// parser; those set on the struct were not.
fn validate(options: &ClientOptions) -> Result<()> {
    let mut uri = connection_string::ConnectionString::default();
    if !options.hosts.is_empty() {
        uri.host_info = connection_string::HostInfo::HostIdentifiers(options.hosts.clone());
    }
    uri.direct_connection = options.direct_connection;
    uri.load_balanced = options.load_balanced;
    uri.replica_set = options.repl_set_name.clone();
    uri.min_pool_size = options.min_pool_size;
    uri.max_pool_size = options.max_pool_size;
    uri.validate()?;
    if let Some(concern) = &options.write_concern {
        concern.validate().map_err(|error| Error::invalid_argument(error.to_string()))?;
    }
    Ok(())
}

fn settings(options: &ClientOptions, id: ObjectId) -> TopologySettings {
    let mut hosts = options.hosts.clone();
    if hosts.is_empty() {
        hosts.push(ServerAddress::default());
    }
    let settings = if options.load_balanced == Some(true) {
        TopologySettings::load_balanced(id, hosts.swap_remove(0))
    } else if options.direct_connection == Some(true) {
        TopologySettings::direct(id, hosts.swap_remove(0))
    } else {
        TopologySettings::discovering(id, hosts)
    };
    settings
        .replica_set(options.repl_set_name.clone())
        .srv_max_hosts(options.srv_max_hosts.and_then(|most| usize::try_from(most).ok()))
}

/// Returns the DNS name of the SRV records, for SRV polling.
#[cfg(feature = "dns")]
fn srv_name(options: &ClientOptions) -> Result<Option<steadfast_core::srv::SrvName>> {
    let Some(host) = &options.srv_host else { return Ok(None) };
    let service = options.srv_service_name.as_deref();
    let suffix = options.srv_allowed_hosts_suffix.as_deref();
    let name = steadfast_core::srv::SrvName::new(host, service, suffix);
    name.map(Some).map_err(|error| Error::invalid_argument(error.to_string()))
}

fn pool_options(options: &ClientOptions) -> ConnectionPoolOptions {
    let mut pool = ConnectionPoolOptions::default();
    pool.max_idle_time = options.max_idle_time;
    pool.max_pool_size = options.max_pool_size;
    pool.min_pool_size = options.min_pool_size;
    pool.max_connecting = options.max_connecting;
    pool.wait_queue_timeout = options.wait_queue_timeout;
    pool
}

fn establisher(
    options: &ClientOptions,
    runtime: tokio::runtime::Handle,
    connect_timeout: Duration,
) -> Result<Establisher> {
    Ok(Establisher {
        runtime,
        tls: tls(options)?,
        authenticator: options.credential.as_ref().map(Authenticator::new).transpose()?,
        server_api: options.server_api.clone(),
        load_balanced: options.load_balanced == Some(true),
        metadata: Metadata::new(options.app_name.as_deref(), options.driver_info.as_ref())?,
        compressors: compressors(options)?,
        connect_timeout: Some(connect_timeout).filter(|limit| !limit.is_zero()),
        socket_timeout: options.socket_timeout.filter(|limit| !limit.is_zero()),
        timeout: options.timeout.filter(|limit| !limit.is_zero()),
    })
}

fn tls(options: &ClientOptions) -> Result<Option<TlsConnector>> {
    let enabled: Option<&TlsOptions> = match &options.tls {
        Some(Tls::Enabled(options)) => Some(options),
        Some(Tls::Disabled) | None => None,
    };
    #[cfg(feature = "tls")]
    return Ok(enabled.map(TlsConnector::new).transpose()?);
    #[cfg(not(feature = "tls"))]
    match enabled {
        None => Ok(None),
        Some(_) => Err(Error::invalid_argument(
            "tls: TLS is not built in; enable the cargo feature `tls` of steadfast",
        )),
    }
}

/// Converts the compressors. One that is not built in is ignored with a warning, so that connection
/// strings written for other drivers work.
fn compressors(options: &ClientOptions) -> Result<Vec<Compressor>> {
    let zlib_level = |level: i64| {
        let level = i32::try_from(level).unwrap_or(i32::MAX);
        ZlibLevel::new(level)
            .map_err(|error| Error::invalid_argument(format!("zlibCompressionLevel: {error}")))
    };
    let default_zlib_level = options
        .zlib_compression_level
        .map_or(Ok(ZlibLevel::DEFAULT), |level| zlib_level(level.into()))?;
    let mut compressors = Vec::new();
    for compressor in options.compressors.iter().flatten() {
        let compressor = match compressor {
            connection_string::Compressor::Snappy => Compressor::Snappy,
            connection_string::Compressor::Zlib { level } => Compressor::Zlib(
                level.map_or(Ok(default_zlib_level), |level| zlib_level(level.into()))?,
            ),
            connection_string::Compressor::Zstd { level } => {
                Compressor::Zstd(level.map_or(Ok(ZstdLevel::DEFAULT), |level| {
                    ZstdLevel::new(level)
                        .map_err(|error| Error::invalid_argument(format!("compressors: {error}")))
                })?)
            }
            other => {
                return Err(Error::invalid_argument(format!(
                    "compressors: {other:?} is not supported"
                )));
            }
        };
        if compressor.is_built_in() {
            compressors.push(compressor);
        } else {
            let name = compressor.name();
            tracing::warn!(
                target: "steadfast::client",
                "compressor {name} is ignored; enable the cargo feature `{name}` of steadfast",
            );
        }
    }
    Ok(compressors)
}

#[cfg(all(test, feature = "zlib", feature = "zstd"))]
mod tests {
    use super::*;

    fn compressors_of(
        list: Vec<connection_string::Compressor>,
        default: Option<i32>,
    ) -> Result<Vec<Compressor>> {
        let options = ClientOptions::builder().compressors(list).zlib_compression_level(default);
        compressors(&options.build())
    }

    #[test]
    fn level_of_a_compressor_precedes_the_default_level() {
        use connection_string::Compressor::{Zlib, Zstd};

        let zlib = |level| Compressor::Zlib(ZlibLevel::new(level).unwrap());
        let zstd = |level| Compressor::Zstd(ZstdLevel::new(level).unwrap());
        let list = || vec![Zlib { level: None }, Zstd { level: None }];
        assert_eq!(compressors_of(list(), None).unwrap(), [zlib(-1), zstd(3)]);
        assert_eq!(compressors_of(list(), Some(5)).unwrap(), [zlib(5), zstd(3)]);
        let list = vec![Zlib { level: Some(9) }, Zstd { level: Some(-7) }];
        assert_eq!(compressors_of(list, Some(5)).unwrap(), [zlib(9), zstd(-7)]);
        for invalid in [Zlib { level: Some(10) }, Zstd { level: Some(23) }] {
            assert!(compressors_of(vec![invalid], None).unwrap_err().is_invalid_argument());
        }
    }
}
