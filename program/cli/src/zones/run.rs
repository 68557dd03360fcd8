//! Execution and output of the subcommands.

use std::{
    error::Error,
    sync::{Mutex, PoisonError},
};

use serde_json::{Value, json};
use steadfast::Client;
use steadfast_patterns::zones::{self, ApplyProgress, Cluster, Layout, Plan, Status, Step};

use super::{Wait, ZonesCommand};
use crate::{context::CommandResult, duration, notes::Notes};

/// A cluster with its layout.
pub(super) struct ZonesRun {
    client: Client,
    layout: Layout,
    notes: Notes,
    /// Progress of the steps. `None` before the first.
    begun: Mutex<Option<StepProgress>>,
}

struct StepProgress {
    steps: usize,
    done: Vec<Step>,
}

/// Result of a subcommand.
pub(super) struct ZonesReport {
    pub(super) text: String,
    pub(super) document: Value,
    pub(super) verdict: CommandResult,
}

type ReportResult = Result<ZonesReport, Box<dyn Error>>;

impl ZonesRun {
    pub(super) fn new(client: Client, layout: Layout, notes: Notes) -> Self {
        Self { client, layout, notes, begun: Mutex::default() }
    }

    /// Returns the steps that were done before an error or an interruption, or the error if no step was started.
    pub(super) fn done_before(
        &self,
        command: &ZonesCommand,
        error: Box<dyn Error>,
    ) -> ReportResult {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(StepProgress { steps, done }) = begun else { return Err(error) };
        let field = match command {
            ZonesCommand::Remove { .. } => "removed",
            ZonesCommand::Plan { .. }
            | ZonesCommand::Apply { .. }
            | ZonesCommand::Status { .. } => "applied",
        };
        let count = done.len();
        Ok(ZonesReport {
            text: format!("{}: {count} of {steps} steps done.", self.layout.collection()),
            document: json!({ field: done, "steps": steps }),
            verdict: Err(error),
        })
    }

    pub(super) async fn run(&self, command: &ZonesCommand) -> ReportResult {
        match command {
            ZonesCommand::Plan { .. } | ZonesCommand::Apply { dry_run: true, .. } => {
                plan_report(&self.planned().await?)
            }
            ZonesCommand::Apply { wait, .. } => self.apply(wait).await,
            ZonesCommand::Status { wait, .. } => self.status(wait).await,
            ZonesCommand::Remove { dry_run, .. } => self.remove(*dry_run).await,
        }
    }

    async fn planned(&self) -> Result<Plan, Box<dyn Error>> {
        let cluster = Cluster::read(&self.client, &self.layout).await?;
        Ok(zones::plan(&self.layout, &cluster)?)
    }

    async fn apply(&self, wait: &Wait) -> ReportResult {
        let plan = self.planned().await?;
        for note in plan.notes() {
            self.notes.info(note);
        }
        for warning in plan.warnings() {
            self.notes.info(format_args!("warning: {warning}"));
        }
        self.execute(&plan).await?;
        let status = self.settled(wait).await?;
        let done = match plan.steps().len() {
            0 => "nothing to do".to_owned(),
            1 => "1 step done".to_owned(),
            steps => format!("{steps} steps done"),
        };
        Ok(ZonesReport {
            text: format!("{}: {done}. {}", self.layout.collection(), status.conclusion()),
            document: json!({ "applied": plan.steps(), "status": status }),
            verdict: Ok(()),
        })
    }

    async fn status(&self, wait: &Wait) -> ReportResult {
        let status = self.settled(wait).await?;
        let verdict = match status.is_compliant() {
            true => Ok(()),
            false => Err(format!("{} does not match the layout", self.layout.collection()).into()),
        };
        let document = serde_json::to_value(&status)?;
        Ok(ZonesReport { text: status.to_string().trim_end().to_owned(), document, verdict })
    }

    async fn remove(&self, dry_run: bool) -> ReportResult {
        let cluster = Cluster::read(&self.client, &self.layout).await?;
        let plan = zones::removal(&self.layout, &cluster);
        if dry_run {
            return plan_report(&plan);
        }
        self.execute(&plan).await?;
        for note in plan.notes() {
            self.notes.info(note);
        }
        let done = match plan.steps().len() {
            0 => "nothing to remove".to_owned(),
            1 => "1 step done".to_owned(),
            steps => format!("{steps} steps done"),
        };
        Ok(ZonesReport {
            text: format!("{}: {done}.", self.layout.collection()),
            document: json!({ "removed": plan.steps(), "notes": plan.notes() }),
            verdict: Ok(()),
        })
    }

    async fn execute(&self, plan: &Plan) -> CommandResult {
        let begun = || self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        *begun() = Some(StepProgress { steps: plan.steps().len(), done: Vec::new() });
        let applied = plan.apply(&self.client).progress(|progress| match progress {
            ApplyProgress::Started { number, steps, step, .. } => {
                self.notes.info(format_args!("step {number} of {steps}: {step}"));
            }
            ApplyProgress::Done { step, .. } => {
                if let Some(begun) = &mut *begun() {
                    begun.done.push(step.clone());
                }
            }
            ApplyProgress::Retried { error, .. } => {
                self.notes.info(format_args!("the step failed, retrying: {error}"));
            }
            _ => {}
        });
        applied.await.map_err(|error| {
            format!("{error}\n  next: once that is resolved, run the same command again; it continues from there")
        })?;
        Ok(())
    }

    /// Returns the status, with `--wait` after the balancer is done.
    async fn settled(&self, wait: &Wait) -> Result<Status, Box<dyn Error>> {
        match wait.wait {
            true => self.wait(wait).await,
            false => Ok(zones::status(&self.client, &self.layout).await?),
        }
    }

    /// Waits for the balancer, and prints the number of misplaced chunks whenever it changes.
    async fn wait(&self, wait: &Wait) -> Result<Status, Box<dyn Error>> {
        let mut before = 0;
        let settled = zones::until_compliant(&self.client, &self.layout, |status| {
            let now = status.misplaced.len();
            if now != before {
                self.notes
                    .info(format_args!("waiting for the balancer: {now} chunks are misplaced"));
                before = now;
            }
        });
        let Some(limit) = wait.timeout else { return Ok(settled.await?) };
        match tokio::time::timeout(limit, settled).await {
            Ok(settled) => Ok(settled?),
            Err(_) => Err(format!(
                "documents are still misplaced after {}; `steadfast zones status` lists them",
                duration::show(limit)
            )
            .into()),
        }
    }
}

fn plan_report(plan: &Plan) -> ReportResult {
    let document = serde_json::to_value(plan)?;
    Ok(ZonesReport { text: plan.to_string().trim_end().to_owned(), document, verdict: Ok(()) })
}
