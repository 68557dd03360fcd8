//! Read preferences (`$readPreference`).

use bson::{Bson, Document};
use steadfast_query::{Code, Fault};

/// Mode of a read preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadPreferenceMode {
    Primary,
    PrimaryPreferred,
    Secondary,
    SecondaryPreferred,
    Nearest,
}

impl ReadPreferenceMode {
    const ALL: [ReadPreferenceMode; 5] = [
        ReadPreferenceMode::Primary,
        ReadPreferenceMode::PrimaryPreferred,
        ReadPreferenceMode::Secondary,
        ReadPreferenceMode::SecondaryPreferred,
        ReadPreferenceMode::Nearest,
    ];

    /// Name of the mode in commands.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::PrimaryPreferred => "primaryPreferred",
            Self::Secondary => "secondary",
            Self::SecondaryPreferred => "secondaryPreferred",
            Self::Nearest => "nearest",
        }
    }
}

/// A read preference.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReadPreference {
    pub(crate) mode: ReadPreferenceMode,
    /// Tag sets. A member must have all tags of one of them. An empty set matches every member.
    tags: Vec<Document>,
}

impl ReadPreference {
    /// The mode `primary`, the default.
    pub(crate) fn primary() -> Self {
        Self { mode: ReadPreferenceMode::Primary, tags: Vec::new() }
    }

    /// Read preference of a command.
    pub(crate) fn of(body: &Document) -> Result<Self, Fault> {
        let Some(given) = body.get("$readPreference") else { return Ok(Self::primary()) };
        let Bson::Document(given) = given else {
            return Err(Fault::type_mismatch("$readPreference must be a document"));
        };
        let name = given.get_str("mode").unwrap_or("primary");
        let Some(mode) = ReadPreferenceMode::ALL.into_iter().find(|mode| mode.name() == name)
        else {
            return Err(Fault::failed_to_parse(format!(
                "Could not parse $readPreference mode '{name}'. Only the modes 'primary', \
                 'primaryPreferred', 'secondary', 'secondaryPreferred', and 'nearest' are supported."
            )));
        };
        let tags: Vec<Document> = match given.get("tags") {
            None => Vec::new(),
            Some(Bson::Array(tags)) => tags.iter().filter_map(Bson::as_document).cloned().collect(),
            Some(_) => return Err(Fault::type_mismatch("tags must be an array of documents")),
        };
        if mode == ReadPreferenceMode::Primary && tags.iter().any(|set| !set.is_empty()) {
            return Err(Fault::new(
                Code::BAD_VALUE,
                "Only empty tags are allowed with primary read preference",
            ));
        }
        Ok(Self { mode, tags })
    }

    /// Returns `true` if the tags in a member's `hello` match.
    pub(crate) fn allows(&self, hello: &Document) -> bool {
        let empty = Document::new();
        let has = hello.get_document("tags").unwrap_or(&empty);
        self.tags.is_empty()
            || self
                .tags
                .iter()
                .any(|set| set.iter().all(|(name, value)| has.get(name) == Some(value)))
    }
}
