//! Tests of the guides: their examples are the tested files, and they are complete.
#![allow(missing_docs)]

use std::{fs, path::PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Returns the path of each file in the guide, from the comment before its block, and the block.
fn included_files(guide: &str) -> Vec<(&str, &str)> {
    let mut included_files = Vec::new();
    let mut rest = guide;
    while let Some((_, after)) = rest.split_once("<!-- file: ") {
        let (path, after) = after.split_once(" -->\n").expect("the comment ends");
        let (_, after) = after.split_once("```").expect("a block follows");
        let (_, after) = after.split_once('\n').expect("its language ends");
        let (block, after) = after.split_once("```").expect("it ends");
        included_files.push((path, block));
        rest = after;
    }
    included_files
}

#[test]
fn guide_contains_the_tested_files() {
    let guide = read("docs/black-pipe-proxy.md");
    let included_files = included_files(&guide);
    let files: Vec<&str> = included_files.iter().map(|(path, _)| *path).collect();
    let expected = [
        "docs/black-pipe/lost_reply.py",
        "docs/black-pipe/lost_reply.mjs",
        "driver/steadfast/tests/black_pipe.rs",
        "docs/black-pipe/rules.toml",
    ];
    assert_eq!(files, expected);
    for (path, block) in included_files {
        assert_eq!(block, read(path), "{path} has changed; show it as it is in the guide");
    }
}

#[test]
fn rules_of_the_guide_are_valid() {
    let rules = blackpipe::proxy::read_rules(root().join("docs/black-pipe/rules.toml")).unwrap();
    assert_eq!(rules.len(), 5);
}

#[test]
fn guide_has_every_field_and_reaction() {
    let guide = read("docs/black-pipe-proxy.md");
    // The parser lists the valid names in the error for an unknown one.
    let unknown = |text: &str| blackpipe::proxy::parse_rules(text).unwrap_err().to_string();
    let lists = [
        unknown("[[rule]]\nx = 1\nthen = 'refuse'\n"),
        unknown("[[rule]]\nthen = 'x'\n"),
        unknown("[[rule]]\nthen.error = { x = 1 }\n"),
        unknown("[[rule]]\nthen.writeConcernError = { x = 1 }\n"),
        unknown("[[rule]]\nthen.throttle = { x = 1 }\n"),
    ];
    for list in lists {
        let (_, known) = list.split_once("expected ").expect("what is known");
        let names: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        assert!(names.len() > 1, "{list}");
        for name in names {
            assert!(guide.contains(&format!("`{name}`")), "the guide does not mention `{name}`");
        }
    }
}

#[test]
fn readme_lists_every_command() {
    let (readme, manual) = (read("program/cli/README.md"), read("docs/cli.md"));
    let commands: Vec<&str> = manual
        .lines()
        .filter_map(|line| line.strip_prefix("## `steadfast ")?.strip_suffix('`'))
        .collect();
    assert!(commands.contains(&"chaos"), "the headings of the manual are not read: {commands:?}");
    for command in commands {
        assert!(readme.contains(&format!("`{command}`")), "it does not name `{command}`");
    }
}
