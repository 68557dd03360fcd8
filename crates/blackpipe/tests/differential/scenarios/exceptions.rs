//! Known differences between the embedded deployment and MongoDB 8.2. Each is listed in `docs/embedded.md`, too.

use super::{Scenario, Step, Target, reply::Difference};

/// A field of one reply that differs, with the value on each side.
pub(crate) struct Exception {
    pub(crate) target: Target,
    pub(crate) scenario: &'static str,
    pub(crate) step: &'static str,
    pub(crate) path: &'static str,
    pub(crate) real: &'static str,
    pub(crate) embedded: &'static str,
    /// Reason that it stays different.
    #[allow(dead_code)]
    pub(crate) reason: &'static str,
}

impl Exception {
    pub(crate) fn is_about(&self, scenario: &Scenario, step: &Step, found: &Difference) -> bool {
        self.scenario == scenario.name
            && self.step == step.label
            && self.path == found.path
            && self.real == found.real
            && self.embedded == found.embedded
    }
}

/// All exceptions.
pub(crate) const EXCEPTIONS: &[Exception] = &[];
