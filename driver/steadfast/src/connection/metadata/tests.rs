//! Prose tests of the handshake specification, and cases between them.

use bson::{Document, doc};

use super::*;
use crate::connection::Establisher;

type Variables<'a> = &'a [(&'a str, &'a str)];

const AWS: Variables<'_> = &[
    ("AWS_EXECUTION_ENV", "AWS_Lambda_java8"),
    ("AWS_REGION", "us-east-2"),
    ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "1024"),
];

fn environment(variables: Variables<'_>) -> Environment {
    let lookup = |name: &str| {
        let (_, value) = variables.iter().find(|(key, _)| *key == name)?;
        Some((*value).to_owned())
    };
    Environment::detect(&lookup, false)
}

fn is_function(variables: Variables<'_>) -> bool {
    let lookup = |name: &str| {
        variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
    };
    Function::detect(&lookup).is_some()
}

fn linux() -> Os {
    Os::detect("linux", Some("NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12\"\nVERSION_ID='12'\n"))
}

fn in_environment(variables: Variables<'_>) -> Document {
    client_document(&Metadata::of(None, None, linux(), environment(variables)).unwrap())
}

fn plain(wrapper: Option<&DriverInfo>) -> Metadata {
    Metadata::of(None, wrapper, linux(), Environment::default()).unwrap()
}

fn client_document(metadata: &Metadata) -> Document {
    let document = metadata.document();
    assert!(document.as_bytes().len() <= 512);
    Document::try_from(document).unwrap()
}

fn info(name: &str, version: Option<&str>, platform: Option<&str>) -> DriverInfo {
    let mut info = DriverInfo::new(name);
    info.version = version.map(str::to_owned);
    info.platform = platform.map(str::to_owned);
    info
}

fn library() -> DriverInfo {
    info("library", Some("1.2"), Some("Library Platform"))
}

/// Returns the parts that follow the driver's own name, version and platform.
fn additions(document: &Document) -> [String; 3] {
    let driver = document.get_document("driver").unwrap();
    let texts = [
        driver.get_str("name").unwrap(),
        driver.get_str("version").unwrap(),
        document.get_str("platform").unwrap(),
    ];
    texts.map(|text| text.split_once('|').map_or("", |(_, rest)| rest).to_owned())
}

#[test]
fn client_document_has_all_specified_fields() {
    let environment = Environment::detect(&|_| None, true);
    let metadata = Metadata::of(Some("stock"), None, linux(), environment).unwrap();
    let expected = doc! {
        "application": { "name": "stock" },
        "driver": { "name": "steadfast", "version": env!("CARGO_PKG_VERSION") },
        "os": {
            "type": "Linux",
            "name": "Debian GNU/Linux 12",
            "architecture": std::env::consts::ARCH,
            "version": "12",
        },
        "platform": "Rust, tokio",
        "env": { "container": { "runtime": "docker" } },
    };
    assert_eq!(client_document(&metadata), expected);
}

#[test]
fn metadata_describes_this_process() {
    let document = client_document(&Metadata::new(Some("tests"), None).unwrap());
    assert!(!document.get_document("os").unwrap().get_str("type").unwrap().is_empty());
}

#[test]
fn prose_1_1_valid_aws() {
    let env = doc! { "name": "aws.lambda", "memory_mb": 1024, "region": "us-east-2" };
    assert_eq!(in_environment(AWS).get_document("env").ok(), Some(&env));
    assert!(is_function(AWS));
    assert!(is_function(&[("AWS_LAMBDA_RUNTIME_API", "127.0.0.1:9001")]));
}

#[test]
fn prose_1_2_valid_azure() {
    let variables = [("FUNCTIONS_WORKER_RUNTIME", "node")];
    let env = doc! { "name": "azure.func" };
    assert_eq!(in_environment(&variables).get_document("env").ok(), Some(&env));
    assert!(is_function(&variables));
}

#[test]
fn prose_1_3_valid_gcp() {
    let variables = [
        ("K_SERVICE", "servicename"),
        ("FUNCTION_MEMORY_MB", "1024"),
        ("FUNCTION_TIMEOUT_SEC", "60"),
        ("FUNCTION_REGION", "us-central1"),
    ];
    let env = doc! {
        "name": "gcp.func", "timeout_sec": 60, "memory_mb": 1024, "region": "us-central1",
    };
    assert_eq!(in_environment(&variables).get_document("env").ok(), Some(&env));
    assert!(is_function(&variables));
}

#[test]
fn prose_1_4_valid_vercel() {
    let variables = [("VERCEL", "1"), ("VERCEL_REGION", "cdg1")];
    let env = doc! { "name": "vercel", "region": "cdg1" };
    assert_eq!(in_environment(&variables).get_document("env").ok(), Some(&env));
    // Vercel runs on AWS and takes precedence.
    let both = [AWS, &variables].concat();
    assert_eq!(in_environment(&both).get_document("env").ok(), Some(&env));
    assert!(is_function(&both));
}

#[test]
fn prose_1_5_multiple_providers_are_none() {
    let azure = ("FUNCTIONS_WORKER_RUNTIME", "node");
    for other in [AWS, &[("K_SERVICE", "s")], &[("VERCEL", "1")]] {
        let variables = [other, &[azure]].concat();
        assert_eq!(in_environment(&variables).get("env"), None);
        assert!(!is_function(&variables));
    }
}

#[test]
fn prose_1_6_a_long_string_leaves_only_the_name() {
    let long = "a".repeat(512);
    let variables = [("AWS_EXECUTION_ENV", "AWS_Lambda_java8"), ("AWS_REGION", long.as_str())];
    let document = in_environment(&variables);
    assert_eq!(document.get_document("env").ok(), Some(&doc! { "name": "aws.lambda" }));
    assert!(document.get_document("os").unwrap().contains_key("name"), "no more is left out");
}

#[test]
fn prose_1_7_values_of_wrong_types_are_omitted() {
    let variables =
        [("AWS_EXECUTION_ENV", "AWS_Lambda_java8"), ("AWS_LAMBDA_FUNCTION_MEMORY_SIZE", "big")];
    let env = doc! { "name": "aws.lambda" };
    assert_eq!(in_environment(&variables).get_document("env").ok(), Some(&env));
}

#[test]
fn prose_1_8_an_execution_environment_other_than_lambda_is_none() {
    let variables = [("AWS_EXECUTION_ENV", "EC2")];
    assert_eq!(in_environment(&variables).get("env"), None);
    assert!(!is_function(&variables));
}

#[test]
fn prose_1_9_container_and_provider_are_both_sent() {
    let variables = [AWS, &[("KUBERNETES_SERVICE_HOST", "1")]].concat();
    let env = doc! {
        "name": "aws.lambda",
        "memory_mb": 1024,
        "region": "us-east-2",
        "container": { "orchestrator": "kubernetes" },
    };
    assert_eq!(in_environment(&variables).get_document("env").ok(), Some(&env));
}

#[test]
fn fields_beyond_512_bytes_are_omitted_in_the_specified_order() {
    let long = "r".repeat(100);
    let variables = [("AWS_EXECUTION_ENV", "AWS_Lambda_x"), ("AWS_REGION", long.as_str())];
    let mut seen = Vec::new();
    for length in 0..500 {
        let wrapper = info("w", None, Some(&"p".repeat(length)));
        let metadata =
            Metadata::of(Some("app"), Some(&wrapper), linux(), environment(&variables)).unwrap();
        let document = client_document(&metadata);
        let os = document.get_document("os").unwrap();
        let env = document.get_document("env").ok();
        let stage = (
            env.is_some_and(|env| env.contains_key("region")),
            os.contains_key("name"),
            env.is_some(),
            document.get_str("platform").unwrap().len() == "Rust, tokio|".len() + length
                || length == 0,
        );
        if seen.last() != Some(&stage) {
            seen.push(stage);
        }
        // Nothing that fits is cut off.
        let bytes = metadata.document().as_bytes().len();
        assert!(stage.3 || bytes == 512, "{bytes}");
    }
    assert_eq!(
        seen,
        [
            (true, true, true, true),
            (false, true, true, true),
            (false, false, true, true),
            (false, false, false, true),
            (false, false, false, false),
        ]
    );
}

#[test]
fn platform_is_truncated_at_a_character_boundary() {
    for length in 100..200 {
        let wrapper = info(&"w".repeat(length), None, Some(&"🤔".repeat(120)));
        let platform =
            client_document(&plain(Some(&wrapper))).get_str("platform").unwrap().to_owned();
        assert!(platform.starts_with("Rust, tokio|🤔") && platform.ends_with('🤔'));
    }
}

#[test]
fn driver_info_beyond_512_bytes_is_rejected() {
    let metadata = plain(Some(&library()));
    let before = metadata.document();
    let error = metadata.append(&info(&"n".repeat(512), None, None)).unwrap_err();
    assert!(error.is_invalid_argument() && error.to_string().contains("512"), "{error}");
    assert_eq!(metadata.document(), before);
}

#[test]
fn app_name_has_at_most_128_bytes() {
    let of = |name: &str| Metadata::of(Some(name), None, linux(), Environment::default());
    assert!(of(&"a".repeat(128)).is_ok());
    let error = of(&"é".repeat(65)).unwrap_err();
    assert!(error.is_invalid_argument() && error.to_string().contains("130"), "{error}");
    assert_eq!(client_document(&of("").unwrap()).get("application"), None);
}

#[test]
fn driver_info_must_not_contain_the_delimiter() {
    for bad in [info("a|b", None, None), info("a", Some("1|2"), None), info("a", None, Some("p|q"))]
    {
        assert!(Metadata::new(None, Some(&bad)).unwrap_err().is_invalid_argument());
        let metadata = plain(None);
        let before = metadata.document();
        assert!(metadata.append(&bad).unwrap_err().is_invalid_argument());
        assert_eq!(metadata.document(), before);
    }
}

/// Parameters of the first two update tests, and the expected additions to those of "library".
fn updates() -> [(DriverInfo, [&'static str; 3]); 4] {
    let (name, platform) = ("library|framework", "Library Platform|Framework Platform");
    [
        (info("framework", Some("2.0"), Some("Framework Platform")), [name, "1.2|2.0", platform]),
        (info("framework", Some("2.0"), None), [name, "1.2|2.0", "Library Platform"]),
        (info("framework", None, Some("Framework Platform")), [name, "1.2", platform]),
        (info("framework", None, None), [name, "1.2", "Library Platform"]),
    ]
}

fn without_driver(mut document: Document) -> Document {
    document.remove("driver");
    document.remove("platform");
    document
}

#[test]
fn update_1_metadata_is_appended_to_the_initial_driver_info() {
    for (framework, expected) in updates() {
        let metadata = plain(Some(&library()));
        let initial = client_document(&metadata);
        metadata.append(&framework).unwrap();
        assert_eq!(additions(&client_document(&metadata)), expected);
        assert_eq!(without_driver(client_document(&metadata)), without_driver(initial));
    }
}

#[test]
fn update_2_successive_updates_are_appended() {
    for (framework, expected) in updates() {
        let metadata = plain(None);
        metadata.append(&library()).unwrap();
        assert_eq!(additions(&client_document(&metadata)), ["library", "1.2", "Library Platform"]);
        metadata.append(&framework).unwrap();
        assert_eq!(additions(&client_document(&metadata)), expected);
    }
}

#[test]
fn update_3_only_equal_name_version_and_platform_are_a_duplicate() {
    for name in ["library", "framework"] {
        for version in ["1.2", "2.0"] {
            for platform in ["Library Platform", "Framework Platform"] {
                let metadata = plain(None);
                metadata.append(&library()).unwrap();
                metadata.append(&info(name, Some(version), Some(platform))).unwrap();
                let same = (name, version, platform) == ("library", "1.2", "Library Platform");
                let expected = if same {
                    ["library".to_owned(), "1.2".to_owned(), "Library Platform".to_owned()]
                } else {
                    [
                        format!("library|{name}"),
                        format!("1.2|{version}"),
                        format!("Library Platform|{platform}"),
                    ]
                };
                assert_eq!(additions(&client_document(&metadata)), expected);
            }
        }
    }
}

#[test]
fn update_4_a_duplicate_of_an_earlier_update_is_ignored() {
    let metadata = plain(None);
    metadata.append(&library()).unwrap();
    metadata.append(&info("framework", Some("2.0"), Some("Framework Platform"))).unwrap();
    let before = metadata.document();
    metadata.append(&library()).unwrap();
    assert_eq!(metadata.document(), before);
}

#[test]
fn update_5_a_duplicate_of_the_initial_info_is_ignored() {
    let metadata = plain(Some(&library()));
    let before = metadata.document();
    metadata.append(&library()).unwrap();
    assert_eq!(metadata.document(), before);
}

#[test]
fn update_6_a_duplicate_of_the_initial_info_is_ignored_after_another_update() {
    let metadata = plain(Some(&library()));
    metadata.append(&info("framework", Some("1.2"), Some("Library Platform"))).unwrap();
    let before = metadata.document();
    metadata.append(&library()).unwrap();
    assert_eq!(metadata.document(), before);
}

/// Driver info without a field, and the same with that field empty.
fn unset_and_empty() -> [(DriverInfo, DriverInfo); 2] {
    [
        (
            info("library", None, Some("Library Platform")),
            info("library", Some(""), Some("Library Platform")),
        ),
        (info("library", Some("1.2"), None), info("library", Some("1.2"), Some(""))),
    ]
}

#[test]
fn update_7_empty_strings_are_unset_in_updates() {
    for (unset, empty) in unset_and_empty() {
        let metadata = plain(None);
        metadata.append(&unset).unwrap();
        let before = metadata.document();
        metadata.append(&empty).unwrap();
        assert_eq!(metadata.document(), before);
    }
}

#[test]
fn update_8_empty_strings_are_unset_against_the_initial_info() {
    for (unset, empty) in unset_and_empty() {
        let metadata = plain(Some(&unset));
        let before = metadata.document();
        metadata.append(&empty).unwrap();
        assert_eq!(metadata.document(), before);
    }
}

/// A new connection sends the appended metadata.
#[tokio::test]
async fn next_hello_sends_the_appended_metadata() {
    let establisher = Establisher {
        runtime: tokio::runtime::Handle::current(),
        tls: None,
        authenticator: None,
        server_api: None,
        load_balanced: false,
        metadata: plain(Some(&library())),
        compressors: Vec::new(),
        connect_timeout: None,
        socket_timeout: None,
        timeout: None,
    };
    let client = || {
        let hello = Document::try_from(establisher.hello()).unwrap();
        hello.get_document("client").unwrap().clone()
    };
    assert_eq!(additions(&client())[0], "library");
    establisher.metadata.append(&info("framework", None, None)).unwrap();
    assert_eq!(additions(&client())[0], "library|framework");
}

#[test]
fn operating_systems_have_the_names_of_the_specification() {
    for (os, kind) in [
        ("linux", "Linux"),
        ("macos", "Darwin"),
        ("windows", "Windows"),
        ("freebsd", "BSD"),
        ("illumos", "Unix"),
        ("a new one", "unknown"),
    ] {
        let document = Document::try_from(Os::detect(os, None).document(false)).unwrap();
        assert_eq!(document, doc! { "type": kind });
    }
}
