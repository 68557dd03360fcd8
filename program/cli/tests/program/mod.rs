//! The program `steadfast`, started for a test.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStdout, Command, Stdio},
};

/// A running `steadfast pipe` or `steadfast serve`; it is killed with this value if it was not ended before.
pub(crate) struct Program {
    process: Child,
    out: BufReader<ChildStdout>,
    uri: String,
}

impl Program {
    /// Starts `steadfast` with these arguments, and returns when it has said where it is.
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
            // It has failed, and says why.
            let ended = process.wait_with_output().expect("it ends");
            let why = String::from_utf8_lossy(&ended.stderr);
            panic!("{arguments:?}: {uri}{}, {why}", ended.status);
        }
        Self { process, out, uri: uri.trim().to_owned() }
    }

    pub(crate) fn uri(&self) -> &str {
        &self.uri
    }

    /// Asks it to end as a service manager would; what it says last, on both outputs.
    pub(crate) fn end(mut self) -> String {
        signal(&self.process, "-TERM");
        let mut said = String::new();
        self.out.read_to_string(&mut said).expect("text");
        let mut errors = self.process.stderr.take().expect("it is piped");
        errors.read_to_string(&mut said).expect("text");
        let status = self.process.wait().expect("it ends");
        assert!(status.success(), "{status}: {said}");
        said
    }
}

/// Sends a signal to a program.
pub(crate) fn signal(process: &Child, name: &str) {
    let pid = process.id().to_string();
    let asked = Command::new("kill").args([name, &pid]).status().expect("kill runs");
    assert!(asked.success());
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The program with these arguments.
pub(crate) fn steadfast(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_steadfast"));
    command.args(arguments);
    command
}
