//! What comes back of an attempt that was sent: the times in it are taken in, and it becomes the
//! command's reply or a failure.

use std::sync::Arc;

use bytes::Bytes;
use steadfast_core::retry::Phase;

use super::{
    attempts::{Blemish, Current},
    context::{self, Heard},
    execution::{Ended, Execution},
    raw,
    watch::Watch,
};
use crate::{
    command::Reply,
    deadline::now,
    error::{
        Error, Result,
        command_error::{refusal, write_concern_failure},
    },
    pool::PooledConnection,
    topology::Server,
};

/// The reply that stands for the one that an unacknowledged write does not get.
static UNANSWERED: &[u8] = b"\x0d\0\0\0\x10ok\0\x01\0\0\0\0";

impl Execution<'_> {
    /// Takes in what came back, or that nothing did.
    pub(super) fn received(
        &mut self,
        current: Current<'_>,
        received: Result<Bytes>,
        server: &Arc<Server>,
        connection: PooledConnection,
        watch: Watch,
    ) -> Ended {
        let (session, number) = (self.session.as_deref(), self.transaction.number());
        let heard = context::hear(&received, self.executor.sessions(), session, number);
        let outcome = received.and_then(|body| accept(body, self.command.acknowledged, heard));
        let outcome = outcome.map_err(|error| {
            error
                .with_server(&connection.address)
                .with_wire_version(connection.hello.max_wire_version)
        });
        watch.finish(outcome.as_deref());
        match outcome {
            Ok(body) if heard.blemished => self.blemished(current, body, server, connection),
            Ok(body) => {
                let reply = self.reply(&current, body, server, connection);
                self.retry.succeeded();
                Ended::Break(Ok(reply))
            }
            Err(error) => self.refused(current, error, connection),
        }
    }

    /// What the server answered, for the operation to read. Its connection goes back, or stays with
    /// whom it is pinned to.
    fn reply(
        &self,
        current: &Current<'_>,
        body: Bytes,
        server: &Arc<Server>,
        connection: PooledConnection,
    ) -> Reply {
        let mut reply = Reply::new(body, Arc::clone(server));
        reply.session.clone_from(&self.session);
        reply.transaction = self.transaction.number();
        let keeps = self.executor.is_load_balanced() && has_open_cursor(reply.body());
        let home = current.home.as_ref().map(|home| home.connection.clone()).unwrap_or_default();
        reply.pinned = home.keep(connection, keeps);
        reply
    }

    /// The server did not refuse the command as a whole, but tells of writes that failed or may not
    /// be durable.
    fn blemished(
        &mut self,
        current: Current<'_>,
        body: Bytes,
        server: &Arc<Server>,
        connection: PooledConnection,
    ) -> Ended {
        if let Some(failure) = write_concern_failure(raw(&body)) {
            let topology = self.executor.topology();
            topology.write_concern_failed(&connection, connection.generation(), failure);
        }
        let mut reply = self.reply(&current, body, server, connection);
        let Some(blemish) = Blemish::of(reply.body()) else {
            self.retry.succeeded();
            return Ended::Break(Ok(reply));
        };
        let failure = blemish.failure();
        let verdict = self.retry.on_failure(&failure, now(), self.executor.jitter());
        let labels = failure.labels;
        reply.labelled_retryable = verdict.add_retryable_write_label;
        reply.transaction_label = self.transaction.fail(&failure, reply.labelled_retryable);
        self.attempts.add_reply(current, reply, self.retry.raised_attempt());
        self.conclude(verdict, labels)
    }

    /// The server refused the command, or the connection broke.
    fn refused(
        &mut self,
        current: Current<'_>,
        error: Error,
        connection: PooledConnection,
    ) -> Ended {
        // The topology hears of it before the connection goes back (pitfall 25).
        let topology = self.executor.topology();
        if !error.is_out_of_time() {
            topology.operation_failed(&connection, connection.generation(), &error);
        }
        // A server that only refused can still be told to forget the cursor, or be sent more.
        if !error.is_network_error() {
            current.put_back(connection);
        }
        self.failed(current, error, Phase::Sending)
    }
}

fn accept(body: Bytes, acknowledged: bool, heard: Heard) -> Result<Bytes> {
    if !acknowledged {
        return Ok(Bytes::from_static(UNANSWERED));
    }
    if heard.succeeded {
        return Ok(body);
    }
    match refusal(raw(&body)) {
        None => Ok(body),
        Some(error) => Err(error),
    }
}

fn has_open_cursor(reply: &bson::RawDocument) -> bool {
    let cursor = reply.get_document("cursor");
    cursor.is_ok_and(|cursor| cursor.get_i64("id").is_ok_and(|id| id != 0))
}
