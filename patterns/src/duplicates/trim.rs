//! Trims: deletion of surplus copies.

mod deletion;
mod group;
mod report;
mod reread;

use std::{
    fmt,
    future::{Future, IntoFuture},
    mem,
    pin::Pin,
    time::Duration,
};

use bson::{Bson, DateTime, Document, RawDocument, RawDocumentBuf};

use self::group::{CopyGroup, CopyGroups, ListedCopy};
use super::{
    Duplicates, Keep, MARK,
    key::{Key, KeyPosition, NotACopy},
    merge::SourceDocument,
    read::MergedCursors,
};
use crate::hello::hello;
use steadfast::{
    Collection,
    error::{Error, Result},
};

pub use self::report::{CopyLocation, Finding, Surplus, TrimError, TrimReport};

/// Number of copies that are read again together.
const REREAD_COPIES: usize = 200;

/// Action that deletes surplus copies. Returned by [`Duplicates::trim`].
///
/// Without [`dry_run(false)`](Self::dry_run) nothing is deleted, and the report has what would be.
///
/// A copy is deleted only if the one to keep exists and is equal to it in all but `_id` and datacenter. Both
/// are read again for this comparison, from the primary with read concern `majority`. Copies that differ are
/// reported and kept; only the application can decide between them. Marks, confirmations and deletes have write concern
/// `majority`, not that of the collection.
///
/// It can be interrupted, dropped or repeated at any time. Any number of trims can run at once, even if some keep
/// the first copy and others the last: **one copy of each event always stays.** A
/// copy is marked (in a field `steadfast_trim`) before the one to keep is confirmed, and is deleted only if it
/// still has the mark; the confirmation overwrites a mark of the one to keep. So of two trims that would delete
/// each other's copy, at most one does. [`Duplicates::read`] leaves out a mark of an interrupted trim, and the
/// next trim removes it.
///
/// It assumes that no client changes or deletes these documents in the meantime. A copy that cannot be marked,
/// because of the collection's validator or the size limit of documents, stays; the others are deleted, and
/// then the trim returns the error.
///
/// # Errors
///
/// A [`TrimError`] with the report so far.
///
/// # Cancellation
///
/// Deletions so far are done; marks may be left.
///
/// ```no_run
/// # type Messages = steadfast::Collection<steadfast::bson::Document>;
/// # async fn run(alfa: Messages, bravo: Messages) -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use steadfast::bson::doc;
/// use steadfast_patterns::duplicates::Duplicates;
///
/// let report = Duplicates::over([&alfa, &bravo])
///     .key(["message_id"])
///     .trim(doc! {})
///     .older_than(Duration::from_secs(3600))
///     .each(|copy| println!("{}: {}", copy.key, copy.finding))
///     .dry_run(false)
///     .await?;
/// println!("{} deleted, {} differ", report.deleted, report.differing);
/// # Ok(()) }
/// ```
#[must_use = "an action does nothing until it is awaited"]
pub struct Trim<'a, T: Send + Sync> {
    duplicates: &'a Duplicates<T>,
    filter: Document,
    dry_run: bool,
    older_than: Duration,
    listeners: TrimListeners<'a>,
}

/// Callback of a trim.
type TrimListener<'a, N> = Box<dyn FnMut(&N) + Send + 'a>;

#[derive(Default)]
struct TrimListeners<'a> {
    each: Option<TrimListener<'a, Surplus>>,
    progress: Option<TrimListener<'a, TrimReport>>,
}

impl<'a, T: Send + Sync> Trim<'a, T> {
    pub(super) fn new(duplicates: &'a Duplicates<T>, filter: Document) -> Self {
        Self {
            duplicates,
            filter,
            dry_run: true,
            older_than: Duration::from_secs(60),
            listeners: TrimListeners::default(),
        }
    }

    /// With `true`, only reports. Defaults to `true`.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Sets the minimum age of all copies of an event. Defaults to one minute.
    ///
    /// A writer may still wait for the acknowledgement of a copy; after its deletion, the receipt would have an
    /// `_id` that does not exist. A secondary that lags may lack the copy to keep when it has replicated the
    /// deletion. So the age should exceed the time limit of writers, the replication lag and the clock skew: it
    /// is that of the ObjectId, by the writer's clock, compared with the clock of the server.
    pub fn older_than(mut self, age: Duration) -> Self {
        self.older_than = age;
        self
    }

    /// Sets a callback for every copy other than the one to keep, before it is deleted or kept.
    pub fn each(mut self, listener: impl FnMut(&Surplus) + Send + 'a) -> Self {
        self.listeners.each = Some(Box::new(listener));
        self
    }

    /// Sets a callback that receives the report from time to time.
    pub fn progress(mut self, listener: impl FnMut(&TrimReport) + Send + 'a) -> Self {
        self.listeners.progress = Some(Box::new(listener));
        self
    }

    async fn execute(self) -> std::result::Result<TrimReport, TrimError> {
        let mut report = TrimReport { dry_run: self.dry_run, ..TrimReport::default() };
        let (source, ended_early) = match self.run(&mut report).await {
            Ok(None) => return Ok(report),
            Ok(Some(rejected)) => (rejected, false),
            Err(error) => (error, true),
        };
        Err(TrimError { source, ended_early, report: Box::new(report) })
    }

    /// Runs the trim. Returns the error of copies that could not be marked, if any.
    async fn run(self, report: &mut TrimReport) -> Result<Option<Error>> {
        let duplicates = self.duplicates;
        let key = duplicates.checked(&self.filter)?;
        let collections: Vec<Collection<Document>> =
            duplicates.collections.iter().map(Collection::clone_with_type).collect();
        let newest = newest_to_trim(&collections, self.older_than).await?;
        let projection = key.projection(&duplicates.datacenter_field);
        let copies = MergedCursors::open(duplicates, key.clone(), &self.filter, projection).await?;
        let run = TrimRun {
            deployments: Deployments {
                collections,
                key,
                datacenter_field: duplicates.datacenter_field.clone(),
            },
            keep: duplicates.keep,
            newest,
            listeners: self.listeners,
            report,
            rejected: None,
        };
        run.execute(copies).await
    }
}

/// Returns the time after which copies are too young, by the slowest clock of the servers.
async fn newest_to_trim(
    collections: &[Collection<Document>],
    older_than: Duration,
) -> Result<DateTime> {
    let mut now = DateTime::MAX;
    for collection in collections {
        let reply = hello(collection.client()).await?;
        let time = reply.get_datetime("localTime").map_err(|_| {
            Error::invalid_response("the server's reply to `hello` has no `localTime`")
        })?;
        now = now.min(*time);
    }
    let age = i64::try_from(older_than.as_millis()).unwrap_or(i64::MAX);
    Ok(DateTime::from_millis(now.timestamp_millis().saturating_sub(age)))
}

/// Collections of the copies, and their key.
struct Deployments {
    collections: Vec<Collection<Document>>,
    key: Key,
    datacenter_field: String,
}

/// A trim in progress.
struct TrimRun<'a, 'r> {
    deployments: Deployments,
    keep: Keep,
    newest: DateTime,
    listeners: TrimListeners<'a>,
    report: &'r mut TrimReport,
    /// Error of copies that could not be marked.
    rejected: Option<Error>,
}

impl TrimRun<'_, '_> {
    async fn execute(mut self, mut copies: MergedCursors) -> Result<Option<Error>> {
        let mut groups = CopyGroups::default();
        let mut queue = Vec::new();
        while let Some(next) = copies.next().await? {
            let complete = self.examine(next, &mut groups)?;
            self.enqueue(complete, &mut queue);
            if queue.iter().map(CopyGroup::len).sum::<usize>() >= REREAD_COPIES {
                self.process(mem::take(&mut queue)).await?;
            }
        }
        self.enqueue(groups.finish(), &mut queue);
        self.process(queue).await?;
        Ok(self.rejected)
    }

    /// Counts a document. Returns the previous event if this is the first document of another one.
    fn examine(
        &mut self,
        next: SourceDocument<RawDocumentBuf>,
        groups: &mut CopyGroups,
    ) -> Result<Option<CopyGroup>> {
        self.report.examined += 1;
        if self.report.examined.is_multiple_of(1_000) {
            self.report_progress();
        }
        match next.position {
            KeyPosition::EventCopy(copy) => {
                let datacenter = value_in(&next.document, &self.deployments.datacenter_field)?;
                let mark = value_in(&next.document, MARK)?;
                let listed = ListedCopy { source: next.source, id: copy.id, datacenter, mark };
                return Ok(groups.add(copy.event, listed));
            }
            KeyPosition::NotACopy(NotACopy::NoKey) => self.report.missing_key += 1,
            KeyPosition::NotACopy(NotACopy::ArrayKey) => self.report.array_key += 1,
            KeyPosition::WithoutAge(_) => self.report.not_object_id += 1,
        }
        Ok(None)
    }

    /// Queues the event if it has several copies and is old enough.
    fn enqueue(&mut self, complete: Option<CopyGroup>, queue: &mut Vec<CopyGroup>) {
        let Some(mut group) = complete else { return };
        if group.len() == 1 {
            return queue.push(group);
        }
        self.report.duplicated += 1;
        group.choose(self.keep);
        if group.exceeds_max_copies() {
            self.report.too_many_copies += 1;
        } else if group.youngest() > self.newest {
            self.report.too_young += 1;
            for copy in &group.others {
                self.record_finding(&group, copy, Finding::TooYoung);
            }
        } else {
            queue.push(group);
        }
    }

    /// Reads copies again, and deletes the surplus ones.
    async fn process(&mut self, groups: Vec<CopyGroup>) -> Result<()> {
        if groups.is_empty() {
            return Ok(());
        }
        let marked: Vec<_> = groups.iter().flat_map(CopyGroup::marked).collect();
        let found = self.deployments.reread(&groups, None).await?;
        let mut surplus = Vec::new();
        for mut group in groups {
            let findings = found.findings(&group);
            for (copy, finding) in group.others.iter().zip(&findings) {
                self.record_finding(&group, copy, *finding);
            }
            let mut findings = findings.into_iter();
            group.others.retain(|_| findings.next() == Some(Finding::Surplus));
            if !group.others.is_empty() {
                surplus.push(group);
            }
        }
        if !self.report.dry_run {
            let (deleted, rejected) = self.deployments.delete(&surplus).await?;
            self.report.deleted += deleted;
            self.rejected = self.rejected.take().or(rejected);
            self.deployments.unmark(&marked).await?;
        }
        self.report_progress();
        Ok(())
    }

    fn record_finding(&mut self, group: &CopyGroup, copy: &ListedCopy, finding: Finding) {
        match finding {
            Finding::Surplus => self.report.surplus += 1,
            Finding::Differs => self.report.differing += 1,
            Finding::Missing => self.report.missing += 1,
            Finding::Indistinguishable => self.report.indistinguishable += 1,
            // Counted by event.
            Finding::TooYoung => {}
        }
        if let Some(each) = &mut self.listeners.each {
            each(&Surplus {
                key: self.deployments.key.to_document(&group.event),
                kept: group.kept.location(),
                copy: copy.location(),
                finding,
            });
        }
    }

    fn report_progress(&mut self) {
        if let Some(progress) = &mut self.listeners.progress {
            progress(self.report);
        }
    }
}

/// Returns the value at a path.
fn value_in(document: &RawDocument, path: &str) -> Result<Option<Bson>> {
    let (first, rest) = path.split_once('.').unwrap_or((path, ""));
    let Some(value) = document.get(first)? else { return Ok(None) };
    match value.as_document() {
        Some(inner) if !rest.is_empty() => value_in(inner, rest),
        _ if rest.is_empty() => Ok(Some(value.try_into()?)),
        _ => Ok(None),
    }
}

impl<'a, T: Send + Sync + 'a> IntoFuture for Trim<'a, T> {
    type Output = std::result::Result<TrimReport, TrimError>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.execute())
    }
}

impl<T: Send + Sync> fmt::Debug for Trim<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Trim")
            .field("duplicates", self.duplicates)
            .field("filter", &self.filter)
            .field("dry_run", &self.dry_run)
            .field("older_than", &self.older_than)
            .finish_non_exhaustive()
    }
}
