//! Support for the tests of `chaos`: the program with its output, a deployment, and a temporary directory.

use std::{
    fmt, fs,
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStderr, Command, Stdio},
};

use serde_json::Value;
use tempfile::TempDir;

use crate::program::{signal, steadfast, temp_dir};

/// `steadfast chaos` with these arguments.
pub(crate) fn chaos(arguments: &[&str]) -> Chaos {
    let mut command = steadfast(&["chaos"]);
    command.args(arguments).env_remove("NO_COLOR");
    Chaos(command)
}

pub(crate) struct Chaos(pub(crate) Command);

impl Chaos {
    pub(crate) fn start(mut self) -> Running {
        let command = self.0.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().expect("the program is built");
        let notes = BufReader::new(process.stderr.take().expect("it is piped"));
        Running { process, notes, said: String::new() }
    }

    /// Runs the program to its end.
    pub(crate) fn said(self) -> Said {
        self.start().said()
    }
}

/// A running program.
pub(crate) struct Running {
    process: Child,
    notes: BufReader<ChildStderr>,
    said: String,
}

impl Running {
    /// Waits for a note with this text.
    pub(crate) fn awaits(&mut self, text: &str) {
        loop {
            let before = self.said.len();
            let read = self.notes.read_line(&mut self.said).expect("text");
            assert!(read > 0, "it never said {text:?}: {}", self.said);
            if self.said[before..].contains(text) {
                return;
            }
        }
    }

    /// Waits for a note that something is done.
    pub(crate) fn awaits_work(&mut self) {
        loop {
            let before = self.said.len();
            self.awaits(" acknowledged, ");
            if !self.said[before..].contains(": 0 acknowledged, ") {
                return;
            }
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(&self.process, name);
    }

    /// Waits for the end of the program.
    pub(crate) fn said(mut self) -> Said {
        self.notes.read_to_string(&mut self.said).expect("text");
        let output = self.process.wait_with_output().expect("it ends");
        let out = String::from_utf8(output.stdout).expect("text");
        Said { status: output.status.code(), out, notes: self.said }
    }
}

/// Exit status and output of a program.
pub(crate) struct Said {
    pub(crate) status: Option<i32>,
    pub(crate) out: String,
    pub(crate) notes: String,
}

impl Said {
    /// Returns the document of `--json`, which is on one line.
    pub(crate) fn document(&self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "{self}");
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self}"))
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { status, out, notes } = self;
        write!(f, "status {status:?}\n--- out\n{out}--- notes\n{notes}")
    }
}

/// A temporary directory.
pub(crate) struct Folder(TempDir);

impl Folder {
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
