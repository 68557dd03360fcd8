//! The program `steadfast`, started for a test.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStdout, Command, Stdio},
};

use tempfile::TempDir;

/// Returns a new directory, which is deleted when it is dropped.
#[allow(dead_code, reason = "not every test needs a directory")]
pub(crate) fn temp_dir() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory for the test")
}

/// A running `steadfast pipe` or `steadfast serve`, which is killed when it is dropped.
pub(crate) struct Program {
    process: Child,
    out: BufReader<ChildStdout>,
    uri: String,
}

impl Program {
    /// Starts `steadfast` and waits for its connection string.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        let mut process = steadfast(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program is built");
        let mut out = BufReader::new(process.stdout.take().expect("it is piped"));
        let mut uri = String::new();
        out.read_line(&mut uri).expect("a first line");
        if !uri.starts_with("mongodb://") {
            // The program has failed.
            let ended = process.wait_with_output().expect("it ends");
            let stderr = String::from_utf8_lossy(&ended.stderr);
            panic!("{arguments:?}: {uri}{}, {stderr}", ended.status);
        }
        Self { process, out, uri: uri.trim().to_owned() }
    }

    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    /// Ends the program like a service manager, and returns the rest of its output.
    pub(crate) fn end(mut self) -> String {
        signal(&self.process, "-TERM");
        let mut output = String::new();
        self.out.read_to_string(&mut output).expect("text");
        let mut errors = self.process.stderr.take().expect("it is piped");
        errors.read_to_string(&mut output).expect("text");
        let status = self.process.wait().expect("it ends");
        assert!(status.success(), "{status}: {output}");
        output
    }
}

/// Sends a signal to a program.
pub(crate) fn signal(process: &Child, name: &str) {
    let pid = process.id().to_string();
    let sent = Command::new("kill").args([name, &pid]).status().expect("kill runs");
    assert!(sent.success());
}

impl Drop for Program {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Returns the program with arguments.
pub(crate) fn steadfast(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
    command.args(arguments);
    command
}
