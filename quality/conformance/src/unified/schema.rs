//! Test files, parsed as strictly as the JSON schema of the format.
//!
//! A field that is not in the schema is an error, so that no test runs without a part of it. Values that the schema leaves
//! open (arguments of operations, expected documents) are BSON.

mod encryption;
mod entity;
mod error;
mod event;
mod log;
mod primitives;

use bson::{Bson, Document};
use serde::Deserialize;

use self::primitives::{NonEmptyDocument, present};
pub(super) use self::{
    entity::{ClientSpec, CommonOptions, EntitySpec, EventName, ServerApiSpec},
    error::ExpectedError,
    event::{CommandExpectation, EventExpectation, EventFamily, ExpectedEventsForClient},
    log::{Component, ExpectedLogMessage, ExpectedLogMessagesForClient, LogComponents, Severity},
    primitives::{NonEmpty, Version},
};

/// Newest supported version of the format.
pub(super) const NEWEST: Version = Version(1, 28, 0);

/// A test file.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct TestFile {
    #[serde(rename = "description")]
    _description: String,
    pub(super) schema_version: Version,
    pub(super) run_on_requirements: Option<NonEmpty<Requirement>>,
    pub(super) create_entities: Option<NonEmpty<EntitySpec>>,
    pub(super) initial_data: Option<NonEmpty<CollectionData>>,
    pub(super) tests: NonEmpty<Test>,
    #[serde(rename = "_yamlAnchors")]
    _yaml_anchors: Option<Document>,
}

impl TestFile {
    /// Parses a file.
    pub(super) fn parse(document: Document) -> Result<Self, String> {
        bson::deserialize_from_document(document).map_err(|error| error.to_string())
    }

    /// Returns true if the runner supports the version of the file.
    pub(super) fn has_supported_version(&self) -> bool {
        self.schema_version.0 == NEWEST.0 && self.schema_version <= NEWEST
    }
}

/// One test of a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Test {
    pub(super) description: String,
    pub(super) run_on_requirements: Option<NonEmpty<Requirement>>,
    pub(super) skip_reason: Option<String>,
    pub(super) operations: Vec<Operation>,
    pub(super) expect_events: Option<NonEmpty<ExpectedEventsForClient>>,
    pub(super) expect_log_messages: Option<NonEmpty<ExpectedLogMessagesForClient>>,
    pub(super) expect_tracing_messages: Option<NonEmpty<Document>>,
    pub(super) outcome: Option<NonEmpty<CollectionData>>,
}

/// A requirement of tests (`runOnRequirement`) with at least one field.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "RequirementFields")]
pub(super) struct Requirement(pub(super) RequirementFields);

#[derive(Clone, Debug, Deserialize, Default)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct RequirementFields {
    pub(super) min_server_version: Option<Version>,
    pub(super) max_server_version: Option<Version>,
    pub(super) topologies: Option<NonEmpty<TopologyName>>,
    pub(super) serverless: Option<Serverless>,
    pub(super) server_parameters: Option<NonEmptyDocument>,
    pub(super) auth: Option<bool>,
    pub(super) auth_mechanism: Option<String>,
    pub(super) csfle: Option<Csfle>,
}

impl TryFrom<RequirementFields> for Requirement {
    type Error = &'static str;

    fn try_from(fields: RequirementFields) -> Result<Self, Self::Error> {
        let RequirementFields {
            min_server_version,
            max_server_version,
            topologies,
            serverless,
            server_parameters,
            auth,
            auth_mechanism,
            csfle,
        } = &fields;
        let empty = min_server_version.is_none()
            && max_server_version.is_none()
            && topologies.is_none()
            && serverless.is_none()
            && server_parameters.is_none()
            && auth.is_none()
            && auth_mechanism.is_none()
            && csfle.is_none();
        if empty { Err("a requirement without fields") } else { Ok(Self(fields)) }
    }
}

/// Topologies of deployments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum TopologyName {
    Single,
    ReplicaSet,
    Sharded,
    #[serde(rename = "sharded-replicaset")]
    ShardedReplicaSet,
    #[serde(rename = "load-balanced")]
    LoadBalanced,
}

/// Requirement of Atlas Serverless.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Serverless {
    Require,
    Forbid,
    Allow,
}

/// Requirement of client-side encryption.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(from = "CsfleFields")]
pub(super) struct Csfle {
    pub(super) wanted: bool,
}

#[derive(Deserialize)]
#[serde(untagged, deny_unknown_fields)]
enum CsfleFields {
    Wanted(bool),
    Since {
        #[serde(rename = "minLibmongocryptVersion")]
        _version: Version,
    },
}

impl From<CsfleFields> for Csfle {
    fn from(fields: CsfleFields) -> Self {
        match fields {
            CsfleFields::Wanted(wanted) => Self { wanted },
            CsfleFields::Since { .. } => Self { wanted: true },
        }
    }
}

/// Documents of a collection, before or after a test.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct CollectionData {
    pub(super) collection_name: String,
    pub(super) database_name: String,
    pub(super) create_options: Option<Document>,
    pub(super) documents: Vec<Document>,
}

/// An operation and its expected result.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "OperationFields")]
pub(super) struct Operation {
    pub(super) name: String,
    pub(super) object: String,
    pub(super) arguments: Document,
    pub(super) expect: Expectation,
}

/// Expected result of an operation.
#[derive(Clone, Debug)]
pub(super) enum Expectation {
    /// Any result or error (`ignoreResultAndError`).
    Anything,
    /// A success, with this result, which is saved as an entity, if these are given.
    Success { result: Option<Bson>, save_as: Option<String> },
    /// This error.
    Error(Box<ExpectedError>),
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct OperationFields {
    name: String,
    object: String,
    #[serde(default)]
    arguments: Document,
    ignore_result_and_error: Option<bool>,
    expect_error: Option<ExpectedError>,
    #[serde(default, deserialize_with = "present")]
    expect_result: Option<Bson>,
    save_result_as_entity: Option<String>,
}

impl TryFrom<OperationFields> for Operation {
    type Error = &'static str;

    fn try_from(fields: OperationFields) -> Result<Self, Self::Error> {
        let OperationFields {
            name,
            object,
            arguments,
            ignore_result_and_error: ignored,
            expect_error,
            expect_result: result,
            save_result_as_entity: save_as,
        } = fields;
        let wants_success = result.is_some() || save_as.is_some();
        let expect = match (ignored, expect_error) {
            (Some(_), error) if error.is_some() || wants_success => {
                return Err("ignoreResultAndError with an expectation");
            }
            (_, Some(_)) if wants_success => return Err("expectError with a result"),
            (_, Some(error)) => Expectation::Error(Box::new(error)),
            (Some(true), None) => Expectation::Anything,
            (_, None) => Expectation::Success { result, save_as },
        };
        Ok(Self { name, object, arguments, expect })
    }
}
