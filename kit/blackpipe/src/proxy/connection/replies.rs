//! The way of replies: noted in the ledger, with other addresses in them, and sent on, held up, cut,
//! changed or lost.

use std::{borrow::Cow, time::Duration};

use tokio::{io::AsyncRead, time::sleep};

use super::{
    End, Line, ToClient,
    pending::{Pending, Plan},
    shown,
};
use crate::proxy::{
    answer,
    event::Event,
    inbox::Inbox,
    outlet::send,
    reaction::{Direction, Reaction},
    rewrite,
    sight::{Outcome, Sight},
};
use blackpipe_base::codes::ErrorContext;

impl Line<'_> {
    /// Carries replies until the server hangs up or a rule ends it all.
    pub(super) async fn carry_replies<R>(&self, mut from: R, to_client: &ToClient<'_>) -> End
    where
        R: AsyncRead + Unpin,
    {
        let mut inbox = Inbox::new();
        loop {
            let message = match inbox.next(&mut from).await {
                Ok(Some(message)) => message,
                Ok(None) => return End::ServerClosed,
                Err(error) => return End::of_server(&error),
            };
            if let Err(end) = self.reply(message, to_client).await {
                return end;
            }
        }
    }

    async fn reply(&self, message: &[u8], to_client: &ToClient<'_>) -> Result<(), End> {
        let sight = Sight::of(message);
        let taken = self.waiting().take(sight.response_to);
        let Some(mut pending) = taken else {
            let sent = send(&mut *to_client.lock().await, message, None).await;
            return sent.map_err(|error| End::of_client(&error));
        };
        let outcome = sight.outcome();
        self.shared.ledger().answered(pending.entry, outcome);
        self.tell_reply(&sight, &pending, outcome, message.len());
        if pending.is_one_more {
            pending.plan = self.plan_for_one_more(&pending);
        }
        let message = self.renamed(message, &pending, outcome);
        let sent = match pending.plan.take() {
            None => {
                let sent = send(&mut *to_client.lock().await, &message, None).await;
                sent.map(|()| message.len()).map_err(|error| End::of_client(&error))
            }
            Some(mut plan) => {
                if let Some((Reaction::Error(error), _)) = &plan.decided
                    && !error.applies_to(outcome.code)
                {
                    plan.decided = None;
                }
                self.act_on_reply(&message, &sight, *plan, pending.entry, to_client).await
            }
        }?;
        self.shared.ledger().returned(pending.entry, sent);
        if sight.more_to_come {
            // The next reply comes unasked, and names this one.
            self.waiting().push(Pending { id: sight.request_id, is_one_more: true, ..pending });
        }
        Ok(())
    }

    /// What rules want of one more reply to an earlier request. To a server, too, it is as if the
    /// command had come again.
    fn plan_for_one_more(&self, pending: &Pending) -> Option<Box<Plan>> {
        let verdict = self.judge_command(&pending.command, &pending.namespace, false);
        if verdict.rules.is_empty() {
            return None;
        }
        self.shared.ledger().applied(pending.entry, &verdict.rules);
        Some(Box::new(Plan {
            delay: verdict.request_delay.saturating_add(verdict.reply_delay),
            rate: verdict.reply_rate,
            decided: verdict.decided.map(|(reaction, rule)| (without_request(reaction), rule)),
            rules: verdict.rules,
            context: ErrorContext::default(),
        }))
    }

    /// Does what rules want of a reply. Returns how many bytes the client was given.
    async fn act_on_reply(
        &self,
        message: &[u8],
        sight: &Sight<'_>,
        plan: Plan,
        entry: u64,
        to_client: &ToClient<'_>,
    ) -> Result<usize, End> {
        if plan.delay > Duration::ZERO {
            self.tell_fault(&plan.rules, &format!("holds the reply up for {:?}", plan.delay));
            sleep(plan.delay).await;
        }
        let message = match &plan.decided {
            Some((Reaction::LoseReply { reset }, _)) => {
                self.tell_fault(&plan.rules, "lost the reply after the server executed");
                return Err(End::Cut { reset: *reset });
            }
            Some((Reaction::CutReply { after, reset }, _)) => {
                let part = &message[..message.len().min(*after)];
                self.tell_fault(&plan.rules, &format!("cut the reply after {} bytes", part.len()));
                let sent = send(&mut *to_client.lock().await, part, plan.rate).await;
                sent.map_err(|error| End::of_client(&error))?;
                self.shared.ledger().returned(entry, part.len());
                return Err(End::Cut { reset: *reset });
            }
            Some((Reaction::Stall { direction: Direction::Reply }, rule)) => {
                self.tell_fault(&plan.rules, "stalls replies");
                // Nothing else may pass meanwhile, not even the proxy's own answers.
                let _all = to_client.lock().await;
                self.shared.until_removed(*rule).await;
                Cow::Borrowed(message)
            }
            Some((Reaction::Error(error), _)) => {
                let what = format!("put the error {} in place of the reply", error.code);
                self.tell_fault(&plan.rules, &what);
                let reply = answer::error_document(error, plan.context);
                let form = sight.form;
                let changed = answer::compose(&reply, form, sight.request_id, sight.response_to);
                changed.map_or(Cow::Borrowed(message), Cow::Owned)
            }
            Some((Reaction::WriteConcernError(error), _)) => {
                let what = format!("added the write concern error {}", error.code);
                self.tell_fault(&plan.rules, &what);
                let changed = answer::with_body(message, |reply| {
                    answer::add_write_concern_error(reply, error, plan.context);
                    true
                });
                changed.ok().flatten().map_or(Cow::Borrowed(message), Cow::Owned)
            }
            // These were seen to when the request came, or when the connection did.
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
        sent.map_err(|error| End::of_client(&error))?;
        if sight.more_to_come && matches!(plan.decided, Some((Reaction::Error(_), _))) {
            // For the client, the error was the last reply; the server would go on.
            self.shared.ledger().returned(entry, message.len());
            return Err(End::Cut { reset: false });
        }
        Ok(message.len())
    }

    /// The reply with the addresses at which clients reach the servers.
    fn renamed<'m>(&self, message: &'m [u8], pending: &Pending, outcome: Outcome) -> Cow<'m, [u8]> {
        let is_error = !outcome.ok || outcome.write_concern_error || outcome.write_errors > 0;
        if !(pending.is_hello || is_error || rewrite::names_servers(&pending.command)) {
            return Cow::Borrowed(message);
        }
        let changed = answer::with_body(message, |reply| {
            let names = match pending.is_hello && outcome.ok {
                true => self.shared.members.learn(self.member, reply),
                false => self.shared.members.names(),
            };
            let before = reply.clone();
            rewrite::rename(reply, &names);
            *reply != before
        });
        // What cannot be read is the client's to complain about.
        changed.ok().flatten().map_or(Cow::Borrowed(message), Cow::Owned)
    }

    fn tell_reply(&self, sight: &Sight<'_>, pending: &Pending, outcome: Outcome, bytes: usize) {
        if self.shared.is_watched() {
            let micros = u64::try_from(pending.since.elapsed().as_micros()).ok();
            self.shared.tell(&Event::Reply {
                connection: self.number,
                server: &self.member.name,
                message: shown(sight, &pending.command, &pending.namespace, bytes),
                ok: outcome.ok,
                code: outcome.code,
                micros,
                by_proxy: false,
            });
        }
    }
}

/// What happens to a reply that has no request of its own which could be cut or held up.
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
