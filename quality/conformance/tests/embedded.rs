//! Runs every suite on embedded deployments, a test each.
#![allow(missing_docs)]

mod common;

use std::sync::OnceLock;

use conformance::{Context, Ledger, Target, run, suites};

fn passes(name: &str) {
    static CONTEXT: OnceLock<Context> = OnceLock::new();
    testbed::require!(testbed::spec_tests());
    let context = CONTEXT.get_or_init(|| common::context(&Target::Embedded));
    let suite = suites::find(name).expect("a suite has the name of its module");
    let report = run(&suite, context, &Ledger::of_this_repository(&Target::Embedded));
    common::check(&report, &Target::Embedded, &["STEADFAST_SPEC_TESTS"]);
}

conformance::for_each_suite!(test_each_suite);
