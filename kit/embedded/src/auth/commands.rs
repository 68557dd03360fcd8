//! User management commands, such as `createUser` and `grantRolesToUser`.

use std::collections::BTreeMap;

use bson::{Bson, Document, doc};
use steadfast_query::{Code, Fault};

use super::{
    MECHANISMS, missing,
    privileges::is_role,
    scram::ScramHash,
    users::{GrantedRole, User, UserName, Users},
};

/// Runs a user management command. Returns `None` for other commands. All but `usersInfo` are
/// writes.
pub(crate) fn run(
    name: &str,
    command: &Document,
    database: &str,
    users: &Users,
) -> Option<Result<Document, Fault>> {
    let done = match name {
        "createUser" => create(command, database, users),
        "updateUser" => update(command, database, users),
        "dropUser" => drop_one(command, database, users),
        "dropAllUsersFromDatabase" => Ok(drop_all(database, users)),
        "grantRolesToUser" => grant(command, database, users),
        "revokeRolesFromUser" => revoke(command, database, users),
        "usersInfo" => return Some(info(command, database, users)),
        _ => return None,
    };
    Some(done)
}

/// Returns `true` for user management commands that write.
pub(crate) fn is_write(name: &str) -> bool {
    matches!(
        name,
        "createUser"
            | "updateUser"
            | "dropUser"
            | "dropAllUsersFromDatabase"
            | "grantRolesToUser"
            | "revokeRolesFromUser"
    )
}

fn ok_reply() -> Document {
    doc! { "ok": 1.0 }
}

fn create(command: &Document, database: &str, users: &Users) -> Result<Document, Fault> {
    reject_unknown_fields(
        command,
        "createUser",
        &["pwd", "roles", "mechanisms", "customData", "digestPassword"],
    )?;
    let name = user_name(command, "createUser", database)?;
    let Some(roles) = command.get("roles") else { return Err(missing("createUser", "roles")) };
    let roles = read_roles(roles, database)?;
    let Ok(password) = command.get_str("pwd") else {
        return Err(Fault::bad_value(
            "Must provide a 'pwd' field for all user documents, except those with '$external' as \
             the user's source db",
        ));
    };
    let mechanisms = read_mechanisms(command)?.unwrap_or_else(|| MECHANISMS.to_vec());
    digested_by_server(command)?;
    let credentials = users.credentials(&name.user, password, &mechanisms)?;
    let id = users.uuid();
    let mut known = users.lock();
    if known.contains_key(&name) {
        return Err(Fault::location(
            51003,
            format!("User \"{}@{}\" already exists", name.user, name.database),
        ));
    }
    let custom_data = command.get_document("customData").ok().cloned();
    known.insert(name, User { id, credentials, roles, custom_data });
    Ok(ok_reply())
}

fn update(command: &Document, database: &str, users: &Users) -> Result<Document, Fault> {
    const FIELDS: [&str; 5] = ["pwd", "roles", "mechanisms", "customData", "digestPassword"];
    reject_unknown_fields(command, "updateUser", &FIELDS)?;
    let name = user_name(command, "updateUser", database)?;
    if !FIELDS.iter().any(|field| command.contains_key(field)) {
        return Err(Fault::bad_value("Must specify at least one field to update in updateUser"));
    }
    digested_by_server(command)?;
    let roles = command.get("roles").map(|roles| read_roles(roles, database)).transpose()?;
    let mechanisms = read_mechanisms(command)?;
    let credentials = match command.get_str("pwd") {
        Ok(password) => {
            let mechanisms = mechanisms.clone().unwrap_or_else(|| MECHANISMS.to_vec());
            Some(users.credentials(&name.user, password, &mechanisms)?)
        }
        Err(_) => None,
    };
    let not_found = || {
        let message = format!("User {name} not found");
        Fault::new(Code::USER_NOT_FOUND, message)
    };
    let change = |user: &mut User| {
        if let Some(roles) = roles {
            user.roles = roles;
        }
        match (credentials, mechanisms) {
            (Some(credentials), _) => user.credentials = credentials,
            (None, Some(mechanisms)) => {
                user.credentials.retain(|hash, _| mechanisms.contains(hash));
            }
            (None, None) => {}
        }
        if let Ok(data) = command.get_document("customData") {
            user.custom_data = Some(data.clone());
        }
    };
    users.with(&name, change).ok_or_else(not_found)?;
    Ok(ok_reply())
}

fn drop_one(command: &Document, database: &str, users: &Users) -> Result<Document, Fault> {
    reject_unknown_fields(command, "dropUser", &[])?;
    let name = user_name(command, "dropUser", database)?;
    match users.lock().remove(&name) {
        Some(_) => Ok(ok_reply()),
        None => Err(Fault::new(Code::USER_NOT_FOUND, format!("User '{name}' not found"))),
    }
}

fn drop_all(database: &str, users: &Users) -> Document {
    let mut known = users.lock();
    let before = known.len();
    known.retain(|name, _| name.database != database);
    let dropped = i32::try_from(before - known.len()).unwrap_or(i32::MAX);
    doc! { "n": dropped, "ok": 1.0 }
}

fn grant(command: &Document, database: &str, users: &Users) -> Result<Document, Fault> {
    change_roles(command, "grantRolesToUser", database, users, |roles, given| {
        for role in given {
            if !roles.contains(&role) {
                roles.push(role);
            }
        }
    })
}

fn revoke(command: &Document, database: &str, users: &Users) -> Result<Document, Fault> {
    change_roles(command, "revokeRolesFromUser", database, users, |roles, taken| {
        roles.retain(|role| !taken.contains(role));
    })
}

fn change_roles(
    command: &Document,
    name: &str,
    database: &str,
    users: &Users,
    change: impl FnOnce(&mut Vec<GrantedRole>, Vec<GrantedRole>),
) -> Result<Document, Fault> {
    reject_unknown_fields(command, name, &["roles"])?;
    let user = user_name(command, name, database)?;
    let Some(roles) = command.get("roles") else { return Err(missing(name, "roles")) };
    let roles = read_roles(roles, database)?;
    users.with(&user, |user| change(&mut user.roles, roles)).ok_or_else(|| {
        let message = format!("Could not find user \"{}\" for db \"{database}\"", user.user);
        Fault::new(Code::USER_NOT_FOUND, message)
    })?;
    Ok(ok_reply())
}

fn info(command: &Document, database: &str, users: &Users) -> Result<Document, Fault> {
    const FIELDS: [&str; 4] =
        ["showCredentials", "showPrivileges", "showCustomData", "showAuthenticationRestrictions"];
    reject_unknown_fields(command, "usersInfo", &FIELDS)?;
    let known = users.lock();
    let wanted = command.get("usersInfo").unwrap_or(&Bson::Null);
    let names: Vec<UserName> = match wanted {
        Bson::Document(all) if all.get_bool("forAllDBs").unwrap_or(false) => {
            known.keys().cloned().collect()
        }
        Bson::Array(names) => {
            names.iter().map(|name| named(name, database)).collect::<Result<_, _>>()?
        }
        Bson::String(_) | Bson::Document(_) => vec![named(wanted, database)?],
        _ => known.keys().filter(|name| name.database == database).cloned().collect(),
    };
    let found: BTreeMap<_, _> = names.iter().filter_map(|name| known.get_key_value(name)).collect();
    let with_credentials = command.get_bool("showCredentials").unwrap_or(false);
    let shown = found.into_iter().map(|(name, user)| user.to_document(name, with_credentials));
    Ok(doc! { "users": shown.collect::<Vec<_>>(), "ok": 1.0 })
}

fn named(name: &Bson, database: &str) -> Result<UserName, Fault> {
    match name {
        Bson::String(user) => Ok(UserName::new(database, user)),
        Bson::Document(name) => match (name.get_str("db"), name.get_str("user")) {
            (Ok(database), Ok(user)) => Ok(UserName::new(database, user)),
            _ => Err(Fault::bad_value("User and role names must be { user: …, db: … }")),
        },
        _ => Err(Fault::bad_value("User names must be either strings or objects")),
    }
}

fn user_name(command: &Document, name: &str, database: &str) -> Result<UserName, Fault> {
    match command.get_str(name) {
        Ok("") => Err(Fault::bad_value("User document needs 'user' field to be non-empty")),
        Ok(user) => Ok(UserName::new(database, user)),
        Err(_) => Err(Fault::type_mismatch(format!(
            "BSON field '{name}.{name}' is the wrong type, expected type 'string'"
        ))),
    }
}

fn read_roles(roles: &Bson, database: &str) -> Result<Vec<GrantedRole>, Fault> {
    let Bson::Array(roles) = roles else {
        return Err(Fault::type_mismatch("roles: it is not an array"));
    };
    let read = |role: &Bson| {
        let role = match role {
            Bson::String(role) => GrantedRole { role: role.clone(), database: database.to_owned() },
            Bson::Document(role) => match (role.get_str("role"), role.get_str("db")) {
                (Ok(role), Ok(database)) => {
                    GrantedRole { role: role.to_owned(), database: database.to_owned() }
                }
                _ => return Err(Fault::bad_value("a role is { role: …, db: … }")),
            },
            _ => return Err(Fault::bad_value("Role names must be either strings or objects")),
        };
        match is_role(&role) {
            true => Ok(role),
            false => Err(Fault::new(
                Code::named(31, "RoleNotFound"),
                format!("Could not find role: {}@{}", role.role, role.database),
            )),
        }
    };
    roles.iter().map(read).collect()
}

fn read_mechanisms(command: &Document) -> Result<Option<Vec<ScramHash>>, Fault> {
    let Ok(names) = command.get_array("mechanisms") else { return Ok(None) };
    if names.is_empty() {
        return Err(Fault::bad_value("mechanisms field must not be empty"));
    }
    let read = |name: &Bson| {
        let name = name.as_str().unwrap_or_default();
        let known = MECHANISMS.into_iter().find(|hash| hash.mechanism() == name);
        known.ok_or_else(|| Fault::bad_value(format!("Unknown auth mechanism '{name}'")))
    };
    names.iter().map(read).collect::<Result<_, _>>().map(Some)
}

fn digested_by_server(command: &Document) -> Result<(), Fault> {
    match command.get_bool("digestPassword") {
        Ok(false) => Err(Fault::bad_value("Use of SCRAM-SHA-256 requires undigested passwords")),
        Ok(true) | Err(_) => Ok(()),
    }
}

/// Rejects unknown fields.
fn reject_unknown_fields(command: &Document, name: &str, fields: &[&str]) -> Result<(), Fault> {
    const GENERIC_ARGUMENTS: [&str; 10] = [
        "lsid",
        "writeConcern",
        "comment",
        "maxTimeMS",
        "apiVersion",
        "apiStrict",
        "apiDeprecationErrors",
        "txnNumber",
        "readConcern",
        "autocommit",
    ];
    let unknown = command.keys().find(|key| {
        let key = key.as_str();
        key != name
            && !key.starts_with('$')
            && !fields.contains(&key)
            && !GENERIC_ARGUMENTS.contains(&key)
    });
    match unknown {
        Some(field) => {
            Err(Fault::location(40415, format!("BSON field '{name}.{field}' is an unknown field.")))
        }
        None => Ok(()),
    }
}
