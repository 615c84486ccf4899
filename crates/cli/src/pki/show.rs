//! The output of `placewright pki show`.

use std::path::Path;

use placewright_pki::{Authority, Credentials, RegisterEntry, now};
use serde_json::json;

/// How certificates are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// Aligned lines for people to read.
    Text,
    /// One JSON object a line.
    Json,
}

/// The certificates that an authority issued, and its open invitations.
pub(super) fn authority(
    authority: &Authority,
    with_expired: bool,
    format: Format,
) -> anyhow::Result<String> {
    let is_json = format == Format::Json;
    let now = now();
    let mut text = String::new();
    for (entry, revocation) in authority.entries()? {
        let state = match revocation {
            _ if entry.not_after <= now => "expired",
            Some(_) => "revoked",
            None => "valid",
        };
        if state == "expired" && !with_expired {
            continue;
        }
        text.push_str(&if is_json {
            let row = json!({
                "serial": entry.serial, "state": state, "names": entry.names, "by": entry.operation,
                "not_before": entry.not_before, "not_after": entry.not_after, "at": entry.at,
            });
            format!("{row}\n")
        } else {
            line(&entry, state, now)
        });
    }
    for invitation in authority.open_invitations()? {
        text.push_str(&if is_json {
            let row = json!({"state": "invited", "names": invitation.names, "ends_at": invitation.ends_at});
            format!("{row}\n")
        } else {
            let remaining = duration_text(invitation.ends_at - now);
            format!("{:32}  invited  {remaining:>9}  {}\n", "", invitation.names.join(" "))
        });
    }
    if !is_json {
        let head = format!(
            "the authority of {} in {}\n",
            authority.installation(),
            authority.directory().display()
        );
        text.insert_str(0, &head);
    }
    Ok(text)
}

fn line(entry: &RegisterEntry, state: &str, now: i64) -> String {
    let remaining = duration_text(entry.not_after - now);
    format!(
        "{}  {state:7}  {remaining:>9}  {}\n",
        entry.serial,
        entry.names.join(" ")
    )
}

/// The certificate in a holder's folder.
pub(super) fn holder(directory: &Path, format: Format) -> anyhow::Result<String> {
    let loaded = Credentials::load(directory, None)?.current();
    let facts = &loaded.facts;
    let remaining = facts.not_after - now();
    let state = match remaining {
        ..=0 => "expired",
        _ if loaded.is_revoked(&facts.serial) => "revoked",
        _ => "valid",
    };
    let names = facts.identity.uris();
    if format == Format::Json {
        let row = json!({
            "serial": facts.serial_text(), "state": state, "names": names,
            "not_before": facts.not_before, "not_after": facts.not_after,
        });
        return Ok(format!("{row}\n"));
    }
    Ok(format!(
        "{}\n  serial  {}\n  state   {state}, {} left\n  names   {}\n",
        directory.display(),
        facts.serial_text(),
        duration_text(remaining),
        names.join("\n          ")
    ))
}

/// A duration in its largest suitable unit.
fn duration_text(seconds: i64) -> String {
    match seconds {
        ..=0 => "0 s".to_owned(),
        1..120 => format!("{seconds} s"),
        120..7_200 => format!("{} min", seconds / 60),
        7_200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}
