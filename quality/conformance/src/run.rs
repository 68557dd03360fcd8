//! Runs a suite and compares each result with the ledger.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
};

use crate::{
    Case, CaseResult, Context, Ledger, Suite, SuiteReport, Target, ledger::Entry,
    report::CaseFailure, worker_slot::WorkerSlot,
};

/// Runs all cases of a suite.
///
/// Cases named in the ledger run, too: one that passes shows that its line is no longer needed.
pub fn run(suite: &Suite, context: &Context, ledger: &Ledger) -> SuiteReport {
    let entries: Vec<&Entry> = ledger.of_suite(suite.name).collect();
    let mut report = SuiteReport::new(suite.name);
    match (suite.load)(context) {
        Ok(cases) => run_cases(cases, workers(&context.target), &entries, &mut report),
        Err(error) => report.failed.push(CaseFailure {
            file: String::new(),
            case: "loading the suite".to_owned(),
            why: error.to_string(),
        }),
    }
    report
}

/// Number of cases that run concurrently. Each worker has its own embedded deployments, and cases mostly wait.
fn workers(target: &Target) -> usize {
    if target.is_embedded() { 3 } else { 1 }
}

/// Runs all cases and returns their results in the order of the cases.
fn results(cases: Vec<Case>, workers: usize) -> Vec<(String, String, CaseResult)> {
    let count = cases.len();
    let cases = Mutex::new(cases.into_iter().enumerate());
    let results = Mutex::new(Vec::with_capacity(count));
    let work = || {
        let _slot = (workers > 1).then(WorkerSlot::reserve);
        loop {
            let next = lock(&cases).next();
            let Some((at, case)) = next else { return };
            let (file, description) = (case.file.clone(), case.description.clone());
            let result = case.run();
            lock(&results).push((at, (file, description, result)));
        }
    };
    if workers == 1 {
        work();
    } else {
        thread::scope(|scope| (0..workers).for_each(|_| drop(scope.spawn(work))));
    }
    let mut results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    results.sort_by_key(|(at, _)| *at);
    results.into_iter().map(|(_, result)| result).collect()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn run_cases(cases: Vec<Case>, workers: usize, entries: &[&Entry], report: &mut SuiteReport) {
    let mut needed = vec![false; entries.len()];
    for (file, description, result) in results(cases, workers) {
        let lines: Vec<usize> =
            (0..entries.len()).filter(|&at| entries[at].names(&file, &description)).collect();
        if let (CaseResult::PassAtSecondTry(why), None) = (&result, lines.first()) {
            let (file, case, why) = (file.clone(), description.clone(), why.clone());
            report.second_tries.push(CaseFailure { file, case, why });
        }
        let passed = matches!(result, CaseResult::Pass | CaseResult::PassAtSecondTry(_));
        report.passed_cases.push(passed && lines.is_empty());
        match (result, lines.first()) {
            (CaseResult::Pass | CaseResult::PassAtSecondTry(_), None) => report.passed += 1,
            (CaseResult::Pass | CaseResult::PassAtSecondTry(_), Some(&first)) => {
                // Counted as skipped, so that the figures do not depend on timing.
                report.skip(entries[first].reason.clone());
                let passes =
                    |&at: &usize| format!("{}: {file} / {description} passes", entries[at]);
                let unneeded = lines.iter().filter(|&&at| !entries[at].may_pass);
                report.unneeded_ledger_lines.extend(unneeded.map(passes));
            }
            (CaseResult::Skip(reason), _) => report.skip(reason),
            (CaseResult::Fail(_), Some(&first)) => report.skip(entries[first].reason.clone()),
            (CaseResult::Fail(why), None) => {
                report.failed.push(CaseFailure { file, case: description, why });
            }
        }
        lines.into_iter().for_each(|at| needed[at] = true);
    }
    let unmatched = entries.iter().zip(needed).filter(|(_, needed)| !needed);
    report
        .unneeded_ledger_lines
        .extend(unmatched.map(|(entry, _)| format!("{entry}: names no case")));
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    fn report_of(cases: Vec<Case>, ledger: &str) -> SuiteReport {
        let ledger = Ledger::parse(ledger).unwrap();
        let mut report = SuiteReport::new("s");
        run_cases(cases, 1, &ledger.of_suite("s").collect::<Vec<_>>(), &mut report);
        report
    }

    fn passing(name: &str) -> Case {
        Case::new("f.json", name, || CaseResult::Pass)
    }

    fn failing(name: &str) -> Case {
        Case::new("f.json", name, || CaseResult::Fail("broken".into()))
    }

    const B_IS_SKIPPED: &str =
        "[[skip]]\nsuite = 's'\nfile = 'f.json'\ncase = 'b'\nreason = 'not yet'";

    #[test]
    fn failing_case_fails_the_run_unless_the_ledger_lists_it() {
        let report = report_of(vec![passing("a"), failing("b"), failing("c")], B_IS_SKIPPED);
        assert_eq!((report.passed, report.failed.len(), report.skipped()), (1, 1, 1));
        assert_eq!(report.failed[0].case, "c");
        assert!(report.unneeded_ledger_lines.is_empty());
        assert!(!report.is_ok());
    }

    #[test]
    fn ledger_line_of_a_passing_case_fails_the_run() {
        let report = report_of(vec![passing("a"), passing("b")], B_IS_SKIPPED);
        assert_eq!(report.unneeded_ledger_lines.len(), 1);
        assert!(!report.is_ok());
    }

    #[test]
    fn passing_case_with_may_pass_counts_as_skipped() {
        let report = report_of(vec![passing("b")], &format!("{B_IS_SKIPPED}\nmay_pass = true"));
        assert_eq!((report.passed, report.skipped(), report.is_ok()), (0, 1, true));
    }

    #[test]
    fn ledger_line_without_a_case_fails_the_run() {
        let report = report_of(vec![passing("a")], B_IS_SKIPPED);
        assert_eq!(report.unneeded_ledger_lines, ["s / f.json / b: names no case"]);
        assert!(!report.is_ok());
    }

    #[test]
    fn case_that_passes_at_the_second_try_is_reported() {
        let fails = |times: usize| {
            let tries = AtomicUsize::new(0);
            let run = move || match tries.fetch_add(1, Ordering::Relaxed) {
                before if before < times => CaseResult::Fail("too late".into()),
                _ => CaseResult::Pass,
            };
            Case::new("f.json", "t", move || CaseResult::of_two_tries(&run, &run))
        };
        let report = report_of(vec![fails(0), fails(1)], "");
        assert_eq!((report.passed, report.second_tries.len()), (2, 1));
        assert_eq!((report.first_tries(), report.second_tries[0].why.as_str()), (1, "too late"));
        assert!(report.is_ok());
        assert!(!report_of(vec![fails(2)], "").is_ok());
    }

    #[test]
    fn panic_fails_only_its_case() {
        let panics = Case::new("f.json", "p", || -> CaseResult { panic!("oh no") });
        let report = report_of(vec![panics, passing("a")], "");
        assert_eq!(report.passed, 1);
        assert_eq!(report.failed[0].why, "panicked: oh no");
    }
}
