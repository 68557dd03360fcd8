//! Instructions, allocations and system calls of the client. They are counted, not timed, so that a busy machine does
//! not change them and a regression is visible.
//!
//! Each is counted for a few calls and for more calls, with canned replies and in one thread. The difference is the cost
//! of the additional calls, without start-up.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde::{Deserialize, Serialize};

use crate::{
    Result,
    arguments::CountOptions,
    case::ServerKind,
    comparison::{FEATURES, Programs, measure},
    contender::Contender,
    measurement::{LoadPlan, Measurement, WorkAmount},
    servers::{ServerAddress, Servers},
    workload::{COUNTED_DOCUMENTS, Workload},
};

/// Workloads that are counted.
const COUNTED: [Workload; 8] = [
    Workload::InsertOne,
    Workload::InsertOnePlain,
    Workload::UpdateOne,
    Workload::FindOne,
    Workload::InsertMany,
    Workload::DrainDocuments,
    Workload::DrainStructs,
    Workload::DrainRaw,
];

/// Growth of a count that passes, as a factor.
const TOLERANCE: f64 = 1.05;

/// Counts of one workload, per operation or document.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Counts {
    instructions: f64,
    allocations: Option<f64>,
    system_calls: Option<f64>,
}

/// Content of `counts.json`: counts, and the compiler and features of the program that was counted.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    rustc: String,
    /// Features of this crate. They change the layout of the code, and so the counts.
    features: String,
    counts: BTreeMap<String, Counts>,
}

/// Counts, and stores the counts or compares them with the stored ones.
pub(crate) fn run(options: &CountOptions) -> Result<()> {
    let rustc = rustc_version()?;
    if options.save {
        let features = FEATURES.to_owned();
        let stored = Stored { rustc, features, counts: count_all(options)? };
        return Ok(fs::write(file(), serde_json::to_string_pretty(&stored)? + "\n")?);
    }
    let stored: Stored = serde_json::from_str(&fs::read_to_string(file())?)?;
    let obstacle = obstacle(&stored, &rustc);
    if let (Some(obstacle), false) = (&obstacle, options.all_contenders) {
        println!("Nothing was counted: {obstacle}");
        return Ok(());
    }
    let counts = count_all(options)?;
    match obstacle {
        Some(obstacle) => println!("Nothing was compared: {obstacle}"),
        None => {
            compare(&stored.counts, &counts)?;
            println!("No count is more than 5 % above the stored one.");
        }
    }
    Ok(())
}

/// Returns the reason why counts cannot be compared here, if there is one.
fn obstacle(stored: &Stored, rustc: &str) -> Option<String> {
    if let Err(error) = Command::new("valgrind").arg("--version").output() {
        return Some(format!("valgrind cannot be started ({error})"));
    }
    if stored.features != FEATURES {
        return Some("the stored counts are of a program built with other features".to_owned());
    }
    (stored.rustc != rustc).then(|| {
        format!(
            "the stored counts are of {},\nthis is {rustc}, and counts differ from one compiler to the \
             next.\n`count --save`, before a change, stores some to compare with.",
            stored.rustc
        )
    })
}

/// Counts and prints; returns the counts of this driver.
fn count_all(options: &CountOptions) -> Result<BTreeMap<String, Counts>> {
    let programs = Programs::find()?;
    let mut servers = Servers::default();
    let contenders = match options.all_contenders {
        true => Contender::ALL,
        false => &[Contender::Steadfast][..],
    };
    println!(
        "{:<18} {:<10} {:>13} {:>12} {:>13}",
        "per unit", "", "instructions", "allocations", "system calls"
    );
    let mut driver_counts = BTreeMap::new();
    for workload in COUNTED {
        for &contender in contenders {
            let address = servers.prepare(ServerKind::Canned, workload)?;
            let counts = count(&programs, contender, workload, &address)?;
            let shown = |count: Option<f64>| count.map_or("-".to_owned(), |it| format!("{it:.2}"));
            println!(
                "{:<18} {:<10} {:>13.0} {:>12} {:>13}",
                workload.name(),
                contender.name(),
                counts.instructions,
                shown(counts.allocations),
                shown(counts.system_calls),
            );
            if contender == Contender::Steadfast {
                driver_counts.insert(workload.name().to_owned(), counts);
            }
        }
    }
    Ok(driver_counts)
}

/// Returns the version line of the compiler that cargo uses (`RUSTC`).
fn rustc_version() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output();
    let output = output.map_err(|error| format!("rustc cannot be started: {error}"))?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Path of the stored counts.
fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("counts.json")
}

/// Returns an error if a count has grown by more than the tolerance. System calls depend on timing and are not compared.
fn compare(stored: &BTreeMap<String, Counts>, now: &BTreeMap<String, Counts>) -> Result<()> {
    let mut grown = Vec::new();
    for (name, counts) in now {
        let before = stored.get(name).ok_or(format!("no counts are stored for {name}"))?;
        let mut check = |what, before: f64, now: f64| {
            if now > before * TOLERANCE {
                grown.push(format!("{name}: {before:.1} {what} became {now:.1}"));
            }
        };
        check("instructions", before.instructions, counts.instructions);
        if let (Some(before), Some(now)) = (before.allocations, counts.allocations) {
            check("allocations", before, now);
        }
    }
    match grown.is_empty() {
        true => Ok(()),
        false => {
            Err(format!("more than 5 % above the stored counts:\n  {}", grown.join("\n  ")).into())
        }
    }
}

fn count(
    programs: &Programs,
    contender: Contender,
    workload: Workload,
    address: &ServerAddress,
) -> Result<Counts> {
    let (few, more) = if workload.has_many_documents() { (2, 6) } else { (200, 1_200) };
    let measurement = |calls| Measurement {
        contender,
        workload,
        address: address.address,
        set: address.set.clone(),
        tasks: 1,
        connections: 1,
        documents: COUNTED_DOCUMENTS,
        load: LoadPlan { warm_up: WorkAmount::Calls(2), measured: WorkAmount::Calls(calls) },
        one_thread: true,
    };
    let units = (more - few) * workload.units(COUNTED_DOCUMENTS);
    let each = |counter: fn(&Path, &Measurement) -> Result<u64>| -> Result<f64> {
        let few = counter(&programs.plain, &measurement(few))?;
        let more = counter(&programs.plain, &measurement(more))?;
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        Ok(more.saturating_sub(few) as f64 / units as f64)
    };
    let allocations = match &programs.counting {
        Some(counting) => measure(counting, &measurement(more))?.allocations,
        None => None,
    };
    Ok(Counts {
        instructions: each(instructions)?,
        allocations,
        system_calls: each(system_calls).ok(),
    })
}

fn instructions(program: &Path, measurement: &Measurement) -> Result<u64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    let printed = text(&run_under(&mut valgrind, measurement)?);
    let line = printed.lines().find_map(|line| line.split("Collected : ").nth(1));
    Ok(line.ok_or("valgrind printed no count")?.trim().parse()?)
}

fn system_calls(program: &Path, measurement: &Measurement) -> Result<u64> {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-c", "-U", "calls,name"]).arg(program);
    let printed = text(&run_under(&mut strace, measurement)?);
    let total = printed.lines().find(|line| line.trim_end().ends_with(" total"));
    Ok(total.ok_or("strace printed no total")?.split_whitespace().next().unwrap_or("").parse()?)
}

fn run_under(command: &mut Command, measurement: &Measurement) -> Result<Output> {
    command.arg("single").arg(serde_json::to_string(measurement)?);
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|error| format!("{name} cannot be started: {error}"))?;
    match output.status.success() {
        true => Ok(output),
        false => Err(format!("{name} failed:\n{}", text(&output)).into()),
    }
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(instructions: f64, allocations: f64) -> BTreeMap<String, Counts> {
        let counts =
            Counts { instructions, allocations: Some(allocations), system_calls: Some(4.0) };
        BTreeMap::from([("ping".to_owned(), counts)])
    }

    #[test]
    fn count_growth_above_five_percent_is_an_error() {
        let stored = counts(1000.0, 20.0);
        assert!(compare(&stored, &counts(1049.0, 20.0)).is_ok());
        assert!(compare(&stored, &counts(900.0, 10.0)).is_ok());
        let error = compare(&stored, &counts(1051.0, 22.0)).unwrap_err().to_string();
        assert!(error.contains("instructions") && error.contains("allocations"), "{error}");
        assert!(compare(&BTreeMap::new(), &stored).is_err());
    }
}
