//! Forwarding of requests: parsed, matched with the rules, then forwarded, delayed, cut or replied
//! to.

use std::{
    io,
    sync::Arc,
    time::{Duration, Instant},
};

use bson::Document;
use tokio::{
    io::{AsyncWrite, AsyncWriteExt},
    net::tcp::ReadHalf,
    time::sleep,
};

use super::{
    CloseReason, ProxiedConnection, ToClient, client_closed,
    in_flight::{InFlightRequest, ReplyPlan},
    shown,
};
use crate::proxy::{
    admin,
    event::ProxyEvent,
    ledger::{Delivery, RecordedRequest},
    message_buffer::{MessageBuffer, ReadProgress},
    message_view::{CommandView, MessageView},
    own_reply,
    reaction::{Direction, Reaction},
    rulebook::{MatchContext, RuleVerdict},
    send::send,
};
use blackpipe_base::codes::ErrorContext;
use steadfast_wire::OpCode;

/// A parsed request.
struct Request<'a> {
    message: &'a [u8],
    /// Number of bytes already forwarded. Only large requests without rules are forwarded early.
    forwarded_bytes: usize,
    view: &'a MessageView<'a>,
    command: CommandView<'a>,
    /// Record in the ledger.
    arrival: RecordedRequest,
}

impl ProxiedConnection<'_> {
    /// Forwards requests until the client closes the connection or a rule ends it.
    pub(super) async fn forward_requests<W>(
        &self,
        mut from: ReadHalf<'_>,
        mut to: W,
        to_client: &ToClient<'_>,
    ) -> CloseReason
    where
        W: AsyncWrite + Unpin,
    {
        let mut buffer = MessageBuffer::new();
        // Number of bytes of the current message that were forwarded.
        let mut forwarded_bytes = 0;
        loop {
            let went_on = match buffer.read_more(&mut from).await {
                Ok(ReadProgress::Partial(length)) => {
                    let part = buffer.bytes(length);
                    if forwarded_bytes == 0 && !self.may_forward_early(part) {
                        continue;
                    }
                    let sent = send(&mut to, &part[forwarded_bytes..], None).await;
                    forwarded_bytes = part.len();
                    sent.map_err(|error| CloseReason::of_server(&error))
                }
                Ok(ReadProgress::Message(length)) => {
                    let forwarded_bytes = std::mem::take(&mut forwarded_bytes);
                    self.message(buffer.bytes(length), forwarded_bytes, &from, &mut to, to_client)
                        .await
                }
                Ok(ReadProgress::EndOfStream) => {
                    // An incomplete message is not forwarded.
                    let _ = to.shutdown().await;
                    return CloseReason::ClientClosed;
                }
                Err(error) => return CloseReason::of_client(&error),
            };
            if let Err(end) = went_on {
                return end;
            }
        }
    }

    /// Returns `true` if a large message may be forwarded while it arrives: there are no rules, and
    /// it is not a command for the proxy.
    fn may_forward_early(&self, part: &[u8]) -> bool {
        !self.state.has_rules()
            && first_key(part).is_some_and(|command| !admin::is_proxy_command(command))
    }

    async fn message<W>(
        &self,
        message: &[u8],
        forwarded_bytes: usize,
        from: &ReadHalf<'_>,
        to: &mut W,
        to_client: &ToClient<'_>,
    ) -> Result<(), CloseReason>
    where
        W: AsyncWrite + Unpin,
    {
        let view = MessageView::of(message);
        let Some(command) = view.command() else {
            let sent = send(to, &message[forwarded_bytes..], None).await;
            return sent.map_err(|error| CloseReason::of_server(&error));
        };
        if forwarded_bytes == 0
            && admin::is_proxy_command(command.name)
            && let Some(reply) = self.own_answer(&view)
        {
            let sent = self.reply_by_proxy(&view, command.name, "admin", &reply, to_client);
            return sent.await.map(drop);
        }
        let (server, namespace) = (&self.member.name, command.namespace());
        let arrival = self.state.ledger().arrived(server, self.number, &command, &namespace);
        let request = Request { message, forwarded_bytes, view: &view, command, arrival };
        self.request(&request, from, to, to_client).await
    }

    async fn request<W>(
        &self,
        request: &Request<'_>,
        from: &ReadHalf<'_>,
        to: &mut W,
        to_client: &ToClient<'_>,
    ) -> Result<(), CloseReason>
    where
        W: AsyncWrite + Unpin,
    {
        self.emit_request(request);
        if request.command.is_hello() {
            self.note_app_name(request.view);
        }
        let verdict = self.apply_rules(request);
        if verdict.rules.is_empty() {
            return self.forward(request, verdict, to).await;
        }
        self.state.ledger().applied(request.arrival.number, &verdict.rules);
        self.act_on_request(request, verdict, from, to, to_client).await
    }

    /// Applies the rules to a request. Faults of the reply are left to [`ReplyPlan`].
    async fn act_on_request<W>(
        &self,
        request: &Request<'_>,
        verdict: RuleVerdict,
        from: &ReadHalf<'_>,
        to: &mut W,
        to_client: &ToClient<'_>,
    ) -> Result<(), CloseReason>
    where
        W: AsyncWrite + Unpin,
    {
        if verdict.request_delay > Duration::ZERO {
            self.emit_fault(
                &verdict.rules,
                &format!("delayed the request by {:?}", verdict.request_delay),
            );
            self.wait_unless_closed(from, sleep(verdict.request_delay)).await?;
        }
        match &verdict.final_reaction {
            Some((Reaction::CutRequest { after, reset }, _)) => {
                let part = &request.message[..request.message.len().min(*after)];
                let what = format!("cut the request after {} bytes", part.len());
                self.emit_fault(&verdict.rules, &what);
                let sent = send(to, part, verdict.request_rate).await;
                sent.map_err(|error| CloseReason::of_server(&error))?;
                // Lets the server read these bytes and then the end of the stream.
                let _ = to.shutdown().await;
                self.note_delivery(request, part.len());
                Err(CloseReason::Cut { reset: *reset })
            }
            Some((Reaction::Stall { direction: Direction::Request }, rule)) => {
                self.emit_fault(&verdict.rules, "stalled requests");
                self.wait_unless_closed(from, self.state.until_removed(*rule)).await?;
                let verdict = RuleVerdict { final_reaction: None, ..verdict };
                self.forward(request, verdict, to).await
            }
            Some((Reaction::Error(error), _)) if !error.forwards() => {
                self.emit_fault(&verdict.rules, &format!("replied with error {}", error.code));
                if request.view.more_to_come {
                    return Ok(());
                }
                let reply = own_reply::error_document(error, context(&request.command));
                let name = request.command.name;
                let namespace = &request.arrival.namespace;
                let sent = self.reply_by_proxy(request.view, name, namespace, &reply, to_client);
                let bytes = sent.await?;
                self.state.ledger().returned(request.arrival.number, bytes);
                Ok(())
            }
            // A request without a reply has no reply to lose, so the connection ends after the
            // request.
            Some((Reaction::LoseReply { reset } | Reaction::CutReply { reset, .. }, _))
                if request.view.more_to_come =>
            {
                let reset = *reset;
                self.emit_fault(
                    &verdict.rules,
                    "closed the connection after a request without a reply",
                );
                self.forward(request, verdict, to).await?;
                let _ = to.shutdown().await;
                Err(CloseReason::Cut { reset })
            }
            Some(_) | None => self.forward(request, verdict, to).await,
        }
    }

    /// Forwards a request, after the rules for its reply were stored.
    async fn forward<W>(
        &self,
        request: &Request<'_>,
        verdict: RuleVerdict,
        to: &mut W,
    ) -> Result<(), CloseReason>
    where
        W: AsyncWrite + Unpin,
    {
        let rate = verdict.request_rate;
        if !request.view.more_to_come {
            let plan = (!verdict.rules.is_empty()).then(|| {
                Box::new(ReplyPlan {
                    delay: verdict.reply_delay,
                    rate: verdict.reply_rate,
                    final_reaction: verdict.final_reaction,
                    rules: verdict.rules,
                    context: context(&request.command),
                })
            });
            self.in_flight().push(InFlightRequest {
                id: request.view.request_id,
                entry: request.arrival.number,
                command: Arc::clone(&request.arrival.command),
                namespace: Arc::clone(&request.arrival.namespace),
                is_hello: request.command.is_hello(),
                is_further_reply: false,
                since: Instant::now(),
                plan,
            });
        }
        let sent = send(to, &request.message[request.forwarded_bytes..], rate).await;
        sent.map_err(|error| CloseReason::of_server(&error))?;
        self.note_delivery(request, request.message.len());
        Ok(())
    }

    /// Waits. Fails if the client closes the connection first.
    async fn wait_unless_closed(
        &self,
        from: &ReadHalf<'_>,
        wait: impl Future<Output = ()>,
    ) -> Result<(), CloseReason> {
        tokio::select! {
            () = wait => Ok(()),
            () = client_closed(from.as_ref()) => Err(CloseReason::ClientClosed),
        }
    }

    fn apply_rules(&self, request: &Request<'_>) -> RuleVerdict {
        if request.forwarded_bytes > 0 {
            return RuleVerdict::default();
        }
        let RecordedRequest { namespace, is_retry, .. } = &request.arrival;
        self.apply_rules_to(request.command.name, namespace, *is_retry)
    }

    /// Applies the rules to a command on this connection.
    pub(super) fn apply_rules_to(
        &self,
        command: &str,
        namespace: &str,
        is_retry: bool,
    ) -> RuleVerdict {
        if !self.state.has_rules() {
            return RuleVerdict::default();
        }
        let app_name = self.app_name().clone();
        self.state.apply_rules(&MatchContext {
            server: &self.member.names(),
            connection: self.number,
            app_name: app_name.as_deref(),
            command,
            namespace,
            is_retry,
        })
    }

    fn note_delivery(&self, request: &Request<'_>, bytes: usize) {
        let delivery = match bytes {
            0 => Delivery::None,
            part if part < request.message.len() => Delivery::Part(part),
            _ => Delivery::Whole,
        };
        self.state.ledger().delivered(request.arrival.number, delivery);
    }

    /// Stores `client.application.name` of the first `hello`.
    fn note_app_name(&self, hello: &MessageView<'_>) {
        let name = hello.document().and_then(|hello| {
            let application =
                hello.get_document("client").ok()?.get_document("application").ok()?;
            Some(application.get_str("name").ok()?.to_owned())
        });
        if name.is_some() {
            *self.app_name() = name;
        }
    }

    fn own_answer(&self, view: &MessageView<'_>) -> Option<Document> {
        let command = Document::try_from(view.validated_document()?).ok()?;
        admin::answer(self.state, self.member, &command)
    }

    /// Replies in place of the server. Returns the number of bytes sent to the client.
    async fn reply_by_proxy(
        &self,
        view: &MessageView<'_>,
        command: &str,
        namespace: &str,
        reply: &Document,
        to_client: &ToClient<'_>,
    ) -> Result<usize, CloseReason> {
        let composed = own_reply::compose(reply, view.form, view.request_id, view.request_id);
        let bytes = composed.map_err(|error| CloseReason::of_client(&io::Error::other(error)))?;
        if self.state.has_observer() {
            let seen = MessageView::of(&bytes);
            let outcome = seen.outcome();
            self.state.emit(&ProxyEvent::Reply {
                connection: self.number,
                server: &self.member.name,
                message: shown(&seen, command, namespace, bytes.len()),
                ok: outcome.ok,
                code: outcome.code,
                micros: None,
                by_proxy: true,
            });
        }
        let sent = send(&mut *to_client.lock().await, &bytes, None).await;
        sent.map(|()| bytes.len()).map_err(|error| CloseReason::of_client(&error))
    }

    fn emit_request(&self, request: &Request<'_>) {
        if self.state.has_observer() {
            let (name, namespace) = (request.command.name, &request.arrival.namespace);
            self.state.emit(&ProxyEvent::Request {
                connection: self.number,
                server: &self.member.name,
                message: shown(request.view, name, namespace, request.message.len()),
                is_retry: request.arrival.is_retry,
            });
        }
    }
}

fn context(command: &CommandView<'_>) -> ErrorContext {
    let ends = command.ends_transaction();
    ErrorContext {
        is_retryable_write: ends || (command.txn_number.is_some() && !command.in_transaction),
        is_in_transaction: command.in_transaction && !ends,
        // A `getMore` does not say whether its cursor is a change stream.
        is_change_stream: false,
        is_mongos: false,
    }
}

/// Returns the command name from the start of an OP_MSG whose first section is the body.
fn first_key(part: &[u8]) -> Option<&str> {
    const OP_MSG: [u8; 4] = OpCode::Msg.code().to_le_bytes();
    // Flags, section kind, document length, type of the first field.
    const KEY_AT: usize = 16 + 4 + 1 + 4 + 1;
    if part.get(12..16) != Some(&OP_MSG) || part.get(20) != Some(&0) {
        return None;
    }
    let rest = part.get(KEY_AT..)?;
    let end = rest.iter().take(64).position(|byte| *byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}
