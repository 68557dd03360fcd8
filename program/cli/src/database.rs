//! Deployment of a command: connection string, client, and explanations of connection errors.

use std::{convert::Infallible, error::Error, fmt::Write, str::FromStr, time::Duration};

use clap::Args;
use steadfast::{Client, Namespace, bson::doc, error::ErrorKind, options::ClientOptions};

use crate::{
    duration,
    notes::{Notes, WrongArguments},
};

/// Default of `serverSelectionTimeoutMS`, shorter than that of the driver: the user is waiting.
const SELECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Time without a reply after which a note is printed.
const NOTE_AFTER: Duration = Duration::from_secs(1);

/// Environment variable with the connection string for all commands.
const VARIABLE: &str = "STEADFAST_URI";

/// Required option `--uri`.
#[derive(Args, Debug)]
pub(crate) struct UriArg {
    /// Connection string of the deployment, such as mongodb://localhost:27017
    ///
    /// The variable hides its password from other users of the machine.
    #[arg(long, value_name = "URI", env = VARIABLE, hide_env_values = true)]
    uri: Uri,
}

impl UriArg {
    /// Checks a connection string.
    pub(crate) fn new(uri: &str) -> Result<Self, WrongArguments> {
        let uri = Uri(uri.to_owned());
        uri.check().map(|()| Self { uri })
    }

    /// Returns a client after a successful `ping`.
    pub(crate) async fn connect(&self, notes: &Notes) -> Result<Client, Box<dyn Error>> {
        let (client, hosts, timeout) = self.prepare(notes).await?;
        ping(&client, &hosts, timeout, notes).await?;
        Ok(client)
    }

    /// Returns a client without connecting.
    pub(crate) async fn client(&self, notes: &Notes) -> Result<Client, Box<dyn Error>> {
        self.prepare(notes).await.map(|(client, _, _)| client)
    }

    /// Returns a client, its hosts for messages, and its server selection time-out.
    async fn prepare(&self, notes: &Notes) -> Result<(Client, String, Duration), Box<dyn Error>> {
        let wrong = |error: steadfast::error::Error| match &*error.kind {
            ErrorKind::InvalidArgument { message, .. } => {
                Box::from(WrongArguments(format!("{}: {message}", self.uri.origin())))
            }
            _ => Box::<dyn Error>::from(explain(&error)),
        };
        self.uri.check()?;
        let mut options = ClientOptions::parse(&self.uri.0).await.map_err(wrong)?;
        options.app_name.get_or_insert_with(|| format!("steadfast {}", notes.command()));
        let timeout = *options.server_selection_timeout.get_or_insert(SELECTION_TIMEOUT);
        let hosts: Vec<_> = options.hosts.iter().map(ToString::to_string).collect();
        let hosts = hosts.join(", ");
        let client = Client::with_options(options).map_err(wrong)?;
        Ok((client, hosts, timeout))
    }
}

/// Optional option `--uri`.
#[derive(Args, Debug)]
pub(crate) struct OptionalUriArg {
    /// Connection string of the deployment, such as mongodb://localhost:27017
    ///
    /// The variable hides its password from other users of the machine.
    #[arg(long, value_name = "URI", env = VARIABLE, hide_env_values = true)]
    uri: Option<Uri>,
}

impl OptionalUriArg {
    /// Returns the connection string of the option or the environment.
    pub(crate) fn to_uri_arg(&self) -> Option<UriArg> {
        self.uri.clone().map(|uri| UriArg { uri })
    }

    /// Returns the connection string of the option, but not that of the environment.
    pub(crate) fn as_typed(&self) -> Option<UriArg> {
        self.to_uri_arg().filter(|it| !it.uri.is_from_environment())
    }
}

/// Required option `--uri`, which can be repeated.
#[derive(Args, Debug)]
pub(crate) struct UriArgs {
    /// Connection string of a deployment, such as mongodb://localhost:27017; can be repeated
    ///
    /// The variable hides its password from other users of the machine.
    #[arg(
        long,
        required = true,
        value_name = "URI",
        env = VARIABLE,
        hide_env_values = true
    )]
    uri: Vec<Uri>,
}

impl UriArgs {
    /// Returns a client for each deployment after a successful `ping`, in the same order.
    pub(crate) async fn connect(&self, notes: &Notes) -> Result<Vec<Client>, Box<dyn Error>> {
        let mut clients = Vec::with_capacity(self.uri.len());
        for uri in &self.uri {
            clients.push(UriArg { uri: uri.clone() }.connect(notes).await?);
        }
        Ok(clients)
    }
}

/// A connection string. `Debug` hides it because it may contain a password.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Uri(String);

/// Accepts any text; [`Uri::check`] is called later. Clap quotes rejected arguments, which would print the password.
impl FromStr for Uri {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl Uri {
    /// Returns the connection string with its password.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    fn check(&self) -> Result<(), WrongArguments> {
        let schemes = ["mongodb://", "mongodb+srv://"];
        if schemes.iter().any(|scheme| self.0.starts_with(scheme)) {
            return Ok(());
        }
        let what = "a connection string begins with mongodb:// or mongodb+srv://";
        Err(WrongArguments(format!("{}: {what}", self.origin())))
    }

    /// Returns `true` if the environment has this connection string.
    pub(crate) fn is_from_environment(&self) -> bool {
        std::env::var(VARIABLE).is_ok_and(|it| it == self.0)
    }

    /// Returns the name of the option or variable, for error messages.
    fn origin(&self) -> &'static str {
        if self.is_from_environment() { VARIABLE } else { "--uri" }
    }
}

impl std::fmt::Debug for Uri {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Uri")
    }
}

/// Waits for a writable server, and prints a note if that takes long.
async fn ping(
    client: &Client,
    hosts: &str,
    timeout: Duration,
    notes: &Notes,
) -> Result<(), Box<dyn Error>> {
    let admin = client.database("admin");
    let ping = async { admin.run_command(doc! { "ping": 1 }).await };
    tokio::pin!(ping);
    let answer = tokio::select! {
        answer = &mut ping => answer,
        () = tokio::time::sleep(NOTE_AFTER) => {
            let rest = duration::show(timeout);
            notes.info(format_args!("connecting to {hosts} (time-out {rest}) …"));
            ping.await
        }
    };
    answer.map(drop).map_err(|error| explained(&error, hosts, Some(timeout)).into())
}

/// Explains an error of an operation after a successful connection: what failed, why, and what to do.
pub(crate) fn explain(error: &steadfast::error::Error) -> String {
    explained(error, "the deployment", None)
}

/// Returns `true` for an invalid argument.
pub(crate) fn is_wrong_argument(error: &steadfast::error::Error) -> bool {
    matches!(&*error.kind, ErrorKind::InvalidArgument { .. })
}

fn explained(error: &steadfast::error::Error, hosts: &str, timeout: Option<Duration>) -> String {
    let (mut message, next) = match &*error.kind {
        ErrorKind::ServerSelection { .. } => (
            match timeout.map(duration::show) {
                Some(time) => {
                    format!("no writable server was found at {hosts} within {time}")
                }
                None => format!("no writable server of {hosts} can be reached any more"),
            },
            "check that it is running, that it can be reached from this machine, and that the connection \
             string names the right hosts and replica set; to wait longer, add \
             serverSelectionTimeoutMS=60000 to the connection string",
        ),
        ErrorKind::Authentication { .. } => (
            format!("authentication on {hosts} failed"),
            "check user and password in the connection string, and authSource if the user is defined in \
             another database",
        ),
        ErrorKind::DnsResolve { .. } => (
            "a host name could not be resolved".to_owned(),
            "check its spelling in the connection string, and the DNS of this machine",
        ),
        ErrorKind::InvalidTlsConfig { .. } => (
            "TLS cannot be configured as the connection string requires".to_owned(),
            "check the files of tlsCAFile and tlsCertificateKeyFile",
        ),
        _ if error.code() == Some(UNAUTHORIZED) => (
            format!("{hosts} rejected a command: the user is not authorized"),
            "log in as a user with the role readWrite on that database: put user and password into \
             the connection string",
        ),
        _ if error.is_network_error() => (
            format!("the connection to {hosts} failed"),
            "run the command again: completed work is kept, and nothing is applied twice",
        ),
        _ => return error.to_string(),
    };
    // Writing to a string does not fail.
    let _ = write!(message, "\n  why: {error}\n  next: {next}");
    message
}

const UNAUTHORIZED: i32 = 13;

/// Parses a namespace, `database.collection`.
pub(crate) fn namespace(text: &str) -> Result<Namespace, String> {
    match text.split_once('.') {
        Some((db, _)) if db.contains(['/', '\\', ' ', '"', '$']) => {
            Err("a database name must not contain spaces or any of / \\ \" $".to_owned())
        }
        Some((db, coll)) if !db.is_empty() && !coll.is_empty() => {
            Ok(Namespace { db: db.to_owned(), coll: coll.to_owned() })
        }
        Some(_) | None => {
            Err("expected a database and a collection, with a dot between them".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_has_a_database_and_a_collection() {
        let named = namespace("shop.orders.old").unwrap();
        assert_eq!((named.db.as_str(), named.coll.as_str()), ("shop", "orders.old"));
        for wrong in ["orders", ".orders", "shop.", ""] {
            assert!(namespace(wrong).is_err(), "{wrong}");
        }
        for wrong in ["my shop.orders", "a/b.c", "$x.y"] {
            assert!(namespace(wrong).unwrap_err().contains("spaces"), "{wrong}");
        }
    }

    #[test]
    fn debug_hides_the_connection_string() {
        let uri: Uri = "mongodb://root:secret@localhost".parse().unwrap();
        assert!(!format!("{uri:?}").contains("secret"));
        uri.check().unwrap();
        let error = Uri("root:secret@localhost".to_owned()).check().unwrap_err();
        assert!(!error.to_string().contains("secret"), "{error}");
    }
}
