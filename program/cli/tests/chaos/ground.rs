//! What the tests of `chaos` stand on: the program and what it says, a deployment, and a folder.

use std::{
    fmt, fs,
    io::{BufRead, BufReader, Read},
    path::{Path, PathBuf},
    process::{Child, ChildStderr, Command, Stdio},
};

use serde_json::Value;

use crate::program::{signal, steadfast};

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

    /// Runs it to its end.
    pub(crate) fn said(self) -> Said {
        self.start().said()
    }
}

/// One that has been started.
pub(crate) struct Running {
    process: Child,
    notes: BufReader<ChildStderr>,
    said: String,
}

impl Running {
    /// Waits until a note says so.
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

    /// Waits until a note says that something is done.
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

    /// Waits for its end.
    pub(crate) fn said(mut self) -> Said {
        self.notes.read_to_string(&mut self.said).expect("text");
        let output = self.process.wait_with_output().expect("it ends");
        let out = String::from_utf8(output.stdout).expect("text");
        Said { status: output.status.code(), out, notes: self.said }
    }
}

/// How it ended, and what it said.
pub(crate) struct Said {
    pub(crate) status: Option<i32>,
    pub(crate) out: String,
    pub(crate) notes: String,
}

impl Said {
    /// Of `--json`: one document on one line.
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

/// An empty folder for a test, which no other run of the tests has.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        let name = format!("chaos-{}-{name}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        // A process that had the same number may have left it.
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }

    pub(crate) fn path(&self, file: &str) -> String {
        self.0.join(file).to_str().expect("text").to_owned()
    }

    /// The names of what is in it.
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

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}
