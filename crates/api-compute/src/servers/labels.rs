//! Labels: the parts of a server that have no effect on placement, such as its name, metadata, tags
//! and lock.

use placewright_auth::Rule;
use placewright_conductor::super_conductor::{Change, Command, Labels, labels_bytes};
use placewright_http::ApiResult;
use placewright_types::server::ServerBody;

use super::body;
use super::server_view::ServerView;
use crate::routed_request::RoutedRequest;

/// The labels of a server. Until labels are changed for the first time, the specification has them.
pub(crate) fn of_server(server: &ServerView<'_>) -> Labels {
    if let Some(labels) = server.labels {
        return labels.clone();
    }
    let ServerBody {
        server: server_fields,
        own,
        ..
    } = body::decode_or_default(server.stored_spec);
    Labels {
        name: server.stored_spec.name.clone(),
        description: server_fields.description,
        metadata: server_fields.metadata,
        tags: server_fields.tags,
        hostname: own.hostname,
        lock: None,
        updated_at: server.mapping.created_at,
    }
}

/// The command that sets the labels of a server. It is refused if the labels have changed meanwhile.
pub(crate) fn change_command(
    request: &RoutedRequest<'_>,
    server: &ServerView<'_>,
    labels: &Labels,
) -> Command {
    let before = server.labels.map(|labels| Box::new(labels.clone()));
    let added_bytes = labels_bytes(labels).saturating_sub(server.labels.map_or(0, labels_bytes));
    Command::Limited {
        checks: vec![request.project_bytes_check(&server.mapping.project, added_bytes)],
        command: Box::new(Command::Guarded {
            expected: vec![Change::Labels(server.id, before)],
            command: Box::new(Command::SetLabels {
                instance: server.id,
                labels: labels.clone(),
            }),
        }),
    }
}

/// Changes the labels of the server in the path, and returns them.
pub(crate) async fn change(
    request: &RoutedRequest<'_>,
    rule: Rule,
    edit: impl Fn(&mut Labels) -> ApiResult<()> + Send + Sync,
) -> ApiResult<Labels> {
    request
        .submit_with_retry(|control, views| {
            let server = super::find_unlocked(request, control, views, rule)?;
            let mut labels = of_server(&server);
            edit(&mut labels)?;
            labels.updated_at = request.now;
            Ok((change_command(request, &server, &labels), labels))
        })
        .await
}
