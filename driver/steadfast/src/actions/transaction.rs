//! Transactions: start, commit, abort.

mod run;

use std::{sync::Arc, time::Duration};

use steadfast_core::{description::ServerType, transaction::TransactionEnd};

use crate::{
    ClientSession,
    deadline::Deadline,
    error::{Error, ErrorKind, Result},
    exec::transaction_end,
    operation::{self, read_reply},
    options::TransactionOptions,
    session::SessionKind,
};

impl ClientSession {
    /// Starts a transaction. See
    /// [transactions](https://www.mongodb.com/docs/manual/core/transactions/).
    ///
    /// Operations that receive this session become part of the transaction until it is
    /// [committed](Self::commit_transaction) or [aborted](Self::abort_transaction). Nothing is
    /// sent: the first operation starts the transaction on the server.
    ///
    /// Read concern, write concern and read preference are set for the transaction, not for its
    /// operations. Operations are not retried one by one. After an error with the label
    /// [`TRANSIENT_TRANSACTION_ERROR`](crate::error::TRANSIENT_TRANSACTION_ERROR), abort the
    /// transaction and run all of it again; [`and_run`](StartTransaction::and_run) does this.
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// use steadfast::bson::{Document, doc};
    ///
    /// let accounts = client.database("bank").collection::<Document>("accounts");
    /// let (withdraw, deposit) =
    ///     (doc! { "$inc": { "balance": -10 } }, doc! { "$inc": { "balance": 10 } });
    /// let mut session = client.start_session().await?;
    /// session.start_transaction().await?;
    /// accounts.update_one(doc! { "_id": "ann" }, withdraw).session(&mut session).await?;
    /// accounts.update_one(doc! { "_id": "bob" }, deposit).session(&mut session).await?;
    /// session.commit_transaction().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// An early return, as by `?` above, drops the session, which aborts the transaction.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Transaction`](crate::error::ErrorKind::Transaction) if a transaction is in
    /// progress, if the session is a snapshot session, if the write concern is unacknowledged, or
    /// if the deployment is standalone.
    pub fn start_transaction(&mut self) -> StartTransaction<&mut Self> {
        StartTransaction { session: self, options: None }
    }

    /// Commits the transaction. See the
    /// [`commitTransaction`](https://www.mongodb.com/docs/manual/reference/command/commitTransaction/)
    /// command.
    ///
    /// ```no_run
    /// # async fn run(mut session: steadfast::ClientSession) -> steadfast::error::Result<()> {
    /// use steadfast::error::Outcome;
    ///
    /// while let Err(error) = session.commit_transaction().await {
    ///     match error.outcome() {
    ///         Outcome::MaybeApplied => println!("commit again: {error}"),
    ///         _ => return Err(error),
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Transaction`](crate::error::ErrorKind::Transaction) if no transaction was
    ///   started, or if it was aborted.
    /// - [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error.
    /// - [`ErrorKind::Write`](crate::error::ErrorKind::Write) if the write concern is not
    ///   satisfied.
    ///
    /// The commit is retried once after a retryable error. [`Error::outcome`] covers the whole
    /// transaction and all calls so far. After
    /// [`MaybeApplied`](crate::error::Outcome::MaybeApplied), or an error with the label
    /// [`UNKNOWN_TRANSACTION_COMMIT_RESULT`](crate::error::UNKNOWN_TRANSACTION_COMMIT_RESULT), call
    /// `commit_transaction` again: a transaction is committed at most once. See also the
    /// [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// Dropping the future leaves the result open; the state of the transaction is committed. Call
    /// `commit_transaction` again. If the commit was not sent, the next transaction or the end of the
    /// session aborts the transaction in the background.
    pub fn commit_transaction(&mut self) -> CommitTransaction<'_> {
        CommitTransaction { session: self, timeout: None }
    }

    /// Aborts the transaction. See the
    /// [`abortTransaction`](https://www.mongodb.com/docs/manual/reference/command/abortTransaction/)
    /// command.
    ///
    /// Server errors and network errors are ignored: the server aborts the transaction at the
    /// latest after `transactionLifetimeLimitSeconds`.
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// let mut session = client.start_session().await?;
    /// session.start_transaction().await?;
    /// session.abort_transaction().await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Transaction`](crate::error::ErrorKind::Transaction) if no transaction is in
    /// progress.
    ///
    /// # Cancellation
    ///
    /// The state of the transaction is aborted, also if the future is dropped. The command may not
    /// be sent then; the next transaction or the end of the session sends it in the background.
    pub fn abort_transaction(&mut self) -> AbortTransaction<'_> {
        AbortTransaction { session: self, timeout: None }
    }
}

/// Action that starts a transaction. See [`ClientSession::start_transaction`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct StartTransaction<S> {
    session: S,
    pub(crate) options: Option<TransactionOptions>,
}

impl StartTransaction<&mut ClientSession> {
    async fn execute(self) -> Result<()> {
        let limit = time_limit(self.session, self.options.as_ref());
        let deadline = limit.map(Deadline::begin);
        let session = Arc::clone(self.session.shared());
        self.session.client().executor().abort_unexecuted_end(&session);
        session.background_abort(limit).await;
        start(self.session, self.options.as_ref())?;
        session.set_transaction_deadline(deadline);
        Ok(())
    }
}

awaitable!(['a] StartTransaction<&'a mut ClientSession> => ());
setters!(TransactionOptions for [S] StartTransaction<S>);

#[cfg(feature = "sync")]
impl crate::blocking::ClientSession {
    /// Starts a transaction. See [`ClientSession::start_transaction`].
    pub fn start_transaction(&mut self) -> StartTransaction<&mut Self> {
        StartTransaction { session: self, options: None }
    }
}

#[cfg(feature = "sync")]
impl StartTransaction<&mut crate::blocking::ClientSession> {
    /// Runs the action and blocks the thread until its result is there. See [`sync`](crate::sync#blocking), also for
    /// the error in a task of a current-thread runtime.
    pub fn run(self) -> Result<()> {
        let Self { session, options } = self;
        StartTransaction { session: session.as_async_mut(), options }.run()
    }
}

/// Returns the time-out of the whole transaction, from its options or the session's defaults.
fn time_limit(session: &ClientSession, options: Option<&TransactionOptions>) -> Option<Duration> {
    let defaults = session.options().default_transaction_options.as_ref();
    let timeout = |options: Option<&TransactionOptions>| options?.timeout;
    timeout(options).or_else(|| timeout(defaults))
}

fn start(session: &ClientSession, options: Option<&TransactionOptions>) -> Result<()> {
    if session.shared().kind == SessionKind::Snapshot {
        return Err(misuse("Transactions are not supported in snapshot sessions"));
    }
    let client = session.client();
    let view = client.executor().topology().view();
    let mut servers = view.description.servers.values();
    if servers.any(|server| server.server_type == ServerType::Standalone) {
        return Err(misuse("Transactions are not supported by this deployment"));
    }
    session.begin_transaction(options)
}

fn misuse(message: &str) -> Error {
    Error::new(ErrorKind::Transaction { message: message.to_owned() })
}

/// Action that commits a transaction. See [`ClientSession::commit_transaction`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct CommitTransaction<'a> {
    session: &'a mut ClientSession,
    timeout: Option<Duration>,
}

impl CommitTransaction<'_> {
    /// Sets the time-out of the commit (`timeoutMS`). Defaults to the rest of the transaction's own
    /// time-out, then to [`default_timeout`](crate::options::SessionOptions::default_timeout) of
    /// the session, then to the time-out of the client.
    pub fn timeout(mut self, value: Duration) -> Self {
        self.timeout = Some(value);
        self
    }

    async fn execute(self) -> Result<()> {
        let client = self.session.client();
        self.session.begin_use();
        let session = self.session.share(&client)?;
        match session.transaction(|transaction| transaction.commit())? {
            TransactionEnd::Nothing => Ok(()),
            TransactionEnd::Send => {
                let inherited = self.session.default_timeout();
                let commit = transaction_end::commit().limited(self.timeout, inherited);
                if self.timeout.is_some() {
                    session.set_transaction_deadline(None);
                }
                let commit = commit.in_shared(Some(Arc::clone(&session)))?;
                let committed = client.executor().run(commit).await;
                let committed =
                    committed.and_then(|reply| read_reply(&reply, operation::check_write_concern));
                // A commit that the application repeats has its own deadline.
                let deadline = session.transaction_deadline();
                if committed.is_ok() || deadline.is_some_and(Deadline::has_passed) {
                    session.set_transaction_deadline(None);
                }
                committed
            }
        }
    }
}

awaitable!(['a] CommitTransaction<'a> => ());

/// Action that aborts a transaction. See [`ClientSession::abort_transaction`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct AbortTransaction<'a> {
    session: &'a mut ClientSession,
    timeout: Option<Duration>,
}

impl AbortTransaction<'_> {
    /// Sets the time-out of the abort (`timeoutMS`). Defaults to the transaction's own time-out,
    /// then to [`default_timeout`](crate::options::SessionOptions::default_timeout) of the session,
    /// then to the time-out of the client.
    pub fn timeout(mut self, value: Duration) -> Self {
        self.timeout = Some(value);
        self
    }

    async fn execute(self) -> Result<()> {
        let client = self.session.client();
        self.session.begin_use();
        let session = self.session.share(&client)?;
        match session.transaction(|transaction| transaction.abort())? {
            TransactionEnd::Nothing => drop(session.unpin()),
            // The transactions specification: drivers ignore errors of `abortTransaction`.
            TransactionEnd::Send => {
                // The abort has its own deadline: it is sent even if that of the transaction has
                // passed.
                let of_transaction = session.transaction_deadline().map(Deadline::timeout);
                session.set_transaction_deadline(None);
                let inherited = of_transaction.or(self.session.default_timeout());
                let abort = transaction_end::abort().limited(self.timeout, inherited);
                drop(client.executor().run(abort.in_shared(Some(Arc::clone(&session)))?).await);
                drop(session.unpin());
            }
        }
        Ok(())
    }
}

awaitable!(['a] AbortTransaction<'a> => ());
