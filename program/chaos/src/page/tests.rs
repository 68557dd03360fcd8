//! The page of runs that are made up.

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

/// What is said above all else.
fn headline(page: &str) -> &str {
    let (_, rest) = page.split_once("<h1>").expect("a headline");
    rest.split_once("</h1>").expect("its end").0
}

#[test]
fn the_verdict_is_the_title_and_comes_first() {
    let page = page_of(&Sample::clean().account());
    assert!(page.contains(
        "<title>0 duplicated, 0 lost, 0 wrongly labelled, 0 torn – steadfast chaos</title>"
    ));
    assert_eq!(
        headline(&page),
        "No write was lost, none was made twice, and every error told the truth."
    );
    assert!(page.contains(r#"<header class="clean">"#));
    assert_eq!(page.matches("<li class=\"zero\"><b>0</b>").count(), 4);
    assert!(!page.contains("control"), "it is the driver's own strategy");
}

#[test]
fn a_bad_run_is_told_with_the_operations_that_went_wrong() {
    let account = Sample::bad().account();
    let verdict = Report::of(account.clone()).verdict;
    let page = page_of(&account);
    assert!(!verdict.duplicated.is_empty(), "the sample is bad");
    assert!(page.contains(r#"<header class="bad">"#));
    assert!(page.contains("This is a control."));
    assert!(headline(&page).ends_with("writes are not what the application was told."));
    let mark = verdict.duplicated[0];
    assert!(page.contains(&format!("its mark {mark} is there twice")), "the first of them");
    assert_eq!(page.matches("<strong>duplicated</strong>: operation").count(), 4, "a few of them");
    assert!(page.contains(" more.</p>"), "and how many others");
}

#[test]
fn a_run_without_a_write_shows_nothing_and_says_so() {
    let page = page_of(&Sample::empty().account());
    assert_eq!(headline(&page), "No write was acknowledged, so that this run shows nothing.");
    assert!(page.contains(r#"<header class="void">"#));
    assert!(page.contains("No operation ended."));
}

#[test]
fn a_calm_run_shows_little_and_says_so() {
    let page = page_of(&Sample::short().account());
    assert!(page.contains("No fault came in between, so that this shows little."));
    assert!(page.contains("There was no failover."));
    assert!(page.contains("No attempt failed."));
    assert!(page.contains("--faults none"), "it can be had again");
}

#[test]
fn that_a_run_was_interrupted_is_said() {
    let page = page_of(&Sample::interrupted().account());
    assert!(page.contains("<strong>Interrupted.</strong> It was ended after"), "of five minutes");
}

#[test]
fn each_strategy_but_the_drivers_own_is_told_to_be_a_control() {
    for strategy in Strategy::ALL {
        let mut account = Sample::short().account();
        account.plan.strategy = strategy;
        let is_told = page_of(&account).contains("This is a control.");
        assert_eq!(is_told, strategy != Strategy::RetryableWrites, "{strategy}");
    }
}

#[test]
fn nothing_from_outside_becomes_a_part_of_the_page() {
    let page = page_of(&Sample::hostile());
    assert!(!page.contains("<script") && !page.contains("<img"));
    assert_eq!(page.matches("</style>").count(), 1);
    assert!(page.contains("&lt;script&gt;alert(&#39;a&#39;)&lt;/script&gt;"));
}

#[test]
fn a_page_has_a_bounded_size() {
    let day = Sample::day().account();
    assert!(day.incidents.len() > 2_500, "there is much to tell");
    let page = page_of(&day);
    assert!(page.len() < 700_000, "{}", page.len());
    assert!(page.contains(&format!(
        "… and {} more.</p>",
        super::words::grouped(day.incidents.len() as u64 - 200)
    )));
}

#[test]
fn every_page_is_readable_everywhere_and_needs_nothing_else() {
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
    // If something is wrong, the page stays there to be seen.
    fs::remove_dir_all(&folder).expect("it is there");
}
