//! The measured table, as the guide shows it.

use std::fmt;

use steadfast_chaos::strategy::Strategy;

use super::{
    experiment::{Cell, EVENTS},
    situation::Situation,
};

/// All cells.
#[derive(Debug, Default)]
pub(super) struct Table {
    cells: Vec<Cell>,
}

impl Table {
    pub(super) fn add(&mut self, cell: Cell) {
        self.cells.push(cell);
    }

    pub(super) fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.cells.iter()
    }

    pub(super) fn cell(&self, strategy: Strategy, situation: Situation) -> &Cell {
        let wanted = |cell: &&Cell| cell.strategy == strategy && cell.situation == situation;
        self.cells.iter().find(wanted).expect("it was measured")
    }

    /// Returns the durations of the slowest events, which differ between runs.
    pub(super) fn times(&self) -> String {
        self.rows("slowest event", |cell| format!("{:.2} s", cell.longest.as_secs_f32()))
    }

    fn rows(&self, corner: &str, show: impl Fn(&Cell) -> String) -> String {
        let titles = Situation::ALL.map(Situation::title).join(" | ");
        let mut text = format!("| {corner} | {titles} |\n|---|---|---|---|---|---|\n");
        for strategy in Strategy::ALL {
            let cells = Situation::ALL.map(|situation| show(self.cell(strategy, situation)));
            text += &format!("| `{strategy}` | {} |\n", cells.join(" | "));
        }
        text
    }
}

/// Writes verdicts and counts, which are equal in all runs.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdicts = self.rows("strategy", |cell| cell.verdict().to_string());
        let counts = self.rows(&format!("{EVENTS} events"), |cell| {
            let Cell { counted, sent, waits, errors, .. } = cell;
            let waits = match cell.situation {
                Situation::Outage => format!(", {waits} waits"),
                Situation::LostRequest
                | Situation::LostReply
                | Situation::StepDown
                | Situation::CommandError => String::new(),
            };
            format!("{counted} counted, {sent} sent{waits}, {errors} errors")
        });
        write!(f, "{verdicts}\n{counts}")
    }
}
