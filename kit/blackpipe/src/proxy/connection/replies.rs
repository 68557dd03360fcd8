//! Forwarding of replies: recorded, addresses rewritten, then forwarded, delayed, cut, changed or
//! lost.

use std::{borrow::Cow, time::Duration};

use tokio::{io::AsyncRead, time::sleep};

use super::{
    CloseReason, ProxiedConnection, ToClient,
    in_flight::{InFlightRequest, ReplyPlan},
    shown,
};
use crate::proxy::{
    event::ProxyEvent,
    message_buffer::MessageBuffer,
    message_view::{MessageView, ReplySummary},
    own_reply,
    reaction::{Direction, Reaction},
    rewrite,
    send::send,
};
use blackpipe_base::codes::ErrorContext;

impl ProxiedConnection<'_> {
    /// Forwards replies until the server closes the connection or a rule ends it.
    pub(super) async fn forward_replies<R>(
        &self,
        mut from: R,
        to_client: &ToClient<'_>,
    ) -> CloseReason
    where
        R: AsyncRead + Unpin,
    {
        let mut buffer = MessageBuffer::new();
        loop {
            let message = match buffer.next(&mut from).await {
                Ok(Some(message)) => message,
                Ok(None) => return CloseReason::ServerClosed,
                Err(error) => return CloseReason::of_server(&error),
            };
            if let Err(end) = self.reply(message, to_client).await {
                return end;
            }
        }
    }

    async fn reply(&self, message: &[u8], to_client: &ToClient<'_>) -> Result<(), CloseReason> {
        let view = MessageView::of(message);
        let taken = self.in_flight().take(view.response_to);
        let Some(mut pending) = taken else {
            let sent = send(&mut *to_client.lock().await, message, None).await;
            return sent.map_err(|error| CloseReason::of_client(&error));
        };
        let outcome = view.outcome();
        self.state.ledger().answered(pending.entry, outcome);
        self.emit_reply(&view, &pending, outcome, message.len());
        if pending.is_further_reply {
            pending.plan = self.plan_for_further_reply(&pending);
        }
        let message = self.renamed(message, &pending, outcome);
        let sent = match pending.plan.take() {
            None => {
                let sent = send(&mut *to_client.lock().await, &message, None).await;
                sent.map(|()| message.len()).map_err(|error| CloseReason::of_client(&error))
            }
            Some(mut plan) => {
                if let Some((Reaction::Error(error), _)) = &plan.final_reaction
                    && !error.applies_to(outcome.code)
                {
                    plan.final_reaction = None;
                }
                self.act_on_reply(&message, &view, *plan, pending.entry, to_client).await
            }
        }?;
        self.state.ledger().returned(pending.entry, sent);
        if view.more_to_come {
            // The next reply arrives without a request and has the id of this one as `responseTo`.
            self.in_flight().push(InFlightRequest {
                id: view.request_id,
                is_further_reply: true,
                ..pending
            });
        }
        Ok(())
    }

    /// Applies the rules to a further reply, as if the client had sent the command again. Fail
    /// points of servers do the same.
    fn plan_for_further_reply(&self, pending: &InFlightRequest) -> Option<Box<ReplyPlan>> {
        let verdict = self.apply_rules_to(&pending.command, &pending.namespace, false);
        if verdict.rules.is_empty() {
            return None;
        }
        self.state.ledger().applied(pending.entry, &verdict.rules);
        Some(Box::new(ReplyPlan {
            delay: verdict.request_delay.saturating_add(verdict.reply_delay),
            rate: verdict.reply_rate,
            final_reaction: verdict
                .final_reaction
                .map(|(reaction, rule)| (without_request(reaction), rule)),
            rules: verdict.rules,
            context: ErrorContext::default(),
        }))
    }

    /// Applies the rules to a reply. Returns the number of bytes sent to the client.
    async fn act_on_reply(
        &self,
        message: &[u8],
        view: &MessageView<'_>,
        plan: ReplyPlan,
        entry: u64,
        to_client: &ToClient<'_>,
    ) -> Result<usize, CloseReason> {
        if plan.delay > Duration::ZERO {
            self.emit_fault(&plan.rules, &format!("delayed the reply by {:?}", plan.delay));
            sleep(plan.delay).await;
        }
        let message = match &plan.final_reaction {
            Some((Reaction::LoseReply { reset }, _)) => {
                self.emit_fault(&plan.rules, "lost the reply after the execution");
                return Err(CloseReason::Cut { reset: *reset });
            }
            Some((Reaction::CutReply { after, reset }, _)) => {
                let part = &message[..message.len().min(*after)];
                self.emit_fault(&plan.rules, &format!("cut the reply after {} bytes", part.len()));
                let sent = send(&mut *to_client.lock().await, part, plan.rate).await;
                sent.map_err(|error| CloseReason::of_client(&error))?;
                self.state.ledger().returned(entry, part.len());
                return Err(CloseReason::Cut { reset: *reset });
            }
            Some((Reaction::Stall { direction: Direction::Reply }, rule)) => {
                self.emit_fault(&plan.rules, "stalled replies");
                // The lock keeps the proxy's own replies from passing a stalled one.
                let _all = to_client.lock().await;
                self.state.until_removed(*rule).await;
                Cow::Borrowed(message)
            }
            Some((Reaction::Error(error), _)) => {
                let what = format!("replaced the reply with error {}", error.code);
                self.emit_fault(&plan.rules, &what);
                let reply = own_reply::error_document(error, plan.context);
                let form = view.form;
                let changed = own_reply::compose(&reply, form, view.request_id, view.response_to);
                changed.map_or(Cow::Borrowed(message), Cow::Owned)
            }
            Some((Reaction::WriteConcernError(error), _)) => {
                let what = format!("added write concern error {}", error.code);
                self.emit_fault(&plan.rules, &what);
                let changed = own_reply::map_body(message, |reply| {
                    own_reply::add_write_concern_error(reply, error, plan.context);
                    true
                });
                changed.ok().flatten().map_or(Cow::Borrowed(message), Cow::Owned)
            }
            // Handled when the request arrived or the connection was accepted.
            Some((
                Reaction::Stall { direction: Direction::Request }
                | Reaction::CutRequest { .. }
                | Reaction::Delay { .. }
                | Reaction::Throttle { .. }
                | Reaction::Refuse,
                _,
            ))
            | None => Cow::Borrowed(message),
        };
        let sent = send(&mut *to_client.lock().await, &message, plan.rate).await;
        sent.map_err(|error| CloseReason::of_client(&error))?;
        if view.more_to_come && matches!(plan.final_reaction, Some((Reaction::Error(_), _))) {
            // The error was the last reply for the client; the server would continue the stream.
            self.state.ledger().returned(entry, message.len());
            return Err(CloseReason::Cut { reset: false });
        }
        Ok(message.len())
    }

    /// Rewrites addresses of servers in a reply to those of the proxy.
    fn renamed<'m>(
        &self,
        message: &'m [u8],
        pending: &InFlightRequest,
        outcome: ReplySummary,
    ) -> Cow<'m, [u8]> {
        let is_error = !outcome.ok || outcome.write_concern_error || outcome.write_errors > 0;
        if !(pending.is_hello || is_error || rewrite::names_servers(&pending.command)) {
            return Cow::Borrowed(message);
        }
        let changed = own_reply::map_body(message, |reply| {
            let names = match pending.is_hello && outcome.ok {
                true => self.state.members.update_from_hello(self.member, reply),
                false => self.state.members.names(),
            };
            let before = reply.clone();
            rewrite::rename(reply, &names);
            *reply != before
        });
        // Unreadable replies are forwarded unchanged; the client reports the error.
        changed.ok().flatten().map_or(Cow::Borrowed(message), Cow::Owned)
    }

    fn emit_reply(
        &self,
        view: &MessageView<'_>,
        pending: &InFlightRequest,
        outcome: ReplySummary,
        bytes: usize,
    ) {
        if self.state.has_observer() {
            let micros = u64::try_from(pending.since.elapsed().as_micros()).ok();
            self.state.emit(&ProxyEvent::Reply {
                connection: self.number,
                server: &self.member.name,
                message: shown(view, &pending.command, &pending.namespace, bytes),
                ok: outcome.ok,
                code: outcome.code,
                micros,
                by_proxy: false,
            });
        }
    }
}

/// Converts a reaction for a reply without a request, which cannot be cut or delayed.
fn without_request(reaction: Reaction) -> Reaction {
    match reaction {
        Reaction::CutRequest { reset, .. } => Reaction::LoseReply { reset },
        Reaction::Stall { .. } => Reaction::stall(Direction::Reply),
        Reaction::LoseReply { .. }
        | Reaction::CutReply { .. }
        | Reaction::Delay { .. }
        | Reaction::Throttle { .. }
        | Reaction::Error(_)
        | Reaction::WriteConcernError(_)
        | Reaction::Refuse => reaction,
    }
}
