//! What the subcommands do, and what they print.

use std::error::Error;

use serde_json::json;
use steadfast::{
    Client,
    patterns::zones::{self, Cluster, Layout, Plan, Progress, Status},
};

use super::Wait;
use crate::{
    duration,
    notes::{self, Notes},
};

type Done = Result<(), Box<dyn Error>>;

/// A cluster that was reached, and the layout for it.
pub(super) struct Work {
    pub(super) client: Client,
    pub(super) layout: Layout,
    pub(super) notes: Notes,
    pub(super) json: bool,
}

impl Work {
    async fn planned(&self) -> Result<Plan, Box<dyn Error>> {
        let cluster = Cluster::read(&self.client, &self.layout).await?;
        Ok(zones::plan(&self.layout, &cluster)?)
    }

    pub(super) async fn plan(&self) -> Done {
        let plan = self.planned().await?;
        self.show_plan(&plan)
    }

    pub(super) async fn apply(&self, wait: &Wait) -> Done {
        let plan = self.planned().await?;
        for note in plan.notes() {
            self.notes.say(note);
        }
        self.execute(&plan).await?;
        let status = match wait.wait {
            true => self.wait(wait).await?,
            false => zones::status(&self.client, &self.layout).await?,
        };
        if self.json {
            notes::print_json(&json!({ "applied": plan.steps(), "status": status }))?;
            return Ok(());
        }
        let done = match plan.steps().len() {
            0 => "nothing to do".to_owned(),
            1 => "1 step done".to_owned(),
            steps => format!("{steps} steps done"),
        };
        notes::print(format_args!(
            "{}: {done}. {}",
            self.layout.collection(),
            status.conclusion()
        ))?;
        Ok(())
    }

    pub(super) async fn status(&self, wait: &Wait) -> Done {
        let status = match wait.wait {
            true => self.wait(wait).await?,
            false => zones::status(&self.client, &self.layout).await?,
        };
        if self.json {
            notes::print_json(&serde_json::to_value(&status)?)?;
        } else {
            notes::print(status.to_string().trim_end())?;
        }
        if status.is_compliant() {
            return Ok(());
        }
        Err(format!("{} is not as the layout says", self.layout.collection()).into())
    }

    pub(super) async fn remove(&self, dry_run: bool) -> Done {
        let cluster = Cluster::read(&self.client, &self.layout).await?;
        let plan = zones::removal(&self.layout, &cluster);
        if dry_run {
            return self.show_plan(&plan);
        }
        self.execute(&plan).await?;
        if self.json {
            notes::print_json(&json!({ "removed": plan.steps(), "notes": plan.notes() }))?;
            return Ok(());
        }
        for note in plan.notes() {
            self.notes.say(note);
        }
        let done = match plan.steps().len() {
            0 => "nothing of the layout is there".to_owned(),
            1 => "1 step taken back".to_owned(),
            steps => format!("{steps} steps taken back"),
        };
        notes::print(format_args!("{}: {done}.", self.layout.collection()))?;
        Ok(())
    }

    fn show_plan(&self, plan: &Plan) -> Done {
        if self.json {
            notes::print_json(&serde_json::to_value(plan)?)?;
        } else {
            notes::print(plan.to_string().trim_end())?;
        }
        Ok(())
    }

    async fn execute(&self, plan: &Plan) -> Done {
        let applied = plan.apply(&self.client).progress(|progress| match progress {
            Progress::Begun { number, steps, step, .. } => {
                self.notes.say(format_args!("step {number} of {steps}: {step}"));
            }
            Progress::Again { error, .. } => {
                self.notes.say(format_args!("it failed and is tried again: {error}"));
            }
            _ => {}
        });
        applied.await.map_err(|error| {
            format!("{error}\n  next: once that is resolved, run the same command again; it goes on from there")
        })?;
        Ok(())
    }

    /// Waits for the balancer, and says how many chunks are misplaced whenever that changes.
    async fn wait(&self, wait: &Wait) -> Result<Status, Box<dyn Error>> {
        let mut before = 0;
        let settled = zones::until_compliant(&self.client, &self.layout, |status| {
            let now = status.misplaced.len();
            if now != before {
                self.notes.say(format_args!("waits for the balancer: {now} chunks are misplaced"));
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
