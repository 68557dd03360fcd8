//! Bulk writes to any collections of a deployment.

use std::{future::poll_fn, marker::PhantomData, sync::Arc};

use steadfast_core::description::ServerType;

use super::write;
use crate::{
    Client, ClientSession,
    command::Reply,
    cursor::RawCursor,
    deadline::Deadline,
    error::{Error, ErrorKind, Result},
    operation::{
        WriteLimits, bulk,
        client_bulk::{self, ClientBulkBatch, ClientBulkTally, Operations},
        get_more::GetMoreOptions,
        write::Settings,
    },
    options::{BulkWriteOptions, WriteModel},
    results::{SummaryBulkWriteResult, VerboseBulkWriteResult},
    session::{self, Session},
    topology::SelectedServer,
    trace,
};

/// First wire version with the `bulkWrite` command: that of MongoDB 8.0.
const BULK_WRITE: i32 = 25;

impl Client {
    /// Executes write models on any collections, in as few commands as the server's limits allow.
    /// See the [`bulkWrite`](https://www.mongodb.com/docs/manual/reference/command/bulkWrite/)
    /// command.
    ///
    /// Requires MongoDB 8.0 or later; [`Collection::bulk_write`](crate::Collection::bulk_write)
    /// does not. Each model must have a namespace.
    ///
    /// An ordered bulk write, the default, stops after the first write error. With
    /// [`ordered(false)`](BulkWrite::ordered), all models are attempted. The result contains the
    /// number of documents written; with [`verbose_results`](BulkWrite::verbose_results), also the
    /// result of each model.
    ///
    /// Each command is a retryable write with its own transaction number (`txnNumber`), unless it
    /// contains an `UpdateMany` or a `DeleteMany`. An unacknowledged write concern (`w: 0`)
    /// requires `ordered(false)` and no verbose results.
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// use steadfast::{
    ///     Namespace,
    ///     bson::doc,
    ///     options::{InsertOneModel, UpdateOneModel, WriteModel},
    /// };
    ///
    /// let models: [WriteModel; 2] = [
    ///     InsertOneModel::new(doc! { "book": 7, "reader": "Ann" })
    ///         .namespace(Namespace::new("library", "loans"))
    ///         .into(),
    ///     UpdateOneModel::new(doc! { "_id": 7 }, doc! { "$inc": { "copies": -1 } })
    ///         .namespace(Namespace::new("library", "books"))
    ///         .into(),
    /// ];
    /// let result = client.bulk_write(models).verbose_results().await?;
    /// println!("the loan is {}", result.insert_results[&0].inserted_id);
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::BulkWrite`](crate::error::ErrorKind::BulkWrite) if the server reports write
    ///   errors or write concern errors, or if a command fails after another succeeded. It contains
    ///   every error with the index of its model and the partial result. The error of a failed
    ///   command is its [`source`](std::error::Error::source).
    /// - [`ErrorKind::InvalidArgument`](crate::error::ErrorKind::InvalidArgument) if a model has no
    ///   namespace, or if there is no model.
    /// - [`ErrorKind::IncompatibleServer`](crate::error::ErrorKind::IncompatibleServer) if the
    ///   server is older than MongoDB 8.0.
    ///
    /// [`Error::outcome`](crate::error::Error::outcome) covers the whole call. See also the
    /// [errors of every action](crate::action#errors).
    ///
    /// # Cancellation
    ///
    /// Dropping the future ends the call: no further command is sent. Writes of earlier commands
    /// stay applied, and the command in progress may still be applied. See
    /// [cancellation](crate::action#cancellation).
    pub fn bulk_write(
        &self,
        models: impl IntoIterator<Item = impl Into<WriteModel>>,
    ) -> BulkWrite<'_, SummaryBulkWriteResult> {
        BulkWrite {
            client: self,
            operations: Operations::of_models(models),
            options: None,
            session: None,
            result: PhantomData,
        }
    }
}

/// Action that executes a bulk write on any collections. See [`Client::bulk_write`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct BulkWrite<'a, R> {
    client: &'a Client,
    operations: Result<Operations>,
    pub(crate) options: Option<BulkWriteOptions>,
    session: Option<&'a mut ClientSession>,
    result: PhantomData<fn() -> R>,
}

impl<'a> BulkWrite<'a, SummaryBulkWriteResult> {
    /// Requests the result of each model (`errorsOnly: false`), not only the numbers of documents.
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client, books: steadfast::Collection<steadfast::bson::Document>) -> steadfast::error::Result<()> {
    /// use steadfast::{bson::doc, options::InsertOneModel};
    ///
    /// let insert = InsertOneModel::new(doc! { "title": "1984" }).namespace(books.namespace());
    /// let result = client.bulk_write([insert]).verbose_results().await?;
    /// println!("{:?}", result.insert_results[&0].inserted_id);
    /// # Ok(()) }
    /// ```
    pub fn verbose_results(self) -> BulkWrite<'a, VerboseBulkWriteResult> {
        let Self { client, operations, options, session, result: _ } = self;
        BulkWrite { client, operations, options, session, result: PhantomData }
    }

    async fn execute(self) -> Result<SummaryBulkWriteResult> {
        Ok(self.write(false).await?.summary)
    }
}

impl BulkWrite<'_, VerboseBulkWriteResult> {
    async fn execute(self) -> Result<VerboseBulkWriteResult> {
        self.write(true).await
    }
}

impl<R> BulkWrite<'_, R> {
    async fn write(self, verbose: bool) -> Result<VerboseBulkWriteResult> {
        let client = self.client;
        let options = self.options.unwrap_or_default();
        let mut settings = bulk::settings(&options);
        let operations = self.operations?;
        let deadline =
            write::start_deadline(options.timeout, self.session.as_deref(), client.timeout())?;
        let session = write::share_with(self.session, client, &mut settings, |settings| {
            client_bulk::is_acknowledged(client, settings)
        })?;
        let acknowledged = client_bulk::is_acknowledged(client, &settings);
        if !acknowledged {
            client_bulk::check_unacknowledged(&settings, verbose)?;
        }
        let tally = ClientBulkTally::new(settings.ordered, verbose, acknowledged);
        let mut run = BulkWriteRun { client, settings, verbose, operations, deadline, tally };
        let broken = run.batches(session).await?;
        write::mark_limited(run.tally.conclude(broken), deadline)
    }
}

awaitable!(['a] BulkWrite<'a, SummaryBulkWriteResult> => SummaryBulkWriteResult);
awaitable!(['a] BulkWrite<'a, VerboseBulkWriteResult> => VerboseBulkWriteResult);
takes_session!(['a, R] BulkWrite<'a, R>);
setters!(BulkWriteOptions for ['a, R] BulkWrite<'a, R>);

/// State of a bulk write in progress.
struct BulkWriteRun<'c> {
    client: &'c Client,
    settings: Settings<'c>,
    verbose: bool,
    operations: Operations,
    deadline: Option<Deadline>,
    tally: ClientBulkTally,
}

impl BulkWriteRun<'_> {
    /// Executes the batches in one session: the explicit session, or the implicit session of the
    /// first batch. Returns the error that ended the bulk write early; an error before anything is
    /// sent is the outer one.
    async fn batches(&mut self, mut session: Option<Arc<Session>>) -> Result<Option<Error>> {
        let client = self.client;
        let operation =
            trace::Operation { name: "bulkWrite", id: client.executor().begin_operation() };
        // The limits of a message are those of the server selected for the first batch.
        let selected = write::select(client, operation, self.deadline).await;
        let (selected, mut spent) =
            selected.map_err(|error| session::without_server(session.as_deref(), error))?;
        check_version(&selected)?;
        let batches = self.plan(&WriteLimits::of(&selected))?;
        let mut selected = Some(selected);
        for batch in &batches {
            let command =
                client_bulk::command(client, &self.settings, self.verbose, batch.has_multi)?;
            let acknowledged = command.acknowledged;
            // pitfall 19
            let mut command = command.in_shared(session.take().filter(|_| acknowledged))?;
            command.selected = selected.take();
            (command.deadline, command.spent) = (self.deadline, spent);
            let lent = self.operations.document_sequence(batch);
            let reply = match client
                .executor()
                .run_in_operation(operation.id, command, Some(&lent))
                .await
            {
                Ok(reply) => reply,
                Err(error) => return Ok(Some(error)),
            };
            session.clone_from(&reply.session);
            spent = reply.clock.map_or(spent, |clock| clock.spent);
            if !acknowledged {
                self.tally.record_unacknowledged();
            } else if let Err(error) = self.count(batch, reply).await {
                return Ok(Some(error));
            }
            if self.settings.ordered && self.tally.has_write_errors() {
                break;
            }
        }
        Ok(None)
    }

    fn plan(&mut self, limits: &WriteLimits) -> Result<Vec<ClientBulkBatch>> {
        let command = client_bulk::command(self.client, &self.settings, self.verbose, true)?;
        client_bulk::plan(&mut self.operations, limits, command.body.as_bytes().len())
    }

    /// Adds the reply of a batch and the items of its cursor to the results. If the cursor cannot
    /// be read to its end, it is killed.
    async fn count(&mut self, batch: &ClientBulkBatch, reply: Reply) -> Result<()> {
        self.tally.count(batch, &reply)?;
        let server = Arc::clone(&reply.server);
        let more =
            GetMoreOptions { comment: self.settings.comment.cloned(), ..GetMoreOptions::default() };
        let mut cursor = RawCursor::new(self.client, reply, more)?;
        while poll_fn(|cx| cursor.poll_advance(cx)).await? {
            let Some(item) = cursor.current() else { break };
            self.tally
                .count_item(&self.operations, batch, item)
                .map_err(|error| error.with_server(&server.address))?;
        }
        Ok(())
    }
}

/// Returns an error for servers without the `bulkWrite` command. Servers behind a load balancer
/// return one themselves.
fn check_version(selected: &SelectedServer) -> Result<()> {
    let server = selected.description();
    let too_old = server.is_some_and(|server| {
        server.server_type != ServerType::LoadBalancer && server.max_wire_version < BULK_WRITE
    });
    if !too_old {
        return Ok(());
    }
    let message = "Client::bulk_write requires MongoDB 8.0 or later; use Collection::bulk_write";
    let error = Error::new(ErrorKind::IncompatibleServer { message: message.to_owned() });
    Err(error.with_server(&selected.server.address))
}
