//! Collation: language-specific rules for string comparison.

use std::{fmt, str::FromStr};

use bson::Document;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// Collation: language-specific rules for string comparison. See
/// [collation](https://www.mongodb.com/docs/manual/reference/collation/).
///
/// ```
/// use steadfast::options::{Collation, CollationStrength};
///
/// let german = Collation::builder()
///     .locale("de")
///     .strength(CollationStrength::Secondary)
///     .build();
/// assert_eq!(german.locale, "de");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Collation {
    /// ICU locale (`locale`), such as `de` or `en_US`. `simple` selects binary comparison.
    /// Required.
    pub locale: String,
    /// Level of comparison (`strength`). Defaults to [`Tertiary`](CollationStrength::Tertiary).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strength: Option<CollationStrength>,
    /// Compares case at strengths primary and secondary too (`caseLevel`) if `true`. Defaults to
    /// `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case_level: Option<bool>,
    /// Sort order of case differences (`caseFirst`). Defaults to [`Off`](CollationCaseFirst::Off).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case_first: Option<CollationCaseFirst>,
    /// Compares strings of digits as numbers (`numericOrdering`) if `true`. Defaults to `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numeric_ordering: Option<bool>,
    /// Treatment of white space and punctuation (`alternate`). Defaults to
    /// [`NonIgnorable`](CollationAlternate::NonIgnorable).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alternate: Option<CollationAlternate>,
    /// Characters that are ignorable (`maxVariable`) if `alternate` is
    /// [`Shifted`](CollationAlternate::Shifted). Defaults to
    /// [`Punct`](CollationMaxVariable::Punct).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_variable: Option<CollationMaxVariable>,
    /// Normalizes text to Unicode's NFD before comparison (`normalization`) if `true`. Defaults to
    /// `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normalization: Option<bool>,
    /// Compares strings with diacritics from the end (`backwards`) if `true`, as in some
    /// dictionaries of French. Defaults to `false`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backwards: Option<bool>,
}

impl Collation {
    /// Returns a builder for [`Collation`].
    pub fn builder() -> CollationBuilder {
        CollationBuilder(Self::default())
    }
}

impl From<Collation> for Document {
    fn from(collation: Collation) -> Self {
        bson::serialize_to_document(&collation)
            .expect("a collation consists of strings, numbers and booleans")
    }
}

/// For setters of write models, whose collations are documents.
impl From<Collation> for Option<Document> {
    fn from(collation: Collation) -> Self {
        Some(collation.into())
    }
}

/// Builder for [`Collation`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct CollationBuilder(Collation);

/// Implements the setters of the builder.
macro_rules! setters {
    ($($(#[$doc:meta])+ $field:ident : $kind:ty),+ $(,)?) => {
        impl CollationBuilder {
            $(
                $(#[$doc])+
                pub fn $field(mut self, value: impl Into<Option<$kind>>) -> Self {
                    self.0.$field = value.into();
                    self
                }
            )+
        }
    };
}

setters! {
    /// Sets the level of comparison (`strength`).
    strength: CollationStrength,
    /// Compares case at strengths primary and secondary too (`caseLevel`) if `true`.
    case_level: bool,
    /// Sets the sort order of case differences (`caseFirst`).
    case_first: CollationCaseFirst,
    /// Compares strings of digits as numbers (`numericOrdering`) if `true`.
    numeric_ordering: bool,
    /// Sets the treatment of white space and punctuation (`alternate`).
    alternate: CollationAlternate,
    /// Sets the characters that are ignorable (`maxVariable`) if `alternate` is shifted.
    max_variable: CollationMaxVariable,
    /// Normalizes text to Unicode's NFD before comparison (`normalization`) if `true`.
    normalization: bool,
    /// Compares strings with diacritics from the end (`backwards`) if `true`.
    backwards: bool,
}

impl CollationBuilder {
    /// Sets the ICU locale (`locale`). Required.
    pub fn locale(mut self, value: impl Into<String>) -> Self {
        self.0.locale = value.into();
        self
    }

    /// Returns the collation.
    pub fn build(self) -> Collation {
        self.0
    }
}

/// Level of comparison of a [`Collation`] (`strength`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "i32", try_from = "u32")]
#[non_exhaustive]
pub enum CollationStrength {
    /// Base characters only (1).
    Primary,
    /// Base characters and diacritics (2).
    Secondary,
    /// Base characters, diacritics and case (3).
    Tertiary,
    /// Also punctuation (4), if `alternate` is shifted.
    Quaternary,
    /// Also code points (5), as a tie breaker.
    Identical,
}

impl From<CollationStrength> for u32 {
    fn from(strength: CollationStrength) -> Self {
        match strength {
            CollationStrength::Primary => 1,
            CollationStrength::Secondary => 2,
            CollationStrength::Tertiary => 3,
            CollationStrength::Quaternary => 4,
            CollationStrength::Identical => 5,
        }
    }
}

impl From<CollationStrength> for i32 {
    fn from(strength: CollationStrength) -> Self {
        u32::from(strength).cast_signed()
    }
}

impl TryFrom<u32> for CollationStrength {
    type Error = Error;

    fn try_from(level: u32) -> Result<Self, Error> {
        Ok(match level {
            1 => Self::Primary,
            2 => Self::Secondary,
            3 => Self::Tertiary,
            4 => Self::Quaternary,
            5 => Self::Identical,
            _ => {
                return Err(Error::invalid_argument(format!(
                    "collation strength {level} is out of range; use 1 to 5"
                )));
            }
        })
    }
}

impl fmt::Display for CollationStrength {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        u32::from(*self).fmt(f)
    }
}

/// Declares an enum whose variants are sent as strings.
macro_rules! named {
    (
        $(#[$doc:meta])+
        $kind:ident { $($(#[$variant_doc:meta])+ $variant:ident = $name:literal),+ $(,)? }
    ) => {
        $(#[$doc])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[non_exhaustive]
        pub enum $kind {
            $($(#[$variant_doc])+ #[serde(rename = $name)] $variant,)+
        }

        impl $kind {
            /// Returns the value as sent in commands.
            pub fn as_str(&self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }

        impl FromStr for $kind {
            type Err = Error;

            fn from_str(text: &str) -> Result<Self, Error> {
                match text {
                    $($name => Ok(Self::$variant),)+
                    _ => Err(Error::invalid_argument(format!(
                        concat!("{:?} is not a ", stringify!($kind)),
                        text
                    ))),
                }
            }
        }

        impl fmt::Display for $kind {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

named! {
    /// Sort order of case differences in a [`Collation`] (`caseFirst`).
    CollationCaseFirst {
        /// Upper case before lower case.
        Upper = "upper",
        /// Lower case before upper case.
        Lower = "lower",
        /// Order of the locale.
        Off = "off",
    }
}

named! {
    /// Treatment of white space and punctuation in a [`Collation`] (`alternate`).
    CollationAlternate {
        /// White space and punctuation are compared like base characters.
        NonIgnorable = "non-ignorable",
        /// White space and punctuation are compared at strengths quaternary and identical only.
        Shifted = "shifted",
    }
}

named! {
    /// Characters that a [`Collation`] ignores (`maxVariable`) if `alternate` is shifted.
    CollationMaxVariable {
        /// White space and punctuation.
        Punct = "punct",
        /// White space.
        Space = "space",
    }
}

#[cfg(test)]
mod tests {
    use bson::{deserialize_from_document, doc, serialize_to_document};

    use super::*;

    #[test]
    fn unset_fields_are_not_sent() {
        let collation = Collation::builder().locale("en").build();
        assert_eq!(serialize_to_document(&collation).unwrap(), doc! { "locale": "en" });
    }

    #[test]
    fn fields_have_the_names_of_commands() {
        let sent = doc! {
            "locale": "en_US", "strength": 2, "caseLevel": true, "caseFirst": "upper",
            "numericOrdering": true, "alternate": "non-ignorable", "maxVariable": "punct",
            "normalization": true, "backwards": true,
        };
        let collation: Collation = deserialize_from_document(sent.clone()).unwrap();
        assert_eq!(serialize_to_document(&collation).unwrap(), sent);
    }

    #[test]
    fn strength_outside_one_to_five_is_an_error() {
        assert!(CollationStrength::try_from(6).unwrap_err().is_invalid_argument());
        assert!(
            deserialize_from_document::<Collation>(doc! { "locale": "en", "strength": 0 }).is_err()
        );
    }
}
