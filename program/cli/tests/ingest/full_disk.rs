//! A full disk: it is reported, files stay complete, and the next run continues.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

use crate::support::*;

/// Runs the program with a file size limit, in blocks of 512 bytes.
fn run_with_file_size_limit(blocks: u32, uri: &str, more: &[&str]) -> Output {
    let limited = format!("trap '' XFSZ && ulimit -f {blocks} && exec \"$@\"");
    Command::new("sh")
        .args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_steadfast")])
        .args(arguments(uri, more))
        .output()
        .expect("a shell")
}

/// Checks that a checkpoint is complete or absent, without a draft.
fn assert_complete(at: &Path) {
    if let Ok(text) = fs::read_to_string(at) {
        serde_json::from_str::<Value>(&text).expect("a document");
    }
    assert!(!at.with_extension("new").exists(), "no draft is left");
}

#[test]
fn full_disk_for_rejects_ends_the_run_and_the_next_run_continues() {
    let target = Target::embedded();
    let folder = folder();
    let content: String = (0..2_000).map(|n| format!("{{\"n\": {n}}}\nno {n}\n")).collect();
    let lines = file(&folder, "lines.ndjson", content);
    let (rejects_path, checkpoint_path) = (folder.join("rejected"), folder.join("at"));
    let more = [
        &*lines,
        "--batch",
        "100",
        "--rejects",
        rejects_path.to_str().expect("text"),
        "--checkpoint",
        checkpoint_path.to_str().expect("text"),
    ];
    // Two runs fail one after the other.
    for _ in 0..2 {
        let (status, stdout, stderr) = result_of(&run_with_file_size_limit(16, &target.uri, &more));
        assert_eq!(status, Some(1), "{stderr}");
        assert!(stdout.ends_with("ended early\n"), "{stdout}");
        assert!(stderr.contains("rejected: cannot be written: File too large"), "{stderr}");
        assert!(
            stderr.contains("next: once that is resolved, run the same command again"),
            "{stderr}"
        );
        let kept = fs::read_to_string(&rejects_path).expect("it is there");
        assert!(kept.len() <= 16 * 512 && kept.ends_with('\n'), "{}", kept.len());
        assert!(kept.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{kept}");
    }
    let (status, _, stderr) = result_of(&ingest(&target.uri, &more));
    assert_eq!(status, Some(0), "{stderr}");
    let mut numbers: Vec<_> =
        target.documents().iter().map(|it| it.get_i32("n").expect("a number")).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..2_000).collect::<Vec<_>>());
    let kept = fs::read_to_string(&rejects_path).expect("it is there");
    let mut raw: Vec<_> = kept
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a document")["raw"].to_string())
        .collect();
    raw.sort_unstable();
    raw.dedup();
    assert_eq!(raw.len(), 2_000, "each rejected record is stored");
}

#[test]
fn full_disk_keeps_the_existing_checkpoint() {
    let target = Target::embedded();
    let folder = folder();
    let checkpoint_path = folder.join("at");
    let mut more =
        vec!["--checkpoint".to_owned(), checkpoint_path.to_str().expect("text").to_owned()];
    for day in 0..10 {
        let content: String =
            (0..10).map(|n| format!("{{\"day\": {day}, \"n\": {n}}}\n")).collect();
        more.push(file(&folder, &format!("day-{day}.ndjson"), content));
    }
    let more: Vec<_> = more.iter().map(String::as_str).collect();
    // Room for the positions of two or three files, not of ten.
    let (status, _, stderr) = result_of(&run_with_file_size_limit(2, &target.uri, &more));
    assert_eq!(status, Some(1), "{stderr}");
    assert!(stderr.contains("at: cannot be written: File too large"), "{stderr}");
    assert_complete(&checkpoint_path);
    // Without any room, the run does not start.
    let count = target.count();
    let (status, _, stderr) = result_of(&run_with_file_size_limit(0, &target.uri, &more));
    assert_eq!(status, Some(2), "{stderr}");
    assert_complete(&checkpoint_path);
    assert_eq!(target.count(), count);
    let (status, _, stderr) = result_of(&ingest(&target.uri, &more));
    assert_eq!(status, Some(0), "{stderr}");
    assert_eq!(target.count(), 100);
    assert_result(&ingest(&target.uri, &more), "no documents added");
}
