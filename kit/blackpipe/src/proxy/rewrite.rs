//! Addresses in replies, turned into those at which clients reach the servers.

use std::collections::BTreeMap;

use bson::{Bson, Document};

/// The fields of a hello that name members of the set.
const MEMBERS: [&str; 3] = ["hosts", "passives", "arbiters"];

/// Commands whose replies name servers.
const NAMES_SERVERS: [&str; 5] =
    ["replSetGetStatus", "replSetGetConfig", "serverStatus", "connectionStatus", "isdbgrid"];

/// Whether replies to a command name servers even when all is well.
pub(crate) fn names_servers(command: &str) -> bool {
    NAMES_SERVERS.contains(&command)
}

/// All servers that a hello names, other than by `me`.
pub(crate) fn members_of(hello: &Document) -> Vec<String> {
    let lists = MEMBERS.iter().filter_map(|key| hello.get_array(key).ok()).flatten();
    let listed = lists.filter_map(Bson::as_str);
    let primary = hello.get_str("primary").ok();
    listed.chain(primary).map(str::to_owned).collect()
}

/// Puts other names in place of known ones in all strings of a document.
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

/// The text with other names, if there is one to be changed. One pass: what was put in is not looked
/// at again.
fn rename_text(text: &str, names: &BTreeMap<String, String>) -> Option<String> {
    let mut renamed = String::new();
    let mut copied = 0;
    for (at, _) in text.char_indices() {
        if at < copied {
            continue;
        }
        let known = names.iter().find(|(name, _)| stands_at(text, at, name));
        if let Some((name, other)) = known {
            renamed.push_str(&text[copied..at]);
            renamed.push_str(other);
            copied = at + name.len();
        }
    }
    (copied > 0).then(|| renamed + &text[copied..])
}

/// Whether a name stands here, and not as a part of a longer one.
fn stands_at(text: &str, at: usize, name: &str) -> bool {
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
    fn names_are_changed_wherever_they_stand() {
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
    fn parts_of_longer_names_are_not_changed() {
        for text in ["xdb1:27017", "db1:270171", "my-db1:27017", "eu.db1:27017", "größedb1:27017"]
        {
            assert_eq!(rename_text(text, &names()), None, "{text}");
        }
        assert_eq!(rename_text("é db1:2701 ü", &names()).as_deref(), Some("é 127.0.0.1:2 ü"));
    }

    #[test]
    fn a_hello_names_the_members() {
        let hello = doc! { "hosts": ["a:1"], "arbiters": ["b:1"], "primary": "a:1", "me": "c:1" };
        assert_eq!(members_of(&hello), ["a:1", "b:1", "a:1"]);
    }
}
