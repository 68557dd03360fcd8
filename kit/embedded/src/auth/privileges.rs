//! Privileges of roles.
//!
//! `read` and `readWrite` grant access to the data of one database, or of all databases with the
//! suffix `AnyDatabase`. Every other built-in role grants everything. Tests of finer privileges
//! need a real server.

use super::users::GrantedRole;

/// Privilege that a command requires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RequiredPrivilege {
    /// None. Clients that have not logged in may run it.
    Unauthenticated,
    /// Any authenticated user may run it.
    AnyUser,
    /// Reads data of the database.
    Read,
    /// Writes data of the database.
    Write,
    /// Administers the server or its users.
    Admin,
}

/// Commands that need no login.
const UNAUTHENTICATED: [&str; 13] = [
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
const ANY_USER: [&str; 8] = [
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
pub(crate) fn required_privilege(name: &str) -> Option<RequiredPrivilege> {
    let is = |known: &&str| known.eq_ignore_ascii_case(name);
    if UNAUTHENTICATED.iter().any(is) {
        Some(RequiredPrivilege::Unauthenticated)
    } else if ANY_USER.iter().any(is) {
        Some(RequiredPrivilege::AnyUser)
    } else {
        None
    }
}

/// Returns `true` if one of the roles grants the privilege on this database.
pub(crate) fn allow(
    roles: &[GrantedRole],
    required_privilege: RequiredPrivilege,
    database: &str,
) -> bool {
    roles.iter().any(|role| {
        let here = role.database == database;
        match (role.role.as_str(), required_privilege) {
            (_, RequiredPrivilege::Unauthenticated | RequiredPrivilege::AnyUser) => true,
            ("read", RequiredPrivilege::Read)
            | ("readWrite", RequiredPrivilege::Read | RequiredPrivilege::Write) => here,
            ("readAnyDatabase", RequiredPrivilege::Read)
            | ("readWriteAnyDatabase", RequiredPrivilege::Read | RequiredPrivilege::Write) => true,
            ("read" | "readWrite" | "readAnyDatabase" | "readWriteAnyDatabase", _) => false,
            (_, RequiredPrivilege::Read | RequiredPrivilege::Write | RequiredPrivilege::Admin) => {
                true
            }
        }
    })
}

/// Returns `true` for the name of a built-in role.
pub(crate) fn is_role(role: &GrantedRole) -> bool {
    const DATABASE_ROLES: [&str; 6] =
        ["read", "readWrite", "dbAdmin", "dbOwner", "userAdmin", "enableSharding"];
    const ADMIN_ROLES: [&str; 13] = [
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
    DATABASE_ROLES.contains(&name) || (role.database == "admin" && ADMIN_ROLES.contains(&name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(role: &str, database: &str) -> GrantedRole {
        GrantedRole { role: role.to_owned(), database: database.to_owned() }
    }

    #[test]
    fn role_read_does_not_grant_writes() {
        let reader = [role("read", "shop")];
        assert!(allow(&reader, RequiredPrivilege::Read, "shop"));
        assert!(!allow(&reader, RequiredPrivilege::Write, "shop"));
        assert!(!allow(&reader, RequiredPrivilege::Read, "bank"));
        assert!(!allow(&reader, RequiredPrivilege::Admin, "shop"));
        let writer = [role("read", "bank"), role("readWrite", "shop")];
        assert!(allow(&writer, RequiredPrivilege::Write, "shop"));
        assert!(!allow(&writer, RequiredPrivilege::Write, "bank"));
        assert!(allow(&[role("root", "admin")], RequiredPrivilege::Admin, "admin"));
        assert!(!allow(&[], RequiredPrivilege::Read, "shop"));
    }

    #[test]
    fn cluster_roles_exist_in_admin_only() {
        assert!(is_role(&role("root", "admin")));
        assert!(!is_role(&role("root", "shop")));
        assert!(is_role(&role("dbOwner", "shop")));
        assert!(!is_role(&role("king", "admin")));
    }
}
