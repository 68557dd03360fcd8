//! The report as a page: one file that needs nothing else, neither a network nor a script.

mod attempts;
mod errors;
mod faults;
mod kinds;
mod lanes;
mod panels;
mod plot;
mod recovery;
mod scale;
mod table;
mod timeline;
mod verdict;
mod words;

use crate::{Report, again::again};
use words::escaped;

const STYLE: &str = include_str!("page/style.css");

/// The HTML of a report.
pub(super) fn page(run: &Report) -> String {
    let title = escaped(&verdict::title(run));
    let sections = [
        verdict::section(run),
        timeline::section(run),
        attempts::section(run),
        recovery::section(run),
        errors::section(run),
        kinds::section(run),
        faults::section(run),
        repetition(run),
    ];
    let sections = sections.concat();
    // Whatever a server has put into its errors: nothing is fetched, and nothing is run.
    format!(
        r#"<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'">
<meta name="generator" content="steadfast {version}">
<link rel="icon" href="data:,">
<title>{title}</title>
<style>
{STYLE}</style>
</head>
<body>
<main>
{sections}</main>
</body>
</html>
"#,
        version = env!("CARGO_PKG_VERSION"),
    )
}

/// How to have the run again.
fn repetition(run: &Report) -> String {
    let plan = &run.account.plan;
    let command = again(plan);
    // A line is broken between options, not within them.
    let command: Vec<String> = command.split(" --").map(escaped).collect();
    let command = command.join("</span> <span>--");
    let seed = plan.seed;
    format!(
        r#"<section aria-labelledby="again">
<h2 id="again">Once more</h2>
<p>Seed {seed} makes the same operations, and the same faults at the same times. What a server or a network
does by itself is not repeated.</p>
<pre tabindex="0" aria-label="The command of this run"><code><span>{command}</span></code></pre>
<p class="fine">Made by <code>steadfast chaos</code> {version}.</p>
</section>
"#,
        version = env!("CARGO_PKG_VERSION"),
    )
}

#[cfg(test)]
mod tests;
