//! Convenient transactions: a callback is run and committed, with retries.

use std::{sync::Arc, time::Duration};

use steadfast_core::transaction::{AfterCommit, WithTransaction, WithTransactionTimeout};

use super::{StartTransaction, misuse, start, time_limit};
#[cfg(feature = "sync")]
use crate::runtime::block_on;
use crate::{
    Client, ClientSession, TransactionState,
    actions::ActionFuture,
    deadline::{self, Deadline, now},
    error::{
        Error, History, MAX_TIME_EXPIRED, Outcome, Result, TRANSIENT_TRANSACTION_ERROR, TimeSpent,
    },
    options::TransactionOptions,
    random::random_unit,
    session::{ABORT_WAIT, Session},
};

impl StartTransaction<&mut ClientSession> {
    /// Runs `callback` in a transaction and commits it, with retries. See
    /// [convenient transactions](https://github.com/mongodb/specifications/blob/master/source/transactions-convenient-api/transactions-convenient-api.md).
    ///
    /// The whole transaction is repeated after an error with the label
    /// [`TRANSIENT_TRANSACTION_ERROR`], and the commit after an error with the label
    /// `UnknownTransactionCommitResult`, with jittered backoff, until 120 seconds or the time-out
    /// of the transaction have passed.
    ///
    /// **The callback may be called several times.** Its effects outside of the transaction must be
    /// idempotent. It must return the errors of its operations: the server has aborted the
    /// transaction then, and a commit would fail. [`Error::custom`] carries an error of the
    /// application. The call ends without a commit if the callback commits or aborts the
    /// transaction itself.
    ///
    /// Values for all calls of the callback are passed as `context`. [`and_run2`](Self::and_run2)
    /// accepts a closure that borrows them.
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// use steadfast::bson::{Document, doc};
    ///
    /// let books = client.database("library").collection::<Document>("books");
    /// let mut session = client.start_session().await?;
    /// session
    ///     .start_transaction()
    ///     .and_run((&books, "1984"), |session, (books, title)| {
    ///         Box::pin(async move {
    ///             books.insert_one(doc! { "title": *title }).session(session).await
    ///         })
    ///     })
    ///     .await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - The error of the callback, unless it has the label [`TRANSIENT_TRANSACTION_ERROR`]. The
    ///   transaction is aborted.
    /// - The error of the commit, unless it is retryable.
    /// - [`ErrorKind::Timeout`](crate::error::ErrorKind::Timeout) once no time is left for another
    ///   attempt. Its [`source`](std::error::Error::source) is the last error, whose labels and
    ///   outcome it has.
    /// - [`ErrorKind::Transaction`](crate::error::ErrorKind::Transaction) if the transaction cannot
    ///   be started; see [`start_transaction`](ClientSession::start_transaction).
    ///
    /// # Cancellation
    ///
    /// Dropping the future aborts the transaction in the background, unless its commit was sent.
    /// Then call [`commit_transaction`](ClientSession::commit_transaction) to determine the result.
    pub async fn and_run<R, C, F>(self, mut context: C, mut callback: F) -> Result<R>
    where
        F: for<'b> FnMut(&'b mut ClientSession, &'b mut C) -> ActionFuture<'b, R>,
    {
        let Self { session, options } = self;
        let mut run = TransactionRun::new(session, options.as_ref());
        loop {
            run.begin(session, options.as_ref()).await?;
            let called = callback(&mut *session, &mut context).await;
            if let Some(ended) = run.end(session, called).await {
                return ended;
            }
        }
    }

    /// Runs an async closure in a transaction and commits it, with retries. The closure can borrow
    /// from its environment; otherwise as [`and_run`](Self::and_run).
    /// See [transactions](https://www.mongodb.com/docs/manual/core/transactions/).
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// use steadfast::{ClientSession, bson::{Document, doc}};
    ///
    /// let accounts = client.database("bank").collection::<Document>("accounts");
    /// let (withdraw, deposit) =
    ///     (doc! { "$inc": { "balance": -10 } }, doc! { "$inc": { "balance": 10 } });
    /// let mut session = client.start_session().await?;
    /// session
    ///     .start_transaction()
    ///     .and_run2(async |session: &mut ClientSession| {
    ///         let (ann, bob) = (doc! { "_id": "ann" }, doc! { "_id": "bob" });
    ///         accounts.update_one(ann, withdraw.clone()).session(&mut *session).await?;
    ///         accounts.update_one(bob, deposit.clone()).session(&mut *session).await
    ///     })
    ///     .await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As [`and_run`](Self::and_run).
    ///
    /// # Cancellation
    ///
    /// As [`and_run`](Self::and_run).
    pub async fn and_run2<R, F>(self, mut callback: F) -> Result<R>
    where
        F: for<'b> AsyncFnMut(&'b mut ClientSession) -> Result<R>,
    {
        let Self { session, options } = self;
        let mut run = TransactionRun::new(session, options.as_ref());
        loop {
            run.begin(session, options.as_ref()).await?;
            let called = callback(&mut *session).await;
            if let Some(ended) = run.end(session, called).await {
                return ended;
            }
        }
    }
}

#[cfg(feature = "sync")]
impl StartTransaction<&mut crate::blocking::ClientSession> {
    /// Runs `callback` in a transaction and commits it, with retries, and blocks the thread until its result is there.
    /// See the async [`and_run2`](StartTransaction::and_run2).
    ///
    /// **The callback may be called several times.** It must return the errors of its operations.
    ///
    /// ```no_run
    /// # fn run(client: steadfast::sync::Client) -> steadfast::error::Result<()> {
    /// use steadfast::bson::{Document, doc};
    ///
    /// let books = client.database("library").collection::<Document>("books");
    /// let mut session = client.start_session().run()?;
    /// session.start_transaction().and_run(|session| {
    ///     books.insert_one(doc! { "title": "1984" }).session(session).run()
    /// })?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// As the async [`and_run`](StartTransaction::and_run), and that of [blocking](crate::sync#blocking).
    pub fn and_run<R, F>(self, mut callback: F) -> Result<R>
    where
        F: for<'b> FnMut(&'b mut crate::blocking::ClientSession) -> Result<R>,
    {
        let Self { session, options } = self;
        let mut run = TransactionRun::new(session.as_async_mut(), options.as_ref());
        loop {
            block_on(run.begin(session.as_async_mut(), options.as_ref()))??;
            let called = callback(&mut *session);
            if let Some(ended) = block_on(run.end(session.as_async_mut(), called))? {
                return ended;
            }
        }
    }
}

/// Attempts of one convenient transaction.
struct TransactionRun {
    attempts: WithTransaction,
    /// Deadline from a time-out. Without one, the 120 seconds of the specification apply.
    deadline: Option<Deadline>,
    client: Client,
    session: Arc<Session>,
    /// `txnNumber` of the latest transaction started by this call.
    number: Option<i64>,
    /// Error of the last attempt.
    latest: Option<Error>,
}

impl TransactionRun {
    fn new(session: &ClientSession, options: Option<&TransactionOptions>) -> Self {
        let limit = time_limit(session, options).or(session.default_timeout());
        let deadline = limit.map(Deadline::begin);
        let attempts = match deadline {
            None => WithTransaction::new(now()),
            Some(deadline) => {
                WithTransaction::within(deadline.remaining().unwrap_or(Duration::MAX), now())
            }
        };
        let (client, session) = (session.client(), Arc::clone(session.shared()));
        Self { attempts, deadline, client, session, number: None, latest: None }
    }

    /// Waits for the backoff and starts the transaction.
    async fn begin(
        &mut self,
        session: &ClientSession,
        options: Option<&TransactionOptions>,
    ) -> Result<()> {
        match self.attempts.begin(now(), random_unit()) {
            Ok(wait) if wait.is_zero() => {}
            Ok(wait) => tokio::time::sleep(wait).await,
            Err(WithTransactionTimeout) => return Err(self.no_time_left(self.latest.clone())),
        }
        self.client.executor().abort_unexecuted_end(&self.session);
        self.session.background_abort(self.deadline.and_then(Deadline::remaining)).await;
        start(session, options)?;
        self.number = Some(self.session.transaction(|transaction| transaction.number()));
        session.shared().set_transaction_deadline(self.deadline);
        Ok(())
    }

    /// Ends the transaction after the callback. Returns `None` if the transaction must be repeated.
    async fn end<R>(
        &mut self,
        session: &mut ClientSession,
        called: Result<R>,
    ) -> Option<Result<R>> {
        let value = match called {
            Ok(value) => value,
            Err(error) => return self.after_failure(session, error).await.map(Err),
        };
        match session.transaction_state() {
            // The commit would not be sent, and the transaction would stay open on the server.
            TransactionState::InProgress if self.has_no_time_left() => {
                self.abort_in_background();
                Some(Err(self.no_time_left(None)))
            }
            TransactionState::Starting | TransactionState::InProgress => {
                self.commit(session).await.map(|committed| committed.map(|()| value))
            }
            // The callback has committed or aborted the transaction itself.
            TransactionState::None
            | TransactionState::Committed { .. }
            | TransactionState::Aborted => Some(Ok(value)),
        }
    }

    async fn after_failure(&mut self, session: &mut ClientSession, error: Error) -> Option<Error> {
        if let TransactionState::Starting | TransactionState::InProgress =
            session.transaction_state()
        {
            if self.has_no_time_left() {
                self.abort_in_background();
            } else if let Err(error) = session.abort_transaction().await {
                return Some(error);
            }
        }
        if !error.contains_label(TRANSIENT_TRANSACTION_ERROR) {
            return Some(error);
        }
        self.latest = Some(error);
        None
    }

    async fn commit(&mut self, session: &mut ClientSession) -> Option<Result<()>> {
        loop {
            let Err(error) = session.commit_transaction().await else { return Some(Ok(())) };
            let timed_out = error.code() == Some(MAX_TIME_EXPIRED) || error.is_timeout();
            match self.attempts.after_commit(|label| error.contains_label(label), timed_out, now())
            {
                AfterCommit::RepeatCommit => {}
                AfterCommit::RetryTransaction => {
                    self.latest = Some(error);
                    return None;
                }
                AfterCommit::Raise => return Some(Err(error)),
                AfterCommit::TimedOut => return Some(Err(self.no_time_left(Some(error)))),
            }
        }
    }

    fn has_no_time_left(&self) -> bool {
        self.deadline.is_some_and(Deadline::has_passed)
    }

    /// Aborts the transaction without waiting, so that the call ends by its deadline. The abort has
    /// a deadline of its own, by the specification of client-side operations timeout.
    fn abort_in_background(&self) {
        let limit = self.deadline.map(Deadline::timeout);
        self.client.executor().abort_in_background(&self.session, limit);
    }

    /// Returns the time-out error, with the last error as its source.
    fn no_time_left(&self, latest: Option<Error>) -> Error {
        let limit = self.deadline.map_or(self.attempts.limit(), Deadline::timeout);
        let latest = latest.unwrap_or_else(|| {
            let seconds = limit.as_secs_f64();
            let message = format!("the transaction was not committed within {seconds} seconds");
            let history = History { outcome: Outcome::NotApplied, ..History::default() };
            misuse(&message).with_history(history)
        });
        deadline::exceeded(limit, latest, TimeSpent::default())
    }
}

/// Cleans up after a dropped future. A transaction of this call that is still active is aborted, or
/// the next operation in the session would become part of it. A transaction that was active before
/// is kept.
impl Drop for TransactionRun {
    fn drop(&mut self) {
        if self.number == Some(self.session.transaction(|transaction| transaction.number())) {
            let timeout = self.deadline.map(|deadline| deadline.timeout().max(ABORT_WAIT));
            self.client.executor().abort_in_background(&self.session, timeout);
        }
        if self.session.transaction_deadline() == self.deadline {
            self.session.set_transaction_deadline(None);
        }
    }
}

#[cfg(test)]
mod tests;
