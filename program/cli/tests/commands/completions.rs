//! Completions, tested in the installed shells.

use std::process::Command;

use testbed::skip;

use crate::run;

/// Returns the completions of bash for a line, after sourcing the script, or `None` without bash.
fn completed(words: &[&str]) -> Option<Vec<String>> {
    let program = env!("CARGO_BIN_EXE_steadfast");
    let quoted: Vec<_> = words.iter().map(|word| format!("'{word}'")).collect();
    let (position, last) = (words.len() - 1, words.last().copied().unwrap_or_default());
    let before = words[position.saturating_sub(1)];
    let script = format!(
        "set -e; source <('{program}' completions bash); complete -p steadfast >&2; \
         COMP_WORDS=({}); COMP_CWORD={position}; _steadfast steadfast '{last}' '{before}'; \
         printf '%s\\n' \"${{COMPREPLY[@]}}\"",
        quoted.join(" ")
    );
    let output = Command::new("bash").args(["--norc", "-c", &script]).output().ok()?;
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success() && stderr.contains("-F _steadfast"), "{stderr}");
    Some(stdout.split_whitespace().map(str::to_owned).collect())
}

#[test]
fn bash_completes_commands_options_and_values() {
    for (words, expected) in [
        (&["steadfast", "sw"][..], &["sweep"][..]),
        (&["steadfast", "d"], &["demo", "doctor", "dedupe"]),
        (&["steadfast", "sweep", "--col"], &["--collection", "--color"]),
        (&["steadfast", "zones", "st"], &["status"]),
        (&["steadfast", "doctor", "--color", "n"], &["never"]),
        (&["steadfast", "completions", "z"], &["zsh"]),
    ] {
        let Some(mut found) = completed(words) else {
            return skip("bash is not installed");
        };
        let mut expected = expected.to_vec();
        found.sort();
        expected.sort_unstable();
        assert_eq!(found, expected, "{words:?}");
    }
}

#[test]
fn every_shell_has_a_script() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (status, script, stderr) = run(&["completions", shell]);
        assert_eq!((status, stderr.as_str()), (Some(0), ""), "{shell}");
        for part in ["sweep", "dry-run", "collection"] {
            assert!(script.contains(part), "{part} for {shell}");
        }
    }
    let (status, stdout, stderr) = run(&["completions", "cmd"]);
    assert_eq!((status, stdout.as_str()), (Some(2), ""));
    assert!(stderr.contains("possible values: bash, elvish, fish, powershell, zsh"), "{stderr}");
}
