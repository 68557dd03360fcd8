//! Privileges of roles.
//!
//! `read` and `readWrite` grant access to the data of one database, or of all databases with the
//! suffix `AnyDatabase`. Every other built-in role grants everything. Tests of finer privileges
//! need a real server.

use super::users::Role;

/// Privilege that a command requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Matter {
    /// None. Clients that have not logged in may run it.
    Open,
    /// Any authenticated user may run it.
    Known,
    /// Reads data of the database.
    Read,
    /// Writes data of the database.
    Write,
    /// Administers the server or its users.
    Server,
}

/// Commands that need no login.
const OPEN: [&str; 13] = [
    "authenticate",
    "buildInfo",
    "configureFailPoint",
    "connectionStatus",
    "getnonce",
    "hello",
    "isMaster",
    "listCommands",
    "ping",
    "saslContinue",
    "saslStart",
    "waitForFailPoint",
    "whatsmyuri",
];

/// Commands that every authenticated user may run.
const KNOWN: [&str; 8] = [
    "abortTransaction",
    "commitTransaction",
    "endSessions",
    "killSessions",
    "listDatabases",
    "logout",
    "refreshSessions",
    "startSession",
];

/// Privilege of a command that does not act on data.
pub(crate) fn matter(name: &str) -> Option<Matter> {
    let is = |known: &&str| known.eq_ignore_ascii_case(name);
    if OPEN.iter().any(is) {
        Some(Matter::Open)
    } else if KNOWN.iter().any(is) {
        Some(Matter::Known)
    } else {
        None
    }
}

/// Returns `true` if one of the roles grants the privilege on this database.
pub(crate) fn allow(roles: &[Role], matter: Matter, database: &str) -> bool {
    roles.iter().any(|role| {
        let here = role.database == database;
        match (role.role.as_str(), matter) {
            (_, Matter::Open | Matter::Known) => true,
            ("read", Matter::Read) | ("readWrite", Matter::Read | Matter::Write) => here,
            ("readAnyDatabase", Matter::Read)
            | ("readWriteAnyDatabase", Matter::Read | Matter::Write) => true,
            ("read" | "readWrite" | "readAnyDatabase" | "readWriteAnyDatabase", _) => false,
            (_, Matter::Read | Matter::Write | Matter::Server) => true,
        }
    })
}

/// Returns `true` for the name of a built-in role.
pub(crate) fn is_role(role: &Role) -> bool {
    const OF_ANY_DATABASE: [&str; 6] =
        ["read", "readWrite", "dbAdmin", "dbOwner", "userAdmin", "enableSharding"];
    const OF_ADMIN: [&str; 13] = [
        "readAnyDatabase",
        "readWriteAnyDatabase",
        "userAdminAnyDatabase",
        "dbAdminAnyDatabase",
        "clusterAdmin",
        "clusterManager",
        "clusterMonitor",
        "hostManager",
        "backup",
        "restore",
        "root",
        "directShardOperations",
        "__system",
    ];
    let name = role.role.as_str();
    OF_ANY_DATABASE.contains(&name) || (role.database == "admin" && OF_ADMIN.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(role: &str, database: &str) -> Role {
        Role { role: role.to_owned(), database: database.to_owned() }
    }

    #[test]
    fn who_may_read_may_not_write() {
        let reader = [role("read", "shop")];
        assert!(allow(&reader, Matter::Read, "shop"));
        assert!(!allow(&reader, Matter::Write, "shop"));
        assert!(!allow(&reader, Matter::Read, "bank"));
        assert!(!allow(&reader, Matter::Server, "shop"));
        let writer = [role("read", "bank"), role("readWrite", "shop")];
        assert!(allow(&writer, Matter::Write, "shop"));
        assert!(!allow(&writer, Matter::Write, "bank"));
        assert!(allow(&[role("root", "admin")], Matter::Server, "admin"));
        assert!(!allow(&[], Matter::Read, "shop"));
    }

    #[test]
    fn roles_of_the_whole_deployment_belong_to_admin() {
        assert!(is_role(&role("root", "admin")));
        assert!(!is_role(&role("root", "shop")));
        assert!(is_role(&role("dbOwner", "shop")));
        assert!(!is_role(&role("king", "admin")));
    }
}
