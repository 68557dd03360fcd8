//! The contenders take turns, round by round, each in a process of its own.

use std::{
    collections::BTreeMap,
    env,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use serde::{Deserialize, Serialize};

use crate::{
    Result,
    arguments::Wishes,
    case::Case,
    contender::Contender,
    measure::load_average,
    servers::{Place, Servers},
    single::{Sample, Single},
    table,
    workload::MANY,
};

/// What the rounds of one case gave.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Outcome {
    pub(crate) case: String,
    pub(crate) samples: BTreeMap<Contender, Vec<Sample>>,
    /// From a run of its own, with an allocator that counts.
    pub(crate) counted: BTreeMap<Contender, Sample>,
    /// How busy the machine was in the last minute, when the case had been measured.
    #[serde(default)]
    pub(crate) load_average: Option<f64>,
}

/// Runs all cases that are asked for, and prints the table.
pub(crate) fn run(wishes: &Wishes) -> Result<()> {
    let wanted = |case: &Case| {
        let name = case.name();
        wishes.only.is_empty() || wishes.only.iter().any(|part| name.contains(part.as_str()))
    };
    let cases: Vec<_> = Case::all().into_iter().filter(wanted).collect();
    if cases.is_empty() {
        return Err("no case has such a name; see --list".into());
    }
    if wishes.list {
        cases.iter().for_each(|case| println!("{}", case.name()));
        return Ok(());
    }
    if cfg!(debug_assertions) {
        eprintln!("warning: this build is not optimised (--release); its figures mean nothing");
    }
    let programs = Programs::find()?;
    let mut servers = Servers::default();
    let mut outcomes = Vec::new();
    for (number, case) in (1..).zip(&cases) {
        eprintln!("[{number}/{}] {}", cases.len(), case.name());
        let outcome = programs.measure(*case, wishes.quick, &mut servers)?;
        print!("{}", table::of_case(&outcome));
        outcomes.push(outcome);
        // After each, so that a long run that is ended early leaves what it has.
        if let Some(file) = &wishes.json {
            std::fs::write(file, serde_json::to_string_pretty(&outcomes)?)?;
        }
    }
    println!("\n{}", table::LEGEND);
    Ok(())
}

/// The program itself, and its twin that counts allocations.
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

    fn measure(&self, case: Case, quick: bool, servers: &mut Servers) -> Result<Outcome> {
        let rounds = if quick { 3 } else { 5 };
        let mut samples: BTreeMap<Contender, Vec<Sample>> = BTreeMap::new();
        for round in 0..rounds {
            // Nobody is always first.
            let mut turns = Contender::ALL.to_vec();
            turns.rotate_left(round % Contender::ALL.len());
            for contender in turns {
                let place = servers.prepare(case.server, case.workload)?;
                let sample = measure(&self.plain, &single(case, contender, quick, &place))?;
                samples.entry(contender).or_default().push(sample);
            }
        }
        let mut counted = BTreeMap::new();
        for &contender in Contender::ALL {
            let Some(counting) = &self.counting else { break };
            let place = servers.prepare(case.server, case.workload)?;
            counted.insert(contender, measure(counting, &single(case, contender, true, &place))?);
        }
        Ok(Outcome { case: case.name(), samples, counted, load_average: load_average() })
    }
}

/// What this program was built with, and its twin is to be.
pub(crate) const FEATURES: &str = match (cfg!(feature = "official"), cfg!(feature = "mongod")) {
    (true, true) => "official,mongod",
    (true, false) => "official",
    (false, true) => "mongod",
    (false, false) => "",
};

/// Has the twin built, if the program was started by cargo.
fn build_counting(plain: &Path) -> bool {
    let Some(cargo) = env::var_os("CARGO") else { return true };
    let mut command = Command::new(cargo);
    command.args(["build", "--quiet", "--package", "bench", "--bin", "bench-counted"]);
    command.args(["--no-default-features", "--features", FEATURES]);
    // What cargo told this program of its package would have build scripts run again.
    for (name, _) in env::vars_os() {
        let told = name.to_string_lossy();
        if told.starts_with("CARGO_PKG_") || told.starts_with("CARGO_MANIFEST_") {
            command.env_remove(&name);
        }
    }
    if plain.parent().is_some_and(|folder| folder.ends_with("release")) {
        command.arg("--release");
    }
    command.status().is_ok_and(|status| status.success())
}

fn single(case: Case, contender: Contender, quick: bool, place: &Place) -> Single {
    Single {
        contender,
        workload: case.workload,
        address: place.address,
        set: place.set.clone(),
        tasks: case.tasks,
        connections: case.connections(),
        documents: MANY,
        load: case.load(quick),
        one_thread: false,
    }
}

pub(crate) fn measure(program: &Path, single: &Single) -> Result<Sample> {
    let output = Command::new(program)
        .arg("single")
        .arg(serde_json::to_string(single)?)
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        let (contender, workload) = (single.contender.name(), single.workload.name());
        return Err(format!("{contender} failed at {workload}").into());
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}
