//! A disk that is full: it is said, nothing half-written stays, and when there is room it goes on.

use std::{
    fs,
    path::Path,
    process::{Command, Output},
};

use serde_json::Value;

use crate::support::*;

/// Runs the program where no file may have more than so many blocks of 512 bytes.
fn cramped(blocks: u32, uri: &str, more: &[&str]) -> Output {
    let limited = format!("trap '' XFSZ && ulimit -f {blocks} && exec \"$@\"");
    Command::new("sh")
        .args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_steadfast")])
        .args(arguments(uri, more))
        .output()
        .expect("a shell")
}

/// A checkpoint is whole or not there, and nothing is beside it.
fn assert_whole(at: &Path) {
    if let Ok(text) = fs::read_to_string(at) {
        serde_json::from_str::<Value>(&text).expect("a document");
    }
    assert!(!at.with_extension("new").exists(), "nothing half-written is left");
}

#[test]
fn rejects_that_find_no_room_stop_it_and_the_next_run_goes_on() {
    let target = Target::embedded();
    let folder = folder();
    let content: String = (0..2_000).map(|n| format!("{{\"n\": {n}}}\nno {n}\n")).collect();
    let lines = file(&folder, "lines.ndjson", content);
    let (kept, at) = (folder.join("rejected"), folder.join("at"));
    let more = [
        &*lines,
        "--batch",
        "100",
        "--rejects",
        kept.to_str().expect("text"),
        "--checkpoint",
        at.to_str().expect("text"),
    ];
    // Two of them follow each other, as it may be in life.
    for _ in 0..2 {
        let (status, out, notes) = said(&cramped(16, &target.uri, &more));
        assert_eq!(status, Some(1), "{notes}");
        assert!(out.ends_with("then it was cut short\n"), "{out}");
        assert!(notes.contains("rejected: it cannot be written: File too large"), "{notes}");
        assert!(
            notes.contains("next: once that is resolved, run the same command again"),
            "{notes}"
        );
        let kept = fs::read_to_string(&kept).expect("it is there");
        assert!(kept.len() <= 16 * 512 && kept.ends_with('\n'), "{}", kept.len());
        assert!(kept.lines().all(|line| serde_json::from_str::<Value>(line).is_ok()), "{kept}");
    }
    let (status, _, notes) = said(&ingest(&target.uri, &more));
    assert_eq!(status, Some(0), "{notes}");
    let mut numbers: Vec<_> =
        target.documents().iter().map(|it| it.get_i32("n").expect("a number")).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..2_000).collect::<Vec<_>>());
    let kept = fs::read_to_string(&kept).expect("it is there");
    let mut raw: Vec<_> = kept
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("a document")["raw"].to_string())
        .collect();
    raw.sort_unstable();
    raw.dedup();
    assert_eq!(raw.len(), 2_000, "each that was rejected is kept");
}

#[test]
fn a_checkpoint_that_finds_no_room_stays_what_it_was() {
    let target = Target::embedded();
    let folder = folder();
    let at = folder.join("at");
    let mut more = vec!["--checkpoint".to_owned(), at.to_str().expect("text").to_owned()];
    for day in 0..10 {
        let content: String =
            (0..10).map(|n| format!("{{\"day\": {day}, \"n\": {n}}}\n")).collect();
        more.push(file(&folder, &format!("day-{day}.ndjson"), content));
    }
    let more: Vec<_> = more.iter().map(String::as_str).collect();
    // Room for where two or three files are, not for ten.
    let (status, _, notes) = said(&cramped(2, &target.uri, &more));
    assert_eq!(status, Some(1), "{notes}");
    assert!(notes.contains("at: it cannot be written: File too large"), "{notes}");
    assert_whole(&at);
    // Where there is none at all, it does not begin.
    let count = target.count();
    let (status, _, notes) = said(&cramped(0, &target.uri, &more));
    assert_eq!(status, Some(2), "{notes}");
    assert_whole(&at);
    assert_eq!(target.count(), count);
    let (status, _, notes) = said(&ingest(&target.uri, &more));
    assert_eq!(status, Some(0), "{notes}");
    assert_eq!(target.count(), 100);
    assert_done(&ingest(&target.uri, &more), "no documents added");
}
