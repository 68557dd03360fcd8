//! List of the faults.

use maud::{Markup, html};

use super::words::{clock, counted, grouped, harmless, rough};
use crate::{Report, account::Incident};

/// Faults in the list.
const LISTED: usize = 200;

pub(super) fn section(run: &Report) -> Markup {
    let incidents = &run.account.incidents;
    let content = html! {
        @if incidents.is_empty() {
            p { "There was no fault." }
        } @else {
            details {
                summary { (counted(incidents.len() as u64, "fault", "faults")) ", one by one" }
                ol.incidents {
                    @for incident in incidents.iter().take(LISTED) { (row(incident)) }
                }
                @if incidents.len() > LISTED {
                    p.fine { "… and " (grouped((incidents.len() - LISTED) as u64)) " more." }
                }
            }
        }
    };
    super::section("faults", "The faults", &content)
}

fn row(incident: &Incident) -> Markup {
    let mut more = vec![incident.fault.name().to_owned()];
    let took = incident.ended.saturating_sub(incident.began);
    if !took.is_zero() {
        more.push(format!("for {}", rough(took)));
    }
    if incident.hits > 0 {
        more.push(counted(incident.hits, "request", "requests"));
    }
    if incident.is_failover {
        more.push("failover".to_owned());
    }
    html! {
        li {
            time { (clock(incident.began)) } " "
            span { (harmless(&incident.what)) " " small { (more.join(", ")) } }
        }
    }
}
