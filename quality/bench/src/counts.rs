//! Instructions, allocations and system calls of the client: counted and not timed, so that they are
//! the same on a busy machine, and a change that costs something shows.
//!
//! Each is counted for a few calls and for more, on canned replies and in one thread; the difference
//! is that of the calls alone.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde::{Deserialize, Serialize};

use crate::{
    Result,
    arguments::CountWishes,
    case::ServerKind,
    comparison::{FEATURES, Programs, measure},
    contender::Contender,
    servers::{Place, Servers},
    single::{Amount, Load, Single},
    workload::{SOME, Workload},
};

/// What is counted.
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

/// By how much a count may grow.
const TOLERANCE: f64 = 1.05;

/// The counts of one workload, per operation or document.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Counts {
    instructions: f64,
    allocations: Option<f64>,
    system_calls: Option<f64>,
}

/// What is stored: counts, and what made the program that they are of.
#[derive(Debug, Serialize, Deserialize)]
struct Stored {
    rustc: String,
    /// Those of this crate: code that is compiled together is laid out together.
    features: String,
    counts: BTreeMap<String, Counts>,
}

/// Counts, then stores or compares.
pub(crate) fn run(wishes: &CountWishes) -> Result<()> {
    let rustc = rustc_version()?;
    if wishes.save {
        let features = FEATURES.to_owned();
        let stored = Stored { rustc, features, counts: count_all(wishes)? };
        return Ok(fs::write(file(), serde_json::to_string_pretty(&stored)? + "\n")?);
    }
    let stored: Stored = serde_json::from_str(&fs::read_to_string(file())?)?;
    let obstacle = obstacle(&stored, &rustc);
    if let (Some(obstacle), false) = (&obstacle, wishes.everyone) {
        println!("Nothing was counted: {obstacle}");
        return Ok(());
    }
    let ours = count_all(wishes)?;
    match obstacle {
        Some(obstacle) => println!("Nothing was compared: {obstacle}"),
        None => {
            compare(&stored.counts, &ours)?;
            println!("None is more than 5 % above what is stored.");
        }
    }
    Ok(())
}

/// Why counts would tell nothing here, if so.
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

/// Counts and prints; returns ours.
fn count_all(wishes: &CountWishes) -> Result<BTreeMap<String, Counts>> {
    let programs = Programs::find()?;
    let mut servers = Servers::default();
    let contenders = match wishes.everyone {
        true => Contender::ALL,
        false => &[Contender::Steadfast][..],
    };
    println!(
        "{:<18} {:<10} {:>13} {:>12} {:>13}",
        "per unit", "", "instructions", "allocations", "system calls"
    );
    let mut ours = BTreeMap::new();
    for workload in COUNTED {
        for &contender in contenders {
            let place = servers.prepare(ServerKind::Canned, workload)?;
            let counts = count(&programs, contender, workload, &place)?;
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
                ours.insert(workload.name().to_owned(), counts);
            }
        }
    }
    Ok(ours)
}

/// The compiler, as it calls itself. Cargo passes on which one it uses.
fn rustc_version() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).arg("--version").output();
    let output = output.map_err(|error| format!("rustc cannot be started: {error}"))?;
    Ok(String::from_utf8(output.stdout)?.trim().to_owned())
}

/// Where the counts are stored.
fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("counts.json")
}

/// Fails if a count has grown by more than the tolerance. System calls depend on timing and are only
/// shown.
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
            Err(format!("more than 5 % above what is stored:\n  {}", grown.join("\n  ")).into())
        }
    }
}

fn count(
    programs: &Programs,
    contender: Contender,
    workload: Workload,
    place: &Place,
) -> Result<Counts> {
    let (few, more) = if workload.moves_many() { (2, 6) } else { (200, 1_200) };
    let single = |calls| Single {
        contender,
        workload,
        address: place.address,
        set: place.set.clone(),
        tasks: 1,
        connections: 1,
        documents: SOME,
        load: Load { warm_up: Amount::Calls(2), measured: Amount::Calls(calls) },
        one_thread: true,
    };
    let units = (more - few) * workload.units(SOME);
    let each = |counter: fn(&Path, &Single) -> Result<u64>| -> Result<f64> {
        let few = counter(&programs.plain, &single(few))?;
        let more = counter(&programs.plain, &single(more))?;
        #[expect(clippy::cast_precision_loss, reason = "counts are far below 2^52")]
        Ok(more.saturating_sub(few) as f64 / units as f64)
    };
    let allocations = match &programs.counting {
        Some(counting) => measure(counting, &single(more))?.allocations,
        None => None,
    };
    Ok(Counts {
        instructions: each(instructions)?,
        allocations,
        system_calls: each(system_calls).ok(),
    })
}

fn instructions(program: &Path, single: &Single) -> Result<u64> {
    let mut valgrind = Command::new("valgrind");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]).arg(program);
    let said = text(&run_under(&mut valgrind, single)?);
    let line = said.lines().find_map(|line| line.split("Collected : ").nth(1));
    Ok(line.ok_or("valgrind said no count")?.trim().parse()?)
}

fn system_calls(program: &Path, single: &Single) -> Result<u64> {
    let mut strace = Command::new("strace");
    strace.args(["-f", "-c", "-U", "calls,name"]).arg(program);
    let said = text(&run_under(&mut strace, single)?);
    let total = said.lines().find(|line| line.trim_end().ends_with(" total"));
    Ok(total.ok_or("strace said no total")?.split_whitespace().next().unwrap_or("").parse()?)
}

fn run_under(command: &mut Command, single: &Single) -> Result<Output> {
    command.arg("single").arg(serde_json::to_string(single)?);
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
    fn a_count_may_grow_by_five_percent_and_no_more() {
        let stored = counts(1000.0, 20.0);
        assert!(compare(&stored, &counts(1049.0, 20.0)).is_ok());
        assert!(compare(&stored, &counts(900.0, 10.0)).is_ok());
        let error = compare(&stored, &counts(1051.0, 22.0)).unwrap_err().to_string();
        assert!(error.contains("instructions") && error.contains("allocations"), "{error}");
        assert!(compare(&BTreeMap::new(), &stored).is_err());
    }
}
