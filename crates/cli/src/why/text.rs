//! The answer of `placewright why` as text.

use std::fmt::Write as _;

use placewright_client::{DecidedHost, DecidedScore, DecidedSearch, Decision};

use super::{Action, Answer};

impl Answer {
    pub(super) fn to_text(&self) -> String {
        let mut text = self.heading();
        if let Some(fault) = &self.decisions.fault {
            let _ = writeln!(text, "{}", fault.message);
        }
        for decision in &self.decisions.decisions {
            add_decision(&mut text, decision);
        }
        if let Some(left) = &self.decisions.left_cell {
            let tried = left.attempts.iter();
            let tried: Vec<String> = tried
                .map(|attempt| format!("{} ({})", name_of(&attempt.host), attempt.reason))
                .collect();
            let (cell, at) = (&left.cell, &left.at);
            let tried = tried.join(", ");
            let _ = writeln!(
                text,
                "\nTaken from cell {cell} at {at}, because the build failed on: {tried}."
            );
        }
        if self.decisions.decisions.is_empty() && self.decisions.host.is_some() {
            text += "\nWhy is not known: the server was placed by a release that did not keep the reason, or by another system.\n";
        }
        match &self.actions_missing {
            Some(why) => {
                let _ = writeln!(text, "\nWhat was tried on hosts is not known: {why}");
            }
            None => add_actions(&mut text, &self.actions),
        }
        // Agents and drivers wrote some of it, and what they send must not command the reader's terminal.
        text.replace(|one: char| one.is_control() && one != '\n', "\u{fffd}")
    }

    fn heading(&self) -> String {
        let name = match &self.server {
            Some(server) => format!("{} ({})", server.name, self.decisions.instance),
            None => self.decisions.instance.to_string(),
        };
        let location = match (&self.decisions.host, self.decisions.waiting) {
            (Some(host), _) => format!("is on {}", name_of(host)),
            (None, true) => "waits for a host".to_owned(),
            (None, false) => "has no host".to_owned(),
        };
        match &self.server {
            Some(server) => format!("{name} {location}, status {}.\n", server.status),
            None => format!("{name} {location}.\n"),
        }
    }
}

fn add_decision(text: &mut String, decision: &Decision) {
    let verb = match decision.kind.as_str() {
        "build" => "Built on".to_owned(),
        "move" => "Moved to".to_owned(),
        // Control of a later release may send other kinds.
        other => format!("{other}:"),
    };
    let host = name_of(&decision.host);
    let at = &decision.at;
    let former = match decision.is_present {
        true => "",
        false => ", where it is no longer",
    };
    let _ = writeln!(text, "\n{verb} {host}{former}, decided {at}.");
    match &decision.search {
        Some(search) => add_search(text, search),
        None => text.push_str("How hosts were ranked was not kept.\n"),
    }
    add_tried(text, decision);
    let _ = match decision.alternates {
        0 => writeln!(text, "No alternates, if a step on the host had failed."),
        1 => writeln!(text, "One alternate, if a step on the host had failed."),
        count => writeln!(
            text,
            "{count} alternates, if a step on the host had failed."
        ),
    };
}

fn add_search(text: &mut String, search: &DecidedSearch) {
    let known_hosts = host_count(search.known_hosts);
    let feasible = match search.feasible {
        Some(1) => "One was feasible, so nothing was weighed".to_owned(),
        Some(count) => format!("{count} were feasible"),
        None => format!(
            "At least {} were feasible; the search looked for the best ones only",
            search.ranked
        ),
    };
    let _ = writeln!(
        text,
        "Of {known_hosts}, as they were after entry {} of the journal. {feasible}.",
        search.sequence
    );
    if search.from_fallback {
        text.push_str("None satisfied the request itself; these satisfy its fallback.\n");
    }
    if search.excluded > 0 {
        let excluded = host_count(search.excluded);
        let _ = writeln!(
            text,
            "Left out: {excluded} (the one to leave, those that the request's other servers fill, and those that earlier searches lost)."
        );
    }
    if !search.avoided_cells.is_empty() {
        let cells: Vec<String> = search
            .avoided_cells
            .iter()
            .map(ToString::to_string)
            .collect();
        let _ = writeln!(
            text,
            "Avoided, because they were silent: cells {}.",
            cells.join(", ")
        );
    }
    if search.siblings > 0 {
        let _ = writeln!(
            text,
            "{} other servers of the request were counted on their hosts already.",
            search.siblings
        );
    }
    if search.ranking.is_empty() {
        return;
    }
    text.push_str("\n  rank       score   host\n");
    for (rank, host) in (1..).zip(&search.ranking) {
        let selected = if host.selected { ", selected" } else { "" };
        let name = name_of(&host.host);
        let _ = writeln!(text, "{rank:>6}{:>12.4}   {name}{selected}", host.score);
        let _ = writeln!(text, "{:>21}{}", "", shares(host));
    }
    let is_listed = search.ranking.iter().any(|host| host.selected);
    if !is_listed {
        text.push_str("The selected host came after these; its score is not kept.\n");
    }
}

/// Adds the hosts that other claims took: in earlier searches, and before this claim was decided.
fn add_tried(text: &mut String, decision: &Decision) {
    let search = decision.search.as_ref();
    if let Some(search) = search.filter(|search| search.round > 0) {
        let lost: Vec<String> = search.lost.iter().map(name_of).collect();
        let why = match search.last_refusal.as_str() {
            "" => String::new(),
            refusal => format!(" ({refusal})"),
        };
        let _ = writeln!(
            text,
            "Earlier searches lost to other claims: {}{why}.",
            lost.join(", ")
        );
    }
    if decision.fallen_count == 0 {
        return;
    }
    let _ = writeln!(
        text,
        "Named before it, and taken by others before the claim was decided: {}.",
        host_count(decision.fallen_count)
    );
    for fallen in &decision.fallen {
        let reason = match fallen.reason.as_str() {
            "" => "other servers of the request took it",
            reason => reason,
        };
        let _ = writeln!(text, "  {}: {reason}", name_of(&fallen.host));
    }
}

fn add_actions(text: &mut String, actions: &[Action]) {
    if actions.is_empty() {
        return;
    }
    text.push_str("\nWhat was done, the latest first\n");
    for action in actions {
        let _ = writeln!(text, "  {}", action.action);
        for event in &action.events {
            let host = event.host.as_deref().filter(|host| !host.is_empty());
            let host = host.map(|host| format!(" on {host}")).unwrap_or_default();
            let result = event.result.as_deref().unwrap_or("under way");
            let details = event
                .details
                .as_deref()
                .filter(|details| !details.is_empty());
            let details = details
                .map(|details| format!(": {details}"))
                .unwrap_or_default();
            let (name, from) = (&event.event, &event.start_time);
            let _ = writeln!(text, "    {from}  {name}{host}: {result}{details}");
        }
    }
}

/// The weighers' shares of a host's score, without those that are 0.
fn shares(host: &DecidedScore) -> String {
    if host.weights.is_empty() {
        return "compared with no other, or equal to all".to_owned();
    }
    let effective = host.weights.iter().filter(|weight| weight.share != 0.0);
    let texts = effective.map(|weight| {
        format!(
            "{} {:.4} (of {})",
            weight.weigher, weight.share, weight.number
        )
    });
    let texts: Vec<String> = texts.collect();
    match texts.is_empty() {
        true => "no weigher prefers it".to_owned(),
        false => texts.join(", "),
    }
}

/// The name of a host, or the UUID of one that was removed.
fn name_of(host: &DecidedHost) -> String {
    match &host.host {
        Some(name) => name.clone(),
        None => format!("{} (removed)", host.provider),
    }
}

fn host_count(number: u32) -> String {
    match number {
        1 => "1 host".to_owned(),
        number => format!("{number} hosts"),
    }
}
