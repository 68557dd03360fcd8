//! Comparison: the contenders take turns, each in its own process.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::{Deserialize, Serialize};

use crate::{
    Result,
    arguments::ComparisonOptions,
    case::Case,
    contender::Contender,
    measure::load_average,
    measurement::{Measurement, Sample},
    servers::{ServerAddress, Servers},
    table,
    workload::MANY_DOCUMENTS,
};

/// Samples of all rounds of one case.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct CaseResult {
    pub(crate) case: String,
    pub(crate) samples: BTreeMap<Contender, Vec<Sample>>,
    /// Samples of a separate run with the counting allocator.
    pub(crate) counted: BTreeMap<Contender, Sample>,
    /// LoadPlan average of the last minute at the end of the case.
    #[serde(default)]
    pub(crate) load_average: Option<f64>,
}

/// Runs the selected cases and prints the table.
pub(crate) fn run(options: &ComparisonOptions) -> Result<()> {
    let is_selected = |case: &Case| {
        let name = case.name();
        options.only.is_empty() || options.only.iter().any(|part| name.contains(part.as_str()))
    };
    let cases: Vec<_> = Case::all().into_iter().filter(is_selected).collect();
    if cases.is_empty() {
        return Err("no case has this name; see --list".into());
    }
    if options.list {
        cases.iter().for_each(|case| println!("{}", case.name()));
        return Ok(());
    }
    if cfg!(debug_assertions) {
        eprintln!("warning: this build is not optimised; run it with --release");
    }
    let programs = Programs::find()?;
    let mut servers = Servers::default();
    let mut results = Vec::new();
    for (number, case) in (1..).zip(&cases) {
        eprintln!("[{number}/{}] {}", cases.len(), case.name());
        let result = programs.measure(*case, options.quick, &mut servers)?;
        print!("{}", table::case_table(&result));
        results.push(result);
        // Written after each case, so that an interrupted run keeps its samples.
        if let Some(file) = &options.json {
            std::fs::write(file, serde_json::to_string_pretty(&results)?)?;
        }
    }
    println!("\n{}", table::LEGEND);
    Ok(())
}

/// Paths of this program and of `bench-counted`.
pub(crate) struct Programs {
    pub(crate) plain: PathBuf,
    pub(crate) counting: Option<PathBuf>,
}

impl Programs {
    pub(crate) fn find() -> Result<Self> {
        let plain = env::current_exe()?;
        let counting = plain.with_file_name("bench-counted");
        let built = build_counting(&plain) && counting.is_file();
        if !built {
            eprintln!("allocations are not counted: bench-counted could not be built");
        }
        Ok(Self { plain, counting: built.then_some(counting) })
    }

    fn measure(&self, case: Case, quick: bool, servers: &mut Servers) -> Result<CaseResult> {
        let rounds = if quick { 3 } else { 5 };
        let mut samples: BTreeMap<Contender, Vec<Sample>> = BTreeMap::new();
        for round in 0..rounds {
            // The order rotates.
            let mut turns = Contender::ALL.to_vec();
            turns.rotate_left(round % Contender::ALL.len());
            for contender in turns {
                let address = servers.prepare(case.server, case.workload)?;
                let sample = measure(&self.plain, &measurement(case, contender, quick, &address))?;
                samples.entry(contender).or_default().push(sample);
            }
        }
        let mut counted = BTreeMap::new();
        for &contender in Contender::ALL {
            let Some(counting) = &self.counting else { break };
            let address = servers.prepare(case.server, case.workload)?;
            counted.insert(
                contender,
                measure(counting, &measurement(case, contender, true, &address))?,
            );
        }
        Ok(CaseResult { case: case.name(), samples, counted, load_average: load_average() })
    }
}

/// Features of this program, with which `bench-counted` is built as well.
pub(crate) const FEATURES: &str = match (cfg!(feature = "official"), cfg!(feature = "mongod")) {
    (true, true) => "official,mongod",
    (true, false) => "official",
    (false, true) => "mongod",
    (false, false) => "",
};

/// Builds `bench-counted` if cargo started this program.
fn build_counting(plain: &Path) -> bool {
    let Some(cargo) = env::var_os("CARGO") else { return true };
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--package", "bench", "--bin", "bench-counted"]);
    command.args(["--no-default-features", "--features", FEATURES]);
    // Cargo's variables for this package would make build scripts run again.
    for (name, _) in env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    if plain.parent().is_some_and(|folder| folder.ends_with("release")) {
        command.arg("--release");
    }
    command.status().is_ok_and(|status| status.success())
}

fn measurement(
    case: Case,
    contender: Contender,
    quick: bool,
    address: &ServerAddress,
) -> Measurement {
    Measurement {
        contender,
        workload: case.workload,
        address: address.address,
        set: address.set.clone(),
        tasks: case.tasks,
        connections: case.connections(),
        documents: MANY_DOCUMENTS,
        load: case.load(quick),
        one_thread: false,
    }
}

pub(crate) fn measure(program: &Path, measurement: &Measurement) -> Result<Sample> {
    let output = Command::new(program)
        .arg("single")
        .arg(serde_json::to_string(measurement)?)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        let (contender, workload) = (measurement.contender.name(), measurement.workload.name());
        return Err(format!("{contender} failed at {workload}").into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
