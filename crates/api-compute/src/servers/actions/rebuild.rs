//! Rebuilds of a server on its host.

use placewright_auth::Rule;
use placewright_conductor::cell_conductor::VmState;
use placewright_conductor::super_conductor::{Command, RebuildEvent, spec_bytes};
use placewright_conductor::{CellId, ControlState, Fault, HostId, InstanceId, Spec};
use placewright_control::Views;
use placewright_http::{ApiError, ApiResult, Reply};
use placewright_link::CellOperation;
use placewright_placement::Timestamp;
use placewright_records::server as server_forms;
use placewright_scheduler::request::RequestSpec;
use placewright_secrets::{Secret, SecretFields};
use placewright_types::server::ServerBody;
use serde_json::{Value, json};

use super::super::body;
use super::super::server_view::ServerView;
use super::super::show::{self, Visibility};
use super::super::update::remove_newer_fields;
use super::super::{common_fields, create_request, find_unlocked, labels, metadata, secrets};
use crate::fields::ObjectParser;
use crate::routed_request::RoutedRequest;
use crate::{error, image_lookup};

/// A parsed rebuild request: the fields that change. `Some(None)` removes the value of a field.
struct RebuildRequest {
    image: String,
    name: Option<String>,
    description: Option<Option<String>>,
    metadata: Option<std::collections::BTreeMap<String, String>>,
    hostname: Option<String>,
    user_data: Option<Option<Secret<String>>>,
    admin_pass: Option<Secret<String>>,
    key_name: Option<Option<String>>,
    access_ip_v4: Option<Option<String>>,
    access_ip_v6: Option<Option<String>>,
    disk_config: Option<&'static str>,
    certificates: Option<Option<Vec<String>>>,
}

fn parse(request: &RoutedRequest<'_>, arguments: &Value) -> ApiResult<RebuildRequest> {
    let mut parser = ObjectParser::new("rebuild", arguments)?;
    let version = request.version;
    let image = parser.required_text("imageRef", 1..=255)?;
    let image = create_request::parse_image_id("rebuild.imageRef", image)?;
    let name = parser.name("name")?.map(str::to_owned);
    let metadata = match parser.take("metadata") {
        None => None,
        Some(value) => Some(metadata::parse("rebuild.metadata", value)?),
    };
    let mut text_since = |key, added_in: u16, length_max: usize| {
        if !version.since(added_in) {
            return Ok(None);
        }
        let text = parser.nullable_text(key, 0..=length_max)?;
        ApiResult::Ok(text.map(|text| text.map(str::to_owned)))
    };
    let description = text_since("description", 19, 255)?;
    let key_name = text_since("key_name", 54, 255)?;
    let hostname = text_since("hostname", 90, 255)?.flatten();
    if let Some(hostname) = &hostname {
        common_fields::check_hostname(request, "rebuild.hostname", hostname)?;
    }
    let user_data = match version.since(57) && parser.contains("user_data") {
        true => Some(common_fields::parse_user_data(&mut parser)?),
        false => None,
    };
    let password = parser.text("adminPass", 0..=255)?;
    let password = password.map(|password| Secret::new(password.to_owned()));
    let certificates = match version.since(63) && parser.contains("trusted_image_certificates") {
        true => Some(common_fields::parse_certificates(&mut parser)?),
        false => None,
    };
    let rebuild_request = RebuildRequest {
        image,
        name,
        description,
        metadata,
        hostname,
        user_data,
        admin_pass: password,
        key_name,
        access_ip_v4: common_fields::parse_address(&mut parser, "accessIPv4")?,
        access_ip_v6: common_fields::parse_address(&mut parser, "accessIPv6")?,
        disk_config: common_fields::parse_disk_config(&mut parser)?,
        certificates,
    };
    parser.boolean("preserve_ephemeral")?;
    if !version.since(57) && parser.take("personality").is_some() {
        let message = "files cannot be put into servers; use user_data";
        return Err(parser.field_error("personality", message));
    }
    parser.finish()?;
    Ok(rebuild_request)
}

/// Finds the server of the path, and checks that its state allows a rebuild.
fn find_rebuildable<'s>(
    request: &RoutedRequest<'_>,
    control: &'s ControlState,
    views: &'s Views,
) -> ApiResult<ServerView<'s>> {
    let server = find_unlocked(request, control, views, Rule::ServersRebuild)?;
    let is_possible = server.view.is_some_and(|view| {
        let is_stable = matches!(view.vm_state, VmState::Active | VmState::Error);
        is_stable && view.guest.is_some() && view.job.is_none()
    });
    if is_possible && !server.is_out_of_reach && server.rebuild.is_none() {
        return Ok(server);
    }
    let status = server.status().name;
    let message = format!(
        "Server {} cannot be rebuilt while it is {status}.",
        server.id
    );
    Err(ApiError::conflict(message))
}

/// A rebuild that was checked against the state, and is ready to be submitted.
struct RebuildPlan {
    id: InstanceId,
    cell: CellId,
    spec: Spec,
    /// The time of the server's latest change that its cell has reported.
    view_updated_at: Timestamp,
    /// `None` if the image does not change.
    image_change: Option<ImageChange>,
}

/// The data with which the scheduler checks that the server's host can run the new image.
#[derive(Clone)]
struct ImageChange {
    host: HostId,
    /// The request with the present image.
    before: RequestSpec,
    /// The same request with the new image.
    after: RequestSpec,
}

impl RebuildPlan {
    fn prepare(
        request: &RoutedRequest<'_>,
        control: &ControlState,
        views: &Views,
        rebuild_request: &RebuildRequest,
    ) -> ApiResult<Self> {
        let server = find_rebuildable(request, control, views)?;
        let (spec, requests) = new_specification(request, control, &server, rebuild_request)?;
        let guest = server.view.and_then(|view| view.guest);
        Ok(Self {
            id: server.id,
            cell: server.cell().ok_or_else(error::path_not_found)?,
            image_change: guest
                .zip(requests)
                .map(|(guest, (before, after))| ImageChange {
                    host: guest.host,
                    before,
                    after,
                }),
            spec,
            view_updated_at: server.view.map_or(Timestamp(0), |view| view.updated_at),
        })
    }

    /// Submits the rebuild to control, which stores the new specification until the cell has
    /// completed the rebuild, and then to the cell.
    async fn submit(&self, request: &RoutedRequest<'_>) -> ApiResult<()> {
        let instance = self.id;
        let record_event = |event| request.execute(Command::Rebuild { instance, event });
        let begun = RebuildEvent::Begun {
            spec: Box::new(self.spec.clone()),
            view_updated_at: self.view_updated_at,
        };
        let begin = Command::Limited {
            checks: vec![request.project_bytes_check(&self.spec.project, spec_bytes(&self.spec))],
            command: Box::new(Command::Rebuild {
                instance,
                event: begun,
            }),
        };
        request.execute(begin).await?;
        let operation = CellOperation::Rebuild {
            instance,
            spec: Box::new(self.spec.clone()),
            request: Some(request.request_uuid),
        };
        let result = request.run_in_cell(self.cell, operation).await;
        // After a refusal (409) the rebuild is over. A cell that did not answer may have accepted the rebuild.
        if result.as_ref().is_err_and(|error| error.status() == 409) {
            // The digest of the new specification says which rebuild was refused.
            let digest = self.spec.digest();
            record_event(RebuildEvent::Refused { digest }).await?;
        }
        result
    }

    /// Checks with the scheduler whether the host is feasible for the new image. Returns the fault if the host
    /// is not. The server's allocations do not change, so nothing is claimed.
    async fn check_host(&self, request: &RoutedRequest<'_>) -> Option<Fault> {
        let ImageChange {
            host,
            before,
            after,
        } = self.image_change.clone()?;
        let (instance, scheduler_handle) = (self.id.0, request.api_state.scheduler.clone());
        // The check locks the scheduler, so it must not run on a thread that serves connections.
        let checking = tokio::task::spawn_blocking(move || {
            scheduler_handle.with_state(|scheduler, control| {
                let state = &control.placement;
                scheduler.check_rebuild(state, (instance, host.0), &after, &before)
            })
        });
        let why = match checking.await {
            Ok(Ok(())) => return None,
            Ok(Err(refusal)) => refusal.to_string(),
            Err(error) => error.to_string(),
        };
        Some(Fault {
            code: 500,
            message: format!("No valid host was found. The server cannot be rebuilt: {why}."),
            details: String::new(),
            at: request.now,
        })
    }
}

/// The specification after the rebuild. If the image changes, also the request with the present
/// image, and the same request with the new image.
fn new_specification(
    request: &RoutedRequest<'_>,
    control: &ControlState,
    server: &ServerView<'_>,
    rebuild_request: &RebuildRequest,
) -> ApiResult<(Spec, Option<(RequestSpec, RequestSpec)>)> {
    let mut spec = server.stored_spec.clone();
    let mut body = body::decode(&spec)?;
    let mut requests = None;
    if body.server.image.as_ref() != Some(&rebuild_request.image) {
        let before = body.request.clone();
        let image = ("rebuild.imageRef", Some(rebuild_request.image.as_str()));
        body.request.image = image_lookup::look_up(request, control, image, &before.flavor)?;
        requests = Some((before, body.request.clone()));
    }
    let server_fields = &mut body.server;
    server_fields.image = Some(rebuild_request.image.clone());
    if let Some(address) = &rebuild_request.access_ip_v4 {
        server_fields.access_ip_v4.clone_from(address);
    }
    if let Some(address) = &rebuild_request.access_ip_v6 {
        server_fields.access_ip_v6.clone_from(address);
    }
    if let Some(disk_config) = rebuild_request.disk_config {
        disk_config.clone_into(&mut server_fields.disk_config);
    }
    if let Some(certificates) = &rebuild_request.certificates {
        server_fields
            .trusted_image_certificates
            .clone_from(certificates);
    }
    if let Some(key_name) = &rebuild_request.key_name {
        server_fields.public_key = match key_name {
            None => None,
            Some(name) => {
                let keypair_id = (server.mapping.user.clone(), name.clone());
                let keypair = control.conductor.keypairs().get(&keypair_id);
                let keypair = keypair.ok_or_else(|| {
                    ApiError::field("rebuild.key_name", format!("there is no key pair {name}"))
                })?;
                Some(keypair.public_key.clone())
            }
        };
        server_fields.key_name.clone_from(key_name);
    }
    replace_secrets(request, server, rebuild_request, (&mut spec, &mut body))?;
    spec.body = server_forms::write(&body);
    Ok((spec, requests))
}

/// Removes the secrets that only the earlier build needed, and adds those of the request. User data stays if the
/// request has no user data.
fn replace_secrets(
    request: &RoutedRequest<'_>,
    server: &ServerView<'_>,
    rebuild_request: &RebuildRequest,
    (spec, body): (&mut Spec, &mut ServerBody),
) -> ApiResult<()> {
    spec.forget_build_secrets();
    if rebuild_request.user_data.is_none() && rebuild_request.admin_pass.is_none() {
        return Ok(());
    }
    let fields = SecretFields {
        user_data: rebuild_request.user_data.clone().flatten(),
        admin_pass: rebuild_request.admin_pass.clone(),
    };
    body.server.secrets_mark = Some(secrets::new_mark());
    let sealed = secrets::seal(request, fields)?;
    let (build_secrets, lasting_secrets) = sealed
        .for_instance(server.id)
        .map_err(secrets::not_sealed)?;
    spec.build_secrets = build_secrets;
    if rebuild_request.user_data.is_some() {
        spec.secrets = lasting_secrets;
    }
    Ok(())
}

/// Changes those labels of the server that the request has.
async fn write_labels(
    request: &RoutedRequest<'_>,
    rebuild_request: &RebuildRequest,
) -> ApiResult<()> {
    let changes_labels = rebuild_request.name.is_some()
        || rebuild_request.description.is_some()
        || rebuild_request.metadata.is_some()
        || rebuild_request.hostname.is_some();
    if !changes_labels {
        return Ok(());
    }
    labels::change(request, Rule::ServersRebuild, |labels| {
        if let Some(name) = &rebuild_request.name {
            labels.name.clone_from(name);
        }
        if let Some(description) = &rebuild_request.description {
            labels.description.clone_from(description);
        }
        if let Some(metadata) = &rebuild_request.metadata {
            labels.metadata.clone_from(metadata);
        }
        if let Some(hostname) = &rebuild_request.hostname {
            labels.hostname.clone_from(hostname);
        }
        Ok(())
    })
    .await?;
    Ok(())
}

pub(super) async fn rebuild(request: &RoutedRequest<'_>, arguments: &Value) -> ApiResult<Reply> {
    let rebuild_request = parse(request, arguments)?;
    let plan = request
        .try_read(|control, views| RebuildPlan::prepare(request, control, views, &rebuild_request))
        .await?;
    let (instance, cell) = (plan.id, plan.cell);
    let fault = plan.check_host(request).await;
    let is_accepted = fault.is_none();
    if let Some(fault) = fault {
        let fault = Box::new(fault);
        request
            .run_in_cell(
                cell,
                CellOperation::RefuseRebuild {
                    instance,
                    fault,
                    request: Some(request.request_uuid),
                },
            )
            .await?;
    } else {
        plan.submit(request).await?;
        write_labels(request, &rebuild_request).await?;
    }
    let visibility = Visibility::of_caller(request);
    let value = request.try_read(|control, views| {
        let server = ServerView::find(control, views, instance);
        let mut server = server.ok_or_else(|| error::missing("server", &instance.to_string()))?;
        if is_accepted {
            // The response shows the accepted rebuild, even if it has failed meanwhile.
            server.rebuild = control.conductor.rebuilds().get(&instance);
        }
        let mut value = show::full_json(request, &server, visibility);
        if !request.version.since(75) {
            let key_name = value["key_name"].take();
            remove_newer_fields(&mut value);
            if request.version.since(54) {
                value["key_name"] = key_name;
            }
        }
        if request.version.since(57) {
            value["user_data"] = json!(
                secrets::user_data(request, &server)
                    .as_ref()
                    .map(Secret::expose)
            );
        }
        Ok(value)
    });
    Reply::value(202, &json!({"server": value.await?}))
}
