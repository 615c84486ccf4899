//! New servers: a request is checked, and accepted by storing a build request for each server.

use std::sync::Arc;

use placewright_auth::Rule;
use placewright_conductor::super_conductor::{
    self, Command, INSTANCE_BYTES, LimitCheck, NewBuild, spec_bytes,
};
use placewright_conductor::{ControlState, InstanceId, Rules, SharedRow, Spec, SpecBody, Usage};
use placewright_control::usage_of;
use placewright_http::{ApiError, ApiResult, Reply};
use placewright_records::server as server_forms;
use placewright_scheduler::request::RequestSpec;
use placewright_scheduler::translate::translate;
use placewright_types::server::{OwnFields, ServerBody};
use serde_json::{Value, json};
use uuid::Uuid;

use super::create_request::{self, CreateRequest};
use super::{action_records, body, secrets};
use crate::admin::zones;
use crate::routed_request::{CHANGE_TRIES_MAX, RoutedRequest};
use crate::{error, flavors, image_lookup};

pub(crate) async fn create(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::ServersCreate)?;
    let body_json = request.json()?;
    let create_request = create_request::parse(request, &body_json)?;
    let new_id = |_| InstanceId(Uuid::new_v4());
    let ids: Vec<InstanceId> = (0..create_request.count).map(new_id).collect();
    let mut unnoted_ids = Some(&ids);
    for _ in 0..CHANGE_TRIES_MAX {
        let (looked_up, reading) =
            request.read_for_command(|control, _| look_up(request, control, &create_request));
        let made =
            looked_up.and_then(|looked_up| make_builds(request, &create_request, looked_up, &ids));
        let new_builds = match made {
            Ok(new_builds) => new_builds,
            Err(error) if request.wait_until_durable(reading).await => return Err(error),
            Err(_) => continue,
        };
        // The ids are noted before the command is submitted, so that the line of the audit log has them even if this
        // request ends before the command is answered.
        if let Some(ids) = unnoted_ids.take() {
            request.note_created(ids);
        }
        let reservation_id = new_builds.reservation_id.clone();
        let command = command(request, create_request.hints.group, new_builds);
        let Some(decision) = request.submit_after(reading, command).await.transpose() else {
            continue;
        };
        check_decision(request, decision?)?;
        let first_id = ids.first().map_or(Uuid::nil(), |id| id.0);
        return accepted_response(request, &create_request, first_id, &reservation_id);
    }
    Err(error::unavailable(
        "The store fails to keep changes: try again later.",
    ))
}

/// The objects that a request refers to, as they were found in the state.
struct LookedUp {
    request_spec: RequestSpec,
    /// The public key of the key pair that the request names, if it names one.
    public_key: Option<String>,
}

/// The servers of an accepted request.
struct NewBuilds {
    /// The UUID of the reservation (Nova: all servers of one request).
    reservation: Uuid,
    /// The id of the reservation, as the API shows it.
    reservation_id: String,
    builds: Vec<NewBuild>,
}

/// Checks a request against the objects that it refers to, and makes the specification of each of its servers,
/// `instances`.
fn make_builds(
    request: &RoutedRequest<'_>,
    create_request: &CreateRequest<'_>,
    looked_up: LookedUp,
    instances: &[InstanceId],
) -> ApiResult<NewBuilds> {
    let LookedUp {
        mut request_spec,
        public_key,
    } = looked_up;
    let usage = check(request, create_request, &request_spec)?;
    let hints = &create_request.hints;
    let rules = hints.resolve_rules(&mut request_spec, instances);
    let reservation = request.request_uuid;
    let reservation_id = format!("r-{:08x}", reservation.as_fields().0);
    let mut body = ServerBody {
        request: request_spec,
        min_count: create_request.count_min,
        server: create_request.server.clone(),
        ..ServerBody::default()
    };
    body.server.reservation_id.clone_from(&reservation_id);
    body.server.request_id = Some(action_records::format_id(request.request_uuid));
    body.server.traceparent = placewright_spans::current().map(|span| span.to_string());
    body.server.public_key = public_key;
    let has_secrets = !create_request.secrets.is_empty();
    body.server.secrets_mark = has_secrets.then(secrets::new_mark);
    // The bodies of all servers of the request share this part, so that control stores it once.
    let common_part = server_forms::common(&body);
    check_size(
        request,
        create_request.count,
        common_part.len() + create_request.secrets.byte_len(),
    )?;
    let sealed = secrets::seal(request, create_request.secrets.clone())?;
    let rules = Rules::from(rules);
    let mut builds = Vec::with_capacity(create_request.count as usize);
    for (index, instance) in (0..).zip(instances.iter().copied()) {
        let name = create_request.name_of(index);
        let hostname = match &create_request.hostname {
            Some(hostname) => hostname.clone(),
            None => body::hostname_of_name(&name).unwrap_or_else(|| format!("server-{instance}")),
        };
        let own_part = server_forms::own(&OwnFields {
            launch_index: index,
            hostname,
        });
        let (build_secrets, lasting_secrets) =
            sealed.for_instance(instance).map_err(secrets::not_sealed)?;
        let spec = Spec {
            name,
            project: request.project().to_owned(),
            user: request.user().to_owned(),
            group: hints.group,
            rules: rules.clone(),
            body: SpecBody::Row(SharedRow::from_parts(Arc::clone(&common_part), own_part)),
            created_at: request.now,
            usage: usage.clone(),
            build_secrets,
            secrets: lasting_secrets,
        };
        builds.push(NewBuild { instance, spec });
    }
    Ok(NewBuilds {
        reservation,
        reservation_id,
        builds,
    })
}

/// Checks that servers can be scheduled and that the caller may boot them from their image. Returns what each server
/// counts for in quotas.
fn check(
    request: &RoutedRequest<'_>,
    create_request: &CreateRequest<'_>,
    request_spec: &RequestSpec,
) -> ApiResult<Usage> {
    let translation = translate(request_spec, request.api_state.translate_options())
        .map_err(|error| ApiError::bad_request(format!("{error}.")))?;
    let has_zero_disk = request_spec.flavor.root_gb == 0
        && !create_request.is_bfv
        && create_request.server.image.is_some();
    if has_zero_disk && !request.is_allowed(Rule::ServersCreateZeroDisk) {
        let message = "With a flavor whose disk is 0, servers must boot from a volume.";
        return Err(ApiError::forbidden(message));
    }
    Ok(usage_of(&request_spec.flavor, &translation))
}

/// The one command that accepts all servers of a request.
fn command(request: &RoutedRequest<'_>, group: Option<Uuid>, new_builds: NewBuilds) -> Command {
    let NewBuilds {
        reservation,
        builds,
        ..
    } = new_builds;
    let specs = builds.iter().map(|build| &build.spec);
    let bytes: u64 = specs.map(|spec| INSTANCE_BYTES + spec_bytes(spec)).sum();
    let mut checks = vec![request.project_bytes_check(request.project(), bytes)];
    checks.extend(group.map(|group| LimitCheck::Members {
        group,
        added: builds.len(),
        max: request.api_state.limits().server_group_members_max,
    }));
    Command::Limited {
        checks,
        command: Box::new(Command::CreateBuilds {
            reservation,
            builds,
        }),
    }
}

/// Turns a refusal of the builds into an error.
fn check_decision(
    request: &RoutedRequest<'_>,
    decision: Result<super_conductor::Outcome, super_conductor::Refusal>,
) -> ApiResult<()> {
    match decision {
        Ok(_) => Ok(()),
        Err(super_conductor::Refusal::TooMany { .. }) => {
            let members_max = request.api_state.limits().server_group_members_max;
            Err(ApiError::forbidden(format!(
                "The server group would have more than {members_max} members; \
                 compute.server_group_members_max allows no more."
            )))
        }
        // When the command is decided, only the existence of the server group is checked again.
        Err(super_conductor::Refusal::NotFound { what, id }) => {
            Err(ApiError::bad_request(format!("There is no {what} {id}.")))
        }
        Err(refusal) => Err(error::from_refusal(refusal)),
    }
}

/// The response to a request that was accepted.
fn accepted_response(
    request: &RoutedRequest<'_>,
    create_request: &CreateRequest<'_>,
    first_id: Uuid,
    reservation_id: &str,
) -> ApiResult<Reply> {
    if create_request.wants_reservation {
        return Reply::value(202, &json!({"reservation_id": reservation_id}));
    }
    let path = format!("/servers/{first_id}");
    let names = &create_request.server.security_groups;
    let security_groups: Vec<Value> = match names.is_empty() {
        true => vec![json!({"name": "default"})],
        false => names.iter().map(|name| json!({"name": name})).collect(),
    };
    let mut server = json!({
        "id": first_id,
        "links": request.links(&path),
        "OS-DCF:diskConfig": create_request.server.disk_config,
        "security_groups": security_groups,
    });
    if let Some(password) = &create_request.secrets.admin_pass {
        server["adminPass"] = json!(password.expose());
    }
    let reply = Reply::value(202, &json!({"server": server}))?;
    Ok(reply.with_location(request.link(&path)))
}

/// Checks the total size of the records of `count` servers: each cell stores a complete record of each of its servers.
fn check_size(request: &RoutedRequest<'_>, count: u32, bytes_each: usize) -> ApiResult<()> {
    let bytes_max = request.api_state.limits().reservation_bytes_max;
    if bytes_each.saturating_mul(count as usize) <= bytes_max {
        return Ok(());
    }
    Err(ApiError::new(
        413,
        format!(
            "{count} servers of {bytes_each} bytes each are too much for one request; \
             compute.reservation_bytes_max allows {bytes_max} bytes."
        ),
    ))
}

/// Looks up the objects that the request refers to: flavor, key pair, server group, zone, hosts.
fn look_up(
    request: &RoutedRequest<'_>,
    control: &ControlState,
    create_request: &CreateRequest<'_>,
) -> ApiResult<LookedUp> {
    let flavor = flavors::find(request, control, &create_request.flavor_id).map_err(|_| {
        ApiError::field(
            "server.flavorRef",
            format!("there is no flavor {}", create_request.flavor_id),
        )
    })?;
    let mut request_spec = RequestSpec::new(flavors::for_scheduler(flavor));
    request.project().clone_into(&mut request_spec.project_id);
    request.user().clone_into(&mut request_spec.user_id);
    request_spec.num_instances = create_request.count;
    request_spec
        .requested_networks
        .clone_from(&create_request.port_requests);
    let device_profiles = &request.api_state.options.device_profiles;
    request_spec.device_profiles =
        device_profiles.of_flavor(&request_spec.flavor, "server.flavorRef")?;
    request_spec.is_bfv = create_request.is_bfv;
    create_request
        .hints
        .look_up(request, control, &mut request_spec)?;
    request_spec
        .requested_destination
        .clone_from(&create_request.destination);
    let image = ("server.imageRef", create_request.server.image.as_deref());
    request_spec.image = image_lookup::look_up(request, control, image, &request_spec.flavor)?;
    look_up_destination(control, create_request, &mut request_spec)?;
    let public_key = match &create_request.server.key_name {
        None => None,
        Some(name) => {
            let keypair_id = (request.user().to_owned(), name.clone());
            let keypair = control.conductor.keypairs().get(&keypair_id);
            let keypair = keypair.ok_or_else(|| {
                ApiError::field("server.key_name", format!("there is no key pair {name}"))
            })?;
            Some(keypair.public_key.clone())
        }
    };
    Ok(LookedUp {
        request_spec,
        public_key,
    })
}

/// Looks up the zone and the hosts that the request names.
fn look_up_destination(
    control: &ControlState,
    create_request: &CreateRequest<'_>,
    request_spec: &mut RequestSpec,
) -> ApiResult<()> {
    if let Some(zone) = create_request.zone {
        if !zones::exists(control, zone) {
            let message = format!("there is no zone {zone}");
            return Err(ApiError::field("server.availability_zone", message));
        }
        request_spec.availability_zone = Some(zone.to_owned());
    }
    let check_host_exists = |field, host: &str| {
        if control.conductor.host_names().contains_key(host) {
            return Ok(());
        }
        Err(ApiError::field(field, format!("there is no host {host}")))
    };
    if let Some(forced_host) = create_request.forced_host {
        let (host, node) = forced_host.split_once(':').unwrap_or((forced_host, ""));
        for (name, names) in [
            (host, &mut request_spec.force_hosts),
            (node, &mut request_spec.force_nodes),
        ] {
            if !name.is_empty() {
                check_host_exists("server.availability_zone", name)?;
                names.push(name.to_owned());
            }
        }
    }
    if let Some(destination) = &create_request.destination {
        for (field, name) in [
            ("server.host", &destination.host),
            ("server.hypervisor_hostname", &destination.node),
        ] {
            if let Some(name) = name {
                check_host_exists(field, name)?;
            }
        }
    }
    Ok(())
}
