//! Connection string of a deployment with options of a test.

use std::fmt::Write;

use bson::{Bson, Document};

use crate::unified::test_error::{TestError, TestResult};

/// Adds options to a connection string. They override its options.
pub(super) fn with_options(uri: &str, options: &Document) -> TestResult<String> {
    let (address, query) = uri.split_once('?').unwrap_or((uri, ""));
    let mut address = address.to_owned();
    let own = query.split('&').filter_map(|pair| pair.split_once('='));
    let is_overridden = |key: &str| options.keys().any(|given| given.eq_ignore_ascii_case(key));
    let mut pairs: Vec<(String, String)> = own
        .filter(|(key, _)| !is_overridden(key))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect();
    for (key, value) in options {
        reject_unsupported(key)?;
        for value in values(key, value)? {
            pairs.push((key.clone(), percent_encoded(&value)));
        }
    }
    if options.get_bool("directConnection").unwrap_or(false) {
        pairs.retain(|(key, _)| !key.eq_ignore_ascii_case("replicaSet"));
        address = with_one_seed(&address);
    }
    let query: Vec<_> = pairs.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    if !address.ends_with('/') {
        address.push('/');
    }
    Ok(format!("{address}?{}", query.join("&")))
}

/// Rejects options that the driver would ignore with a warning.
fn reject_unsupported(key: &str) -> TestResult<()> {
    match key.to_ascii_lowercase().as_str() {
        "waitqueuesize" | "waitqueuemultiple" => {
            Err(TestError::needs("a limit on the wait queue, which the driver leaves out"))
        }
        _ => Ok(()),
    }
}

/// Values of an option. Only `readPreferenceTags` has several.
fn values(key: &str, value: &Bson) -> TestResult<Vec<String>> {
    Ok(vec![match value {
        Bson::String(text) => text.clone(),
        Bson::Int32(_) | Bson::Int64(_) | Bson::Double(_) | Bson::Boolean(_) => value.to_string(),
        Bson::Array(items) => {
            let texts = items.iter().map(|item| item.as_str().map(str::to_owned));
            return texts.collect::<Option<_>>().ok_or_else(|| bad(key, value));
        }
        Bson::Document(properties) => {
            let mut text = Vec::new();
            for (name, value) in properties {
                let value = value.as_str().ok_or_else(|| bad(key, value))?;
                text.push(format!("{name}:{value}"));
            }
            text.join(",")
        }
        _ => return Err(bad(key, value)),
    }])
}

fn bad(key: &str, value: &Bson) -> TestError {
    match value.as_document().is_some_and(|document| document.contains_key("$$placeholder")) {
        true => TestError::needs(format_args!("a value for the placeholder of {key}")),
        false => TestError::failed(format!("{value} is not a value of {key}")),
    }
}

fn percent_encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut encoded, byte| {
        if byte.is_ascii_alphanumeric() || b"-._~,:".contains(&byte) {
            encoded.push(byte.into());
        } else {
            // Writing to a string cannot fail.
            let _ = write!(encoded, "%{byte:02X}");
        }
        encoded
    })
}

/// Removes all hosts but the first: `mongodb://user@a,b,c/db` becomes `mongodb://user@a/db`.
pub(super) fn with_one_seed(address: &str) -> String {
    let (scheme, rest) = address.split_once("://").unwrap_or(("mongodb", address));
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (login, hosts) =
        hosts.rsplit_once('@').map_or(("", hosts), |(login, hosts)| (login, hosts));
    let first = hosts.split(',').next().unwrap_or(hosts);
    let at = if login.is_empty() { "" } else { "@" };
    format!("{scheme}://{login}{at}{first}/{path}")
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    #[test]
    fn options_of_the_test_override_those_of_the_deployment() {
        let uri = "mongodb://a:1,b:2/?replicaSet=rs&retryWrites=true";
        let own =
            doc! { "retrywrites": false, "appname": "a b", "readPreferenceTags": ["x:1", ""] };
        assert_eq!(
            with_options(uri, &own).unwrap(),
            "mongodb://a:1,b:2/?replicaSet=rs&retrywrites=false&appname=a%20b\
             &readPreferenceTags=x:1&readPreferenceTags="
        );
    }

    #[test]
    fn direct_connection_has_one_host() {
        let uri = "mongodb://u:p@a:1,b:2/?replicaSet=rs";
        let direct = with_options(uri, &doc! { "directConnection": true }).unwrap();
        assert_eq!(direct, "mongodb://u:p@a:1/?directConnection=true");
    }
}
