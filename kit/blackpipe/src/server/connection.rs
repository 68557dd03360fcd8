//! One connection, from its first request to its end.

use std::time::Duration;

use bson::Document;
use tokio::io::AsyncWriteExt;

use super::{
    Step,
    beginning::{self, command_name},
    conversation::Event,
    play::{Decision, Play},
    standing::asks_for_news,
    transport::Transport,
};
use blackpipe_base::message::{Envelope, Inbox, MessageError, Request};

/// Far enough from the ids of requests under way that a reply to it is a reply to none.
const ANOTHER: i32 = 1_000_000;

/// Serves a connection until it ends, and says how it did.
pub(super) async fn serve(play: &Play, stream: impl Transport, connection: usize) {
    let mut serving = Serving { play, stream, inbox: Inbox::new(), connection };
    let end = serving.serve_all().await;
    if matches!(end, End::Reset | End::Cut(_)) {
        serving.stream.reset_when_dropped();
    }
    drop(serving);
    if let (End::Nonsense(error), false) = (&end, play.manner.is_lenient) {
        play.stage.failed(format!("through connection {connection} came nonsense: {error}"));
    }
    play.note(connection, Event::Closed(end.to_string()));
}

/// Why a connection came to its end.
#[derive(Debug, thiserror::Error)]
enum End {
    #[error("the client hung up")]
    ByClient,
    #[error("the client is gone: {0}")]
    Lost(MessageError),
    #[error("the client sent nonsense: {0}")]
    Nonsense(MessageError),
    #[error("the server hung up")]
    HangUp,
    #[error("the server reset it")]
    Reset,
    #[error("the server reset it after {0} bytes of a request")]
    Cut(usize),
}

impl From<MessageError> for End {
    fn from(error: MessageError) -> Self {
        match error {
            MessageError::Io(_) | MessageError::Ended { .. } => Self::Lost(error),
            _ => Self::Nonsense(error),
        }
    }
}

struct Serving<'a, S> {
    play: &'a Play,
    stream: S,
    inbox: Inbox,
    connection: usize,
}

impl<S: Transport> Serving<'_, S> {
    async fn serve_all(&mut self) -> End {
        let mut earlier = 0;
        loop {
            match self.serve_next(earlier).await {
                Ok(()) => earlier += 1,
                Err(end) => return end,
            }
        }
    }

    async fn serve_next(&mut self, earlier: usize) -> Result<(), End> {
        let beginning = self.inbox.peek(&mut self.stream, beginning::ENOUGH).await?;
        if beginning.is_empty() {
            return Err(End::ByClient);
        }
        if let Some(bytes) = self.play.cut(self.connection, command_name(beginning)) {
            return Err(self.cut(bytes).await?);
        }
        let Some(message) = self.inbox.next(&mut self.stream).await? else {
            return Err(End::ByClient);
        };
        let mut request = Request::decode(message, self.connection)?;
        request.earlier = earlier;
        request.member = self.play.member;
        self.note(Event::came(&request));
        let steps = match self.play.decide(&request) {
            Decision::Steps(steps) => steps,
            Decision::Asked(test) => self.unless_gone(test).await?.unwrap_or_default(),
        };
        for step in steps {
            self.perform(&request, step).await?;
        }
        Ok(())
    }

    /// Reads so many bytes of a request, no more of the rest than is there already.
    async fn cut(&mut self, bytes: usize) -> Result<End, End> {
        let had = self.inbox.peek(&mut self.stream, bytes).await?.len();
        self.play.log.send_modify(|log| log.cut += 1);
        Ok(End::Cut(had))
    }

    async fn perform(&mut self, request: &Request, step: Step) -> Result<(), End> {
        match step {
            Step::Reply(_) | Step::Usual | Step::Hello(_) if !request.wants_reply => Ok(()),
            Step::Reply(reply) => self.reply(request, &reply, request.id, false).await.map(drop),
            Step::Usual if request.is_hello() => self.greet(request).await,
            Step::Usual => {
                let reply = self.play.usual(request);
                self.reply(request, &reply, request.id, false).await.map(drop)
            }
            Step::Hello(fields) => {
                let hello = self.play.standing.borrow().hello(self.connection, &fields);
                self.reply(request, &hello, request.id, false).await.map(drop)
            }
            Step::ReplyWithMoreToCome(reply) => {
                self.reply(request, &reply, request.id, true).await.map(drop)
            }
            Step::ReplyToAnother(reply) => {
                let another = request.id.wrapping_add(ANOTHER);
                self.reply(request, &reply, another, false).await.map(drop)
            }
            Step::Part(reply, count) => self.reply_in_part(request, &reply, count).await,
            Step::Raw(bytes) => {
                self.note(Event::Did(format!("sends {} bytes of its own", bytes.len())));
                self.send(&bytes).await
            }
            Step::Wait(gate) => self.unless_gone(gate.opened()).await,
            Step::Pause(time) => self.unless_gone(tokio::time::sleep(time)).await,
            Step::Nothing => Ok(()),
            Step::HangUp => Err(End::HangUp),
            Step::Reset => Err(End::Reset),
        }
    }

    /// Answers a hello as the server's role demands: at once, or if the client knows all that there
    /// is to say when there is something new; and then again and again, if it takes many replies.
    async fn greet(&mut self, request: &Request) -> Result<(), End> {
        let mut standing = self.play.standing.subscribe();
        let streams = standing.borrow().version.is_some();
        let mut known = asks_for_news(request).filter(|_| streams).cloned();
        let more_to_come = request.takes_many && known.is_some();
        let patience = request.body.get("maxAwaitTimeMS").and_then(milliseconds);
        let mut response_to = request.id;
        loop {
            if let Some(known) = &known {
                let news = standing.wait_for(|standing| standing.is_news_to(known));
                let news = tokio::time::timeout(patience.unwrap_or(Duration::ZERO), news);
                self.unless_gone(async { drop(news.await) }).await?;
            }
            let hello = standing.borrow_and_update().hello(self.connection, &Document::new());
            response_to = self.reply(request, &hello, response_to, more_to_come).await?;
            // A client that says something while it is told the news has heard enough.
            if !more_to_come || !self.inbox.buffered().is_empty() {
                return Ok(());
            }
            known = hello.get_document("topologyVersion").ok().cloned();
        }
    }

    /// Sends a reply, and gives its id.
    async fn reply(
        &mut self,
        request: &Request,
        reply: &Document,
        response_to: i32,
        more_to_come: bool,
    ) -> Result<i32, End> {
        let request_id = self.play.next_id();
        let bytes = request.reply_as(reply, Envelope { request_id, response_to, more_to_come });
        let how = match (more_to_come, response_to == request.id) {
            (true, _) => " (and more to come)",
            (false, true) => "",
            (false, false) => " (as a reply to another request)",
        };
        self.note(Event::sent(reply, how));
        self.send(&bytes).await?;
        Ok(request_id)
    }

    async fn reply_in_part(
        &mut self,
        request: &Request,
        reply: &Document,
        count: usize,
    ) -> Result<(), End> {
        let bytes = request.reply(reply);
        let count = count.min(bytes.len());
        let how = format!(" (its first {count} of {} bytes)", bytes.len());
        self.note(Event::sent(reply, &how));
        self.send(&bytes[..count]).await
    }

    async fn send(&mut self, bytes: &[u8]) -> Result<(), End> {
        self.stream.write_all(bytes).await.map_err(|error| End::Lost(MessageError::Io(error)))
    }

    /// Waits for something, or until the client has hung up.
    async fn unless_gone<T>(&mut self, what: impl Future<Output = T>) -> Result<T, End> {
        tokio::pin!(what);
        let said = tokio::select! {
            biased;
            done = &mut what => return Ok(done),
            said = self.inbox.peek(&mut self.stream, 1) => !said?.is_empty(),
        };
        // What it says in the meantime is looked at later.
        match said {
            true => Ok(what.await),
            false => Err(End::ByClient),
        }
    }

    fn note(&self, event: Event) {
        self.play.note(self.connection, event);
    }
}

fn milliseconds(value: &bson::Bson) -> Option<Duration> {
    let number = value.as_i64().or(value.as_i32().map(i64::from))?;
    u64::try_from(number).ok().map(Duration::from_millis)
}
