//! The `conformance` program: runs the suites and reports how many cases pass.

use std::{
    error::Error,
    fs,
    io::{self, Write},
    path::{Path, PathBuf},
    process::ExitCode,
    str::FromStr,
    time::Instant,
};

use clap::Parser;
use conformance::{
    Context, Ledger, SpecDir, Suite, SuiteReport, Target, figures,
    markdown::{self, TargetReport},
    report, stop_servers, suites,
};

/// Runs the JSON test suites of the MongoDB driver specifications.
///
/// Prints a line per suite and a total for each target. Exits with 1 if a case failed that is not in the ledger of its
/// target (quality/conformance/ledger.toml, ledger-embedded.toml), or if a line of the ledger is not needed. If all
/// suites were run, as they are fetched, it also exits with 1 if a figure is not the expected one
/// (quality/conformance/src/figures.rs).
#[derive(Debug, Parser)]
#[command(name = "conformance", after_help = suites_help())]
struct Cli {
    /// Deployment to run against; see docs/conformance.md. `mongod` is `mongod-6.0`; `all` runs on each of them in turn
    #[arg(long, default_value = "mongod-6.0", value_name = "NAME|all|URI", long_help = target_help())]
    target: Targets,
    /// Suite to run; may be given several times [default: all suites]
    #[arg(long = "suite", value_name = "NAME", value_parser = suite_named)]
    suites: Vec<Suite>,
    /// The suites' files, in the layout of PyMongo's test folder or of the specifications
    /// repository [default: fetched once into the target folder]
    #[arg(long, value_name = "DIR")]
    spec: Option<PathBuf>,
    /// Write the counts to this file, too, as JSON
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Replace the table of figures and the reasons of skipped cases in this Markdown file. Only with `--target all`
    /// [default: docs/conformance.md of this repository, if all suites are run as they are fetched]
    #[arg(long, value_name = "FILE")]
    markdown: Option<PathBuf>,
}

/// Value of `--target`.
#[derive(Clone, Debug)]
enum Targets {
    All,
    One(Target),
}

impl FromStr for Targets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "all" => Ok(Self::All),
            one => one.parse().map(Self::One),
        }
    }
}

fn main() -> ExitCode {
    let arguments = Cli::parse();
    match run(arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            // If standard error is closed, there is nothing to report to.
            let _ = writeln!(io::stderr(), "conformance: {error}");
            ExitCode::from(2)
        }
    }
}

/// Runs the suites. Returns true if no case failed and every line of the ledgers was needed.
fn run(arguments: Cli) -> Result<bool, Box<dyn Error>> {
    let is_whole = arguments.suites.is_empty()
        && arguments.spec.is_none()
        && VARIABLES.iter().all(|variable| std::env::var_os(variable).is_none());
    let all_targets = matches!(arguments.target, Targets::All);
    if arguments.markdown.is_some() && !all_targets {
        return Err("--markdown needs --target all".into());
    }
    let dir = match arguments.spec {
        Some(dir) => dir,
        None => testbed::spec_tests()?,
    };
    let spec = SpecDir::open(dir)?;
    let chosen = if arguments.suites.is_empty() { suites::ALL } else { &arguments.suites };
    let targets = match arguments.target {
        Targets::All => Target::ALL.to_vec(),
        Targets::One(target) => vec![target],
    };

    let mut out = io::stdout().lock();
    let mut finished = Vec::new();
    let mut ok = true;
    for target in targets {
        if all_targets {
            writeln!(out, "{}", target.name())?;
        }
        let context = Context::new(spec.clone(), target.clone());
        let reports = run_target(&context, chosen, &mut out)?;
        report::write_total(&reports, &mut out)?;
        ok &= reports.iter().all(SuiteReport::is_ok);
        if is_whole && !matches!(target, Target::Uri(_)) {
            let checks = reports.iter().map(|report| figures::check(report, &target));
            ok &= write_differences(checks, &mut out)?;
        }
        finished.push(TargetReport { target, reports });
        stop_servers();
    }
    if let Some(file) = arguments.json {
        let rows: Vec<_> = finished
            .iter()
            .flat_map(|finished| report::to_json(&finished.target, &finished.reports))
            .collect();
        let text = serde_json::to_string_pretty(&rows)?;
        fs::write(&file, text + "\n").map_err(|error| format!("{}: {error}", file.display()))?;
    }
    if all_targets {
        let counted = markdown::figures_of(&finished)?;
        if is_whole {
            let checks = counted
                .iter()
                .map(|line| figures::check_on_real_servers(line.suite, line.on_real_servers));
            ok &= write_differences(checks, &mut out)?;
        }
        let default = is_whole.then(default_document);
        if let Some(file) = arguments.markdown.or(default) {
            let skips = markdown::skips_table(&finished);
            write_document(&file, &markdown::figures_table(&counted), &skips)?;
        }
    }
    Ok(ok)
}

/// Environment variables that replace the servers or suites that the expected figures are measured with.
const VARIABLES: [&str; 5] = [
    "STEADFAST_SPEC_TESTS",
    "STEADFAST_MONGOD",
    "STEADFAST_MONGOD_8_2",
    "STEADFAST_MONGOS_8_2",
    "STEADFAST_TEST_URI",
];

/// Runs suites on a target. Prints the start of each suite to standard error, because some take minutes.
fn run_target(
    context: &Context,
    chosen: &[Suite],
    out: &mut dyn Write,
) -> io::Result<Vec<SuiteReport>> {
    let ledger = Ledger::of_this_repository(&context.target);
    let mut reports = Vec::new();
    for (at, suite) in chosen.iter().enumerate() {
        let (name, target) = (suite.name, context.target.name());
        let (number, count) = (at + 1, chosen.len());
        let started = Instant::now();
        writeln!(io::stderr(), "[{target}] {name}, suite {number} of {count}")?;
        let report = conformance::run(suite, context, &ledger);
        report.write(out)?;
        out.flush()?;
        let seconds = started.elapsed().as_secs_f64();
        writeln!(io::stderr(), "[{target}] {name}: {seconds:.1} s")?;
        reports.push(report);
    }
    Ok(reports)
}

/// Writes the differences from the expected figures; returns true if there are none.
fn write_differences(
    checks: impl Iterator<Item = Result<(), String>>,
    out: &mut dyn Write,
) -> io::Result<bool> {
    let mut none = true;
    for difference in checks.filter_map(Result::err) {
        writeln!(out, "DIFFERENT {difference}")?;
        none = false;
    }
    Ok(none)
}

/// Path of `docs/conformance.md` in this repository.
fn default_document() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/conformance.md")
}

fn write_document(file: &Path, figures: &str, skips: &str) -> Result<(), String> {
    let failed = |error: io::Error| format!("{}: {error}", file.display());
    let document = match fs::read_to_string(file) {
        Ok(document) => document,
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        Err(error) => return Err(failed(error)),
    };
    fs::write(file, markdown::with_tables(&document, figures, skips)).map_err(failed)
}

fn suite_named(name: &str) -> Result<Suite, String> {
    suites::find(name).ok_or_else(|| format!("no such suite; {}", suites_help()))
}

fn suites_help() -> String {
    let names: Vec<_> = suites::ALL.iter().map(|suite| suite.name).collect();
    format!("the suites are: {}", names.join(", "))
}

fn target_help() -> String {
    let names: Vec<_> = Target::ALL.iter().map(Target::name).collect();
    format!(
        "Deployment to run against: {}, a connection string, or `all` for each of those names in turn. Servers are \
         started when a case first needs them; docs/conformance.md describes the targets. `mongod` is `mongod-6.0`",
        names.join(", ")
    )
}
