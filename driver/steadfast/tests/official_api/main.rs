//! The public API of the `mongodb` crate 3.9.1, compiled against this crate.
//!
//! `generated.in` uses each item of that crate as its signature allows: types, fields, variants,
//! methods with their arguments and results, builders, trait implementations, and matches on
//! exhaustive enums. If this crate lacks an item, or its type differs, this test does not compile.
//! `accepted.txt` lists the differences that stay, with their reasons, and `docs/moving.md` mentions
//! each.
//!
//! To generate the file for another version, document that version as JSON and run the program:
//!
//! ```sh
//! cargo new /tmp/official && cd /tmp/official
//! cargo add mongodb@=3.9.1 --no-default-features --features \
//!     compat-3-3-0,bson-3,rustls-tls,dns-resolver,zlib-compression,zstd-compression,snappy-compression
//! RUSTC_BOOTSTRAP=1 RUSTDOCFLAGS="-Zunstable-options --output-format json" \
//!     cargo doc --no-deps -p mongodb
//! cd driver/steadfast/tests/official_api
//! python3 generate.py /tmp/official/target/doc/mongodb.json accepted.txt > generated.in
//! ```

#![cfg(all(feature = "dns", feature = "tls"))]

#[allow(
    dead_code,
    unused_variables,
    deprecated,
    clippy::all,
    clippy::pedantic,
    reason = "the functions are compiled, not called"
)]
mod generated {
    use steadfast as mongodb;
    use steadfast::bson;

    fn arg<T>() -> T {
        unreachable!("the functions are not called")
    }

    include!("generated.in");
}

const ACCEPTED: &str = include_str!("accepted.txt");

fn accepted() -> impl Iterator<Item = (&'static str, &'static str)> {
    let lines = ACCEPTED.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.map(|line| line.split_once(" | ").expect("an item and its reason"))
}

#[test]
fn accepted_differences_are_documented() {
    let moving = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/moving.md");
    let moving = std::fs::read_to_string(moving).unwrap();
    for (item, reason) in accepted() {
        let name = item.rsplit([':', '.']).next().unwrap().trim_end_matches("()");
        assert!(
            moving.contains(&format!("`{name}`")) || moving.contains(&format!("::{name}`")),
            "docs/moving.md does not mention {name}"
        );
        assert!(!reason.is_empty(), "{item}");
    }
}

#[test]
fn accepted_differences_are_not_checked_elsewhere() {
    let checks = include_str!("generated.in");
    let names: Vec<_> = checks.lines().filter_map(|line| line.strip_prefix("// ")).collect();
    assert!(names.len() > 3000, "{}", names.len());
    for (item, _) in accepted() {
        assert!(!names.contains(&item), "{item} is accepted, but checked");
    }
}
