//! Checks of a command before it runs: arguments that exclude each other.

use steadfast_query::{Code, Fault};

use crate::{
    call::{Call, ReadConcern, TransactionArguments, WriteConcern, WriteConcernW},
    command::{Command, Handler, arguments::Arguments},
};

/// Commands that accept read concerns other than `local`.
const READ_CONCERN: [&str; 4] = ["aggregate", "count", "distinct", "find"];
const SNAPSHOT: [&str; 3] = ["aggregate", "distinct", "find"];

/// Returns an error for arguments that exclude each other.
pub(crate) fn check(call: &Call, command: &Command, is_set: bool) -> Result<(), Fault> {
    if call.api_strict && !command.stable {
        return Err(not_stable(&call.name));
    }
    match call.transaction {
        Some(_) if !is_set => return Err(no_retryable_writes()),
        Some(arguments) if arguments.multi_document => {
            check_in_transaction(call, command, arguments)?;
        }
        Some(_) if !command.retryable => return Err(not_retryable(call, command)),
        Some(_) | None => check_read_concern(call)?,
    }
    let writes = matches!((command.run)(&call.body), Handler::Write(_));
    if call.write_concern.given && !writes {
        return Err(invalid("Command does not support writeConcern"));
    }
    check_write_concern(&call.write_concern, is_set)
}

/// Returns an error for a `commitTransaction` or `abortTransaction` that is invalid in every state
/// of its transaction.
pub(crate) fn check_transaction_end(call: &Call) -> Result<(), Fault> {
    if call.database != "admin" {
        let message = format!("{} may only be run against the admin database.", call.name);
        return Err(Fault::new(Code::UNAUTHORIZED, message));
    }
    Arguments::of(call, &call.name, &["recoveryToken"])?;
    if call.transaction.is_some_and(|it| !it.multi_document) {
        return Err(not_a_retryable_write(&call.name));
    }
    if !call.read_concern.is_default() {
        return Err(invalid("commitTransaction and abortTransaction have no readConcern"));
    }
    if call.transaction.is_some_and(|it| it.starts) {
        let how = if call.name == "commitTransaction" { "a commit" } else { "an abort" };
        return Err(Fault::new(
            Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
            format!("Cannot start a transaction with {how}"),
        ));
    }
    Ok(())
}

/// A standalone server does not replicate, so it rejects write concerns above `w: 1`.
pub(super) fn check_write_concern(concern: &WriteConcern, is_set: bool) -> Result<(), Fault> {
    match &concern.w {
        Some(WriteConcernW::Members(2..)) if !is_set => {
            Err(Fault::bad_value("cannot use 'w' > 1 when a host is not replicated"))
        }
        Some(WriteConcernW::Tag(mode)) if !is_set => Err(Fault::bad_value(format!(
            "cannot use non-majority 'w' mode \"{mode}\" when a host is not a member of a replica \
             set"
        ))),
        _ => Ok(()),
    }
}

fn check_in_transaction(
    call: &Call,
    command: &Command,
    arguments: TransactionArguments,
) -> Result<(), Fault> {
    let name = &call.name;
    let rejected =
        |message: String| Err(Fault::new(Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION, message));
    if !command.in_transactions {
        return rejected(match name.as_str() {
            "count" => String::from(
                "Cannot run 'count' in a multi-document transaction. Please see \
                 http://dochub.mongodb.org/core/transaction-count for a recommended alternative.",
            ),
            _ if command.on_any_member => {
                String::from("This command is not supported in transactions")
            }
            _ => format!("Cannot run '{name}' in a multi-document transaction."),
        });
    }
    match call.database.as_str() {
        "config" => {
            return rejected(
                "Cannot run command against the config database in a transaction.".into(),
            );
        }
        "local" => {
            let message = "Cannot run command against the 'local' database in a transaction.";
            return rejected(message.into());
        }
        _ => {}
    }
    if call.write_concern.given {
        return Err(invalid("writeConcern is not allowed within a multi-statement transaction"));
    }
    if !arguments.starts && !call.read_concern.is_default() {
        return Err(invalid("Only the first command in a transaction may specify a readConcern"));
    }
    if !matches!(call.read_concern.level(), "local" | "majority" | "snapshot") {
        return Err(invalid(
            "The readConcern level must be either 'local' (default), 'majority' or 'snapshot' in \
             order to run in a transaction",
        ));
    }
    Ok(())
}

fn check_read_concern(call: &Call) -> Result<(), Fault> {
    // A `getMore` reads with the concern of its cursor. Some drivers repeat `readConcern`, so it is
    // ignored.
    if call.name == "getMore" {
        return Ok(());
    }
    let ReadConcern { level: Some(level), .. } = &call.read_concern else { return Ok(()) };
    let name = call.name.as_str();
    let why = match level.as_str() {
        "local" | "available" => return Ok(()),
        "snapshot" if READ_CONCERN.contains(&name) && !SNAPSHOT.contains(&name) => {
            "read concern snapshot not supported"
        }
        _ if READ_CONCERN.contains(&name) => return Ok(()),
        _ => "read concern not supported",
    };
    Err(invalid(&format!(
        "Command {name} does not support {{ readConcern: {{ level: \"{level}\", provenance: \
         \"clientSupplied\" }} }} :: caused by :: {why}"
    )))
}

fn not_retryable(call: &Call, command: &Command) -> Fault {
    if command.on_any_member {
        return Fault::location(50889, "It is illegal to provide a txnNumber for this command");
    }
    not_a_retryable_write(&call.name)
}

fn not_a_retryable_write(name: &str) -> Fault {
    Fault::new(
        Code::named(50768, "NotARetryableWriteCommand"),
        format!(
            "txnNumber may only be provided for multi-document transactions and retryable write \
             commands. autocommit:false was not provided, and {name} is not a retryable write command."
        ),
    )
}

/// A standalone server has no oplog to record retryable writes.
pub(super) fn no_retryable_writes() -> Fault {
    Fault::new(
        Code::ILLEGAL_OPERATION,
        "Transaction numbers are only allowed on a replica set member or mongos",
    )
}

pub(crate) fn not_stable(name: &str) -> Fault {
    Fault::new(
        Code::API_STRICT_ERROR,
        format!(
            "Provided apiStrict:true, but the command {name} is not in API Version 1. Information \
             on supported commands and migrations in API Version 1 can be found at \
             https://dochub.mongodb.org/core/manual-versioned-api."
        ),
    )
}

fn invalid(message: &str) -> Fault {
    Fault::new(Code::INVALID_OPTIONS, message)
}
