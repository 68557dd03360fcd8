//! Mode of a fail point: off, always, `times`, `skip`, `activationProbability`.

use bson::Bson;
use steadfast_query::Fault;

use blackpipe_base::{number::number, rng::Rng};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum FailPointMode {
    Off,
    AlwaysOn,
    /// Acts this many times, then never again.
    Times(u64),
    /// Does nothing this many times, then always acts.
    Skip(u64),
    /// Acts with this probability.
    Probability(f64),
}

impl FailPointMode {
    pub(super) fn read(mode: &Bson) -> Result<Self, Fault> {
        const ONE_OF: &str = "'mode' must be one of 'off', 'alwaysOn', '{times:n}', '{skip:n}' or \
                              '{activationProbability:p}'";
        let fields = match mode {
            Bson::String(mode) if mode == "off" => return Ok(Self::Off),
            Bson::String(mode) if mode == "alwaysOn" => return Ok(Self::AlwaysOn),
            Bson::String(mode) => return Err(Fault::bad_value(format!("unknown mode: {mode}"))),
            Bson::Document(fields) => fields,
            _ => return Err(Fault::type_mismatch("'mode' must be a string or JSON object")),
        };
        if let Some(times) = fields.get("times") {
            // On a server, `times: 0` acts once.
            Ok(Self::Times(count(times, "times")?.max(1)))
        } else if let Some(skip) = fields.get("skip") {
            Ok(Self::Skip(count(skip, "skip")?))
        } else if let Some(chance) = fields.get("activationProbability") {
            match number(chance) {
                Some(chance @ 0.0..=1.0) => Ok(Self::Probability(chance)),
                Some(other) => Err(Fault::bad_value(format!(
                    "activationProbability must be between 0.0 and 1.0; found {other}"
                ))),
                None => Err(Fault::type_mismatch(
                    "the 'activationProbability' option to 'mode' must be a double between 0 and 1",
                )),
            }
        } else {
            Err(Fault::bad_value(ONE_OF))
        }
    }

    /// Returns `true` if it acts this time. Counts down.
    pub(super) fn enter(&mut self, rng: &mut Rng) -> bool {
        match self {
            Self::Off => false,
            Self::AlwaysOn => true,
            Self::Times(0 | 1) => {
                *self = Self::Off;
                true
            }
            Self::Times(left) => {
                *left -= 1;
                true
            }
            Self::Skip(0) => true,
            Self::Skip(left) => {
                *left -= 1;
                false
            }
            Self::Probability(chance) => rng.fraction() < *chance,
        }
    }

    /// Number of the mode in `getParameter`.
    pub(super) fn number(self) -> i32 {
        match self {
            Self::Off => 0,
            Self::AlwaysOn => 1,
            Self::Probability(_) => 2,
            Self::Times(_) => 3,
            Self::Skip(_) => 4,
        }
    }
}

fn count(value: &Bson, option: &str) -> Result<u64, Fault> {
    match number(value) {
        Some(count) if count < 0.0 => {
            Err(Fault::bad_value(format!("'{option}' option to 'mode' must be positive")))
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
        Some(count) => Ok(count as u64),
        None => Err(Fault::type_mismatch(format!("'{option}' option to 'mode' must be a number"))),
    }
}
