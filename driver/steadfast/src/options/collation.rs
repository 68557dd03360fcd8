//! How a server compares strings.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::error::Error;

/// How a server compares strings: by the rules of which language, and how strictly.
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
    /// The language, as ICU names it.
    pub locale: String,
    /// Which differences count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub strength: Option<CollationStrength>,
    /// Whether case counts at the first two strengths, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case_level: Option<bool>,
    /// Which case comes first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub case_first: Option<CollationCaseFirst>,
    /// Whether strings of digits are compared as numbers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub numeric_ordering: Option<bool>,
    /// Whether spaces and punctuation count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alternate: Option<CollationAlternate>,
    /// Which characters do not count if `alternate` is shifted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_variable: Option<CollationMaxVariable>,
    /// Whether strings are brought into Unicode's normal form first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normalization: Option<bool>,
    /// Whether accents are compared from the end of the string.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backwards: Option<bool>,
}

impl Collation {
    /// Begins to build a [`Collation`].
    pub fn builder() -> CollationBuilder {
        CollationBuilder(Self::default())
    }
}

/// Builds a [`Collation`].
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct CollationBuilder(Collation);

/// Writes the builder's methods, which all have one shape.
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
    /// Which differences count.
    strength: CollationStrength,
    /// Whether case counts at the first two strengths, too.
    case_level: bool,
    /// Which case comes first.
    case_first: CollationCaseFirst,
    /// Whether strings of digits are compared as numbers.
    numeric_ordering: bool,
    /// Whether spaces and punctuation count.
    alternate: CollationAlternate,
    /// Which characters do not count if `alternate` is shifted.
    max_variable: CollationMaxVariable,
    /// Whether strings are brought into Unicode's normal form first.
    normalization: bool,
    /// Whether accents are compared from the end of the string.
    backwards: bool,
}

impl CollationBuilder {
    /// The language, as ICU names it.
    pub fn locale(mut self, value: impl Into<String>) -> Self {
        self.0.locale = value.into();
        self
    }

    /// The collation as it was set.
    pub fn build(self) -> Collation {
        self.0
    }
}

/// Which differences between strings count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "i32", try_from = "u32")]
#[non_exhaustive]
pub enum CollationStrength {
    /// Base characters only.
    Primary,
    /// Accents as well.
    Secondary,
    /// Case as well.
    Tertiary,
    /// Punctuation as well.
    Quaternary,
    /// Every difference there is.
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
                    "{level} is no strength of a collation: there are 1 to 5"
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

/// Declares a choice that servers know by name.
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
            /// Its name in commands.
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
                        concat!("{:?} is no ", stringify!($kind)),
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
    /// Which case comes first.
    CollationCaseFirst {
        /// Upper case.
        Upper = "upper",
        /// Lower case.
        Lower = "lower",
        /// Whichever the language puts first.
        Off = "off",
    }
}

named! {
    /// Whether spaces and punctuation count.
    CollationAlternate {
        /// They count like letters.
        NonIgnorable = "non-ignorable",
        /// They count from the fourth strength on.
        Shifted = "shifted",
    }
}

named! {
    /// Which characters do not count if `alternate` is shifted.
    CollationMaxVariable {
        /// Spaces and punctuation.
        Punct = "punct",
        /// Spaces.
        Space = "space",
    }
}

#[cfg(test)]
mod tests {
    use bson::{deserialize_from_document, doc, serialize_to_document};

    use super::*;

    #[test]
    fn only_what_is_set_is_sent() {
        let collation = Collation::builder().locale("en").build();
        assert_eq!(serialize_to_document(&collation).unwrap(), doc! { "locale": "en" });
    }

    #[test]
    fn every_field_has_its_name_in_commands() {
        let sent = doc! {
            "locale": "en_US", "strength": 2, "caseLevel": true, "caseFirst": "upper",
            "numericOrdering": true, "alternate": "non-ignorable", "maxVariable": "punct",
            "normalization": true, "backwards": true,
        };
        let collation: Collation = deserialize_from_document(sent.clone()).unwrap();
        assert_eq!(serialize_to_document(&collation).unwrap(), sent);
    }

    #[test]
    fn a_strength_outside_one_to_five_is_refused() {
        assert!(CollationStrength::try_from(6).unwrap_err().is_invalid_argument());
        assert!(
            deserialize_from_document::<Collation>(doc! { "locale": "en", "strength": 0 }).is_err()
        );
    }
}
