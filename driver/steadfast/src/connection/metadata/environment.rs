//! Environment of the process, from environment variables and files: function-as-a-service
//! provider, container.

use std::path::Path;

use bson::{RawDocumentBuf, raw::cstr};

/// Looks up an environment variable.
pub(super) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Returns a variable of this process. An empty one is not set, by the specification.
pub(super) fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Environment of the process.
#[derive(Clone, Debug, Default)]
pub(super) struct Environment {
    function: Option<Function>,
    in_docker: bool,
    in_kubernetes: bool,
}

impl Environment {
    pub(super) fn of_this_process() -> Self {
        Self::detect(&variable, Path::new("/.dockerenv").exists())
    }

    pub(super) fn detect(variable: Lookup<'_>, in_docker: bool) -> Self {
        Self {
            function: Function::detect(variable),
            in_docker,
            in_kubernetes: variable("KUBERNETES_SERVICE_HOST").is_some(),
        }
    }

    /// Returns the document `env`, or only its name; `None` if it would be empty.
    pub(super) fn document(&self, in_full: bool) -> Option<RawDocumentBuf> {
        let mut env = RawDocumentBuf::new();
        if let Some(function) = &self.function {
            env.append(cstr!("name"), function.provider.name());
        }
        if in_full {
            if let Some(function) = &self.function {
                function.append_details(&mut env);
            }
            if let Some(container) = self.container() {
                env.append(cstr!("container"), container);
            }
        }
        (!env.is_empty()).then_some(env)
    }

    fn container(&self) -> Option<RawDocumentBuf> {
        let mut container = RawDocumentBuf::new();
        if self.in_docker {
            container.append(cstr!("runtime"), "docker");
        }
        if self.in_kubernetes {
            container.append(cstr!("orchestrator"), "kubernetes");
        }
        (!container.is_empty()).then_some(container)
    }
}

/// Function-as-a-service provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Provider {
    AwsLambda,
    AzureFunctions,
    GcpFunctions,
    Vercel,
}

impl Provider {
    fn name(self) -> &'static str {
        match self {
            Self::AwsLambda => "aws.lambda",
            Self::AzureFunctions => "azure.func",
            Self::GcpFunctions => "gcp.func",
            Self::Vercel => "vercel",
        }
    }

    /// Returns the provider whose variables are set. Vercel runs on AWS and takes precedence over
    /// it; any other combination is `None`.
    fn detect(variable: Lookup<'_>) -> Option<Self> {
        let is_set = |name| variable(name).is_some();
        let on_aws = variable("AWS_EXECUTION_ENV")
            .is_some_and(|env| env.starts_with("AWS_Lambda_"))
            || is_set("AWS_LAMBDA_RUNTIME_API");
        let on_azure = is_set("FUNCTIONS_WORKER_RUNTIME");
        let on_gcp = is_set("K_SERVICE") || is_set("FUNCTION_NAME");
        let on_vercel = is_set("VERCEL");
        match (on_aws, on_azure, on_gcp, on_vercel) {
            (_, false, false, true) => Some(Self::Vercel),
            (true, false, false, false) => Some(Self::AwsLambda),
            (false, true, false, false) => Some(Self::AzureFunctions),
            (false, false, true, false) => Some(Self::GcpFunctions),
            _ => None,
        }
    }
}

/// Function of a function-as-a-service provider.
#[derive(Clone, Debug)]
pub(super) struct Function {
    provider: Provider,
    timeout_sec: Option<i32>,
    memory_mb: Option<i32>,
    region: Option<String>,
}

impl Function {
    pub(super) fn detect(variable: Lookup<'_>) -> Option<Self> {
        let provider = Provider::detect(variable)?;
        let (timeout, memory, region) = match provider {
            Provider::AwsLambda => {
                (None, Some("AWS_LAMBDA_FUNCTION_MEMORY_SIZE"), Some("AWS_REGION"))
            }
            Provider::AzureFunctions => (None, None, None),
            Provider::GcpFunctions => {
                (Some("FUNCTION_TIMEOUT_SEC"), Some("FUNCTION_MEMORY_MB"), Some("FUNCTION_REGION"))
            }
            Provider::Vercel => (None, None, Some("VERCEL_REGION")),
        };
        // The specification: a value of the wrong type is omitted.
        let number = |name: &str| variable(name).and_then(|value| value.parse().ok());
        Some(Self {
            provider,
            timeout_sec: timeout.and_then(number),
            memory_mb: memory.and_then(number),
            region: region.and_then(variable),
        })
    }

    fn append_details(&self, env: &mut RawDocumentBuf) {
        if let Some(seconds) = self.timeout_sec {
            env.append(cstr!("timeout_sec"), seconds);
        }
        if let Some(megabytes) = self.memory_mb {
            env.append(cstr!("memory_mb"), megabytes);
        }
        if let Some(region) = &self.region {
            env.append(cstr!("region"), region.as_str());
        }
    }
}
