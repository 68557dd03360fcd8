//! Dispatch of a request: validation, load shedding, fail points, authorization, execution.

use std::sync::atomic::Ordering;

use bson::{Bson, Document};
use steadfast_query::{Code, Fault, value::type_name};

use super::connection::{Connection, ConnectionEnd, RequestOutcome};
use crate::{
    auth::{privileges, users::User},
    call::Call,
    command::{self, Handler},
    fail_point::{
        self,
        command::{
            FailCommandAction, FailCommandEffect, MatchedCommand, WriteConcernFailure, with_labels,
        },
        transactional_write::TransactionalWriteFailPoint,
    },
    host::Host,
    search_indexes, version_gate,
};
use blackpipe_base::{
    codes::{self, ErrorContext},
    message::Request,
    number::code,
};

impl Connection {
    pub(super) async fn dispatch(
        &mut self,
        request: &mut Request,
    ) -> Result<RequestOutcome, ConnectionEnd> {
        if let Err(fault) = self.check_message(request) {
            return Ok(fault.into());
        }
        if let Some(reject_overload) = self.reject_overload(request) {
            return Ok(RequestOutcome::Reply(reject_overload));
        }
        let concern = match self.apply_fail_command(request).await? {
            FailCommandAction::Continue => None,
            FailCommandAction::AddConcernError(concern) => Some(concern),
            FailCommandAction::Reply(reply) => return Ok(RequestOutcome::Reply(reply)),
            FailCommandAction::CloseConnection => return Ok(RequestOutcome::Close),
        };
        if let Err(fault) = self.check_privileges(request) {
            return Ok(fault.into());
        }
        if let Some(outcome) = self.run_server_command(request).await? {
            return Ok(outcome);
        }
        let can_concern = concern.is_some() && takes_write_concern(request);
        let outcome = self.run(request).await?;
        Ok(match (outcome, concern) {
            (RequestOutcome::Reply(reply), Some(concern)) if can_concern => {
                RequestOutcome::Reply(self.with_concern(reply, concern))
            }
            (outcome, _) => outcome,
        })
    }

    /// Checks a message before its command is parsed.
    fn check_message(&self, request: &Request) -> Result<(), Fault> {
        const OP_QUERY_COMMANDS: [&str; 5] =
            ["_isSelf", "authenticate", "buildInfo", "saslContinue", "saslStart"];
        let name = &request.name;
        if request.legacy && !OP_QUERY_COMMANDS.iter().any(|known| known.eq_ignore_ascii_case(name))
        {
            return Err(Fault::new(
                Code::named(352, "UnsupportedOpQueryCommand"),
                format!(
                    "Unsupported OP_QUERY command: {name}. The client driver may require an upgrade."
                ),
            ));
        }
        let version = &self.server().host.server_info().version;
        if !request.legacy {
            check_database(request, version)?;
            version_gate::check_generic_arguments(&request.body, version)?;
        }
        if let Host::Member(_) = self.server().host
            && request.body.contains_key("maxTimeMSOpOnly")
        {
            return Err(Fault::new(
                Code::INVALID_OPTIONS,
                "can not specify maxTimeMSOpOnly to non-internal clients",
            ));
        }
        if request.has_duplicate_fields {
            let message = format!("BSON field '{name}' has a duplicate field");
            return Err(Fault::location(40413, message));
        }
        let needs_version = self.server().needs_api_version.load(Ordering::Relaxed);
        let goes_on = name == "getMore" || request.is_in_transaction();
        if needs_version && !goes_on && !request.body.contains_key("apiVersion") {
            return Err(Fault::location(
                498_870,
                "The apiVersion parameter is required, please configure your MongoClient's API \
                 version",
            ));
        }
        Ok(())
    }

    /// Rejects a request that exceeds the request rate limit.
    fn reject_overload(&self, request: &Request) -> Option<Document> {
        let server = self.server();
        if !server.requests.is_on() {
            return None;
        }
        // Clients that have not authenticated are exempt.
        let is_unknown = server.needs_user && self.auth.user().is_none();
        let is_login = matches!(request.name.as_str(), "saslStart" | "saslContinue");
        if is_unknown || is_login {
            server.requests.exempt();
            return None;
        }
        if server.requests.admit() {
            return None;
        }
        let message = "Rate limiter 'ingressRequestRateLimiter' rate exceeded";
        let reply = Fault::new(Code::INGRESS_REQUEST_RATE_LIMIT_EXCEEDED, message).to_reply();
        let labels = ["SystemOverloadedError".to_owned(), "RetryableError".to_owned()];
        let mut reply = with_labels(reply, &labels);
        let backoff = server.base_backoff.load(Ordering::Relaxed);
        if backoff > 0 {
            reply.insert("baseBackoffMS", backoff);
        }
        Some(reply)
    }

    /// Applies `failCommand`, including its `blockTimeMS`, and returns the action.
    pub(super) async fn apply_fail_command(
        &mut self,
        request: &Request,
    ) -> Result<FailCommandAction, ConnectionEnd> {
        if !self.server().fail_points.any_enabled() {
            return Ok(FailCommandAction::Continue);
        }
        let case = MatchedCommand {
            name: &request.name,
            namespace: &request.namespace(),
            app_name: self.app_name.as_deref(),
            context: self.context(request),
        };
        let Some(FailCommandEffect { block, then }) = self.server().fail_points.effect_on(case)
        else {
            return Ok(FailCommandAction::Continue);
        };
        self.sleep(block.unwrap_or_default()).await?;
        Ok(match then {
            FailCommandAction::Reply(reply) => FailCommandAction::Reply(self.with_topology(reply)),
            other => other,
        })
    }

    fn context(&self, request: &Request) -> ErrorContext {
        let is_in_transaction = request.is_in_transaction();
        let ends = matches!(request.name.as_str(), "commitTransaction" | "abortTransaction");
        let has_number = request.body.contains_key("txnNumber");
        ErrorContext {
            is_retryable_write: has_number && (ends || !is_in_transaction),
            is_in_transaction,
            // At this point the server does not know the cursor of a `getMore`.
            is_change_stream: request.name == "aggregate"
                && self.server().host.uses_change_stream(&request.name, &request.body),
            is_mongos: matches!(self.server().host, Host::Mongos(_)),
        }
    }

    /// Adds `topologyVersion` to `NotWritablePrimary` and similar errors.
    fn with_topology(&self, mut reply: Document) -> Document {
        let error = reply.get_document("writeConcernError").unwrap_or(&reply);
        let code = error.get("code").and_then(code);
        if code.is_some_and(codes::is_not_primary)
            && let Host::Member(_) = self.server().host
            && let Some(version) = self.server().host.topology_version()
        {
            reply.insert("topologyVersion", version);
        }
        reply
    }

    fn with_concern(&self, mut reply: Document, concern: WriteConcernFailure) -> Document {
        reply.insert("writeConcernError", concern.error);
        self.with_topology(with_labels(reply, &concern.labels))
    }

    /// Checks that the user may run the command.
    fn check_privileges(&self, request: &Request) -> Result<(), Fault> {
        let server = self.server();
        if !server.needs_user {
            return Ok(());
        }
        let required_privilege = required_privilege(request);
        let Some(user) = self.auth.user() else {
            let is_first_user = request.name == "createUser" && server.users.lock().is_empty();
            return match required_privilege == privileges::RequiredPrivilege::Unauthenticated
                || is_first_user
            {
                true => Ok(()),
                false => Err(Fault::new(
                    Code::UNAUTHORIZED,
                    format!("Command {} requires authentication", request.name),
                )),
            };
        };
        let allows =
            |user: &mut User| privileges::allow(&user.roles, required_privilege, &request.database);
        match server.users.with(user, allows).unwrap_or(false)
            || required_privilege == privileges::RequiredPrivilege::Unauthenticated
        {
            true => Ok(()),
            false => Err(Fault::new(
                Code::UNAUTHORIZED,
                format!(
                    "not authorized on {} to execute command {{ {}: {} }}",
                    request.database,
                    request.name,
                    request.collection().map_or("1".to_owned(), |name| format!("\"{name}\"")),
                ),
            )),
        }
    }

    /// Executes the command on the host.
    async fn run(&mut self, request: &mut Request) -> Result<RequestOutcome, ConnectionEnd> {
        let server = self.server().clone();
        let body = std::mem::take(&mut request.body);
        let mut call = match Call::read(&request.name, &request.database, body) {
            Ok(call) => call,
            Err(fault) => return Ok(fault.into()),
        };
        if let (Some(session), Some(user)) = (&mut call.session, self.auth.user()) {
            session.user = user.digest();
        }
        if let Some(outcome) = self.apply_other_fail_points(&mut call).await {
            return Ok(outcome);
        }
        let write_fail_point = call.write_fail_point.clone();
        let version = &server.host.server_info().version;
        if let Err(fault) =
            version_gate::check(&call, version).and_then(|()| search_indexes::check(&call, version))
        {
            return Ok(fault.into());
        }
        let name = call.name.clone();
        let mut reply = self.run_command(request, server.host.run(call)).await?;
        match name.as_str() {
            "serverStatus" => server.add_status(&mut reply),
            "getCmdLineOpts" => server.add_options(&mut reply),
            _ => {}
        }
        let closes_connection =
            write_fail_point.is_some_and(|write_fail_point| write_fail_point.closes_connection());
        Ok(if closes_connection { RequestOutcome::Close } else { RequestOutcome::Reply(reply) })
    }

    /// Applies fail points other than `failCommand`. Returns the response if one ends the command.
    async fn apply_other_fail_points(&self, call: &mut Call) -> Option<RequestOutcome> {
        let points = &self.server().fail_points;
        if !points.any_enabled() {
            return None;
        }
        if call.max_time.is_some() && points.enter(fail_point::ALWAYS_TIME_OUT, |_| true).is_some()
        {
            let message = "operation exceeded time limit";
            return Some(Fault::new(Code::MAX_TIME_MS_EXPIRED, message).into());
        }
        if points.enter(fail_point::NEVER_TIME_OUT, |_| true).is_some() {
            call.max_time = None;
        }
        if let Some(reply) = self.fail_get_more(call).await {
            return Some(RequestOutcome::Reply(reply));
        }
        if call.transaction.is_some() {
            call.write_fail_point = Some(TransactionalWriteFailPoint::new(points.clone()));
        }
        None
    }

    /// Error of `failGetMoreAfterCursorCheckout`. The cursor is closed.
    async fn fail_get_more(&self, call: &Call) -> Option<Document> {
        if call.name != "getMore" {
            return None;
        }
        let server = self.server();
        let data = server.fail_points.enter(fail_point::FAIL_GET_MORE, |data| {
            data.get("errorCode").and_then(code).is_some()
        })?;
        let code = data.get("errorCode").and_then(code)?;
        let is_change_stream = server.host.uses_change_stream(&call.name, &call.body);
        let labels =
            codes::labels_of(code, ErrorContext { is_change_stream, ..ErrorContext::default() });
        let kill = bson::doc! {
            "killCursors": call.body.get("collection")?.clone(),
            "cursors": [call.body.get("getMore")?.clone()],
            "$db": &call.database,
        };
        if let Ok(kill) = Call::read("killCursors", &call.database, kill) {
            server.host.run(kill).await;
        }
        let message = "Hit the 'failGetMoreAfterCursorCheckout' failpoint";
        let reply = Fault::new(crate::codes::code_of(code), message).to_reply();
        Some(self.with_topology(with_labels(reply, &labels)))
    }
}

/// Returns an error if `$db` is missing or not a valid database name.
fn check_database(request: &Request, version: &str) -> Result<(), Fault> {
    let name = match request.body.get("$db") {
        None => {
            return Err(Fault::location(40571, "OP_MSG requests require a $db argument"));
        }
        Some(Bson::String(name)) => name,
        Some(other) => {
            let code = match version_gate::is_at_least(version, version_gate::V8_2) {
                true => Code::TYPE_MISMATCH,
                false => Code::location(13111),
            };
            let found = type_name(other);
            return Err(Fault::new(code, format!("wrong type for field ($db) {found} != string")));
        }
    };
    let is_bad = |letter: char| matches!(letter, '/' | '\\' | '.' | ' ' | '"' | '\0');
    if name.is_empty() || name.len() >= 64 || name.contains(is_bad) {
        let message = format!("Invalid database name: '{name}'");
        return Err(Fault::new(Code::INVALID_NAMESPACE, message));
    }
    Ok(())
}

/// Returns `true` if the command accepts a write concern.
fn takes_write_concern(request: &Request) -> bool {
    let is_write = command::find(&request.name)
        .is_some_and(|command| matches!((command.run)(&request.body), Handler::Write(_)));
    is_write || matches!(request.name.as_str(), "commitTransaction" | "abortTransaction")
}

/// Privilege that a request requires.
fn required_privilege(request: &Request) -> privileges::RequiredPrivilege {
    use privileges::RequiredPrivilege;
    if let Some(required_privilege) = privileges::required_privilege(&request.name) {
        return required_privilege;
    }
    match command::find(&request.name) {
        Some(command) => match (command.run)(&request.body) {
            Handler::Write(_) => RequiredPrivilege::Write,
            Handler::Read(_) if command.on_any_member => RequiredPrivilege::Admin,
            Handler::Read(_) => RequiredPrivilege::Read,
        },
        None => RequiredPrivilege::Admin,
    }
}
