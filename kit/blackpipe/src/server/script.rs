//! The script: expected requests in order, requests allowed at any time, and violations.

use std::collections::VecDeque;

use super::{Exchange, exchange::ScriptedResponse};
use blackpipe_base::message::Request;

/// Expected requests and violations. It decides and sends nothing.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// Groups of expected requests. The order within a group is free. No group is empty.
    groups: VecDeque<Vec<Exchange>>,
    /// Requests allowed at any time. Later definitions come first.
    whenever: Vec<Exchange>,
    failures: Vec<String>,
}

impl Script {
    /// Appends a group of requests in any order.
    pub(super) fn expect(&mut self, group: impl IntoIterator<Item = Exchange>) {
        let group: Vec<_> = group.into_iter().filter(|it| it.times != Some(0)).collect();
        if !group.is_empty() {
            self.groups.push_back(group);
        }
    }

    pub(super) fn whenever(&mut self, exchange: Exchange) {
        self.whenever.insert(0, exchange);
    }

    /// Returns the response to a request that is expected next or allowed at any time.
    pub(super) fn take(&mut self, request: &Request) -> Option<ScriptedResponse> {
        // A request that should be cut is complete here, so it no longer matches.
        self.take_if(|it| {
            !matches!(it.response, ScriptedResponse::CutRequest(_)) && it.expected.matches(request)
        })
    }

    /// Returns the number of bytes after which to cut a request with this command name, if it has a
    /// readable one.
    pub(super) fn take_cut(&mut self, name: Option<&str>, member: usize) -> Option<usize> {
        let is_it = |it: &Exchange| {
            matches!(it.response, ScriptedResponse::CutRequest(_))
                && it.expected.may_match(name, member)
        };
        match self.take_if(is_it)? {
            ScriptedResponse::CutRequest(bytes) => Some(bytes),
            ScriptedResponse::Steps(_)
            | ScriptedResponse::Computed(_)
            | ScriptedResponse::AskTest(_) => None,
        }
    }

    fn take_if(&mut self, is_it: impl Fn(&Exchange) -> bool) -> Option<ScriptedResponse> {
        if let Some(group) = self.groups.front_mut()
            && let Some(response) = take_from(group, 1, &is_it)
        {
            if group.is_empty() {
                self.groups.pop_front();
            }
            return Some(response);
        }
        take_from(&mut self.whenever, usize::MAX, &is_it)
    }

    /// Records an unexpected request. Returns the reason.
    pub(super) fn unexpected(&mut self, request: &Request) -> String {
        let why = match self.groups.front().map(Vec::as_slice) {
            None => "no further request is expected".to_owned(),
            Some([next]) => {
                let why = next.expected.mismatch(request).unwrap_or_default();
                format!("next expected is {next}: {why}")
            }
            Some(group) => {
                let all: Vec<_> = group.iter().map(ToString::to_string).collect();
                format!("next expected is one of: {}", all.join("; "))
            }
        };
        let what = format!("unexpected request {request}; {why}");
        self.failures.push(format!("connection {}: {what}", request.connection));
        what
    }

    pub(super) fn failed(&mut self, why: String) {
        self.failures.push(why);
    }

    pub(super) fn is_met(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns all violations and the expected requests that did not arrive.
    pub(super) fn violations(&self) -> Vec<String> {
        let missing = self.groups.iter().flatten().map(|it| format!("missing request: {it}"));
        self.failures.iter().cloned().chain(missing).collect()
    }

    /// Returns all violations.
    pub(super) fn failures(&self) -> Vec<String> {
        self.failures.clone()
    }
}

/// Takes the response of the first matching exchange once. Removes the exchange after its last
/// time.
fn take_from(
    exchanges: &mut Vec<Exchange>,
    default_times: usize,
    is_it: impl Fn(&Exchange) -> bool,
) -> Option<ScriptedResponse> {
    let index = exchanges.iter().position(is_it)?;
    let times = exchanges[index].times.unwrap_or(default_times).saturating_sub(1);
    if times == 0 {
        return Some(exchanges.remove(index).response);
    }
    if exchanges[index].times.is_some() {
        exchanges[index].times = Some(times);
    }
    Some(exchanges[index].response.clone())
}
