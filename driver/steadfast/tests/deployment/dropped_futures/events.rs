//! Event counts of the connections and commands of a client.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use steadfast::{
    event::{EventHandler, cmap::CmapEvent, command::CommandEvent},
    options::ClientOptions,
};

/// Event counts of one client.
#[derive(Debug, Default)]
pub(super) struct EventCounts {
    open: BTreeMap<String, u32>,
    /// Highest number of connections to one server at a time.
    pub(super) most_open: u32,
    check_outs_started: u64,
    check_outs_ended: u64,
    checked_out: u64,
    checked_in: u64,
    commands_started: u64,
    commands_ended: u64,
}

impl EventCounts {
    /// Counts the events of a client with these options.
    pub(super) fn of(options: &mut ClientOptions) -> Arc<Mutex<Self>> {
        let counts = Arc::new(Mutex::new(Self::default()));
        let (pools, commands) = (Arc::clone(&counts), Arc::clone(&counts));
        options.cmap_event_handler =
            Some(EventHandler::callback(move |event| pools.lock().unwrap().add_pool(&event)));
        options.command_event_handler =
            Some(EventHandler::callback(move |event| commands.lock().unwrap().add_command(&event)));
        counts
    }

    fn add_pool(&mut self, event: &CmapEvent) {
        match event {
            CmapEvent::ConnectionCreated(event) => {
                let open = self.open.entry(event.address.to_string()).or_default();
                *open += 1;
                self.most_open = self.most_open.max(*open);
            }
            CmapEvent::ConnectionClosed(event) => {
                *self.open.get_mut(&event.address.to_string()).expect("it was created") -= 1;
            }
            CmapEvent::ConnectionCheckoutStarted(_) => self.check_outs_started += 1,
            CmapEvent::ConnectionCheckoutFailed(_) => self.check_outs_ended += 1,
            CmapEvent::ConnectionCheckedOut(_) => {
                self.check_outs_ended += 1;
                self.checked_out += 1;
            }
            CmapEvent::ConnectionCheckedIn(_) => self.checked_in += 1,
            _ => {}
        }
    }

    fn add_command(&mut self, event: &CommandEvent) {
        match event {
            CommandEvent::Started(_) => self.commands_started += 1,
            _ => self.commands_ended += 1,
        }
    }

    /// Returns `true` if every checkout and every command has ended.
    pub(super) fn are_balanced(&self) -> bool {
        self.check_outs_started == self.check_outs_ended
            && self.checked_out == self.checked_in
            && self.commands_started == self.commands_ended
    }

    /// Number of connections in use.
    pub(super) fn in_use(&self) -> u64 {
        self.checked_out - self.checked_in
    }
}
