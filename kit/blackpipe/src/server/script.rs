//! The script: what is expected, in which order, what may come besides, and what went against it.

use std::collections::VecDeque;

use super::{Exchange, exchange::Reaction};
use blackpipe_base::message::Request;

/// What is expected and what went wrong. It decides; it sends nothing.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// What is to come, group by group; within a group in any order. No group is empty.
    groups: VecDeque<Vec<Exchange>>,
    /// What may come whenever it likes; what was said last goes first.
    whenever: Vec<Exchange>,
    failures: Vec<String>,
}

impl Script {
    /// Adds what is to come next after all that was said before, in any order.
    pub(super) fn expect(&mut self, group: impl IntoIterator<Item = Exchange>) {
        let group: Vec<_> = group.into_iter().filter(|it| it.times != Some(0)).collect();
        if !group.is_empty() {
            self.groups.push_back(group);
        }
    }

    pub(super) fn whenever(&mut self, exchange: Exchange) {
        self.whenever.insert(0, exchange);
    }

    /// What is to be done about a request, if it was expected now or may always come.
    pub(super) fn take(&mut self, request: &Request) -> Option<Reaction> {
        // One that is to be cut short is past that when all of it is there.
        self.take_if(|it| !matches!(it.reaction, Reaction::Cut(_)) && it.expected.matches(request))
    }

    /// After how many bytes a request is to be cut of which the name is known, if it is one that
    /// can be read so early.
    pub(super) fn take_cut(&mut self, name: Option<&str>, member: usize) -> Option<usize> {
        let is_it = |it: &Exchange| {
            matches!(it.reaction, Reaction::Cut(_)) && it.expected.may_be(name, member)
        };
        match self.take_if(is_it)? {
            Reaction::Cut(bytes) => Some(bytes),
            Reaction::Steps(_) | Reaction::Made(_) | Reaction::HandOver(_) => None,
        }
    }

    fn take_if(&mut self, is_it: impl Fn(&Exchange) -> bool) -> Option<Reaction> {
        if let Some(group) = self.groups.front_mut()
            && let Some(reaction) = take_from(group, 1, &is_it)
        {
            if group.is_empty() {
                self.groups.pop_front();
            }
            return Some(reaction);
        }
        take_from(&mut self.whenever, usize::MAX, &is_it)
    }

    /// Writes down that a request came which was not expected, and says why it was not.
    pub(super) fn unexpected(&mut self, request: &Request) -> String {
        let why = match self.groups.front().map(Vec::as_slice) {
            None => "nothing is expected any more".to_owned(),
            Some([next]) => {
                let why = next.expected.mismatch(request).unwrap_or_default();
                format!("expected next is {next}: {why}")
            }
            Some(group) => {
                let all: Vec<_> = group.iter().map(ToString::to_string).collect();
                format!("expected next is one of: {}", all.join("; "))
            }
        };
        let what = format!("unexpected: {request}; {why}");
        self.failures.push(format!("through connection {} came {what}", request.connection));
        what
    }

    pub(super) fn failed(&mut self, why: String) {
        self.failures.push(why);
    }

    pub(super) fn is_met(&self) -> bool {
        self.groups.is_empty()
    }

    /// All that went against the script so far, and what has not come yet.
    pub(super) fn complaints(&self) -> Vec<String> {
        let missing = self.groups.iter().flatten().map(|it| format!("never came: {it}"));
        self.failures.iter().cloned().chain(missing).collect()
    }

    /// What went against the script so far.
    pub(super) fn failures(&self) -> Vec<String> {
        self.failures.clone()
    }
}

/// Takes what is to be done once from the first exchange that fits. One that has come as often as it
/// was to come is removed.
fn take_from(
    exchanges: &mut Vec<Exchange>,
    usual_times: usize,
    is_it: impl Fn(&Exchange) -> bool,
) -> Option<Reaction> {
    let index = exchanges.iter().position(is_it)?;
    let times = exchanges[index].times.unwrap_or(usual_times).saturating_sub(1);
    if times == 0 {
        return Some(exchanges.remove(index).reaction);
    }
    if exchanges[index].times.is_some() {
        exchanges[index].times = Some(times);
    }
    Some(exchanges[index].reaction.clone())
}
