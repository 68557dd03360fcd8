//! Name servers of the system (`/etc/resolv.conf`, the registry), queried with hickory.

use std::{fmt, time::Duration};

use hickory_resolver::{
    TokioResolver,
    config::{
        CLOUDFLARE, GOOGLE, QUAD9, ResolveHosts, ResolverConfig as HickoryConfig, ResolverOpts,
    },
    net::{NetError, runtime::TokioRuntimeProvider},
    proto::rr::{RData, Record, RecordType},
    system_conf::read_system_conf,
};
use steadfast_core::srv::{SrvRecord, TxtRecord};

use super::{DnsError, PublicResolver, QueryFuture, Records, ResolverConfig};

/// Source that queries the name servers of the system.
pub(crate) struct SystemRecords {
    resolver: TokioResolver,
}

impl SystemRecords {
    /// Reads the system's settings.
    pub(crate) fn new() -> Result<Self, DnsError> {
        let (config, options) = read_system_conf().map_err(bad_settings)?;
        Self::with_settings(config, options)
    }

    /// Uses the name servers of a public DNS service.
    pub(super) fn of_service(config: &ResolverConfig) -> Result<Self, DnsError> {
        let group = match config.0 {
            PublicResolver::Cloudflare => &CLOUDFLARE,
            PublicResolver::Google => &GOOGLE,
            PublicResolver::Quad9 => &QUAD9,
        };
        Self::with_settings(HickoryConfig::udp_and_tcp(group), ResolverOpts::default())
    }

    pub(super) fn with_settings(
        config: HickoryConfig,
        mut options: ResolverOpts,
    ) -> Result<Self, DnsError> {
        // SRV polling follows the TTL of the records; the hosts file contains no SRV or TXT
        // records.
        options.cache_size = 0;
        options.use_hosts_file = ResolveHosts::Never;
        let provider = TokioRuntimeProvider::default();
        let builder = TokioResolver::builder_with_config(config, provider).with_options(options);
        Ok(Self { resolver: builder.build().map_err(bad_settings)? })
    }

    async fn records<R>(
        &self,
        name: &str,
        kind: RecordType,
        read: fn(&Record) -> Option<R>,
    ) -> Result<Vec<R>, DnsError> {
        // A name with a dot at its end is absolute: no search domain is appended.
        let complete = format!("{}.", name.trim_end_matches('.'));
        match self.resolver.lookup(complete, kind).await {
            Ok(found) => Ok(found.answers().iter().filter_map(read).collect()),
            Err(error) if error.is_no_records_found() => Ok(Vec::new()),
            Err(error) => {
                Err(DnsError::Lookup { name: name.to_owned(), problem: error.to_string() })
            }
        }
    }
}

impl Records for SystemRecords {
    fn srv<'a>(&'a self, name: &'a str) -> QueryFuture<'a, SrvRecord> {
        Box::pin(self.records(name, RecordType::SRV, srv_record))
    }

    fn txt<'a>(&'a self, name: &'a str) -> QueryFuture<'a, TxtRecord> {
        Box::pin(self.records(name, RecordType::TXT, txt_record))
    }
}

fn srv_record(record: &Record) -> Option<SrvRecord> {
    match &record.data {
        RData::SRV(srv) => {
            let host = srv.target.to_ascii().trim_end_matches('.').to_owned();
            let ttl = Duration::from_secs(record.ttl.into());
            Some(SrvRecord { host, port: srv.port, ttl })
        }
        // CNAME records on the way to the records.
        _ => None,
    }
}

fn txt_record(record: &Record) -> Option<TxtRecord> {
    match &record.data {
        RData::TXT(txt) => {
            Some(TxtRecord { strings: txt.txt_data.iter().map(|text| text.to_vec()).collect() })
        }
        // CNAME records on the way to the records.
        _ => None,
    }
}

fn bad_settings(error: NetError) -> DnsError {
    DnsError::Settings(error.to_string())
}

impl fmt::Debug for SystemRecords {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SystemRecords").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
