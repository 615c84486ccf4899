//! Rebuilds of a server on its host.

use placewright_auth::Rule;
use placewright_conductor::cell_conductor::VmState;
use placewright_conductor::super_conductor::{Command, RebuildEvent, of_spec};
use placewright_conductor::{CellId, ControlState, Fault, HostId, InstanceId, Spec};
use placewright_control::Views;
use placewright_http::{ApiError, ApiResult, Reply};
use placewright_link::CellOperation;
use placewright_placement::Timestamp;
use placewright_records::server;
use placewright_scheduler::request::RequestSpec;
use placewright_secrets::{Fields, Secret};
use placewright_types::server::ServerBody;
use serde_json::{Value, json};

use super::super::body;
use super::super::server_view::ServerView;
use super::super::show::{self, Visibility};
use super::super::update::withhold_newer;
use super::super::{common_fields, create, find_unlocked, labels, metadata, secrets};
use crate::error;
use crate::fields::ObjectParser;
use crate::routed_request::RoutedRequest;

/// A parsed rebuild request: the fields that change.
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

fn read(call: &RoutedRequest<'_>, parsed: &Value) -> ApiResult<RebuildRequest> {
    let mut fields = ObjectParser::new("rebuild", parsed)?;
    let version = call.version;
    let image = fields.needed_text("imageRef", 1..=255)?;
    let image = create::image_id("rebuild.imageRef", image)?;
    let name = fields.name("name")?.map(str::to_owned);
    let metadata = match fields.take("metadata") {
        None => None,
        Some(value) => Some(metadata::read("rebuild.metadata", value)?),
    };
    let mut text_since = |key, since: u16, most: usize| {
        if !version.since(since) {
            return Ok(None);
        }
        let text = fields.nullable_text(key, 0..=most)?;
        ApiResult::Ok(text.map(|text| text.map(str::to_owned)))
    };
    let description = text_since("description", 19, 255)?;
    let key_name = text_since("key_name", 54, 255)?;
    let hostname = text_since("hostname", 90, 255)?.flatten();
    if let Some(hostname) = &hostname {
        common_fields::check_hostname(call, "rebuild.hostname", hostname)?;
    }
    let user_data = match version.since(57) && fields.has("user_data") {
        true => Some(common_fields::read_user_data(&mut fields)?),
        false => None,
    };
    let password = fields.text("adminPass", 0..=255)?;
    let password = password.map(|password| Secret::new(password.to_owned()));
    let certificates = match version.since(63) && fields.has("trusted_image_certificates") {
        true => Some(common_fields::certificates(&mut fields)?),
        false => None,
    };
    let parsed = RebuildRequest {
        image,
        name,
        description,
        metadata,
        hostname,
        user_data,
        admin_pass: password,
        key_name,
        access_ip_v4: common_fields::access_address(&mut fields, "accessIPv4")?,
        access_ip_v6: common_fields::access_address(&mut fields, "accessIPv6")?,
        disk_config: common_fields::disk_config(&mut fields)?,
        certificates,
    };
    fields.boolean("preserve_ephemeral")?;
    if !version.since(57) && fields.take("personality").is_some() {
        let message = "files cannot be put into servers; use user_data";
        return Err(fields.wrong("personality", message));
    }
    fields.finish()?;
    Ok(parsed)
}

fn check<'s>(
    call: &RoutedRequest<'_>,
    control: &'s ControlState,
    views: &'s Views,
) -> ApiResult<ServerView<'s>> {
    let seen = find_unlocked(call, control, views, Rule::ServersRebuild)?;
    let can = seen.view.is_some_and(|view| {
        let is_fine = matches!(view.vm_state, VmState::Active | VmState::Error);
        is_fine && view.guest.is_some() && view.job.is_none()
    });
    if can && !seen.is_out_of_reach && seen.rebuild.is_none() {
        return Ok(seen);
    }
    let status = seen.status().status;
    let message = format!("Server {} cannot be rebuilt while it is {status}.", seen.id);
    Err(ApiError::conflict(message))
}

/// What was looked up for a rebuild.
struct RebuildPlan {
    id: InstanceId,
    cell: CellId,
    spec: Spec,
    /// The time of its cell's latest change of the server.
    seen: Timestamp,
    /// The host, with the request of the original placement and that of the new image; none if the
    /// image stays.
    check: Option<(HostId, RequestSpec, RequestSpec)>,
}

impl RebuildPlan {
    fn of(
        call: &RoutedRequest<'_>,
        control: &ControlState,
        views: &Views,
        parsed: &RebuildRequest,
    ) -> ApiResult<Self> {
        let seen = check(call, control, views)?;
        let (spec, image) = renewed(call, control, &seen, parsed)?;
        let host = seen.view.and_then(|view| view.guest);
        Ok(Self {
            id: seen.id,
            cell: seen.cell().ok_or_else(error::nothing_here)?,
            check: host
                .zip(image)
                .map(|(guest, (before, now))| (guest.host, before, now)),
            spec,
            seen: seen.view.map_or(Timestamp(0), |view| view.updated_at),
        })
    }

    /// Submits the rebuild to the cell. Control records the new specification until the cell has
    /// completed it.
    async fn order(&self, call: &RoutedRequest<'_>) -> ApiResult<()> {
        let instance = self.id;
        let told = |event| call.carry_out(Command::Rebuild { instance, event });
        let begun = RebuildEvent::Begun {
            spec: Box::new(self.spec.clone()),
            seen: self.seen,
        };
        let begin = Command::Bounded {
            bounds: vec![call.room_for(&self.spec.project, of_spec(&self.spec))],
            command: Box::new(Command::Rebuild {
                instance,
                event: begun,
            }),
        };
        call.carry_out(begin).await?;
        let order = CellOperation::Rebuild {
            instance,
            spec: Box::new(self.spec.clone()),
        };
        let accepted = call.act(self.cell, order).await;
        // A cell that did not answer may carry it out all the same.
        if accepted.as_ref().is_err_and(|error| error.status() == 409) {
            let digest = self.spec.digest();
            told(RebuildEvent::Refused { digest }).await?;
        }
        accepted
    }

    /// Asks the scheduler whether the host is feasible for the new image. The server keeps its
    /// allocation: nothing is claimed.
    async fn refusal(&self, call: &RoutedRequest<'_>) -> Option<Fault> {
        let (host, before, now) = self.check.clone()?;
        let (instance, ranker) = (self.id.0, call.core.ranker.clone());
        // Ranking holds the scheduler's lock for a moment.
        let checked = tokio::task::spawn_blocking(move || {
            ranker.decide(|scheduler, control| {
                let state = &control.placement;
                scheduler.check_rebuild(state, (instance, host.0), &now, &before)
            })
        });
        let why = match checked.await {
            Ok(Ok(())) => return None,
            Ok(Err(refusal)) => refusal.to_string(),
            Err(error) => error.to_string(),
        };
        Some(Fault {
            code: 500,
            message: format!("No valid host was found. The server cannot be rebuilt: {why}."),
            details: String::new(),
            at: call.at,
        })
    }
}

/// The new specification. With another image also the request of the original placement, and the
/// same with that image.
fn renewed(
    call: &RoutedRequest<'_>,
    control: &ControlState,
    seen: &ServerView<'_>,
    parsed: &RebuildRequest,
) -> ApiResult<(Spec, Option<(RequestSpec, RequestSpec)>)> {
    let mut spec = seen.stored.clone();
    let mut body = body::of(&spec)?;
    let mut requests = None;
    if body.server.image.as_ref() != Some(&parsed.image) {
        let before = body.request.clone();
        body.request.image = call.core.images().find(&parsed.image);
        requests = Some((before, body.request.clone()));
    }
    let server = &mut body.server;
    server.image = Some(parsed.image.clone());
    if let Some(address) = &parsed.access_ip_v4 {
        server.access_ip_v4.clone_from(address);
    }
    if let Some(address) = &parsed.access_ip_v6 {
        server.access_ip_v6.clone_from(address);
    }
    if let Some(disk) = parsed.disk_config {
        disk.clone_into(&mut server.disk_config);
    }
    if let Some(certificates) = &parsed.certificates {
        server.trusted_image_certificates.clone_from(certificates);
    }
    if let Some(key) = &parsed.key_name {
        server.public_key = match key {
            None => None,
            Some(name) => {
                let key = (seen.mapping.user.clone(), name.clone());
                let row = control.conductor.keypairs().get(&key);
                let row = row.ok_or_else(|| {
                    ApiError::field("rebuild.key_name", format!("there is no key pair {name}"))
                })?;
                Some(row.public_key.clone())
            }
        };
        server.key_name.clone_from(key);
    }
    renew_secrets(call, seen, parsed, (&mut spec, &mut body))?;
    spec.body = server::write(&body);
    Ok((spec, requests))
}

/// Replaces the secrets that the request gives; user data that it does not name stays.
fn renew_secrets(
    call: &RoutedRequest<'_>,
    seen: &ServerView<'_>,
    parsed: &RebuildRequest,
    (spec, body): (&mut Spec, &mut ServerBody),
) -> ApiResult<()> {
    spec.forget_build_secrets();
    if parsed.user_data.is_none() && parsed.admin_pass.is_none() {
        return Ok(());
    }
    let given = Fields {
        user_data: parsed.user_data.clone().flatten(),
        admin_pass: parsed.admin_pass.clone(),
    };
    body.server.secrets_mark = Some(secrets::new_mark());
    let sealed = secrets::seal(call, given)?;
    let (build, kept) = sealed.of_instance(seen.id).map_err(secrets::not_sealed)?;
    spec.build_secrets = build;
    if parsed.user_data.is_some() {
        spec.secrets = kept;
    }
    Ok(())
}

/// Changes the labels of the server.
async fn write_labels(call: &RoutedRequest<'_>, parsed: &RebuildRequest) -> ApiResult<()> {
    let writes = parsed.name.is_some()
        || parsed.description.is_some()
        || parsed.metadata.is_some()
        || parsed.hostname.is_some();
    if !writes {
        return Ok(());
    }
    labels::change(call, Rule::ServersRebuild, |labels| {
        if let Some(name) = &parsed.name {
            labels.name.clone_from(name);
        }
        if let Some(description) = &parsed.description {
            labels.description.clone_from(description);
        }
        if let Some(metadata) = &parsed.metadata {
            labels.metadata.clone_from(metadata);
        }
        if let Some(hostname) = &parsed.hostname {
            labels.hostname.clone_from(hostname);
        }
        Ok(())
    })
    .await?;
    Ok(())
}

pub(super) async fn rebuild(call: &RoutedRequest<'_>, parsed: &Value) -> ApiResult<Reply> {
    let parsed = read(call, parsed)?;
    let prepared = call
        .try_read(|control, views| RebuildPlan::of(call, control, views, &parsed))
        .await?;
    let (instance, cell) = (prepared.id, prepared.cell);
    let refusal = prepared.refusal(call).await;
    let is_accepted = refusal.is_none();
    if let Some(fault) = refusal {
        let fault = Box::new(fault);
        call.act(cell, CellOperation::RefuseRebuild { instance, fault })
            .await?;
    } else {
        prepared.order(call).await?;
        write_labels(call, &parsed).await?;
    }
    let sight = Visibility::of(call);
    let server = call.try_read(|control, views| {
        let seen = ServerView::find(control, views, instance);
        let mut seen = seen.ok_or_else(|| error::missing("server", &instance.to_string()))?;
        if is_accepted {
            // The response shows what was accepted, even if it has failed meanwhile.
            seen.rebuild = control.conductor.rebuilds().get(&instance);
        }
        let mut value = show::whole(call, &seen, sight);
        if !call.version.since(75) {
            withhold_newer(&mut value);
        }
        if call.version.since(57) {
            value["user_data"] =
                json!(secrets::user_data(call, &seen).as_ref().map(Secret::expose));
        }
        Ok(value)
    });
    Reply::value(202, &json!({"server": server.await?}))
}
