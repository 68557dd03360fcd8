//! Lists of databases.

use std::marker::PhantomData;

use super::{ListNames, ListSpecifications};
use crate::{
    Client, ClientSession,
    error::Result,
    operation::{databases, read_reply},
    options::ListDatabasesOptions,
    results::DatabaseSpecification,
};

impl Client {
    /// Lists the databases of the deployment with their sizes. See the
    /// [`listDatabases`](https://www.mongodb.com/docs/manual/reference/command/listDatabases/)
    /// command.
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// for database in client.list_databases().await? {
    ///     println!("{}: {} bytes", database.name, database.size_on_disk);
    /// }
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error. See
    /// also the [errors of every action](crate::action#errors).
    pub fn list_databases(&self) -> ListDatabases<'_> {
        ListDatabases { client: self, options: None, session: None, mode: PhantomData }
    }

    /// Lists the names of the databases of the deployment. See the
    /// [`listDatabases`](https://www.mongodb.com/docs/manual/reference/command/listDatabases/)
    /// command.
    ///
    /// ```no_run
    /// # async fn run(client: steadfast::Client) -> steadfast::error::Result<()> {
    /// println!("{}", client.list_database_names().await?.join(", "));
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// [`ErrorKind::Command`](crate::error::ErrorKind::Command) if the server returns an error. See
    /// also the [errors of every action](crate::action#errors).
    pub fn list_database_names(&self) -> ListDatabases<'_, ListNames> {
        ListDatabases { client: self, options: None, session: None, mode: PhantomData }
    }
}

/// Action that lists databases. See [`Client::list_databases`] and [`Client::list_database_names`].
#[derive(Debug)]
#[must_use = "an action does nothing until it is awaited"]
pub struct ListDatabases<'a, M = ListSpecifications> {
    client: &'a Client,
    pub(crate) options: Option<ListDatabasesOptions>,
    session: Option<&'a mut ClientSession>,
    mode: PhantomData<fn() -> M>,
}

impl<M> ListDatabases<'_, M> {
    async fn list(self, name_only: bool) -> Result<Vec<DatabaseSpecification>> {
        let own = self.options.as_ref().and_then(|options| options.timeout);
        let command = databases::list(name_only, self.options.as_ref())?;
        let command = command.limited(own, self.client.timeout());
        let command = command.in_session(self.session, self.client)?;
        let reply = self.client.executor().run(command).await?;
        read_reply(&reply, databases::read_list)
    }
}

impl ListDatabases<'_, ListSpecifications> {
    async fn execute(self) -> Result<Vec<DatabaseSpecification>> {
        self.list(false).await
    }
}

impl ListDatabases<'_, ListNames> {
    async fn execute(self) -> Result<Vec<String>> {
        let databases = self.list(true).await?;
        Ok(databases.into_iter().map(|database| database.name).collect())
    }
}

awaitable!(['a] ListDatabases<'a, ListSpecifications> => Vec<DatabaseSpecification>);
awaitable!(['a] ListDatabases<'a, ListNames> => Vec<String>);
takes_session!(['a, M] ListDatabases<'a, M>);
setters!(ListDatabasesOptions for ['a, M] ListDatabases<'a, M>);
