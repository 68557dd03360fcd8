//! The report as an HTML page: one file without scripts that loads nothing.

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

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::{Report, repeat::repeat_command};

const STYLE: &str = include_str!("page/style.css");
/// Nothing is loaded or run, whatever the error messages of servers contain.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns the HTML of a report.
pub(super) fn page(run: &Report) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta http-equiv="Content-Security-Policy" content=(POLICY);
                meta name="generator" content={ "steadfast " (VERSION) };
                link rel="icon" href="data:,";
                title { (verdict::title(run)) }
                style { (PreEscaped(STYLE)) }
            }
            body { main {
                (verdict::header(run))
                (verdict::results(run))
                (timeline::section(run))
                (attempts::section(run))
                (recovery::section(run))
                (errors::section(run))
                (kinds::section(run))
                (faults::section(run))
                (repetition(run))
            } }
        }
    };
    page.into_string() + "\n"
}

/// A section of the page. Its heading is its accessible name.
fn section(id: &str, title: &str, content: &Markup) -> Markup {
    html! { section aria-labelledby=(id) { h2 id=(id) { (title) } (content) } }
}

/// The command that repeats the run.
fn repetition(run: &Report) -> Markup {
    let plan = &run.account.plan;
    let command = repeat_command(plan);
    section(
        "repeat",
        "Repeat this run",
        &html! {
            p {
                "Seed " (plan.seed) " produces the same operations, and the same faults at the same times. Events \
                 that servers or networks cause themselves are not repeated."
            }
            pre tabindex="0" aria-label="The command of this run" {
                // Lines are broken between options, not within them.
                code {
                    @for (number, option) in command.split(" --").enumerate() {
                        @if number == 0 { span { (option) } } @else { " " span { "--" (option) } }
                    }
                }
            }
            p.fine { "Made by " code { "steadfast chaos" } " " (VERSION) "." }
        },
    )
}

#[cfg(test)]
mod tests;
