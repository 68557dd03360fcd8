//! Command errors: code, name, message, details.

use std::{borrow::Cow, fmt};

use bson::{Document, doc};

/// Error code with its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code {
    /// Number (`code`).
    pub number: i32,
    name: Option<&'static str>,
}

impl Code {
    /// Creates a code with a name.
    pub const fn named(number: i32, name: &'static str) -> Self {
        Self { number, name: Some(name) }
    }

    /// Creates a code without a name. Most parse errors are such (`Location40323`).
    pub const fn location(number: i32) -> Self {
        Self { number, name: None }
    }

    /// Returns the name (`codeName`): `BadValue`, `Location40323`.
    pub fn name(self) -> Cow<'static, str> {
        match self.name {
            Some(name) => name.into(),
            None => format!("Location{}", self.number).into(),
        }
    }
}

macro_rules! codes {
    ($($constant:ident = $number:literal, $name:literal;)*) => {
        impl Code {
            $(#[doc = $name] pub const $constant: Code = Code::named($number, $name);)*

            /// Returns the code of this number, with its name if it is listed here.
            pub fn numbered(number: i32) -> Self {
                match number {
                    $($number => Self::$constant,)*
                    _ => Self::location(number),
                }
            }
        }
    };
}

codes! {
    INTERNAL_ERROR = 1, "InternalError";
    BAD_VALUE = 2, "BadValue";
    HOST_UNREACHABLE = 6, "HostUnreachable";
    HOST_NOT_FOUND = 7, "HostNotFound";
    FAILED_TO_PARSE = 9, "FailedToParse";
    USER_NOT_FOUND = 11, "UserNotFound";
    UNAUTHORIZED = 13, "Unauthorized";
    TYPE_MISMATCH = 14, "TypeMismatch";
    OVERFLOW = 15, "Overflow";
    INVALID_LENGTH = 16, "InvalidLength";
    PROTOCOL_ERROR = 17, "ProtocolError";
    AUTHENTICATION_FAILED = 18, "AuthenticationFailed";
    ILLEGAL_OPERATION = 20, "IllegalOperation";
    NAMESPACE_NOT_FOUND = 26, "NamespaceNotFound";
    INDEX_NOT_FOUND = 27, "IndexNotFound";
    PATH_NOT_VIABLE = 28, "PathNotViable";
    CONFLICTING_UPDATE_OPERATORS = 40, "ConflictingUpdateOperators";
    CURSOR_NOT_FOUND = 43, "CursorNotFound";
    NAMESPACE_EXISTS = 48, "NamespaceExists";
    MAX_TIME_MS_EXPIRED = 50, "MaxTimeMSExpired";
    DOLLAR_PREFIXED_FIELD_NAME = 52, "DollarPrefixedFieldName";
    INVALID_ID_FIELD = 53, "InvalidIdField";
    EMPTY_FIELD_NAME = 56, "EmptyFieldName";
    DOTTED_FIELD_NAME = 57, "DottedFieldName";
    COMMAND_NOT_FOUND = 59, "CommandNotFound";
    WRITE_CONCERN_TIMEOUT = 64, "WriteConcernTimeout";
    IMMUTABLE_FIELD = 66, "ImmutableField";
    CANNOT_CREATE_INDEX = 67, "CannotCreateIndex";
    INVALID_OPTIONS = 72, "InvalidOptions";
    INVALID_NAMESPACE = 73, "InvalidNamespace";
    NODE_NOT_FOUND = 74, "NodeNotFound";
    NO_REPLICATION_ENABLED = 76, "NoReplicationEnabled";
    UNKNOWN_REPL_WRITE_CONCERN = 79, "UnknownReplWriteConcern";
    INDEX_OPTIONS_CONFLICT = 85, "IndexOptionsConflict";
    INDEX_KEY_SPECS_CONFLICT = 86, "IndexKeySpecsConflict";
    NETWORK_TIMEOUT = 89, "NetworkTimeout";
    SHUTDOWN_IN_PROGRESS = 91, "ShutdownInProgress";
    NOT_YET_INITIALIZED = 94, "NotYetInitialized";
    NOT_PRIMARY_OR_SECONDARY = 13436, "NotPrimaryOrSecondary";
    NOT_PRIMARY_NO_SECONDARY_OK = 13435, "NotPrimaryNoSecondaryOk";
    UNSATISFIABLE_WRITE_CONCERN = 100, "UnsatisfiableWriteConcern";
    DOCUMENT_TOO_LARGE = 10334, "BSONObjectTooLarge";
    WRITE_CONFLICT = 112, "WriteConflict";
    COMMAND_NOT_SUPPORTED = 115, "CommandNotSupported";
    DOCUMENT_VALIDATION_FAILURE = 121, "DocumentValidationFailure";
    READ_CONCERN_MAJORITY_NOT_AVAILABLE_YET = 134, "ReadConcernMajorityNotAvailableYet";
    FAILED_TO_SATISFY_READ_PREFERENCE = 133, "FailedToSatisfyReadPreference";
    COMMAND_NOT_SUPPORTED_ON_VIEW = 166, "CommandNotSupportedOnView";
    INVALID_INDEX_SPECIFICATION_OPTION = 197, "InvalidIndexSpecificationOption";
    PRIMARY_STEPPED_DOWN = 189, "PrimarySteppedDown";
    NO_SUCH_SESSION = 206, "NoSuchSession";
    TRANSACTION_TOO_OLD = 225, "TransactionTooOld";
    NOT_IMPLEMENTED = 238, "NotImplemented";
    SNAPSHOT_TOO_OLD = 239, "SnapshotTooOld";
    SNAPSHOT_UNAVAILABLE = 246, "SnapshotUnavailable";
    NO_SUCH_TRANSACTION = 251, "NoSuchTransaction";
    TRANSACTION_COMMITTED = 256, "TransactionCommitted";
    EXCEEDED_TIME_LIMIT = 262, "ExceededTimeLimit";
    OPERATION_NOT_SUPPORTED_IN_TRANSACTION = 263, "OperationNotSupportedInTransaction";
    API_VERSION_ERROR = 322, "APIVersionError";
    API_STRICT_ERROR = 323, "APIStrictError";
    INGRESS_REQUEST_RATE_LIMIT_EXCEEDED = 462, "IngressRequestRateLimitExceeded";
    NOT_WRITABLE_PRIMARY = 10107, "NotWritablePrimary";
    DUPLICATE_KEY = 11000, "DuplicateKey";
    INTERRUPTED_AT_SHUTDOWN = 11600, "InterruptedAtShutdown";
    INTERRUPTED = 11601, "Interrupted";
    INTERRUPTED_DUE_TO_REPL_STATE_CHANGE = 11602, "InterruptedDueToReplStateChange";
    STALE_CONFIG = 13388, "StaleConfig";
}

/// Command error, as servers report it.
#[derive(Clone, Debug, PartialEq)]
pub struct Fault {
    /// Error code.
    pub code: Code,
    /// Message (`errmsg`). Equal to that of servers where applications parse it.
    pub message: String,
    /// Further fields of the reply, such as `keyPattern` and `keyValue`.
    pub details: Document,
}

impl Fault {
    /// Creates an error without details.
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), details: Document::new() }
    }

    /// Creates a `BadValue` error.
    pub fn bad_value(message: impl Into<String>) -> Self {
        Self::new(Code::BAD_VALUE, message)
    }

    /// Creates a `FailedToParse` error.
    pub fn failed_to_parse(message: impl Into<String>) -> Self {
        Self::new(Code::FAILED_TO_PARSE, message)
    }

    /// Creates a `TypeMismatch` error.
    pub fn type_mismatch(message: impl Into<String>) -> Self {
        Self::new(Code::TYPE_MISMATCH, message)
    }

    /// Creates an error whose code has no name.
    pub fn location(number: i32, message: impl Into<String>) -> Self {
        Self::new(Code::location(number), message)
    }

    /// Adds details.
    #[must_use]
    pub fn with(mut self, details: Document) -> Self {
        self.details.extend(details);
        self
    }

    /// Returns the error reply of a command.
    pub fn to_reply(&self) -> Document {
        let mut reply = doc! {
            "ok": 0.0,
            "errmsg": &self.message,
            "code": self.code.number,
            "codeName": self.code.name().as_ref(),
        };
        reply.extend(self.details.clone());
        reply
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}): {}", self.code.name(), self.code.number, self.message)
    }
}

impl std::error::Error for Fault {}
