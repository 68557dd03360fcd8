//! Read concern and write concern of a command.

use std::time::Duration;

use bson::{Bson, Document, Timestamp, doc};
use steadfast_query::{Code, Fault, value::type_name};

/// Read concern (`readConcern`).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct ReadConcern {
    pub(crate) level: Option<String>,
    pub(crate) after_cluster_time: Option<Timestamp>,
    pub(crate) at_cluster_time: Option<Timestamp>,
}

impl ReadConcern {
    pub(super) fn read(body: &Document) -> Result<Self, Fault> {
        let given = match body.get("readConcern") {
            None => return Ok(Self::default()),
            Some(Bson::Document(given)) => given,
            Some(_) => {
                return Err(Fault::failed_to_parse("readConcern field should be an object"));
            }
        };
        let mut concern = Self::default();
        for (field, value) in given {
            match field.as_str() {
                "level" => concern.level = Some(level(value)?),
                "afterClusterTime" => concern.after_cluster_time = Some(time(field, value)?),
                "atClusterTime" => concern.at_cluster_time = Some(time(field, value)?),
                "provenance" | "$afterOpTime" | "afterOpTime" => {}
                other => {
                    return Err(invalid(format!("Unrecognized option in readConcern: {other}")));
                }
            }
        }
        concern.check()?;
        Ok(concern)
    }

    /// The level. Defaults to `local`.
    pub(crate) fn level(&self) -> &str {
        self.level.as_deref().unwrap_or("local")
    }

    /// Returns `true` if the command has no read concern.
    pub(crate) fn is_default(&self) -> bool {
        *self == Self::default()
    }

    fn check(&self) -> Result<(), Fault> {
        if self.after_cluster_time.is_some() && self.at_cluster_time.is_some() {
            return Err(invalid(
                "Specifying a timestamp for readConcern snapshot in a causally consistent session \
                 is not allowed. See \
                 https://docs.mongodb.com/manual/core/read-isolation-consistency-recency/\
                 #causal-consistency",
            ));
        }
        if self.after_cluster_time.is_some()
            && !matches!(self.level(), "majority" | "local" | "snapshot")
        {
            return Err(invalid(
                "afterClusterTime field can be set only if level is equal to majority, local, or \
                 snapshot",
            ));
        }
        if self.at_cluster_time.is_some() && self.level() != "snapshot" {
            return Err(invalid(
                "atClusterTime field can be set only if level is equal to snapshot",
            ));
        }
        Ok(())
    }
}

/// Write concern (`writeConcern`).
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct WriteConcern {
    /// `None` if the command does not set `w`.
    pub(crate) w: Option<WriteConcernW>,
    pub(crate) journal: Option<bool>,
    pub(crate) timeout: Option<Duration>,
    /// `true` if the command has a `writeConcern`.
    pub(crate) given: bool,
}

/// Value of the option `w`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum WriteConcernW {
    Members(u32),
    Majority,
    /// Name of a custom write concern (`getLastErrorModes`).
    Tag(String),
    /// Tags and member counts, the older form.
    Tags(Document),
}

impl WriteConcern {
    pub(super) fn read(body: &Document) -> Result<Self, Fault> {
        let given = match body.get("writeConcern") {
            None => return Ok(Self::default()),
            Some(Bson::Document(given)) => given,
            Some(other) => {
                return Err(Fault::type_mismatch(format!(
                    "\"writeConcern\" had the wrong type. Expected object, found {}",
                    type_name(other)
                )));
            }
        };
        let mut concern = Self { given: !given.is_empty(), ..Self::default() };
        for (field, value) in given {
            match field.as_str() {
                "w" => concern.w = Some(WriteConcernW::read(value)?),
                "j" => concern.journal = Some(truth(field, value)?),
                "fsync" => drop(truth(field, value)?),
                "wtimeout" => {
                    // A server accepts any value here. Values that are not positive mean no limit.
                    let milliseconds = whole(value).unwrap_or(0).try_into().unwrap_or(0);
                    concern.timeout =
                        (milliseconds > 0).then(|| Duration::from_millis(milliseconds));
                }
                "provenance" | "wElectionId" | "wOpTime" | "getLastError" => {}
                other => {
                    return Err(Fault::location(
                        40415,
                        format!("BSON field 'WriteConcernOptions.{other}' is an unknown field."),
                    ));
                }
            }
        }
        Ok(concern)
    }

    /// The effective `w`. Defaults to a majority.
    pub(crate) fn effective_w(&self) -> WriteConcernW {
        self.w.clone().unwrap_or(WriteConcernW::Majority)
    }

    /// Write concern as `errInfo` shows it.
    pub(crate) fn to_document(&self) -> Document {
        let timeout = self.timeout.map_or(0, |timeout| timeout.as_millis());
        let mut document = doc! { "w": self.effective_w().to_bson() };
        if let Some(journal) = self.journal {
            document.insert("j", journal);
        }
        document.insert("wtimeout", i32::try_from(timeout).unwrap_or(i32::MAX));
        let provenance = if self.given { "clientSupplied" } else { "implicitDefault" };
        document.insert("provenance", provenance);
        document
    }
}

impl WriteConcernW {
    fn read(value: &Bson) -> Result<Self, Fault> {
        match value {
            Bson::String(mode) if mode == "majority" => Ok(Self::Majority),
            Bson::String(mode) => Ok(Self::Tag(mode.clone())),
            Bson::Null => Ok(Self::Tag(String::new())),
            Bson::Document(tags) => Ok(Self::Tags(tags.clone())),
            number => match whole(number) {
                Some(members @ 0..=50) => Ok(Self::Members(members.try_into().unwrap_or(0))),
                Some(other) => Err(Fault::failed_to_parse(format!(
                    "w has to be a non-negative number and not greater than 50; found: {other}"
                ))),
                None => Err(Fault::failed_to_parse(format!(
                    "w has to be a number, string, or object; found: {}",
                    type_name(number)
                ))),
            },
        }
    }

    fn to_bson(&self) -> Bson {
        match self {
            Self::Members(members) => Bson::Int32(i32::try_from(*members).unwrap_or(i32::MAX)),
            Self::Majority => "majority".into(),
            Self::Tag(mode) => mode.as_str().into(),
            Self::Tags(tags) => tags.clone().into(),
        }
    }
}

fn level(value: &Bson) -> Result<String, Fault> {
    match value {
        Bson::String(level) => match level.as_str() {
            "local" | "majority" | "linearizable" | "available" | "snapshot" => Ok(level.clone()),
            _ => Err(Fault::failed_to_parse(
                "readConcern.level must be either 'local', 'majority', 'linearizable', \
                 'available', or 'snapshot'",
            )),
        },
        other => Err(Fault::type_mismatch(format!(
            "\"level\" had the wrong type. Expected string, found {}",
            type_name(other)
        ))),
    }
}

fn time(field: &str, value: &Bson) -> Result<Timestamp, Fault> {
    match value {
        Bson::Timestamp(Timestamp { time: 0, increment: 0 }) => {
            Err(invalid(format!("{field} cannot be a null timestamp")))
        }
        Bson::Timestamp(time) => Ok(*time),
        other => Err(Fault::type_mismatch(format!(
            "\"{field}\" had the wrong type. Expected timestamp, found {}",
            type_name(other)
        ))),
    }
}

fn truth(field: &str, value: &Bson) -> Result<bool, Fault> {
    match value {
        Bson::Boolean(flag) => Ok(*flag),
        number => whole(number).map(|number| number != 0).ok_or_else(|| {
            Fault::type_mismatch(format!(
                "BSON field 'WriteConcernOptions.{field}' is the wrong type '{}', expected types \
                 '[bool, long, int, decimal, double']",
                type_name(number)
            ))
        }),
    }
}

/// Integral part of a number.
fn whole(value: &Bson) -> Option<i64> {
    match value {
        Bson::Int32(number) => Some(i64::from(*number)),
        Bson::Int64(number) => Some(*number),
        #[expect(clippy::cast_possible_truncation)] // truncation is intended
        Bson::Double(number) => Some(*number as i64),
        _ => None,
    }
}

fn invalid(message: impl Into<String>) -> Fault {
    Fault::new(Code::INVALID_OPTIONS, message)
}
