//! What users may do.
//!
//! `read` and `readWrite` are about data of a database, and of all with `AnyDatabase`. Each other
//! role lets its user do everything: a test that is about finer rights needs a real server.

use super::users::Role;

/// What a command is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Matter {
    /// What any client may ask, also one that has not said who it is.
    Open,
    /// What anybody may ask who has.
    Known,
    /// Reads data.
    Read,
    /// Changes data.
    Write,
    /// The server itself, or its users.
    Server,
}

/// The commands that any client may give.
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

/// The commands that any user may give, whatever its roles are.
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

/// What a command that has no business with data is about.
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

/// Whether these roles allow it in this database.
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

/// Whether there is such a role: those that servers have by themselves.
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
