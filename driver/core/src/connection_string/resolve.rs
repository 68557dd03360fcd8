//! Resolution of a `mongodb+srv` connection string with SRV and TXT records.

use super::{ConnectionString, HostInfo, UriError, text::percent_decode};
use crate::srv::{self, SrvAnswer, SrvError, SrvName};

impl ConnectionString {
    /// Returns the name of the SRV query, or `None` if the string contains hosts.
    ///
    /// # Errors
    ///
    /// An error if the DNS name has no valid SRV query.
    pub fn srv_name(&self) -> Result<Option<SrvName>, UriError> {
        let host = match (&self.host_info, &self.original_srv_hostname) {
            (HostInfo::DnsRecord(host), _) | (_, Some(host)) => host,
            (HostInfo::HostIdentifiers(_), None) => return Ok(None),
        };
        let service = self.srv_service_name.as_deref();
        let suffix = self.srv_allowed_hosts_suffix.as_deref();
        Ok(Some(SrvName::new(host, service, suffix)?))
    }

    /// Replaces the DNS name by the hosts of its SRV records, and adds the options of its TXT
    /// record. Returns a string that contains hosts unchanged.
    ///
    /// If there are more hosts than `srvMaxHosts`, `random_below(n)` selects them; it must return a
    /// random number from 0 to n-1.
    ///
    /// # Errors
    ///
    /// An error if the records violate the initial DNS seedlist discovery specification, or
    /// contradict the connection string.
    pub fn resolve_srv(
        mut self,
        answer: &SrvAnswer,
        random_below: impl FnMut(usize) -> usize,
    ) -> Result<Self, UriError> {
        let (HostInfo::DnsRecord(host), Some(name)) = (self.host_info.clone(), self.srv_name()?)
        else {
            return Ok(self);
        };
        let hosts = name.verify_all(&answer.hosts)?;
        for (option, value) in answer.txt_options()? {
            self.apply_txt_option(&option, &value)?;
        }
        let limit = self.srv_max_hosts.unwrap_or(0);
        self.host_info = HostInfo::HostIdentifiers(srv::limit_hosts(hosts, limit, random_below));
        self.original_srv_hostname = Some(host);
        self.validate()?;
        Ok(self)
    }

    /// Applies a TXT option. Options of the connection string take precedence.
    fn apply_txt_option(&mut self, option: &str, value: &str) -> Result<(), UriError> {
        let value = percent_decode(value).ok_or(SrvError::MalformedTxt)?;
        match option {
            "authsource" if value.is_empty() || value.contains('\0') => {
                return Err(SrvError::MalformedTxt.into());
            }
            "authsource" if self.auth_source.is_none() => self.set_auth_source(value)?,
            "replicaset" if value.is_empty() => return Err(SrvError::MalformedTxt.into()),
            "replicaset" if self.replica_set.is_none() => self.replica_set = Some(value),
            "loadbalanced" if self.load_balanced.is_none() => match value.as_str() {
                "true" => self.load_balanced = Some(true),
                "false" => self.load_balanced = Some(false),
                _ => self.warnings.push(
                    "the option loadBalanced in the TXT record is ignored: expected true or false"
                        .to_owned(),
                ),
            },
            "authsource" | "replicaset" | "loadbalanced" => {}
            _ => return Err(SrvError::ForbiddenTxtOption.into()),
        }
        Ok(())
    }

    fn set_auth_source(&mut self, source: String) -> Result<(), UriError> {
        if let Some(credential) = &mut self.credential {
            credential.source = Some(source.clone());
            credential.validate()?;
        }
        self.auth_source = Some(source);
        Ok(())
    }
}
