//! The parts of a server that have no effect on placement: name, metadata, tags, lock.

use placewright_auth::Rule;
use placewright_conductor::super_conductor::{Change, Command, Labels, of_labels};
use placewright_http::ApiResult;
use placewright_types::server::ServerBody;

use super::body;
use super::server_view::ServerView;
use crate::routed_request::RoutedRequest;

/// The present labels of a server.
pub(crate) fn of(seen: &ServerView<'_>) -> Labels {
    if let Some(labels) = seen.labels {
        return labels.clone();
    }
    let ServerBody { server, own, .. } = body::shown(seen.stored);
    Labels {
        name: seen.stored.name.clone(),
        description: server.description,
        metadata: server.metadata,
        tags: server.tags,
        hostname: own.hostname,
        lock: None,
        updated_at: seen.mapping.created_at,
    }
}

/// The command that changes a server's labels, if they have not changed meanwhile.
pub(crate) fn command(call: &RoutedRequest<'_>, seen: &ServerView<'_>, labels: &Labels) -> Command {
    let before = seen.labels.map(|labels| Box::new(labels.clone()));
    let more = of_labels(labels).saturating_sub(seen.labels.map_or(0, of_labels));
    Command::Bounded {
        bounds: vec![call.room_for(&seen.mapping.project, more)],
        command: Box::new(Command::Guarded {
            expected: vec![Change::Labels(seen.id, before)],
            command: Box::new(Command::SetLabels {
                instance: seen.id,
                labels: labels.clone(),
            }),
        }),
    }
}

/// Changes the labels of the server in the path.
pub(crate) async fn change(
    call: &RoutedRequest<'_>,
    rule: Rule,
    change: impl Fn(&mut Labels) -> ApiResult<()> + Send + Sync,
) -> ApiResult<Labels> {
    call.change(|control, views| {
        let seen = super::find_unlocked(call, control, views, rule)?;
        let mut labels = of(&seen);
        change(&mut labels)?;
        labels.updated_at = call.at;
        Ok((command(call, &seen, &labels), labels))
    })
    .await
}
