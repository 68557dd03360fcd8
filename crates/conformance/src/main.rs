//! The `conformance` program: runs the suites and says how the driver fares.

use std::{
    error::Error,
    fs,
    io::{self, Write},
    path::PathBuf,
    process::ExitCode,
};

use clap::Parser;
use conformance::{Context, Ledger, SpecDir, Suite, SuiteReport, Target, report, suites};

/// Runs the JSON test suites of the MongoDB driver specifications.
///
/// Prints a line per suite and a total; exits with 1 if a case failed that does not stand in the
/// ledger of its target (crates/conformance/ledger.toml, ledger-embedded.toml), or if a line of that
/// is not needed.
#[derive(Debug, Parser)]
#[command(name = "conformance", after_help = suites_help())]
struct Arguments {
    /// What to run against: `mongod` (a replica set of real servers, started when needed),
    /// `embedded` (deployments in this process, of the kind and version that each case asks for),
    /// or a connection string
    #[arg(long, default_value = "mongod", value_name = "mongod|embedded|URI")]
    target: Target,
    /// A suite to run; may be given several times [default: all suites]
    #[arg(long = "suite", value_name = "NAME", value_parser = suite_named)]
    suites: Vec<Suite>,
    /// The suites' files, in the layout of PyMongo's test folder or of the specifications
    /// repository [default: fetched once into the target folder]
    #[arg(long, value_name = "DIR")]
    spec: Option<PathBuf>,
    /// Write the counts to this file, too, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // Nothing is left to report to if this fails.
            let _ = writeln!(io::stderr(), "conformance: {error}");
            ExitCode::from(2)
        }
    }
}

/// Whether all is well.
fn run(arguments: Arguments) -> Result<bool, Box<dyn Error>> {
    let dir = match arguments.spec {
        Some(dir) => dir,
        None => testbed::spec_tests()?,
    };
    let ledger = Ledger::of_this_repository(&arguments.target);
    let context = Context::new(SpecDir::open(dir)?, arguments.target);
    let chosen = if arguments.suites.is_empty() { suites::ALL } else { &arguments.suites };

    let mut out = io::stdout().lock();
    let mut reports: Vec<SuiteReport> = Vec::new();
    for suite in chosen {
        let report = conformance::run(suite, &context, &ledger);
        report.write(&mut out)?;
        reports.push(report);
    }
    report::write_total(&reports, &mut out)?;
    if let Some(file) = arguments.json {
        let text = serde_json::to_string_pretty(&report::to_json(&reports))?;
        fs::write(&file, text + "\n").map_err(|error| format!("{}: {error}", file.display()))?;
    }
    Ok(reports.iter().all(SuiteReport::is_ok))
}

fn suite_named(name: &str) -> Result<Suite, String> {
    suites::find(name).ok_or_else(|| format!("no such suite; {}", suites_help()))
}

fn suites_help() -> String {
    let names: Vec<_> = suites::ALL.iter().map(|suite| suite.name).collect();
    format!("the suites are: {}", names.join(", "))
}
