//! The page of runs in a headless Chromium.
//!
//! Without Chromium and chromedriver, the tests are skipped; in CI they fail.

use std::{env, fs, path::PathBuf, process, time::Duration};

use crate::strategy::Strategy;
use testbed::skip;

use super::{browser::Browser, looks};
use crate::plan::{Fault, Load, Plan, Servers};

/// Stores a page. After a failure, it is left for inspection.
fn stored(name: &str, page: &str) -> PathBuf {
    let file = env::temp_dir().join(format!("steadfast-page-{}-{name}", process::id()));
    fs::write(&file, page).expect("room for a page");
    file
}

/// Runs a plan; returns whether the verdict is clean, and the page.
fn report(name: &str, plan: Plan) -> (bool, PathBuf) {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let report = runtime.unwrap().block_on(crate::run(plan)).unwrap();
    (report.verdict.is_clean(), stored(name, &report.page()))
}

#[test]
fn report_of_a_run_is_readable_on_every_screen_and_loads_nothing() {
    let browser = match Browser::start() {
        Ok(browser) => browser,
        Err(why) => return skip(&why),
    };
    let mut plan = Plan::new(Servers::Embedded);
    (plan.lasting, plan.seed) = (Duration::from_secs(6), 7);
    let (is_clean, file) = report("clean.html", plan);
    assert!(is_clean);
    looks::look_at(&browser, &file);
    let title = browser.run("return document.title");
    assert_eq!(title, "0 duplicated, 0 lost, 0 wrongly labelled, 0 torn – steadfast chaos");
    let verdict = browser.run("return document.querySelector('header').innerText");
    let verdict = verdict.as_str().expect("text");
    assert!(verdict.contains("No write was lost"), "{verdict}");
    assert_eq!(verdict.lines().filter(|line| line.trim() == "0").count(), 4, "{verdict}");
    let command = browser.run("return document.querySelector('pre').innerText");
    assert_eq!(command, "steadfast chaos --seed 7 --duration 6s");
    fs::remove_file(file).expect("it is there");
}

#[test]
fn bad_verdict_is_prominent() {
    let browser = match Browser::start() {
        Ok(browser) => browser,
        Err(why) => return skip(&why),
    };
    // With this seed, a reply is lost among the first thirty.
    let plan = Plan {
        strategy: Strategy::AlwaysRetry { retries: 5 },
        faults: vec![Fault::Cuts],
        workload: vec![Load::Increments],
        lasting: Duration::from_secs(10),
        rate: 100,
        seed: 9,
        ..Plan::new(Servers::Embedded)
    };
    let (is_clean, file) = report("bad.html", plan);
    assert!(!is_clean);
    looks::look_at(&browser, &file);
    let verdict = browser.run("return document.querySelector('header').innerText");
    let verdict = verdict.as_str().expect("text");
    assert!(verdict.contains("contradict the results that the application got"), "{verdict}");
    assert!(verdict.contains("This is a control."), "{verdict}");
    let red = browser.run(
        "return getComputedStyle(document.querySelector('.counts .wrong b')).color.match(/\\d+/g).map(Number)",
    );
    let red: Vec<u64> = serde_json::from_value(red).expect("three numbers");
    assert!(red[0] > red[1] + 90 && red[0] > red[2] + 90, "{red:?}");
    fs::remove_file(file).expect("it is there");
}

/// Shows that the checks of the other tests can fail.
#[test]
fn defects_of_a_page_are_found() {
    let browser = match Browser::start() {
        Ok(browser) => browser,
        Err(why) => return skip(&why),
    };
    let file = stored("wrong.html", WRONG);
    let found = looks::wrong(&browser, &file).join("\n");
    for expected in [
        "(360, 740), dark: \"the page is wider than the screen",
        "beyond the edge: wide",
        "outside of its picture: far",
        "over another: near",
        "contrast 1.61: pale",
        "hardly any text",
        "it loads file:",
        "it has a script",
        "it refers to something",
        "a heading is left out before: Third",
        "not one h1",
        "a picture without words",
        "a head of nothing: head",
        "an id twice",
        "labelled by nothing",
        "ERR_FILE_NOT_FOUND",
    ] {
        assert!(found.contains(expected), "{expected} is not in:\n{found}");
    }
    assert!(!found.contains("(1280, 900), light: \"the page is wider"), "{found}");
    fs::remove_file(file).expect("it is there");
}

const WRONG: &str = r#"<!DOCTYPE html><meta name="viewport" content="width=device-width"><title>Wrong</title><body style="background: #fff"><main>
<h1>First</h1><h3 id="a">Third</h3><h1 id="a">Another</h1>
<p style="width: 800px">wide</p> <p style="color: #ccc">pale</p>
<div class="plot"><svg width="100" height="40"><text x="95" y="20">far</text><text x="90" y="20">near</text></svg></div>
<table><tr><th>head</th></tr></table> <section aria-labelledby="b">section</section>
<img src="not-there.png" alt=""><script>1</script></main>"#;
