//! What a suite may use besides its files: the deployment that the run is aimed at.

use crate::SpecDir;

/// Where a run finds its cases and the deployment to run them on.
#[derive(Clone, Debug)]
pub struct Context {
    /// The specification's files.
    pub spec: SpecDir,
    /// The deployment for the suites that need one.
    pub target: Target,
    /// The number of another replica set than the one that most use, so as not to keep them waiting.
    apart: Option<usize>,
}

/// A deployment to run against. Suites that need no server ignore it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// A three-member replica set of real servers, started when a suite first asks for it; or
    /// the deployment that `STEADFAST_TEST_URI` names.
    #[default]
    Mongod,
    /// Deployments in this process, of the kind and version that each case asks for.
    Embedded,
    /// A deployment that runs already.
    Uri(String),
}

impl Context {
    /// A context for these files and this deployment.
    pub fn new(spec: SpecDir, target: Target) -> Self {
        Self { spec, target, apart: None }
    }

    /// The same with another replica set, by its number, if the servers are started by the run.
    #[must_use]
    pub fn apart(self, number: usize) -> Self {
        Self { apart: Some(number), ..self }
    }

    /// The connection string of the deployment of real servers, which is started if it has to be.
    pub(crate) fn servers_uri(&self) -> Result<String, String> {
        let started = match self.apart {
            Some(number) => testbed::shared::other_uri(number),
            None => testbed::shared::uri(),
        };
        started.map_err(|error| error.to_string())
    }
}

impl std::str::FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "mongod" => Ok(Self::Mongod),
            "embedded" => Ok(Self::Embedded),
            uri if uri.starts_with("mongodb://") || uri.starts_with("mongodb+srv://") => {
                Ok(Self::Uri(uri.to_owned()))
            }
            _ => Err("expected `mongod`, `embedded` or a connection string that starts with \
                      mongodb:// or mongodb+srv://"
                .to_owned()),
        }
    }
}
