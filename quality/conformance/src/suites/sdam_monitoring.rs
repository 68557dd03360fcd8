//! Events of server discovery and monitoring, and their order.

use bson::{Bson, Document, doc};
use steadfast_core::{
    address::ServerAddress,
    description::{ServerDescription, TopologyDescription},
    event::sdam::SdamEvent,
    sdam::TopologyEffect,
};

use super::discovery_and_monitoring::{ScriptedTopology, documents, text};
use crate::{Case, Context, LoadError, Suite};

/// The suite.
pub const SUITE: Suite = Suite { name: "sdam_monitoring", load };

fn load(context: &Context) -> Result<Vec<Case>, LoadError> {
    let mut cases = Vec::new();
    for file in context.spec.files(SUITE.name)? {
        let test = file.document()?;
        let description = text(&test, "description").to_owned();
        cases.push(Case::new(&file.name, description, move || check(&test)));
    }
    Ok(cases)
}

fn check(test: &Document) -> Result<(), String> {
    let mut script = ScriptedTopology::start(test)?;
    for (number, phase) in documents(test, "phases").enumerate() {
        script.apply_phase(phase)?;
        let actual: Vec<Document> =
            script.take_effects().into_iter().filter_map(event_document).collect();
        let outcome = phase.get_document("outcome").map_err(|error| error.to_string())?;
        let expected: Vec<&Document> = documents(outcome, "events").collect();
        compare(&actual, &expected).map_err(|why| format!("phase {number}: {why}"))?;
    }
    Ok(())
}

fn compare(actual: &[Document], expected: &[&Document]) -> Result<(), String> {
    if actual.len() != expected.len() {
        let names: Vec<&String> = actual.iter().flat_map(Document::keys).collect();
        return Err(format!("{} events, not {}: {names:?}", actual.len(), expected.len()));
    }
    for (number, (actual, expected)) in actual.iter().zip(expected).enumerate() {
        matches(&Bson::from(actual.clone()), &Bson::from((*expected).clone()))
            .map_err(|why| format!("event {number}: {why}"))?;
    }
    Ok(())
}

/// Fails unless `actual` contains all of `expected`. Additional fields are allowed.
fn matches(actual: &Bson, expected: &Bson) -> Result<(), String> {
    match (actual, expected) {
        (Bson::Document(actual), Bson::Document(expected)) => {
            expected.iter().filter(|(key, _)| *key != "topologyId").try_for_each(|(key, value)| {
                let actual = actual.get(key).unwrap_or(&Bson::Null);
                matches(actual, value).map_err(|why| format!("{key}: {why}"))
            })
        }
        (Bson::Array(actual), Bson::Array(expected)) if actual.len() == expected.len() => {
            actual.iter().zip(expected).try_for_each(|(actual, expected)| matches(actual, expected))
        }
        // A type of single-threaded drivers; for others it is `Unknown`.
        (Bson::String(actual), Bson::String(expected))
            if actual == "Unknown" && expected == "PossiblePrimary" =>
        {
            Ok(())
        }
        _ if actual == expected => Ok(()),
        _ => Err(format!("{actual}, not {expected}")),
    }
}

/// Event in the suite's notation.
fn event_document(effect: TopologyEffect) -> Option<Document> {
    let TopologyEffect::Emit(event) = effect else { return None };
    Some(match event {
        SdamEvent::TopologyOpening(_) => doc! {"topology_opening_event": {}},
        SdamEvent::TopologyClosed(_) => doc! {"topology_closed_event": {}},
        SdamEvent::TopologyDescriptionChanged(event) => doc! {
            "topology_description_changed_event": {
                "previousDescription": topology(&event.previous_description),
                "newDescription": topology(&event.new_description),
            }
        },
        SdamEvent::ServerOpening(event) => {
            doc! {"server_opening_event": {"address": event.address.to_string()}}
        }
        SdamEvent::ServerClosed(event) => {
            doc! {"server_closed_event": {"address": event.address.to_string()}}
        }
        SdamEvent::ServerDescriptionChanged(event) => doc! {
            "server_description_changed_event": {
                "address": event.address.to_string(),
                "previousDescription": server(&event.previous_description),
                "newDescription": server(&event.new_description),
            }
        },
    })
}

fn topology(description: &TopologyDescription) -> Document {
    doc! {
        "topologyType": description.topology_type.name(),
        "setName": description.set_name.as_deref(),
        "servers": description.servers.values().map(server).collect::<Vec<_>>(),
    }
}

fn server(description: &ServerDescription) -> Document {
    doc! {
        "address": description.address.to_string(),
        "type": description.server_type.name(),
        "setName": description.set_name.as_deref(),
        "primary": description.primary.as_ref().map(ToString::to_string),
        "hosts": addresses(&description.hosts),
        "passives": addresses(&description.passives),
        "arbiters": addresses(&description.arbiters),
    }
}

fn addresses(addresses: &[ServerAddress]) -> Vec<String> {
    addresses.iter().map(ToString::to_string).collect()
}
