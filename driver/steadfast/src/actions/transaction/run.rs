//! Running a transaction until it is committed.

use std::{sync::Arc, time::Duration};

use steadfast_core::transaction::{AfterCommit, WithTransaction, WithTransactionTimeout};

use super::{StartTransaction, misuse, start, time_limit};
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
    /// Starts a transaction, calls `callback`, and commits; and does so again, after a short wait, as
    /// long as it fails for a passing reason and 120 seconds have not passed. In most cases
    /// [`and_run2`](Self::and_run2) is easier to call.
    ///
    /// **The callback may be called many times,** so what it does besides the transaction, it may do
    /// many times. An error of an operation must be returned by it, and not be passed over: the
    /// server has aborted the transaction by then, the commit would fail, and all be run again until
    /// there is no time left. If the callback needs an error of its own, there is
    /// [`Error::custom`]. Any error without the label
    /// [`TRANSIENT_TRANSACTION_ERROR`] ends it: the transaction is aborted, and the error returned.
    /// A callback that aborts or commits the transaction itself ends it, too.
    ///
    /// When there is no time left, the error is a time-out ([`Error::is_timeout`]); its
    /// [`source`](std::error::Error::source) is the last error, whose labels and outcome are its own.
    ///
    /// # Cancellation
    ///
    /// Dropping the future aborts the transaction in the background, unless its commit was sent; then
    /// it is committed or not, and [`commit_transaction`](ClientSession::commit_transaction) can be
    /// called to find out.
    ///
    /// What is to be used by all calls of the callback is given to each as `context`:
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
    pub async fn and_run<R, C, F>(self, mut context: C, mut callback: F) -> Result<R>
    where
        F: for<'b> FnMut(&'b mut ClientSession, &'b mut C) -> ActionFuture<'b, R>,
    {
        let Self { session, options } = self;
        let mut run = Run::new(session, options.as_ref());
        loop {
            run.begin(session, options.as_ref()).await?;
            let called = callback(&mut *session, &mut context).await;
            if let Some(ended) = run.end(session, called).await {
                return ended;
            }
        }
    }

    /// Starts a transaction, calls `callback`, and commits, as [`and_run`](Self::and_run) does; with
    /// an async closure, which can borrow what is around it.
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
    pub async fn and_run2<R, F>(self, mut callback: F) -> Result<R>
    where
        F: for<'b> AsyncFnMut(&'b mut ClientSession) -> Result<R>,
    {
        let Self { session, options } = self;
        let mut run = Run::new(session, options.as_ref());
        loop {
            run.begin(session, options.as_ref()).await?;
            let called = callback(&mut *session).await;
            if let Some(ended) = run.end(session, called).await {
                return ended;
            }
        }
    }
}

/// The tries of one transaction.
struct Run {
    tries: WithTransaction,
    /// By when it must be committed, if there is another limit than the specification's.
    deadline: Option<Deadline>,
    client: Client,
    session: Arc<Session>,
    /// `txnNumber` of the latest transaction that it started.
    number: Option<i64>,
    /// Why the last try failed.
    latest: Option<Error>,
}

impl Run {
    fn new(session: &ClientSession, options: Option<&TransactionOptions>) -> Self {
        let limit = time_limit(session, options).or(session.default_timeout());
        let deadline = limit.map(Deadline::begin);
        let tries = match deadline {
            None => WithTransaction::new(now()),
            Some(deadline) => {
                WithTransaction::within(deadline.remaining().unwrap_or(Duration::MAX), now())
            }
        };
        let (client, session) = (session.client(), Arc::clone(session.shared()));
        Self { tries, deadline, client, session, number: None, latest: None }
    }

    /// Waits until it is time for a try, and starts the transaction.
    async fn begin(
        &mut self,
        session: &ClientSession,
        options: Option<&TransactionOptions>,
    ) -> Result<()> {
        match self.tries.begin(now(), random_unit()) {
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

    /// Ends the transaction after the callback's part of it; none if all is to be done again.
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
            // A commit would not even be sent, and the transaction stay open on the server.
            TransactionState::InProgress if self.has_no_time_left() => {
                self.abort_in_background();
                Some(Err(self.no_time_left(None)))
            }
            TransactionState::Starting | TransactionState::InProgress => {
                self.commit(session).await.map(|committed| committed.map(|()| value))
            }
            // The callback has ended it itself, and will know why.
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
            match self.tries.after_commit(|label| error.contains_label(label), timed_out, now()) {
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

    /// Aborts the transaction without waiting for it: the call ends by its deadline, and the abort has
    /// as much time again, by the specification of client-side operation time-outs.
    fn abort_in_background(&self) {
        let limit = self.deadline.map(Deadline::timeout);
        self.client.executor().abort_in_background(&self.session, limit);
    }

    /// The error when there is no time for another try, with all that the last one tells.
    fn no_time_left(&self, latest: Option<Error>) -> Error {
        let limit = self.deadline.map_or(self.tries.limit(), Deadline::timeout);
        let latest = latest.unwrap_or_else(|| {
            let seconds = limit.as_secs_f64();
            let message = format!("the transaction was not committed within {seconds} seconds");
            let history = History { outcome: Outcome::NotApplied, ..History::default() };
            misuse(&message).with_history(history)
        });
        deadline::exceeded(limit, latest, TimeSpent::default())
    }
}

/// Ends what a dropped future left open. A transaction that is still active is aborted, or the next
/// operation in the session would silently become part of it. One that was active before is kept.
impl Drop for Run {
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
