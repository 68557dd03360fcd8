//! Addresses of servers in replies, rewritten to those of the proxy.

use std::collections::BTreeMap;

use bson::{Bson, Document};

/// Fields of `hello` that list members of the replica set.
const MEMBERS: [&str; 3] = ["hosts", "passives", "arbiters"];

/// Commands whose successful replies contain addresses of servers.
const NAMES_SERVERS: [&str; 5] =
    ["replSetGetStatus", "replSetGetConfig", "serverStatus", "connectionStatus", "isdbgrid"];

/// Returns `true` if successful replies to the command contain addresses of servers.
pub(crate) fn names_servers(command: &str) -> bool {
    NAMES_SERVERS.contains(&command)
}

/// Returns all servers that a `hello` names, except `me`.
pub(crate) fn members_of(hello: &Document) -> Vec<String> {
    let lists = MEMBERS.iter().filter_map(|key| hello.get_array(key).ok()).flatten();
    let listed = lists.filter_map(Bson::as_str);
    let primary = hello.get_str("primary").ok();
    listed.chain(primary).map(str::to_owned).collect()
}

/// Replaces addresses in all strings of a document.
pub(crate) fn rename(document: &mut Document, names: &BTreeMap<String, String>) {
    for (_, value) in document.iter_mut() {
        rename_value(value, names);
    }
}

fn rename_value(value: &mut Bson, names: &BTreeMap<String, String>) {
    match value {
        Bson::String(text) => {
            if let Some(renamed) = rename_text(text, names) {
                *text = renamed;
            }
        }
        Bson::Array(values) => values.iter_mut().for_each(|value| rename_value(value, names)),
        Bson::Document(document) => rename(document, names),
        _ => {}
    }
}

/// Replaces addresses in a string. Returns `None` if there are none. Replaced text is not searched
/// again.
fn rename_text(text: &str, names: &BTreeMap<String, String>) -> Option<String> {
    let mut renamed = String::new();
    let mut copied = 0;
    for (at, _) in text.char_indices() {
        if at < copied {
            continue;
        }
        let known = names.iter().find(|(name, _)| is_name_at(text, at, name));
        if let Some((name, other)) = known {
            renamed.push_str(&text[copied..at]);
            renamed.push_str(other);
            copied = at + name.len();
        }
    }
    (copied > 0).then(|| renamed + &text[copied..])
}

/// Returns `true` if the name starts at this position and is not part of a longer name.
fn is_name_at(text: &str, at: usize, name: &str) -> bool {
    let before = text[..at].chars().next_back();
    let part = |c: char| c.is_alphanumeric() || matches!(c, '.' | '-' | '_');
    let Some(rest) = text[at..].strip_prefix(name) else { return false };
    !before.is_some_and(part) && !rest.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use bson::doc;

    use super::*;

    fn names() -> BTreeMap<String, String> {
        let pairs = [
            ("db1:27017", "127.0.0.1:1"),
            ("db1:2701", "127.0.0.1:2"),
            ("a:1", "b:2"),
            ("b:2", "c:3"),
        ];
        pairs.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect()
    }

    #[test]
    fn addresses_are_rewritten_in_nested_values_and_text() {
        let mut reply = doc! {
            "hosts": ["db1:27017", "a:1", "b:2"],
            "me": "db1:27017",
            "errmsg": "not primary; ask db1:27017, or a:1.",
            "members": [{ "name": "b:2", "syncSourceHost": "" }],
            "port": 27017,
        };
        rename(&mut reply, &names());
        let expected = doc! {
            "hosts": ["127.0.0.1:1", "b:2", "c:3"],
            "me": "127.0.0.1:1",
            "errmsg": "not primary; ask 127.0.0.1:1, or b:2.",
            "members": [{ "name": "c:3", "syncSourceHost": "" }],
            "port": 27017,
        };
        assert_eq!(reply, expected);
    }

    #[test]
    fn parts_of_longer_addresses_are_not_rewritten() {
        for text in ["xdb1:27017", "db1:270171", "my-db1:27017", "eu.db1:27017", "größedb1:27017"]
        {
            assert_eq!(rename_text(text, &names()), None, "{text}");
        }
        assert_eq!(rename_text("é db1:2701 ü", &names()).as_deref(), Some("é 127.0.0.1:2 ü"));
    }

    #[test]
    fn members_are_read_from_hello() {
        let hello = doc! { "hosts": ["a:1"], "arbiters": ["b:1"], "primary": "a:1", "me": "c:1" };
        assert_eq!(members_of(&hello), ["a:1", "b:1", "a:1"]);
    }
}
