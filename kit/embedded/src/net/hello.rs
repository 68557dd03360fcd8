//! `hello` and legacy hello, including the awaitable and the streaming protocol.

use std::time::Duration;

use bson::{Bson, Document, oid::ObjectId};
use steadfast_query::{Code, Fault, value::type_name};
use steadfast_wire::Compressor;

use super::connection::{Connection, ConnectionEnd};
use crate::{
    auth::users::UserName, call, fail_point::command::FailCommandAction, host::Host,
    node::not_stable, version_gate,
};
use blackpipe_base::{message::Request, number::number};

/// First wire version with awaitable `hello` (MongoDB 4.4).
const AWAITABLE_HELLO: i32 = 9;

/// First wire version that rejects negative numbers with `BadValue` (MongoDB 8.0).
const NEGATIVE_IS_BAD_VALUE: i32 = 25;

/// First version whose fail points match the application name of the first `hello`.
const MATCHES_FIRST_APP_NAME: version_gate::ServerVersion = (4, 4, 7);

/// Arguments of an awaitable `hello`: `topologyVersion` and `maxAwaitTimeMS`.
struct AwaitableHello {
    process: ObjectId,
    counter: i64,
    max_await_time: Duration,
}

impl Connection {
    /// Replies to `hello`: at once, or when the topology version differs from the client's. With
    /// `exhaustAllowed`, further replies follow.
    pub(super) async fn reply_to_hello(
        &mut self,
        request: &Request,
        after: Duration,
    ) -> Result<(), ConnectionEnd> {
        let mut response_to = request.id;
        let mut awaitable = match self.read(request) {
            Ok(awaitable) => awaitable,
            Err(fault) => {
                let mut reply = fault.to_reply();
                self.server().host.add_cluster_times(&mut reply);
                return self.reply(request, &reply, response_to, false).await.map(drop);
            }
        };
        let streams = request.exhaust_allowed && awaitable.is_some();
        if version_gate::is_at_least(
            &self.server().host.server_info().version,
            MATCHES_FIRST_APP_NAME,
        ) && self.app_name.is_none()
        {
            self.app_name = app_name(&request.body).map(ToOwned::to_owned);
        }
        if self.server().requests.is_on() {
            self.server().requests.exempt();
        }
        loop {
            let (mut reply, more_to_come) = match self.apply_fail_command(request).await? {
                FailCommandAction::CloseConnection => return Err(ConnectionEnd),
                FailCommandAction::Reply(reply) => (reply, false),
                FailCommandAction::Continue | FailCommandAction::AddConcernError(_) => {
                    match self.hello(request, awaitable.as_ref()).await? {
                        Ok(reply) => (reply, streams),
                        Err(fault) => (fault.to_reply(), false),
                    }
                }
            };
            if !request.expects_reply {
                return Ok(());
            }
            self.sleep(after).await?;
            self.server().host.add_cluster_times(&mut reply);
            response_to = self.reply(request, &reply, response_to, more_to_come).await?;
            // Any request of the client ends the stream of replies.
            if !more_to_come || self.has_more() {
                return Ok(());
            }
            if let Some(awaitable) = &mut awaitable {
                awaitable.update_from(&reply);
            }
        }
    }

    async fn hello(
        &mut self,
        request: &Request,
        awaitable: Option<&AwaitableHello>,
    ) -> Result<Result<Document, Fault>, ConnectionEnd> {
        if let Some(awaitable) = awaitable
            && let Err(fault) = self.wait_for_change(awaitable).await?
        {
            return Ok(Err(fault));
        }
        if let Err(fault) = self.read_client_metadata(&request.body) {
            return Ok(Err(fault));
        }
        let mut reply = self.describe(request);
        if let Err(fault) = self.add_sasl_fields(&request.body, &request.database, &mut reply) {
            return Ok(Err(fault));
        }
        let is_balanced = request.body.get_bool("loadBalanced").unwrap_or(false);
        if let (true, Some(service)) = (is_balanced, self.server().service_id) {
            reply.insert("serviceId", service);
        }
        reply.remove("ok");
        reply.insert("ok", 1.0);
        Ok(Ok(reply))
    }

    /// Waits until the topology version differs from the client's, or until `maxAwaitTimeMS`.
    async fn wait_for_change(
        &mut self,
        awaitable: &AwaitableHello,
    ) -> Result<Result<(), Fault>, ConnectionEnd> {
        let mut topology = self.server().host.topology();
        topology.mark_unchanged();
        let until = tokio::time::Instant::now() + awaitable.max_await_time;
        loop {
            let now = self.server().host.hello();
            let version = now.get_document("topologyVersion").ok();
            let Some(version) = version else { return Ok(Ok(())) };
            let counter = version.get_i64("counter").unwrap_or_default();
            if version.get_object_id("processId").ok() != Some(awaitable.process)
                || counter > awaitable.counter
            {
                return Ok(Ok(()));
            }
            if counter < awaitable.counter {
                return Ok(Err(Fault::location(
                    31382,
                    format!(
                        "Received a topology version with counter: {} which is greater than the \
                         server topology version counter: {counter}",
                        awaitable.counter
                    ),
                )));
            }
            let changed = tokio::time::timeout_at(until, topology.changed());
            match self.wait(changed).await? {
                Ok(Ok(())) => {}
                Ok(Err(_)) | Err(_) => return Ok(Ok(())),
            }
        }
    }

    /// Reads the client metadata (`client`) of the first `hello`.
    fn read_client_metadata(&mut self, body: &Document) -> Result<(), Fault> {
        let client = match body.get("client") {
            None => return Ok(()),
            Some(Bson::Document(client)) => client,
            Some(_) => {
                return Err(Fault::type_mismatch(
                    "The client metadata document must be a document",
                ));
            }
        };
        if self.has_client_metadata {
            // A streaming or awaitable `hello` may repeat the same metadata.
            return match body.contains_key("topologyVersion") {
                true => Ok(()),
                false => Err(Fault::new(
                    Code::named(186, "ClientMetadataCannotBeMutated"),
                    "The client metadata document may only be sent in the first hello",
                )),
            };
        }
        for part in ["driver", "os"] {
            if client.get_document(part).is_err() {
                return Err(Fault::new(
                    Code::named(183, "ClientMetadataMissingField"),
                    format!(
                        "Missing required sub-document '{part}' in the client metadata document"
                    ),
                ));
            }
        }
        let name = app_name(body);
        if name.is_some_and(|name| name.len() > 128) {
            return Err(Fault::new(
                Code::named(184, "ClientMetadataAppNameTooLarge"),
                "The 'application.name' field must be less then or equal to 128 bytes in the \
                 client metadata document",
            ));
        }
        self.app_name = name.map(ToOwned::to_owned);
        self.has_client_metadata = true;
        Ok(())
    }

    /// Parses the arguments of `hello`.
    fn read(&self, request: &Request) -> Result<Option<AwaitableHello>, Fault> {
        let body = &request.body;
        if request.is_in_transaction() {
            return Err(Fault::new(
                Code::OPERATION_NOT_SUPPORTED_IN_TRANSACTION,
                format!("Cannot run '{}' in a multi-document transaction.", request.name),
            ));
        }
        if call::api_strict(body)? && request.name != "hello" {
            return Err(not_stable(&request.name));
        }
        match body.get("compression") {
            None | Some(Bson::Array(_) | Bson::Null) => {}
            Some(other) => return Err(wrong_type("compression", other, "array")),
        }
        let host = &self.server().host;
        let is_mongos = matches!(host, Host::Mongos(_));
        awaitable(body, is_mongos, host.server_info().max_wire_version)
    }

    /// Reply of the host with the fields of the connection, in the order of a server.
    fn describe(&self, request: &Request) -> Document {
        let host = &self.server().host;
        let hello_ok = request.body.get("helloOk").is_some_and(is_true);
        let is_mongos = matches!(host, Host::Mongos(_));
        let mut reply = Document::new();
        if let Some(common) = compressors(&request.body) {
            reply.insert("compression", common);
        }
        if hello_ok && !is_mongos {
            reply.insert("helloOk", true);
        }
        for (field, value) in host.hello() {
            match field.as_str() {
                "topologyVersion" if host.server_info().max_wire_version < AWAITABLE_HELLO => {}
                "topologyVersion" if hello_ok && is_mongos => {
                    reply.insert(field, value);
                    reply.insert("helloOk", true);
                }
                "isWritablePrimary" if request.name != "hello" => {
                    reply.insert("ismaster", value);
                }
                "logicalSessionTimeoutMinutes" => {
                    reply.insert(field, value);
                    reply.insert("connectionId", self.id);
                }
                _ => {
                    reply.insert(field, value);
                }
            }
        }
        reply
    }

    /// Adds `saslSupportedMechs` and runs `speculativeAuthenticate`.
    fn add_sasl_fields(
        &mut self,
        body: &Document,
        database: &str,
        reply: &mut Document,
    ) -> Result<(), Fault> {
        let server = self.server().clone();
        if let Ok(user) = body.get_str("saslSupportedMechs") {
            let Some((database, user)) = user.split_once('.') else {
                let message = "UserName must contain a '.' separated database.user pair";
                return Err(Fault::bad_value(message));
            };
            if let Some(names) = server.users.mechanisms(&UserName::new(database, user)) {
                reply.insert("saslSupportedMechs", names);
            }
        }
        if let Ok(first) = body.get_document("speculativeAuthenticate") {
            let database = first.get_str("db").unwrap_or(database);
            let nonce = server.users.nonce();
            // After a failure the client authenticates with `saslStart` and gets the error there.
            if let Ok(mut step) = self.auth.sasl_start(first, database, &server.users, &nonce) {
                step.remove("ok");
                reply.insert("speculativeAuthenticate", step);
            }
        }
        Ok(())
    }
}

/// Application name in the client metadata.
fn app_name(body: &Document) -> Option<&str> {
    let application = body.get_document("client").ok()?.get_document("application").ok()?;
    application.get_str("name").ok()
}

impl AwaitableHello {
    /// Updates the topology version from a reply.
    fn update_from(&mut self, reply: &Document) {
        let Ok(version) = reply.get_document("topologyVersion") else { return };
        if let (Ok(process), Ok(counter)) =
            (version.get_object_id("processId"), version.get_i64("counter"))
        {
            (self.process, self.counter) = (process, counter);
        }
    }
}

fn awaitable(
    body: &Document,
    is_mongos: bool,
    max_wire_version: i32,
) -> Result<Option<AwaitableHello>, Fault> {
    let (incomplete, negative) = if is_mongos { (51760, 51758) } else { (31368, 31372) };
    let both = |message: &str| Err(Fault::location(incomplete, message));
    let (version, max_await_time) = match (body.get("topologyVersion"), body.get("maxAwaitTimeMS"))
    {
        (None, None) => return Ok(None),
        (Some(version), Some(max_await_time)) => (version, max_await_time),
        (None, Some(_)) => {
            return both("A request with 'maxAwaitTimeMS' must include a 'topologyVersion'");
        }
        (Some(Bson::Null), None) => return Ok(None),
        (Some(version), None) => {
            version_of(version)?;
            return both("A request with a 'topologyVersion' must include 'maxAwaitTimeMS'");
        }
    };
    let (process, counter) = version_of(version)?;
    if counter < 0 {
        let message = "topologyVersion must have a non-negative counter";
        return Err(Fault::location(negative, message));
    }
    match number(max_await_time) {
        Some(ms) if ms >= 0.0 => {
            let max_await_time = Duration::try_from_secs_f64(ms / 1000.0).unwrap_or(Duration::MAX);
            // A limit that does not overflow.
            let max_await_time = max_await_time.min(Duration::from_secs(365 * 24 * 3600));
            Ok(Some(AwaitableHello { process, counter, max_await_time }))
        }
        Some(ms) => {
            let message =
                format!("BSON field 'maxAwaitTimeMS' value must be >= 0, actual value '{ms}'");
            Err(match max_wire_version >= NEGATIVE_IS_BAD_VALUE {
                true => Fault::bad_value(message),
                false => Fault::location(51024, message),
            })
        }
        None => Err(wrong_type("maxAwaitTimeMS", max_await_time, "long")),
    }
}

fn version_of(version: &Bson) -> Result<(ObjectId, i64), Fault> {
    let Bson::Document(version) = version else {
        return Err(wrong_type("topologyVersion", version, "object"));
    };
    let process = match version.get("processId") {
        Some(Bson::ObjectId(process)) => *process,
        Some(other) => return Err(wrong_type("topologyVersion.processId", other, "objectId")),
        None => return Err(super::super::auth::missing("hello", "topologyVersion.processId")),
    };
    match version.get("counter") {
        Some(Bson::Int64(counter)) => Ok((process, *counter)),
        Some(other) => Err(wrong_type("topologyVersion.counter", other, "long")),
        None => Err(super::super::auth::missing("hello", "topologyVersion.counter")),
    }
}

fn wrong_type(field: &str, value: &Bson, expected: &str) -> Fault {
    Fault::type_mismatch(format!(
        "BSON field 'hello.{field}' is the wrong type '{}', expected type '{expected}'",
        type_name(value)
    ))
}

/// Returns `true` for a true boolean or a number other than zero, as a server does.
fn is_true(value: &Bson) -> bool {
    matches!(value, Bson::Boolean(true)) || number(value).is_some_and(|number| number != 0.0)
}

/// Compressors that client and server support, in the order of the client.
fn compressors(body: &Document) -> Option<Vec<Bson>> {
    let offered = body.get_array("compression").ok()?;
    let common = offered.iter().filter(|name| {
        let compressor = name.as_str().and_then(|name| name.parse::<Compressor>().ok());
        compressor.is_some_and(|it| it != Compressor::Noop && it.is_built_in())
    });
    let common: Vec<_> = common.cloned().collect();
    (!common.is_empty()).then_some(common)
}
