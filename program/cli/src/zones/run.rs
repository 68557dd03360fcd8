//! What the subcommands do, and what they print.

use std::{
    error::Error,
    sync::{Mutex, PoisonError},
};

use serde_json::{Value, json};
use steadfast::Client;
use steadfast_patterns::zones::{self, ApplyProgress, Cluster, Layout, Plan, Status, Step};

use super::{Wait, ZonesCommand};
use crate::{context::CommandResult, duration, notes::Notes};

/// A cluster that was reached, and the layout for it.
pub(super) struct ZonesRun {
    client: Client,
    layout: Layout,
    notes: Notes,
    /// What was begun, and what of it is done.
    begun: Mutex<Option<StepProgress>>,
}

struct StepProgress {
    steps: usize,
    done: Vec<Step>,
}

/// What a subcommand has to say.
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

    /// What was done before it failed, or was interrupted. If nothing was begun, that it failed is all there is.
    pub(super) fn done_before(&self, what: &ZonesCommand, error: Box<dyn Error>) -> ReportResult {
        let begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(StepProgress { steps, done }) = begun else { return Err(error) };
        let (field, how) = match what {
            ZonesCommand::Remove { .. } => ("removed", "taken back"),
            ZonesCommand::Plan { .. }
            | ZonesCommand::Apply { .. }
            | ZonesCommand::Status { .. } => ("applied", "done"),
        };
        let count = done.len();
        Ok(ZonesReport {
            text: format!("{}: {count} of {steps} steps {how}.", self.layout.collection()),
            document: json!({ field: done, "steps": steps }),
            verdict: Err(error),
        })
    }

    pub(super) async fn run(&self, what: &ZonesCommand) -> ReportResult {
        match what {
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
            false => Err(format!("{} is not as the layout says", self.layout.collection()).into()),
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
            0 => "nothing of the layout is there".to_owned(),
            1 => "1 step taken back".to_owned(),
            steps => format!("{steps} steps taken back"),
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
                self.notes.info(format_args!("it failed and is tried again: {error}"));
            }
            _ => {}
        });
        applied.await.map_err(|error| {
            format!("{error}\n  next: once that is resolved, run the same command again; it goes on from there")
        })?;
        Ok(())
    }

    /// How it is, now or when the balancer is done.
    async fn settled(&self, wait: &Wait) -> Result<Status, Box<dyn Error>> {
        match wait.wait {
            true => self.wait(wait).await,
            false => Ok(zones::status(&self.client, &self.layout).await?),
        }
    }

    /// Waits for the balancer, and says how many chunks are misplaced whenever that changes.
    async fn wait(&self, wait: &Wait) -> Result<Status, Box<dyn Error>> {
        let mut before = 0;
        let settled = zones::until_compliant(&self.client, &self.layout, |status| {
            let now = status.misplaced.len();
            if now != before {
                self.notes.info(format_args!("waits for the balancer: {now} chunks are misplaced"));
                before = now;
            }
        });
        let Some(limit) = wait.timeout else { return Ok(settled.await?) };
        match tokio::time::timeout(limit, settled).await {
            Ok(settled) => Ok(settled?),
            Err(_) => Err(format!(
                "documents are not yet where they belong after {}; `steadfast zones status` says more",
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
