//! The page of sample runs.

mod browser;
mod looks;
mod runs;

use std::{env, fs, process};

use crate::strategy::Strategy;
use testbed::skip;

use self::browser::Browser;
use super::*;
use crate::{account::Account, sample::Sample};

fn page_of(account: &Account) -> String {
    page(&Report::of(account.clone()))
}

fn samples() -> [(&'static str, Account); 7] {
    [
        ("clean", Sample::clean().account()),
        ("bad", Sample::bad().account()),
        ("empty", Sample::empty().account()),
        ("interrupted", Sample::interrupted().account()),
        ("short", Sample::short().account()),
        ("day", Sample::day().account()),
        ("hostile", Sample::hostile()),
    ]
}

/// Returns the headline of a page.
fn headline(page: &str) -> &str {
    let (_, rest) = page.split_once("<h1>").expect("a headline");
    rest.split_once("</h1>").expect("its end").0
}

#[test]
fn verdict_is_the_title_and_comes_first() {
    let page = page_of(&Sample::clean().account());
    assert!(page.contains(
        "<title>0 duplicated, 0 lost, 0 wrongly labelled, 0 torn – steadfast chaos</title>"
    ));
    assert_eq!(
        headline(&page),
        "No write was lost, none was applied twice, and every error was correct."
    );
    assert!(page.contains(r#"<header class="clean">"#));
    assert_eq!(page.matches("<li class=\"zero\"><b>0</b>").count(), 4);
    assert!(!page.contains("control"), "it is the driver's own strategy");
}

#[test]
fn contradictions_are_shown_with_their_operations() {
    let account = Sample::bad().account();
    let verdict = Report::of(account.clone()).verdict;
    let page = page_of(&account);
    assert!(!verdict.duplicated.is_empty(), "the sample is bad");
    assert!(page.contains(r#"<header class="bad">"#));
    assert!(page.contains("This is a control."));
    assert!(headline(&page).ends_with("writes contradict the results that the application got."));
    let mark = verdict.duplicated[0];
    assert!(page.contains(&format!("its mark {mark} is there twice")), "the first one");
    assert_eq!(page.matches("<strong>duplicated</strong>: operation").count(), 4, "a few of them");
    assert!(page.contains(" more.</p>"), "the number of others");
}

#[test]
fn run_without_acknowledged_writes_proves_nothing() {
    let page = page_of(&Sample::empty().account());
    assert_eq!(headline(&page), "No write was acknowledged: this run proves nothing.");
    assert!(page.contains(r#"<header class="void">"#));
    assert!(page.contains("No operation ended."));
}

#[test]
fn run_without_faults_proves_little() {
    let page = page_of(&Sample::short().account());
    assert!(page.contains("There was no fault, so that this run proves little."));
    assert!(page.contains("There was no failover."));
    assert!(page.contains("No attempt failed."));
    assert!(page.contains("--faults none"), "in the command");
}

#[test]
fn interrupted_run_has_a_note() {
    let page = page_of(&Sample::interrupted().account());
    assert!(page.contains("<strong>Interrupted.</strong> The run ended after"), "of five minutes");
}

#[test]
fn each_strategy_except_retryable_writes_is_a_control() {
    for strategy in Strategy::ALL {
        let mut account = Sample::short().account();
        account.plan.strategy = strategy;
        let is_control = page_of(&account).contains("This is a control.");
        assert_eq!(is_control, strategy != Strategy::RetryableWrites, "{strategy}");
    }
}

#[test]
fn text_from_servers_is_escaped() {
    let page = page_of(&Sample::hostile());
    assert!(!page.contains("<script") && !page.contains("<img"));
    assert_eq!(page.matches("</style>").count(), 1);
    assert!(page.contains("&lt;script&gt;alert('a')&lt;/script&gt;"));
}

#[test]
fn page_has_a_bounded_size() {
    let day = Sample::day().account();
    assert!(day.incidents.len() > 2_500, "it is large");
    let page = page_of(&day);
    assert!(page.len() < 700_000, "{}", page.len());
    assert!(page.contains(&format!(
        "… and {} more.</p>",
        super::words::grouped(day.incidents.len() as u64 - 200)
    )));
}

#[test]
fn every_page_is_readable_on_every_screen_and_loads_nothing() {
    let folder = env::temp_dir().join(format!("steadfast-pages-{}", process::id()));
    let browser = match Browser::start() {
        Ok(browser) => browser,
        Err(why) => return skip(&why),
    };
    fs::create_dir_all(&folder).expect("a folder");
    for (name, account) in samples() {
        let file = folder.join(name).with_extension("html");
        fs::write(&file, page_of(&account)).expect("room for a page");
        looks::look_at(&browser, &file);
    }
    // After a failure, the pages are left for inspection.
    fs::remove_dir_all(&folder).expect("it is there");
}
