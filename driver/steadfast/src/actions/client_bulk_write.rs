//! Many writes of all kinds to any collections at once.

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
        client_bulk::{self, Batch, Operations, Tally},
        get_more::More,
        write::Settings,
    },
    options::{BulkWriteOptions, WriteModel},
    results::{SummaryBulkWriteResult, VerboseBulkWriteResult},
    session::{self, Session},
    topology::Selected,
    trace,
};

/// The first wire version (of servers 8.0) with the command.
const BULK_WRITE: i32 = 25;

impl Client {
    /// Carries out many writes, to any collections of any databases, in as few commands as the
    /// server's limits allow. On servers from 8.0; for older ones there is
    /// [`Collection::bulk_write`](crate::Collection::bulk_write).
    ///
    /// Each model says which collection it is about. In order, which is the default, the first write
    /// that is refused ends it; with [`ordered(false)`](BulkWrite::ordered) all are tried. Either way
    /// the error is a [`BulkWriteError`](crate::error::BulkWriteError), with every refusal under its
    /// index in `models`, every write concern that was not met, and what was done all the same. If a
    /// command cannot be carried out at all after another was, the error is the same, and why is its
    /// [`source`](std::error::Error::source).
    ///
    /// What comes of it is how many documents were written. With
    /// [`verbose_results`](BulkWrite::verbose_results) it is also what each write did.
    ///
    /// It is tried again like a single write, with one transaction number for each command, unless a
    /// command has an `UpdateMany` or a `DeleteMany` in it. A write concern of `w: 0` has to be
    /// unordered and without verbose results; nobody counts then.
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

/// Carries out many writes. See [`Client::bulk_write`].
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
    /// Asks what each write did that was carried out, and not only how many documents were written.
    pub fn verbose_results(self) -> BulkWrite<'a, VerboseBulkWriteResult> {
        let Self { client, operations, options, session, result: _ } = self;
        BulkWrite { client, operations, options, session, result: PhantomData }
    }

    async fn execute(self) -> Result<SummaryBulkWriteResult> {
        Ok(self.run(false).await?.summary)
    }
}

impl BulkWrite<'_, VerboseBulkWriteResult> {
    async fn execute(self) -> Result<VerboseBulkWriteResult> {
        self.run(true).await
    }
}

impl<R> BulkWrite<'_, R> {
    async fn run(self, verbose: bool) -> Result<VerboseBulkWriteResult> {
        let client = self.client;
        let options = self.options.unwrap_or_default();
        let mut settings = bulk::settings(&options);
        let operations = self.operations?;
        let deadline =
            write::start_clock(options.timeout, self.session.as_deref(), client.timeout())?;
        let session = write::share_with(self.session, client, &mut settings, |settings| {
            client_bulk::is_acknowledged(client, settings)
        })?;
        let acknowledged = client_bulk::is_acknowledged(client, &settings);
        if !acknowledged {
            client_bulk::check_unanswered(&settings, verbose)?;
        }
        let tally = Tally::new(settings.ordered, verbose, acknowledged);
        let mut run = Run { client, settings, verbose, operations, deadline, tally };
        let broken = run.batches(session).await?;
        write::judged(run.tally.conclude(broken), deadline)
    }
}

awaitable!(['a] BulkWrite<'a, SummaryBulkWriteResult> => SummaryBulkWriteResult);
awaitable!(['a] BulkWrite<'a, VerboseBulkWriteResult> => VerboseBulkWriteResult);
takes_session!(['a, R] BulkWrite<'a, R>);
setters!(BulkWriteOptions for ['a, R] BulkWrite<'a, R>);

/// A bulk write under way.
struct Run<'c> {
    client: &'c Client,
    settings: Settings<'c>,
    verbose: bool,
    operations: Operations,
    deadline: Option<Deadline>,
    tally: Tally,
}

impl Run<'_> {
    /// Carries out the writes batch by batch, all in one session: the application's if there is one,
    /// else the one that the first batch began. Some error kept it from being done; one before
    /// anything was sent is the outer.
    async fn batches(&mut self, mut session: Option<Arc<Session>>) -> Result<Option<Error>> {
        let client = self.client;
        let operation =
            trace::Operation { name: "bulkWrite", id: client.executor().begin_operation() };
        // The limits are those of the server that the first batch then goes to.
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
            let lent = self.operations.lend(batch);
            let reply =
                match client.executor().run_as_part_of(operation.id, command, Some(&lent)).await {
                    Ok(reply) => reply,
                    Err(error) => return Ok(Some(error)),
                };
            session.clone_from(&reply.session);
            spent = reply.clock.map_or(spent, |clock| clock.spent);
            if !acknowledged {
                self.tally.note_unacknowledged();
            } else if let Err(error) = self.count(batch, reply).await {
                return Ok(Some(error));
            }
            if self.settings.ordered && self.tally.has_write_errors() {
                break;
            }
        }
        Ok(None)
    }

    fn plan(&mut self, limits: &WriteLimits) -> Result<Vec<Batch>> {
        let command = client_bulk::command(self.client, &self.settings, self.verbose, true)?;
        client_bulk::plan(&mut self.operations, limits, command.body.as_bytes().len())
    }

    /// Counts in the reply to a batch, and all that its cursor has to say. If that cannot be read to
    /// its end, the server is told to forget it.
    async fn count(&mut self, batch: &Batch, reply: Reply) -> Result<()> {
        self.tally.count(batch, &reply)?;
        let server = Arc::clone(&reply.server);
        let more = More { comment: self.settings.comment.cloned(), ..More::default() };
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

/// Refuses a server that does not know the command. What is behind a load balancer says so itself.
fn check_version(selected: &Selected) -> Result<()> {
    let server = selected.description();
    let too_old = server.is_some_and(|server| {
        server.server_type != ServerType::LoadBalancer && server.max_wire_version < BULK_WRITE
    });
    if !too_old {
        return Ok(());
    }
    let message = "a client's bulk_write requires MongoDB 8.0 or later; a collection's does not";
    let error = Error::new(ErrorKind::IncompatibleServer { message: message.to_owned() });
    Err(error.with_server(&selected.server.address))
}
