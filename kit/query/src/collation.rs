//! Collations: comparison of strings, binary or by the rules of a locale.

mod parse;
mod weights;

use std::{cmp::Ordering, fmt::Write};

use bson::{Bson, Document, doc};

use crate::{Fault, value::StringOrder};

use weights::{Weight, weights};

/// Comparison of strings.
///
/// Supports simple binary comparison and English (`en`, `en_US`) with `strength` 1 to 3,
/// `caseLevel`, `caseFirst` and `numericOrdering`. The order equals that of servers for ASCII,
/// Latin letters with common accents, and punctuation. Other characters follow in the order of
/// their code points.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Collation {
    rules: Option<CollationRules>,
}

/// Rules of a collation other than simple binary comparison.
#[derive(Clone, Debug, PartialEq)]
struct CollationRules {
    locale: String,
    strength: u8,
    case_level: bool,
    case_first: CaseFirst,
    numeric: bool,
    /// `space` or `punct`. Has no effect without `alternate: "shifted"`.
    max_variable: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CaseFirst {
    Off,
    Upper,
    Lower,
}

impl Collation {
    /// Returns the simple binary comparison.
    pub fn simple() -> Self {
        Self { rules: None }
    }

    /// Parses the option `collation` of a command or a collection.
    ///
    /// # Errors
    ///
    /// Fails for invalid options, and for valid ones that are not supported.
    pub fn parse(options: &Document) -> Result<Self, Fault> {
        Ok(Self { rules: parse::rules(options)? })
    }

    /// Returns `true` for simple binary comparison.
    pub fn is_simple(&self) -> bool {
        self.rules.is_none()
    }

    /// Returns the complete option, as servers list it. `None` for simple binary comparison.
    pub fn to_document(&self) -> Option<Document> {
        let rules = self.rules.as_ref()?;
        Some(doc! {
            "locale": &rules.locale,
            "caseLevel": rules.case_level,
            "caseFirst": match rules.case_first {
                CaseFirst::Off => "off",
                CaseFirst::Upper => "upper",
                CaseFirst::Lower => "lower",
            },
            "strength": i32::from(rules.strength),
            "numericOrdering": rules.numeric,
            "alternate": "non-ignorable",
            "maxVariable": &rules.max_variable,
            "normalization": false,
            "backwards": false,
            "version": parse::VERSION,
        })
    }

    /// Compares two strings.
    pub fn compare(&self, left: &str, right: &str) -> Ordering {
        match &self.rules {
            None => left.cmp(right),
            Some(_) if left == right => Ordering::Equal,
            Some(rules) => rules.compare(left, right),
        }
    }

    /// Returns `true` if only one value equals this one: without a collation, or if the value
    /// contains no strings.
    pub fn is_exact_for(&self, value: &Bson) -> bool {
        self.is_simple() || !has_strings(value)
    }

    /// Replaces the strings of a value with sort keys. Binary comparison of sort keys equals
    /// comparison of the strings by this collation.
    pub fn key(&self, value: &Bson) -> Bson {
        let Some(rules) = &self.rules else { return value.clone() };
        match value {
            Bson::String(text) | Bson::Symbol(text) => Bson::String(rules.key(text)),
            Bson::Array(elements) => elements.iter().map(|it| self.key(it)).collect(),
            Bson::Document(document) => {
                let fields = document.iter().map(|(name, it)| (name.clone(), self.key(it)));
                Bson::Document(fields.collect())
            }
            other => other.clone(),
        }
    }
}

fn has_strings(value: &Bson) -> bool {
    match value {
        Bson::String(_) | Bson::Symbol(_) => true,
        Bson::Array(elements) => elements.iter().any(has_strings),
        Bson::Document(document) => document.iter().any(|(_, value)| has_strings(value)),
        _ => false,
    }
}

impl StringOrder for Collation {
    fn compare(&self, left: &str, right: &str) -> Ordering {
        self.compare(left, right)
    }
}

impl CollationRules {
    fn compare(&self, left: &str, right: &str) -> Ordering {
        let (left, right) = (weights(left, self.numeric), weights(right, self.numeric));
        self.levels()
            .map(|level| level.of(&left, self).cmp(level.of(&right, self)))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    /// Levels of comparison, most significant first.
    fn levels(&self) -> impl Iterator<Item = CollationLevel> {
        let case = self.case_level.then_some(CollationLevel::Case);
        let accents = (self.strength >= 2).then_some(CollationLevel::Accents);
        let variants = (self.strength >= 3).then_some(CollationLevel::Variants);
        [Some(CollationLevel::Letters), accents, case, variants].into_iter().flatten()
    }

    fn key(&self, text: &str) -> String {
        let weights = weights(text, self.numeric);
        let mut key = String::new();
        for level in self.levels() {
            for weight in level.of(&weights, self) {
                // Writing to a string cannot fail.
                let _ = write!(key, "{:06x}", weight + 1);
            }
            // Less than any weight.
            key.push_str("000000");
        }
        key
    }
}

/// Level of a comparison.
#[derive(Clone, Copy)]
enum CollationLevel {
    Letters,
    Accents,
    Case,
    Variants,
}

impl CollationLevel {
    fn of<'w>(
        self,
        weights: &'w [Weight],
        rules: &'w CollationRules,
    ) -> impl Iterator<Item = u32> + use<'w> {
        weights.iter().filter_map(move |it| match self {
            Self::Letters => (it.letter > 0).then_some(it.letter),
            Self::Accents => (it.accent > 0).then_some(it.accent),
            Self::Case => (it.letter > 0).then(|| rules.case(it.variant)),
            Self::Variants => Some(rules.case(it.variant)),
        })
    }
}

impl CollationRules {
    /// Weight of a variant: lower case, upper case, superscript. `caseFirst: "upper"` puts upper
    /// case first.
    fn case(&self, variant: u32) -> u32 {
        match (self.case_first, variant) {
            (CaseFirst::Upper, weights::CAPITAL) => 0,
            (CaseFirst::Upper | CaseFirst::Lower | CaseFirst::Off, other) => other + 1,
        }
    }
}

#[cfg(test)]
mod tests;
