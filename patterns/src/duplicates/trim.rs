//! Trims: deletion of surplus copies.

mod deletion;
mod group;
mod look;
mod report;

use std::{
    fmt,
    future::{Future, IntoFuture},
    mem,
    pin::Pin,
    time::Duration,
};

use bson::{Bson, DateTime, Document, RawDocument, RawDocumentBuf};

use self::group::{Copy, Group, Groups};
use super::{
    Duplicates, Keep, MARK,
    key::{Key, KeyPosition, NotACopy},
    merge::Head,
    read::Merged,
};
use crate::hello::hello;
use steadfast::{
    Collection,
    error::{Error, Result},
};

pub use self::report::{CopyLocation, Finding, Surplus, TrimError, TrimReport};

/// Number of copies that are read again together.
const TOGETHER: usize = 200;

/// Action that deletes surplus copies. Returned by [`Duplicates::trim`].
///
/// Without [`dry_run(false)`](Self::dry_run) nothing is deleted, and the report has what would be.
///
/// A copy is deleted only if the one to keep exists and is equal to it in all but `_id` and datacenter. Both
/// are read again for that, from the primary with read concern `majority`. Copies that differ are reported and
/// kept; only the application can decide between them. Marks, confirmations and deletes have write concern
/// `majority`, whatever that of the collection.
///
/// It can be interrupted, dropped or repeated at any time, and any number of trims can run at once, even trims
/// that keep the first copy together with trims that keep the last: **one copy of each event always stays.** A
/// copy is marked (in a field `steadfast_trim`) before the one to keep is confirmed, and is deleted only if it
/// still has the mark; the confirmation overwrites a mark of the one to keep. So of two trims that would delete
/// each other's copy, at most one does. [`Duplicates::read`] leaves out a mark of an interrupted trim, and the
/// next trim removes it.
///
/// It assumes that no client changes or deletes these documents in the meantime. A copy that cannot be marked,
/// because of the collection's validator or the size limit of documents, stays; the others are deleted, and
/// then the trim fails with the reason.
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
/// # async fn run(alfa: steadfast::Collection<steadfast::bson::Document>, bravo: steadfast::Collection<steadfast::bson::Document>) -> Result<(), Box<dyn std::error::Error>> {
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
    listeners: Listeners<'a>,
}

/// Callback.
type Listener<'a, N> = Box<dyn FnMut(&N) + Send + 'a>;

#[derive(Default)]
struct Listeners<'a> {
    each: Option<Listener<'a, Surplus>>,
    progress: Option<Listener<'a, TrimReport>>,
}

impl<'a, T: Send + Sync> Trim<'a, T> {
    pub(super) fn new(duplicates: &'a Duplicates<T>, filter: Document) -> Self {
        Self {
            duplicates,
            filter,
            dry_run: true,
            older_than: Duration::from_secs(60),
            listeners: Listeners::default(),
        }
    }

    /// With `true`, only reports. Defaults to `true`.
    pub fn dry_run(mut self, dry_run: bool) -> Self {
        self.dry_run = dry_run;
        self
    }

    /// Sets the age that all copies of an event must have. Defaults to one minute.
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
            Ok(Some(refused)) => (refused, false),
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
        let newest = newest_to_touch(&collections, self.older_than).await?;
        let projection = key.projection(&duplicates.datacenter_field);
        let copies = Merged::open(duplicates, key.clone(), &self.filter, projection).await?;
        let run = Run {
            deployments: Deployments {
                collections,
                key,
                datacenter_field: duplicates.datacenter_field.clone(),
            },
            keep: duplicates.keep,
            newest,
            listeners: self.listeners,
            report,
            refused: None,
        };
        run.through(copies).await
    }
}

/// Returns the time after which copies are too young, by the slowest clock of the servers.
async fn newest_to_touch(
    collections: &[Collection<Document>],
    older_than: Duration,
) -> Result<DateTime> {
    let mut now = DateTime::MAX;
    for collection in collections {
        let reply = hello(collection.client()).await?;
        let time = reply.get_datetime("localTime").map_err(|_| {
            Error::invalid_response("the server's answer to `hello` has no `localTime`")
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
struct Run<'a, 'r> {
    deployments: Deployments,
    keep: Keep,
    newest: DateTime,
    listeners: Listeners<'a>,
    report: &'r mut TrimReport,
    /// Error of copies that could not be marked.
    refused: Option<Error>,
}

impl Run<'_, '_> {
    async fn through(mut self, mut copies: Merged) -> Result<Option<Error>> {
        let mut groups = Groups::default();
        let mut waiting = Vec::new();
        while let Some(head) = copies.next().await? {
            let complete = self.examine(head, &mut groups)?;
            self.sort_out(complete, &mut waiting);
            if waiting.iter().map(Group::len).sum::<usize>() >= TOGETHER {
                self.settle(mem::take(&mut waiting)).await?;
            }
        }
        self.sort_out(groups.finish(), &mut waiting);
        self.settle(waiting).await?;
        Ok(self.refused)
    }

    /// Counts a document. Returns the previous event if this is the first document of another one.
    fn examine(
        &mut self,
        head: Head<RawDocumentBuf>,
        groups: &mut Groups,
    ) -> Result<Option<Group>> {
        self.report.examined += 1;
        if self.report.examined.is_multiple_of(1_000) {
            self.tell();
        }
        match head.place {
            KeyPosition::EventCopy(named) => {
                let datacenter = value_in(&head.document, &self.deployments.datacenter_field)?;
                let mark = value_in(&head.document, MARK)?;
                let copy = Copy { source: head.source, id: named.id, datacenter, mark };
                return Ok(groups.add(named.event, copy));
            }
            KeyPosition::NotACopy(NotACopy::NoKey) => self.report.missing_key += 1,
            KeyPosition::NotACopy(NotACopy::ArrayKey) => self.report.array_key += 1,
            KeyPosition::WithoutAge(_) => self.report.not_object_id += 1,
        }
        Ok(None)
    }

    /// Queues the event if it has several copies and is old enough.
    fn sort_out(&mut self, complete: Option<Group>, waiting: &mut Vec<Group>) {
        let Some(mut group) = complete else { return };
        if group.len() == 1 {
            return waiting.push(group);
        }
        self.report.duplicated += 1;
        group.choose(self.keep);
        if group.is_crowded() {
            self.report.crowded += 1;
        } else if group.youngest() > self.newest {
            self.report.too_young += 1;
            for copy in &group.others {
                self.found(&group, copy, Finding::TooYoung);
            }
        } else {
            waiting.push(group);
        }
    }

    /// Reads copies again, and deletes the surplus ones.
    async fn settle(&mut self, groups: Vec<Group>) -> Result<()> {
        if groups.is_empty() {
            return Ok(());
        }
        let marked: Vec<_> = groups.iter().flat_map(Group::marked).collect();
        let seen = self.deployments.look(&groups, None).await?;
        let mut surplus = Vec::new();
        for mut group in groups {
            let findings = seen.findings(&group);
            for (copy, finding) in group.others.iter().zip(&findings) {
                self.found(&group, copy, *finding);
            }
            let mut findings = findings.into_iter();
            group.others.retain(|_| findings.next() == Some(Finding::Surplus));
            if !group.others.is_empty() {
                surplus.push(group);
            }
        }
        if !self.report.dry_run {
            let (deleted, refused) = self.deployments.delete(&surplus).await?;
            self.report.deleted += deleted;
            self.refused = self.refused.take().or(refused);
            self.deployments.unmark(&marked).await?;
        }
        self.tell();
        Ok(())
    }

    fn found(&mut self, group: &Group, copy: &Copy, finding: Finding) {
        match finding {
            Finding::Surplus => self.report.surplus += 1,
            Finding::Differs => self.report.differing += 1,
            Finding::Gone => self.report.gone += 1,
            Finding::Indistinguishable => self.report.indistinguishable += 1,
            // Counted by event.
            Finding::TooYoung => {}
        }
        if let Some(each) = &mut self.listeners.each {
            each(&Surplus {
                key: self.deployments.key.shown(&group.event),
                kept: group.kept.shown(),
                copy: copy.shown(),
                finding,
            });
        }
    }

    fn tell(&mut self) {
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
