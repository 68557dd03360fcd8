//! Transactions: starting, committing and aborting them, and running one until it is committed.

mod run;

use std::{sync::Arc, time::Duration};

use steadfast_core::{description::ServerType, transaction::TransactionEnd};

use crate::{
    ClientSession,
    deadline::Deadline,
    error::{Error, ErrorKind, Result},
    exec::transaction_end,
    operation::{self, reading},
    options::TransactionOptions,
    session::Kind,
};

impl ClientSession {
    /// Starts a transaction: the operations that are given this session from now on take effect
    /// together when it is [committed](Self::commit_transaction), or not at all.
    ///
    /// Nothing is sent yet: the first operation starts it on the server. Operations in it may not say
    /// what they read or how durable they are; the transaction does. They are not retried one by one.
    /// If one fails, the transaction has most likely been aborted by the server; with the label
    /// [`TRANSIENT_TRANSACTION_ERROR`](crate::error::TRANSIENT_TRANSACTION_ERROR) it is worth while to
    /// abort it and run all of it again. [`and_run`](StartTransaction::and_run) does all that.
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
    /// Leaving early, as the `?` above may, drops the session, which aborts the transaction.
    pub fn start_transaction(&mut self) -> StartTransaction<&mut Self> {
        StartTransaction { session: self, options: None }
    }

    /// Commits the transaction.
    ///
    /// It is tried again once if it fails for a passing reason. If it fails for good, the error's
    /// [`outcome`](Error::outcome) tells of the transaction as a whole, and of all calls of commit so
    /// far. With [`MaybeApplied`](crate::error::Outcome::MaybeApplied), or the label
    /// [`UNKNOWN_TRANSACTION_COMMIT_RESULT`](crate::error::UNKNOWN_TRANSACTION_COMMIT_RESULT), call
    /// it again: a transaction is never committed twice. Do the same after a future of it was dropped
    /// before it was done.
    pub fn commit_transaction(&mut self) -> CommitTransaction<'_> {
        CommitTransaction { session: self, timeout: None }
    }

    /// Aborts the transaction. It fails only if there is none to abort: if the server cannot be told,
    /// it gives up the transaction by itself.
    pub fn abort_transaction(&mut self) -> AbortTransaction<'_> {
        AbortTransaction { session: self, timeout: None }
    }
}

/// Starts a transaction. See [`ClientSession::start_transaction`].
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
setters!(TransactionOptions for ['a] StartTransaction<&'a mut ClientSession>);

/// How long a transaction with these options may take, if they or the session's own say so.
fn time_limit(session: &ClientSession, options: Option<&TransactionOptions>) -> Option<Duration> {
    let defaults = session.options().default_transaction_options.as_ref();
    let timeout = |options: Option<&TransactionOptions>| options?.timeout;
    timeout(options).or_else(|| timeout(defaults))
}

fn start(session: &ClientSession, options: Option<&TransactionOptions>) -> Result<()> {
    if session.shared().kind == Kind::Snapshot {
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

/// Commits a transaction. See [`ClientSession::commit_transaction`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct CommitTransaction<'a> {
    session: &'a mut ClientSession,
    timeout: Option<Duration>,
}

impl CommitTransaction<'_> {
    /// How long it may take in all. By default what is left of the transaction's own time, if it has
    /// any, else what the session says ([`default_timeout`](crate::options::SessionOptions::default_timeout)), else
    /// what the client says.
    pub fn timeout(mut self, value: Duration) -> Self {
        self.timeout = Some(value);
        self
    }

    async fn execute(self) -> Result<()> {
        let client = self.session.client();
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
                    committed.and_then(|reply| reading(&reply, operation::read_nothing));
                // A commit that is tried again by the application has time of its own.
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

/// Aborts a transaction. See [`ClientSession::abort_transaction`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct AbortTransaction<'a> {
    session: &'a mut ClientSession,
    timeout: Option<Duration>,
}

impl AbortTransaction<'_> {
    /// How long it may take in all. By default as long as the transaction had, if it had a time limit,
    /// else what the session says ([`default_timeout`](crate::options::SessionOptions::default_timeout)), else what
    /// the client says.
    pub fn timeout(mut self, value: Duration) -> Self {
        self.timeout = Some(value);
        self
    }

    async fn execute(self) -> Result<()> {
        let client = self.session.client();
        let session = self.session.share(&client)?;
        match session.transaction(|transaction| transaction.abort())? {
            TransactionEnd::Nothing => drop(session.unpin()),
            // The specification: an application could do nothing about an error.
            TransactionEnd::Send => {
                // However late it is: the server is to be rid of it.
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
