//! Command that repeats a run: its seed and all options that differ from their defaults.

use crate::strategy::Strategy;
use steadfast_report::duration;

use super::plan::{DATABASE, Fault, Load, Plan, RATE, Servers, TASKS, TIMEOUT};

/// Returns the command. It has a placeholder for the connection string, which may contain a password.
pub(super) fn repeat_command(plan: &Plan) -> String {
    let mut command = "steadfast chaos".to_owned();
    let mut add = |option: &str| {
        command.push(' ');
        command.push_str(option);
    };
    match &plan.servers {
        Servers::Embedded => {}
        Servers::Mongod => add("--mongod"),
        Servers::Sharded => add("--mongod --sharded"),
        Servers::Foreign(_) => add("--uri \"$URI\""),
    }
    add(&format!("--seed {}", plan.seed));
    add(&format!("--duration {}", duration::show(plan.lasting)));
    if plan.rate != RATE {
        add(&format!("--rate {}", plan.rate));
    }
    if plan.tasks != TASKS {
        add(&format!("--tasks {}", plan.tasks));
    }
    if plan.timeout != TIMEOUT {
        add(&format!("--timeout {}", duration::show(plan.timeout)));
    }
    if plan.strategy != Strategy::RetryableWrites {
        add(&format!("--strategy {}", plan.strategy));
    }
    if plan.workload.len() < Load::ALL.len() {
        add(&format!("--workload {}", load_names(plan).join(",")));
    }
    let faults: Vec<&str> = plan.faults.iter().copied().map(Fault::name).collect();
    if faults.is_empty() {
        add("--faults none");
    } else if plan.faults != plan.servers.default_faults() {
        add(&format!("--faults {}", faults.join(",")));
    }
    if plan.database != DATABASE {
        add(&format!("--database {}", quoted(&plan.database)));
    }
    if plan.keep {
        add("--keep");
    }
    command
}

pub(super) fn load_names(plan: &Plan) -> Vec<&'static str> {
    plan.workload.iter().copied().map(Load::name).collect()
}

/// Quotes a word for a shell, if necessary.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    if word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{plan::Uri, sample::Sample};

    #[test]
    fn command_has_the_options_that_differ_from_their_defaults() {
        let mut plan = Sample::clean().plan;
        plan.servers = Servers::Foreign(Uri::new("mongodb://root:secret@localhost"));
        plan.faults = plan.servers.default_faults();
        assert_eq!(repeat_command(&plan), "steadfast chaos --uri \"$URI\" --seed 1 --duration 5m");
        plan.database = "it's".to_owned();
        plan.keep = true;
        assert!(repeat_command(&plan).ends_with(r" --duration 5m --database 'it'\''s' --keep"));
        let mut plan = Sample::clean().plan;
        plan.rate = 50;
        plan.tasks = 2;
        plan.timeout = Duration::from_millis(1500);
        plan.strategy = Strategy::DontRetry;
        plan.workload = vec![Load::Inserts, Load::FindAndModify];
        plan.faults = vec![Fault::Cuts, Fault::StepDown];
        let command = "steadfast chaos --mongod --seed 1 --duration 5m --rate 50 --tasks 2 --timeout 1s500ms \
                    --strategy dont-retry --workload inserts,find-and-modify --faults cuts,step-down";
        assert_eq!(repeat_command(&plan), command);
        plan.faults.clear();
        assert!(repeat_command(&plan).ends_with(" --faults none"));
    }
}
