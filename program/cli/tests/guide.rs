//! The guide: what it shows is what is tested, and it leaves out nothing.
#![allow(missing_docs)]

use std::{fs, path::PathBuf};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Each file that the guide shows, by the comment before its block, and the block.
fn shown(guide: &str) -> Vec<(&str, &str)> {
    let mut shown = Vec::new();
    let mut rest = guide;
    while let Some((_, after)) = rest.split_once("<!-- file: ") {
        let (path, after) = after.split_once(" -->\n").expect("the comment ends");
        let (_, after) = after.split_once("```").expect("a block follows");
        let (_, after) = after.split_once('\n').expect("its language ends");
        let (block, after) = after.split_once("```").expect("it ends");
        shown.push((path, block));
        rest = after;
    }
    shown
}

#[test]
fn the_examples_of_the_guide_are_the_files_that_are_tested() {
    let guide = read("docs/black-pipe-proxy.md");
    let shown = shown(&guide);
    let files: Vec<&str> = shown.iter().map(|(path, _)| *path).collect();
    let expected = [
        "docs/black-pipe/lost_reply.py",
        "docs/black-pipe/lost_reply.mjs",
        "driver/steadfast/tests/black_pipe.rs",
        "docs/black-pipe/rules.toml",
    ];
    assert_eq!(files, expected);
    for (path, block) in shown {
        assert_eq!(block, read(path), "{path} has changed; show it as it is in the guide");
    }
}

#[test]
fn the_rules_of_the_guide_are_rules() {
    let rules = blackpipe::proxy::read_rules(root().join("docs/black-pipe/rules.toml")).unwrap();
    assert_eq!(rules.len(), 5);
}

#[test]
fn every_field_and_every_reaction_is_in_the_guide() {
    let guide = read("docs/black-pipe-proxy.md");
    // The parser lists what it knows when it meets what it does not.
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
fn the_readme_of_the_crate_names_every_command() {
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
