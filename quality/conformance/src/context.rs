//! Files of the suites and the deployment of a run.

use crate::SpecDir;

/// Files of the suites and the deployment to run them on.
#[derive(Clone, Debug)]
pub struct Context {
    /// The specification's files.
    pub spec: SpecDir,
    /// The deployment for the suites that need one.
    pub target: Target,
    /// Number of a deployment that is not shared with other suites, for suites that take long.
    unshared: Option<usize>,
}

/// A deployment to run against. Suites that need no server ignore it.
///
/// Servers are started when a case first needs them. A case that requires authentication runs on a deployment of the
/// same kind that requires it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// `mongod` 6.0: a replica set of three members, and a standalone server for the cases that require one; or the
    /// deployment that `STEADFAST_TEST_URI` names.
    #[default]
    Mongod6_0,
    /// `mongod` 8.2: a replica set of three members.
    Mongod8_2,
    /// `mongod` and `mongos` 8.2: a cluster of two shards and two `mongos`.
    Mongod8_2Sharded,
    /// `mongod` 8.2: a standalone server.
    Mongod8_2Standalone,
    /// `mongod` and `mongos` 8.2: two shards and two `mongos` behind a load balancer.
    Mongod8_2LoadBalanced,
    /// Embedded deployments, in this process, of the kind and version that each case requires.
    Embedded,
    /// Embedded deployments of version 8.2, sharded like [`Mongod8_2Sharded`](Self::Mongod8_2Sharded).
    EmbeddedSharded,
    /// A running deployment, by its connection string.
    Uri(String),
}

impl Target {
    /// Targets that the runner starts, in the order of the table in `docs/conformance.md`.
    pub const ALL: [Self; 7] = [
        Self::Mongod6_0,
        Self::Mongod8_2,
        Self::Mongod8_2Sharded,
        Self::Mongod8_2Standalone,
        Self::Mongod8_2LoadBalanced,
        Self::Embedded,
        Self::EmbeddedSharded,
    ];

    /// Name of the target as a value of `--target`; `uri` for a connection string, which may contain a password.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Mongod6_0 => "mongod-6.0",
            Self::Mongod8_2 => "mongod-8.2",
            Self::Mongod8_2Sharded => "mongod-8.2-sharded",
            Self::Mongod8_2Standalone => "mongod-8.2-standalone",
            Self::Mongod8_2LoadBalanced => "mongod-8.2-load-balanced",
            Self::Embedded => "embedded",
            Self::EmbeddedSharded => "embedded-sharded",
            Self::Uri(_) => "uri",
        }
    }

    /// Returns true if the deployments are in this process.
    pub(crate) fn is_embedded(&self) -> bool {
        matches!(self, Self::Embedded | Self::EmbeddedSharded)
    }
}

impl Context {
    /// Creates a context for these files and this deployment.
    pub fn new(spec: SpecDir, target: Target) -> Self {
        Self { spec, target, unshared: None }
    }

    /// Uses the unshared replica set or cluster of this number, if the runner starts the servers.
    #[must_use]
    pub fn unshared(self, number: usize) -> Self {
        Self { unshared: Some(number), ..self }
    }

    /// Number of the unshared deployment.
    pub(crate) fn unshared_deployment(&self) -> Option<usize> {
        self.unshared
    }
}

impl std::str::FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        // Short name of the default.
        let name = if text == "mongod" { "mongod-6.0" } else { text };
        if let Some(target) = Self::ALL.into_iter().find(|target| target.name() == name) {
            return Ok(target);
        }
        if text.starts_with("mongodb://") || text.starts_with("mongodb+srv://") {
            return Ok(Self::Uri(text.to_owned()));
        }
        let names = Self::ALL.map(|target| format!("`{}`", target.name())).join(", ");
        Err(format!(
            "expected {names} or a connection string that starts with mongodb:// or mongodb+srv://"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_parsed_from_their_names() {
        for target in Target::ALL {
            assert_eq!(target.name().parse(), Ok(target));
        }
        assert_eq!("mongod".parse(), Ok(Target::Mongod6_0));
        let uri = "mongodb://ada:secret@db1/";
        let target: Target = uri.parse().unwrap();
        assert_eq!((target.name(), &target), ("uri", &Target::Uri(uri.to_owned())));
        let error = "postgres".parse::<Target>().unwrap_err();
        assert!(error.contains("`mongod-8.2-load-balanced`"), "{error}");
    }
}
