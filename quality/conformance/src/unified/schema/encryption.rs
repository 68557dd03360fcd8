//! Options of client-side encryption, parsed only to check that a file is valid.

use std::collections::BTreeMap;

use bson::{Bson, Document};
use serde::Deserialize;

/// `clientEncryptionOpts`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct ClientEncryptionSpec {
    #[serde(rename = "keyVaultClient")]
    _key_vault_client: String,
    #[serde(rename = "keyVaultNamespace")]
    _key_vault_namespace: String,
    #[serde(rename = "kmsProviders")]
    _kms_providers: KmsProviders,
    #[serde(rename = "keyExpirationMS")]
    _key_expiration_ms: Option<i64>,
}

/// `autoEncryptOpts`.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct AutoEncryptionSpec {
    #[serde(rename = "keyVaultNamespace")]
    _key_vault_namespace: String,
    #[serde(rename = "kmsProviders")]
    _kms_providers: KmsProviders,
    #[serde(rename = "bypassAutoEncryption")]
    _bypass_auto_encryption: Option<bool>,
    #[serde(rename = "bypassQueryAnalysis")]
    _bypass_query_analysis: Option<bool>,
    #[serde(rename = "schemaMap")]
    _schema_map: Option<BTreeMap<String, Document>>,
    #[serde(rename = "encryptedFieldsMap")]
    _encrypted_fields_map: Option<BTreeMap<String, Document>>,
    #[serde(rename = "extraOptions")]
    _extra_options: Option<Document>,
    #[serde(rename = "keyExpirationMS")]
    _key_expiration_ms: Option<i64>,
}

/// Names and settings of KMS providers.
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "BTreeMap<String, Document>")]
struct KmsProviders;

/// Settings of each kind of provider.
const PROVIDERS: &[(&str, &[&str])] = &[
    ("aws", &["accessKeyId", "secretAccessKey", "sessionToken"]),
    ("azure", &["tenantId", "clientId", "clientSecret", "identityPlatformEndpoint", "accessToken"]),
    ("gcp", &["email", "privateKey", "endpoint", "accessToken"]),
    ("kmip", &["endpoint"]),
    ("local", &["key"]),
];

impl TryFrom<BTreeMap<String, Document>> for KmsProviders {
    type Error = String;

    fn try_from(providers: BTreeMap<String, Document>) -> Result<Self, Self::Error> {
        for (name, settings) in &providers {
            let (kind, suffix) = name.split_once(':').unwrap_or((name, "unnamed"));
            let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let known = PROVIDERS.iter().find(|(provider, _)| *provider == kind);
            let Some((_, keys)) = known.filter(|_| !suffix.is_empty() && suffix.chars().all(word))
            else {
                return Err(format!("unknown KMS provider {name}"));
            };
            if let Some((key, _)) = settings
                .iter()
                .find(|(key, value)| !keys.contains(&key.as_str()) || !is_setting(value))
            {
                return Err(format!("unknown setting {key} of the KMS provider {name}"));
            }
        }
        Ok(Self)
    }
}

/// Returns true for a value or a `$$placeholder`.
fn is_setting(value: &Bson) -> bool {
    match value {
        Bson::String(_) | Bson::Binary(_) => true,
        Bson::Document(placeholder) => {
            placeholder.len() == 1 && placeholder.contains_key("$$placeholder")
        }
        _ => false,
    }
}
