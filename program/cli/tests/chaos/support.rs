//! Support for the tests of `chaos`: the program with its output, a deployment, and a temporary directory.

use std::{
    fmt, fs,
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStderr, Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::program::{signal, steadfast, temp_dir};

/// Returns `steadfast chaos` with arguments.
pub(crate) fn chaos(arguments: &[&str]) -> Chaos {
    let mut command = steadfast(&["chaos"]);
    command.args(arguments).env_remove("NO_COLOR");
    Chaos(command)
}

pub(crate) struct Chaos(pub(crate) Command);

impl Chaos {
    pub(crate) fn start(mut self) -> RunningChaos {
        let command = self.0.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("the program is built");
        let stderr = BufReader::new(process.stderr.take().expect("it is piped"));
        RunningChaos { process, stderr, stderr_text: String::new() }
    }

    /// Runs the program to its end.
    pub(crate) fn output(self) -> ProgramOutput {
        self.start().output()
    }
}

/// A running program.
pub(crate) struct RunningChaos {
    process: Child,
    stderr: BufReader<ChildStderr>,
    stderr_text: String,
}

impl RunningChaos {
    /// Waits for a note that contains a text.
    pub(crate) fn wait_for_note(&mut self, text: &str) {
        loop {
            let before = self.stderr_text.len();
            let read = self.stderr.read_line(&mut self.stderr_text).expect("text");
            assert!(read > 0, "{text:?} was not printed: {}", self.stderr_text);
            if self.stderr_text[before..].contains(text) {
                return;
            }
        }
    }

    /// Waits for a note with acknowledged operations.
    pub(crate) fn wait_for_operations(&mut self) {
        loop {
            let before = self.stderr_text.len();
            self.wait_for_note(" acknowledged, ");
            if !self.stderr_text[before..].contains(": 0 acknowledged, ") {
                return;
            }
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.process, name);
    }

    /// Waits for the end of the program.
    pub(crate) fn output(mut self) -> ProgramOutput {
        self.stderr.read_to_string(&mut self.stderr_text).expect("text");
        let output = self.process.wait_with_output().expect("it ends");
        let stdout = String::from_utf8(output.stdout).expect("text");
        ProgramOutput { status: output.status.code(), stdout, stderr: self.stderr_text }
    }
}

/// Exit status and output of a program.
pub(crate) struct ProgramOutput {
    pub(crate) status: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl ProgramOutput {
    /// Returns the document of `--json`, which is on one line.
    pub(crate) fn document(&self) -> Value {
        assert_eq!(self.stdout.lines().count(), 1, "{self}");
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self}"))
    }
}

impl fmt::Display for ProgramOutput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, stdout, stderr } = self;
        write!(f, "status {status:?}\n--- stdout\n{stdout}--- stderr\n{stderr}")
    }
}

/// A temporary directory.
pub(crate) struct ReportFolder(TempDir);

impl ReportFolder {
    pub(crate) fn new() -> Self {
        Self(temp_dir())
    }

    pub(crate) fn path(&self, file: &str) -> String {
        self.0.path().join(file).to_str().expect("text").to_owned()
    }

    /// Returns the names of its files.
    pub(crate) fn files(&self) -> Vec<String> {
        let files = fs::read_dir(&self.0).expect("a folder");
        let name = |file: std::io::Result<fs::DirEntry>| {
            file.expect("an entry").file_name().into_string().expect("text")
        };
        let mut files: Vec<String> = files.map(name).collect();
        files.sort();
        files
    }
}
