//! The faults, one by one.

use super::{
    plot::put,
    words::{clock, counted, escaped, grouped, rough},
};
use crate::{Report, account::Incident};

/// So many are listed.
const LISTED: usize = 200;

pub(super) fn section(run: &Report) -> String {
    let incidents = &run.account.incidents;
    let mut html =
        "<section aria-labelledby=\"faults\">\n<h2 id=\"faults\">The faults</h2>\n".to_owned();
    if incidents.is_empty() {
        return html + "<p>There was none.</p>\n</section>\n";
    }
    let count = incidents.len() as u64;
    put(
        &mut html,
        format_args!(
            "<details><summary>{}, one by one</summary>\n<ol class=\"incidents\">\n",
            counted(count, "fault", "faults")
        ),
    );
    for incident in incidents.iter().take(LISTED) {
        html.push_str(&row(incident));
    }
    html.push_str("</ol>\n");
    if incidents.len() > LISTED {
        let rest = grouped((incidents.len() - LISTED) as u64);
        put(&mut html, format_args!("<p class=\"fine\">… and {rest} more.</p>\n"));
    }
    html + "</details>\n</section>\n"
}

fn row(incident: &Incident) -> String {
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
    format!(
        "<li><time>{}</time> <span>{} <small>{}</small></span></li>\n",
        clock(incident.began),
        escaped(&incident.what),
        more.join(", ")
    )
}
