//! The way of requests: looked at, judged, and sent on, held up, cut or answered.

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
    End, Line, ToClient, client_gone,
    pending::{Pending, Plan},
    shown,
};
use crate::proxy::{
    admin, answer,
    event::Event,
    inbox::{Arrived, Inbox},
    ledger::{Arrival, Delivery},
    outlet::send,
    reaction::{Direction, Reaction},
    rulebook::{Circumstances, Verdict},
    sight::{Command, Sight},
};
use blackpipe_base::codes::ErrorContext;
use steadfast_wire::OpCode;

/// A request and what is known of it.
struct Request<'a> {
    message: &'a [u8],
    /// How much of it the server has been given already, because it is large and there was no rule.
    ahead: usize,
    sight: &'a Sight<'a>,
    command: Command<'a>,
    /// Where it stands in the ledger.
    arrival: Arrival,
}

impl Line<'_> {
    /// Carries requests until the client hangs up or a rule ends it all.
    pub(super) async fn carry_requests<W>(
        &self,
        mut from: ReadHalf<'_>,
        mut to: W,
        to_client: &ToClient<'_>,
    ) -> End
    where
        W: AsyncWrite + Unpin,
    {
        let mut inbox = Inbox::new();
        // How much of the message at hand is on its way already.
        let mut ahead = 0;
        loop {
            let went_on = match inbox.arrive(&mut from).await {
                Ok(Arrived::Part(length)) => {
                    let part = inbox.first(length);
                    if ahead == 0 && !self.may_go_ahead(part) {
                        continue;
                    }
                    let sent = send(&mut to, &part[ahead..], None).await;
                    ahead = part.len();
                    sent.map_err(|error| End::of_server(&error))
                }
                Ok(Arrived::Whole(length)) => {
                    let ahead = std::mem::take(&mut ahead);
                    self.message(inbox.first(length), ahead, &from, &mut to, to_client).await
                }
                Ok(Arrived::End) => {
                    // A message that did not come whole is not sent on.
                    let _ = to.shutdown().await;
                    return End::ClientClosed;
                }
                Err(error) => return End::of_client(&error),
            };
            if let Err(end) = went_on {
                return end;
            }
        }
    }

    /// Whether a large message may be passed on as it comes. Not if a rule might want it back, or if
    /// it might be for the proxy itself.
    fn may_go_ahead(&self, part: &[u8]) -> bool {
        !self.shared.has_rules()
            && first_key(part).is_some_and(|command| !admin::may_be_ours(command))
    }

    async fn message<W>(
        &self,
        message: &[u8],
        ahead: usize,
        from: &ReadHalf<'_>,
        to: &mut W,
        to_client: &ToClient<'_>,
    ) -> Result<(), End>
    where
        W: AsyncWrite + Unpin,
    {
        let sight = Sight::of(message);
        let Some(command) = sight.command() else {
            let sent = send(to, &message[ahead..], None).await;
            return sent.map_err(|error| End::of_server(&error));
        };
        if ahead == 0
            && admin::may_be_ours(command.name)
            && let Some(reply) = self.own_answer(&sight)
        {
            let sent = self.reply_by_proxy(&sight, command.name, "admin", &reply, to_client);
            return sent.await.map(drop);
        }
        let (server, namespace) = (&self.member.name, command.namespace());
        let arrival = self.shared.ledger().arrived(server, self.number, &command, &namespace);
        let request = Request { message, ahead, sight: &sight, command, arrival };
        self.request(&request, from, to, to_client).await
    }

    async fn request<W>(
        &self,
        request: &Request<'_>,
        from: &ReadHalf<'_>,
        to: &mut W,
        to_client: &ToClient<'_>,
    ) -> Result<(), End>
    where
        W: AsyncWrite + Unpin,
    {
        self.tell_request(request);
        if request.command.is_hello() {
            self.note_app_name(request.sight);
        }
        let verdict = self.judge(request);
        if verdict.rules.is_empty() {
            return self.forward(request, verdict, to).await;
        }
        self.shared.ledger().applied(request.arrival.number, &verdict.rules);
        self.act_on_request(request, verdict, from, to, to_client).await
    }

    /// Does what rules want of a request, and leaves the rest to the reply.
    async fn act_on_request<W>(
        &self,
        request: &Request<'_>,
        verdict: Verdict,
        from: &ReadHalf<'_>,
        to: &mut W,
        to_client: &ToClient<'_>,
    ) -> Result<(), End>
    where
        W: AsyncWrite + Unpin,
    {
        if verdict.request_delay > Duration::ZERO {
            self.tell_fault(
                &verdict.rules,
                &format!("holds it up for {:?}", verdict.request_delay),
            );
            self.hold(from, sleep(verdict.request_delay)).await?;
        }
        match &verdict.decided {
            Some((Reaction::CutRequest { after, reset }, _)) => {
                let part = &request.message[..request.message.len().min(*after)];
                let what = format!("cut the request after {} bytes", part.len());
                self.tell_fault(&verdict.rules, &what);
                let sent = send(to, part, verdict.request_rate).await;
                sent.map_err(|error| End::of_server(&error))?;
                // So that the server sees these bytes and an end, whatever it has sent itself.
                let _ = to.shutdown().await;
                self.note_delivery(request, part.len());
                Err(End::Cut { reset: *reset })
            }
            Some((Reaction::Stall { direction: Direction::Request }, rule)) => {
                self.tell_fault(&verdict.rules, "stalls requests");
                self.hold(from, self.shared.until_removed(*rule)).await?;
                let verdict = Verdict { decided: None, ..verdict };
                self.forward(request, verdict, to).await
            }
            Some((Reaction::Error(error), _)) if !error.forwards() => {
                self.tell_fault(&verdict.rules, &format!("answers with the error {}", error.code));
                if request.sight.more_to_come {
                    return Ok(());
                }
                let reply = answer::error_document(error, context(&request.command));
                let name = request.command.name;
                let namespace = &request.arrival.namespace;
                let sent = self.reply_by_proxy(request.sight, name, namespace, &reply, to_client);
                let bytes = sent.await?;
                self.shared.ledger().returned(request.arrival.number, bytes);
                Ok(())
            }
            // A request without a reply: what would be lost is the connection.
            Some((Reaction::LoseReply { reset } | Reaction::CutReply { reset, .. }, _))
                if request.sight.more_to_come =>
            {
                let reset = *reset;
                self.tell_fault(&verdict.rules, "cut after a request that wants no reply");
                self.forward(request, verdict, to).await?;
                let _ = to.shutdown().await;
                Err(End::Cut { reset })
            }
            Some(_) | None => self.forward(request, verdict, to).await,
        }
    }

    /// Sends a request on, after noting what is to become of its reply.
    async fn forward<W>(
        &self,
        request: &Request<'_>,
        verdict: Verdict,
        to: &mut W,
    ) -> Result<(), End>
    where
        W: AsyncWrite + Unpin,
    {
        let rate = verdict.request_rate;
        if !request.sight.more_to_come {
            let plan = (!verdict.rules.is_empty()).then(|| {
                Box::new(Plan {
                    delay: verdict.reply_delay,
                    rate: verdict.reply_rate,
                    decided: verdict.decided,
                    rules: verdict.rules,
                    context: context(&request.command),
                })
            });
            self.waiting().push(Pending {
                id: request.sight.request_id,
                entry: request.arrival.number,
                command: Arc::clone(&request.arrival.command),
                namespace: Arc::clone(&request.arrival.namespace),
                is_hello: request.command.is_hello(),
                is_one_more: false,
                since: Instant::now(),
                plan,
            });
        }
        let sent = send(to, &request.message[request.ahead..], rate).await;
        sent.map_err(|error| End::of_server(&error))?;
        self.note_delivery(request, request.message.len());
        Ok(())
    }

    /// Waits, unless the client hangs up meanwhile.
    async fn hold(&self, from: &ReadHalf<'_>, wait: impl Future<Output = ()>) -> Result<(), End> {
        tokio::select! {
            () = wait => Ok(()),
            () = client_gone(from.as_ref()) => Err(End::ClientClosed),
        }
    }

    fn judge(&self, request: &Request<'_>) -> Verdict {
        if request.ahead > 0 {
            return Verdict::default();
        }
        let Arrival { namespace, is_retry, .. } = &request.arrival;
        self.judge_command(request.command.name, namespace, *is_retry)
    }

    /// What rules say about a command through this connection.
    pub(super) fn judge_command(&self, command: &str, namespace: &str, is_retry: bool) -> Verdict {
        if !self.shared.has_rules() {
            return Verdict::default();
        }
        let app_name = self.app_name().clone();
        self.shared.judge(&Circumstances {
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
        self.shared.ledger().delivered(request.arrival.number, delivery);
    }

    /// Takes the name of the client's application from its first hello.
    fn note_app_name(&self, hello: &Sight<'_>) {
        let name = hello.document().and_then(|hello| {
            let application =
                hello.get_document("client").ok()?.get_document("application").ok()?;
            Some(application.get_str("name").ok()?.to_owned())
        });
        if name.is_some() {
            *self.app_name() = name;
        }
    }

    fn own_answer(&self, sight: &Sight<'_>) -> Option<Document> {
        let command = Document::try_from(sight.sound_document()?).ok()?;
        admin::answer(self.shared, self.member, &command)
    }

    /// Answers in the server's place. Returns how many bytes the client was given.
    async fn reply_by_proxy(
        &self,
        sight: &Sight<'_>,
        command: &str,
        namespace: &str,
        reply: &Document,
        to_client: &ToClient<'_>,
    ) -> Result<usize, End> {
        let composed = answer::compose(reply, sight.form, sight.request_id, sight.request_id);
        let bytes = composed.map_err(|error| End::of_client(&io::Error::other(error)))?;
        if self.shared.is_watched() {
            let seen = Sight::of(&bytes);
            let outcome = seen.outcome();
            self.shared.tell(&Event::Reply {
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
        sent.map(|()| bytes.len()).map_err(|error| End::of_client(&error))
    }

    fn tell_request(&self, request: &Request<'_>) {
        if self.shared.is_watched() {
            let (name, namespace) = (request.command.name, &request.arrival.namespace);
            self.shared.tell(&Event::Request {
                connection: self.number,
                server: &self.member.name,
                message: shown(request.sight, name, namespace, request.message.len()),
                is_retry: request.arrival.is_retry,
            });
        }
    }
}

fn context(command: &Command<'_>) -> ErrorContext {
    let ends = command.ends_transaction();
    ErrorContext {
        is_retryable_write: ends || (command.txn_number.is_some() && !command.in_transaction),
        is_in_transaction: command.in_transaction && !ends,
        // What a cursor is about is not seen in what goes by.
        is_change_stream: false,
        is_mongos: false,
    }
}

/// The command in a message of which only a part has come: an OP_MSG whose body is its first section.
fn first_key(part: &[u8]) -> Option<&str> {
    const OP_MSG: [u8; 4] = OpCode::Msg.code().to_le_bytes();
    // Flags, the kind of the section, the document's length, the type of its first field.
    const KEY_AT: usize = 16 + 4 + 1 + 4 + 1;
    if part.get(12..16) != Some(&OP_MSG) || part.get(20) != Some(&0) {
        return None;
    }
    let rest = part.get(KEY_AT..)?;
    let end = rest.iter().take(64).position(|byte| *byte == 0)?;
    std::str::from_utf8(&rest[..end]).ok()
}
