//! Wrong arguments.

use crate::support::chaos;

#[test]
fn wrong_arguments_are_rejected_with_the_valid_values() {
    let foreign = ["--uri", "mongodb://localhost:1"];
    for (arguments, why) in [
        (&["--tasks", "0"][..], "0 is not in 1..=256"),
        (&["--tasks", "257"], "257 is not in 1..=256"),
        (&["--rate", "0"], "0 is not in 1..=5000"),
        (&["--duration", "999ms"], "expected 1s to 1d"),
        (&["--duration", "25h"], "expected 1s to 1d"),
        (&["--duration", "5"], "a unit is missing"),
        (&["--timeout", "99ms"], "expected 100ms to 1h"),
        (&["--rate", "5000", "--duration", "1h"], "18000000 operations are too many"),
        (
            &["--strategy", "hope"],
            "dont-retry, always-retry, retry-once, idempotent, retryable-writes",
        ),
        (
            &["--faults", "rain"],
            "cuts, slow, freeze, step-down, kill, overload, drops, migrate, all, none",
        ),
        (
            &["--faults", ""],
            "cuts, slow, freeze, step-down, kill, overload, drops, migrate, all, none",
        ),
        (&["--faults", "none,cuts"], "none cannot be combined"),
        (&["--workload", "reads"], "increments, inserts, updates, deletes, find-and-modify, bulk"),
        (&["--keep"], "--keep requires --uri"),
        (&["--database", "mine"], "--database requires --uri"),
        (&["--mongod", "--embedded"], "cannot be used with"),
        (&["--sharded"], "--mongod"),
        (&["--mongod", "--faults", "migrate"], "migrate requires --mongod --sharded"),
        (&[&foreign[..], &["--mongod"]].concat(), "cannot be used with"),
        (&[&foreign[..], &["--database", "admin"]].concat(), "this database belongs to the server"),
        (&[&foreign[..], &["--database", "a.b"]].concat(), "1 to 63 bytes"),
        (&[&foreign[..], &["--faults", "kill"]].concat(), "kill"),
        (&["--uri", "localhost:27017"], "begins with mongodb:// or mongodb+srv://"),
        (&["--uri", "mongodb://"], "--uri: "),
    ] {
        let output = chaos(arguments).output();
        assert_eq!(
            (output.status, output.stdout.as_str()),
            (Some(2), ""),
            "{arguments:?}: {output}"
        );
        assert!(output.stderr.contains(why), "{arguments:?}: {output}");
    }
}

#[test]
fn password_is_not_shown_in_errors() {
    let with_secret = "mongodb://root:secret@127.0.0.1:1/?serverSelectionTimeoutMS=100";
    for arguments in [
        &["--uri", "root:secret@localhost"][..],
        &["--uri", with_secret, "--mongod"],
        &["--uri", with_secret, "--faults", "kill"],
        &["--uri", with_secret],
    ] {
        let output = chaos(arguments).output();
        assert!(output.status != Some(0) && !output.stderr.contains("secret"), "{output}");
    }
}

#[test]
fn help_has_examples_and_rules() {
    let output = chaos(&["--help"]).output();
    assert_eq!(output.status, Some(0));
    for word in [
        "Examples:",
        "How it is counted",
        "Exit status:",
        "Ctrl-C",
        "retryable-writes",
        "step-down",
    ] {
        assert!(output.stdout.contains(word), "{word} is missing: {output}");
    }
}
