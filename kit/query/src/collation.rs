//! How strings compare: byte by byte, or as a collation says.

mod parse;
mod weights;

use std::{cmp::Ordering, fmt::Write};

use bson::{Bson, Document, doc};

use crate::{Fault, value::StringOrder};

use weights::{Weight, weights};

/// How strings compare.
///
/// Besides byte by byte, English is known (`en`, `en_US`) in the strengths 1 to 3, with `caseLevel`,
/// `caseFirst` and `numericOrdering`. The order is the server's for ASCII, for Latin letters with the
/// common accents and for punctuation; other characters come after them, by their code points.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Collation {
    rules: Option<Rules>,
}

/// A collation that is not byte by byte.
#[derive(Clone, Debug, PartialEq)]
struct Rules {
    locale: String,
    strength: u8,
    case_level: bool,
    case_first: CaseFirst,
    numeric: bool,
    /// `space` or `punct`: says nothing as long as these are not ignored.
    max_variable: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CaseFirst {
    Off,
    Upper,
    Lower,
}

impl Collation {
    /// Byte by byte.
    pub fn simple() -> Self {
        Self { rules: None }
    }

    /// Reads the option of a command or of a collection. What is not known is refused.
    pub fn parse(options: &Document) -> Result<Self, Fault> {
        Ok(Self { rules: parse::rules(options)? })
    }

    /// Whether strings compare byte by byte.
    pub fn is_simple(&self) -> bool {
        self.rules.is_none()
    }

    /// The option with all that it leaves out, as a server lists it; `None` if it is byte by byte.
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

    /// Whether only one value equals this one: so it is byte by byte, or if it has no strings in it.
    pub fn is_exact_for(&self, value: &Bson) -> bool {
        self.is_simple() || !has_strings(value)
    }

    /// The value with keys in the place of strings: two values compare by this collation as their keys
    /// do byte by byte.
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

impl Rules {
    fn compare(&self, left: &str, right: &str) -> Ordering {
        let (left, right) = (weights(left, self.numeric), weights(right, self.numeric));
        self.levels()
            .map(|level| level.of(&left, self).cmp(level.of(&right, self)))
            .find(|order| order.is_ne())
            .unwrap_or(Ordering::Equal)
    }

    /// The levels of difference that count, the weightiest first.
    fn levels(&self) -> impl Iterator<Item = Level> {
        let case = self.case_level.then_some(Level::Case);
        let accents = (self.strength >= 2).then_some(Level::Accents);
        let variants = (self.strength >= 3).then_some(Level::Variants);
        [Some(Level::Letters), accents, case, variants].into_iter().flatten()
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

/// In what two strings can differ.
#[derive(Clone, Copy)]
enum Level {
    Letters,
    Accents,
    Case,
    Variants,
}

impl Level {
    fn of<'w>(
        self,
        weights: &'w [Weight],
        rules: &'w Rules,
    ) -> impl Iterator<Item = u32> + use<'w> {
        weights.iter().filter_map(move |it| match self {
            Self::Letters => (it.letter > 0).then_some(it.letter),
            Self::Accents => (it.accent > 0).then_some(it.accent),
            Self::Case => (it.letter > 0).then(|| rules.case(it.variant)),
            Self::Variants => Some(rules.case(it.variant)),
        })
    }
}

impl Rules {
    /// The weight of a variant: small, capital, raised; or capitals before small ones.
    fn case(&self, variant: u32) -> u32 {
        match (self.case_first, variant) {
            (CaseFirst::Upper, weights::CAPITAL) => 0,
            (CaseFirst::Upper | CaseFirst::Lower | CaseFirst::Off, other) => other + 1,
        }
    }
}

#[cfg(test)]
mod tests;
