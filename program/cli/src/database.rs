//! The deployment that a command works on: its connection string, the client for it, and what to do when it
//! cannot be reached.

use std::{convert::Infallible, error::Error, fmt::Write, str::FromStr, time::Duration};

use clap::Args;
use steadfast::{Client, Namespace, bson::doc, error::ErrorKind, options::ClientOptions};

use crate::{
    duration,
    notes::{Notes, WrongArguments},
};

/// How long to look for a server unless the connection string says otherwise: a person waits.
const PATIENCE: Duration = Duration::from_secs(10);

/// After so long in silence, people are told what is waited for.
const SILENCE: Duration = Duration::from_secs(1);

/// The variable that has a connection string for all commands.
const VARIABLE: &str = "STEADFAST_URI";

/// Which deployment.
#[derive(Args, Debug)]
pub(crate) struct Where {
    /// The deployment: a connection string, such as mongodb://localhost:27017
    ///
    /// It may also be in the environment, where other users of the machine do not see its password.
    #[arg(long, value_name = "URI", env = VARIABLE, hide_env_values = true)]
    uri: Uri,
}

impl Where {
    /// The deployment of a connection string.
    pub(crate) fn at(uri: &str) -> Result<Self, WrongArguments> {
        let uri = Uri(uri.to_owned());
        uri.check().map(|()| Self { uri })
    }

    /// A client that has found the deployment.
    pub(crate) async fn connect(&self, notes: &Notes) -> Result<Client, Box<dyn Error>> {
        let (client, hosts, patience) = self.prepare(notes).await?;
        reach(&client, &hosts, patience, notes).await?;
        Ok(client)
    }

    /// A client that may find the deployment later.
    pub(crate) async fn client(&self, notes: &Notes) -> Result<Client, Box<dyn Error>> {
        self.prepare(notes).await.map(|(client, _, _)| client)
    }

    /// A client, its hosts for messages, and how long it looks for them.
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
        let patience = *options.server_selection_timeout.get_or_insert(PATIENCE);
        let hosts: Vec<_> = options.hosts.iter().map(ToString::to_string).collect();
        let hosts = hosts.join(", ");
        let client = Client::with_options(options).map_err(wrong)?;
        Ok((client, hosts, patience))
    }
}

/// Which deployment, where one is not always needed.
#[derive(Args, Debug)]
pub(crate) struct PerhapsWhere {
    /// The deployment: a connection string, such as mongodb://localhost:27017
    ///
    /// It may also be in the environment, where other users of the machine do not see its password.
    #[arg(long, value_name = "URI", env = VARIABLE, hide_env_values = true)]
    uri: Option<Uri>,
}

impl PerhapsWhere {
    /// The one that was given.
    pub(crate) fn given(&self) -> Option<Where> {
        self.uri.clone().map(|uri| Where { uri })
    }

    /// The one that was given for this very command. The environment may have one for others.
    pub(crate) fn typed(&self) -> Option<Where> {
        self.given().filter(|it| !it.uri.is_of_environment())
    }
}

/// Which deployments, where there may be several.
#[derive(Args, Debug)]
pub(crate) struct Places {
    /// The deployment: a connection string, such as mongodb://localhost:27017; several times for several
    ///
    /// It may also be in the environment, where other users of the machine do not see its password.
    #[arg(
        long,
        required = true,
        value_name = "URI",
        env = VARIABLE,
        hide_env_values = true
    )]
    uri: Vec<Uri>,
}

impl Places {
    /// Clients that have found them, in their order.
    pub(crate) async fn connect(&self, notes: &Notes) -> Result<Vec<Client>, Box<dyn Error>> {
        let mut clients = Vec::with_capacity(self.uri.len());
        for uri in &self.uri {
            clients.push(Where { uri: uri.clone() }.connect(notes).await?);
        }
        Ok(clients)
    }
}

/// A connection string. It is not shown: there may be a password in it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Uri(String);

/// Anything is taken at first: what is refused as an argument is shown, and the password with it.
impl FromStr for Uri {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self(text.to_owned()))
    }
}

impl Uri {
    /// With the password, if there is one.
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

    /// Whether it is the environment's.
    pub(crate) fn is_of_environment(&self) -> bool {
        std::env::var(VARIABLE).is_ok_and(|it| it == self.0)
    }

    /// Where it was given.
    fn origin(&self) -> &'static str {
        if self.is_of_environment() { VARIABLE } else { "--uri" }
    }
}

impl std::fmt::Debug for Uri {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Uri")
    }
}

/// Waits until there is a server that takes writes, and says so if it takes long.
async fn reach(
    client: &Client,
    hosts: &str,
    patience: Duration,
    notes: &Notes,
) -> Result<(), Box<dyn Error>> {
    let admin = client.database("admin");
    let ping = async { admin.run_command(doc! { "ping": 1 }).await };
    tokio::pin!(ping);
    let answer = tokio::select! {
        answer = &mut ping => answer,
        () = tokio::time::sleep(SILENCE) => {
            let rest = duration::show(patience);
            notes.say(format_args!("connecting to {hosts} (it is given up after {rest}) …"));
            ping.await
        }
    };
    answer.map(drop).map_err(|error| explained(&error, hosts, Some(patience)).into())
}

/// Of an operation on a deployment that was reached before: what happened, why, and what to do next.
pub(crate) fn explain(error: &steadfast::error::Error) -> String {
    explained(error, "the deployment", None)
}

/// Whether the caller asked for something that cannot be.
pub(crate) fn is_wrong_argument(error: &steadfast::error::Error) -> bool {
    matches!(&*error.kind, ErrorKind::InvalidArgument { .. })
}

fn explained(error: &steadfast::error::Error, hosts: &str, patience: Option<Duration>) -> String {
    let (what, next) = match &*error.kind {
        ErrorKind::ServerSelection { .. } => (
            match patience.map(duration::show) {
                Some(time) => {
                    format!("no server that takes writes was found at {hosts} within {time}")
                }
                None => format!("there is no server of {hosts} any more that takes writes"),
            },
            "Check that it is running, that it can be reached from this machine, and that the connection \
             string names the right hosts and replica set. To wait longer, add \
             serverSelectionTimeoutMS=60000 to the connection string.",
        ),
        ErrorKind::Authentication { .. } => (
            format!("{hosts} refused the login"),
            "Check user and password in the connection string, and authSource if the user is kept in \
             another database.",
        ),
        ErrorKind::DnsResolve { .. } => (
            "a host name could not be resolved".to_owned(),
            "Check its spelling in the connection string, and this machine's DNS.",
        ),
        ErrorKind::InvalidTlsConfig { .. } => (
            "the connection cannot be encrypted as the connection string asks".to_owned(),
            "Check the files that tlsCAFile and tlsCertificateKeyFile name.",
        ),
        _ if error.code() == Some(UNAUTHORIZED) => (
            format!("{hosts} does not allow this"),
            "Log in as a user who has the role readWrite on that database: put user and password into \
             the connection string.",
        ),
        _ if error.is_network_error() => (
            format!("the connection to {hosts} broke"),
            "Run the command again: what was done stays done, and nothing is done twice.",
        ),
        _ => return error.to_string(),
    };
    let mut said = what;
    // To a string, this does not fail.
    let _ = write!(said, "\n  why: {error}\n  next: {next}");
    said
}

const UNAUTHORIZED: i32 = 13;

/// A collection as people name it: `database.collection`.
pub(crate) fn namespace(text: &str) -> Result<Namespace, String> {
    match text.split_once('.') {
        Some((db, _)) if db.contains(['/', '\\', ' ', '"', '$']) => {
            Err("the name of a database has no space, and none of / \\ \" $".to_owned())
        }
        Some((db, coll)) if !db.is_empty() && !coll.is_empty() => {
            Ok(Namespace { db: db.to_owned(), coll: coll.to_owned() })
        }
        Some(_) | None => {
            Err("it is a database and a collection, with a dot between them".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collection_is_named_with_its_database() {
        let named = namespace("shop.orders.old").unwrap();
        assert_eq!((named.db.as_str(), named.coll.as_str()), ("shop", "orders.old"));
        for wrong in ["orders", ".orders", "shop.", ""] {
            assert!(namespace(wrong).is_err(), "{wrong}");
        }
        for wrong in ["my shop.orders", "a/b.c", "$x.y"] {
            assert!(namespace(wrong).unwrap_err().contains("no space"), "{wrong}");
        }
    }

    #[test]
    fn a_connection_string_is_not_shown() {
        let uri: Uri = "mongodb://root:secret@localhost".parse().unwrap();
        assert!(!format!("{uri:?}").contains("secret"));
        uri.check().unwrap();
        let refused = Uri("root:secret@localhost".to_owned()).check().unwrap_err();
        assert!(!refused.to_string().contains("secret"), "{refused}");
    }
}
