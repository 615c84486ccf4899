//! New servers: a request is validated, stored as build requests, and accepted.

use std::sync::Arc;

use placewright_auth::Rule;
use placewright_conductor::super_conductor::{
    self, Bound, Command, INSTANCE_BYTES, NewBuild, of_spec,
};
use placewright_conductor::{ControlState, InstanceId, Rules, SharedRow, Spec, SpecBody, Usage};
use placewright_control::usage_of;
use placewright_http::{ApiError, ApiResult, Reply};
use placewright_records::server;
use placewright_scheduler::request::{Destination, RequestSpec};
use placewright_scheduler::translate::translate;
use placewright_secrets::Fields;
use placewright_types::server::{OwnFields, ServerBody, ServerFields};
use serde_json::{Value, json};
use uuid::Uuid;

use super::body;
use super::common_fields::{access_address, certificates, check_hostname, disk_config};
use super::devices::{PARTS_MAX, boots_from_volume, is_first, read_boot};
use super::hints::Hints;
use super::{metadata, secrets, tags};
use crate::admin::zones;
use crate::error;
use crate::fields::{self, ObjectParser};
use crate::routed_request::RoutedRequest;

/// The most servers of one request.
const COUNT_MAX: i64 = 1000;

/// A create request after parsing, before anything that it refers to is looked up.
struct CreateRequest<'a> {
    name: &'a str,
    flavor: String,
    zone: Option<&'a str>,
    forced: Option<&'a str>,
    least: Option<u32>,
    count: u32,
    wants_reservation: bool,
    hints: Hints,
    destination: Option<Destination>,
    is_bfv: bool,
    hostname: Option<String>,
    server: ServerFields,
    secrets: Fields,
}

pub(crate) async fn create(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::ServersCreate)?;
    let json = call.json()?;
    let parsed = read(call, &json)?;
    let (request, public_key) = call
        .read(|control, _| look_up(call, control, &parsed))
        .await?;
    let usage = match translate(&request, call.core.translate()) {
        Ok(translation) => usage_of(&request.flavor, &translation),
        Err(error) => return Err(ApiError::bad_request(format!("{error}."))),
    };
    let is_empty_disk =
        request.flavor.root_gb == 0 && !parsed.is_bfv && parsed.server.image.is_some();
    if is_empty_disk && !call.is_allowed(Rule::ServersCreateZeroDisk) {
        let message = "With a flavor whose disk is 0, servers must boot from a volume.";
        return Err(ApiError::forbidden(message));
    }
    accept(call, &parsed, request, public_key, usage).await
}

/// Stores the build requests.
async fn accept(
    call: &RoutedRequest<'_>,
    parsed: &CreateRequest<'_>,
    mut request: RequestSpec,
    public_key: Option<String>,
    usage: Usage,
) -> ApiResult<Reply> {
    let new_id = |_| InstanceId(Uuid::new_v4());
    let instances: Vec<InstanceId> = (0..parsed.count).map(new_id).collect();
    let rules = parsed.hints.bind(&mut request, &instances);
    let reservation = Uuid::new_v4();
    let reservation_id = format!("r-{:08x}", reservation.as_fields().0);
    let mut body = ServerBody {
        request,
        min_count: parsed.least,
        server: parsed.server.clone(),
        ..ServerBody::default()
    };
    body.server.reservation_id.clone_from(&reservation_id);
    body.server.public_key = public_key;
    let has_secrets = !parsed.secrets.is_empty();
    body.server.secrets_mark = has_secrets.then(secrets::new_mark);
    let common = server::common(&body);
    check_size(call, parsed.count, common.len() + parsed.secrets.len())?;
    let sealed = secrets::seal(call, parsed.secrets.clone())?;
    let rules = Rules::from(rules);
    let mut builds = Vec::with_capacity(parsed.count as usize);
    for (index, instance) in (0..).zip(instances) {
        let name = if parsed.count == 1 {
            parsed.name.to_owned()
        } else {
            format!("{}-{}", parsed.name, index + 1)
        };
        let hostname = match &parsed.hostname {
            Some(hostname) => hostname.clone(),
            None => body::hostname(&name).unwrap_or_else(|| format!("server-{instance}")),
        };
        let own = server::own(&OwnFields {
            launch_index: index,
            hostname,
        });
        let (build_secrets, secrets) = sealed.of_instance(instance).map_err(secrets::not_sealed)?;
        let spec = Spec {
            name,
            project: call.project().to_owned(),
            user: call.user().to_owned(),
            group: parsed.hints.group,
            rules: rules.clone(),
            body: SpecBody::Row(SharedRow::parted(Arc::clone(&common), own)),
            created_at: call.at,
            usage: usage.clone(),
            build_secrets,
            secrets,
        };
        builds.push(NewBuild { instance, spec });
    }
    let first = builds.first().map_or(Uuid::nil(), |build| build.instance.0);
    call.note_created(builds.iter().map(|build| build.instance));
    submit(call, parsed.hints.group, reservation, builds).await?;
    accepted(call, parsed, first, &reservation_id)
}

/// Submits the build requests to control.
async fn submit(
    call: &RoutedRequest<'_>,
    group: Option<Uuid>,
    reservation: Uuid,
    builds: Vec<NewBuild>,
) -> ApiResult<()> {
    let most = call.core.limits().server_group_members_max;
    let specs = builds.iter().map(|build| &build.spec);
    let bytes: u64 = specs.map(|spec| INSTANCE_BYTES + of_spec(spec)).sum();
    let mut bounds = vec![call.room_for(call.project(), bytes)];
    bounds.extend(group.map(|group| Bound::Members {
        group,
        more: builds.len(),
        most,
    }));
    let command = Command::Bounded {
        bounds,
        command: Box::new(Command::CreateBuilds {
            reservation,
            builds,
        }),
    };
    match call.submit(command).await? {
        Ok(_) => {}
        Err(super_conductor::Refusal::TooMany { .. }) => {
            return Err(ApiError::forbidden(format!(
                "The server group would have more than {most} members; \
                 compute.server_group_members_max allows no more."
            )));
        }
        // Only the server group is checked again when the command is decided.
        Err(super_conductor::Refusal::NotFound { what, id }) => {
            return Err(ApiError::bad_request(format!("There is no {what} {id}.")));
        }
        Err(refusal) => return Err(error::of_refusal(refusal)),
    }
    Ok(())
}

/// The response to a request that was accepted.
fn accepted(
    call: &RoutedRequest<'_>,
    parsed: &CreateRequest<'_>,
    first: Uuid,
    reservation_id: &str,
) -> ApiResult<Reply> {
    if parsed.wants_reservation {
        return Reply::value(202, &json!({"reservation_id": reservation_id}));
    }
    let path = format!("/servers/{first}");
    let groups = &parsed.server.security_groups;
    let groups: Vec<Value> = match groups.is_empty() {
        true => vec![json!({"name": "default"})],
        false => groups.iter().map(|name| json!({"name": name})).collect(),
    };
    let mut server = json!({
        "id": first,
        "links": call.links(&path),
        "OS-DCF:diskConfig": parsed.server.disk_config,
        "security_groups": groups,
    });
    if let Some(password) = &parsed.secrets.admin_pass {
        server["adminPass"] = json!(password.expose());
    }
    let reply = Reply::value(202, &json!({"server": server}))?;
    Ok(reply.with_location(call.link(&path)))
}

/// Checks the size of the records: each cell stores a whole record of each server.
fn check_size(call: &RoutedRequest<'_>, count: u32, bytes: usize) -> ApiResult<()> {
    let most = call.core.limits().reservation_bytes_max;
    if bytes.saturating_mul(count as usize) <= most {
        return Ok(());
    }
    Err(ApiError::new(
        413,
        format!(
            "{count} servers of {bytes} bytes each are too much for one request; \
             compute.reservation_bytes_max allows {most} bytes."
        ),
    ))
}

/// Looks up what the request refers to: flavor, key pair, group, zone, hosts.
fn look_up(
    call: &RoutedRequest<'_>,
    control: &ControlState,
    parsed: &CreateRequest<'_>,
) -> ApiResult<(RequestSpec, Option<String>)> {
    let conductor = &control.conductor;
    let flavor = crate::flavors::find(call, control, &parsed.flavor).map_err(|_| {
        ApiError::field(
            "server.flavorRef",
            format!("there is no flavor {}", parsed.flavor),
        )
    })?;
    let mut request = RequestSpec::new(flavor_of(flavor));
    call.project().clone_into(&mut request.project_id);
    call.user().clone_into(&mut request.user_id);
    request.num_instances = parsed.count;
    request.is_bfv = parsed.is_bfv;
    parsed.hints.look_up(call, control, &mut request)?;
    request
        .requested_destination
        .clone_from(&parsed.destination);
    let image = parsed.server.image.as_deref();
    request.image = image.and_then(|image| call.core.images().find(image));
    look_up_place(control, parsed, &mut request)?;
    let key = match &parsed.server.key_name {
        None => None,
        Some(name) => {
            let key = (call.user().to_owned(), name.clone());
            let row = conductor.keypairs().get(&key);
            let row = row.ok_or_else(|| {
                ApiError::field("server.key_name", format!("there is no key pair {name}"))
            })?;
            Some(row.public_key.clone())
        }
    };
    Ok((request, key))
}

/// Looks up the zone and the hosts that the request names.
fn look_up_place(
    control: &ControlState,
    parsed: &CreateRequest<'_>,
    request: &mut RequestSpec,
) -> ApiResult<()> {
    let conductor = &control.conductor;
    if let Some(zone) = parsed.zone {
        if !zones::exists(control, zone) {
            let message = format!("there is no zone {zone}");
            return Err(ApiError::field("server.availability_zone", message));
        }
        request.availability_zone = Some(zone.to_owned());
    }
    let known = |field, host: &str| {
        if conductor.host_names().contains_key(host) {
            return Ok(());
        }
        Err(ApiError::field(field, format!("there is no host {host}")))
    };
    if let Some(forced) = parsed.forced {
        let (host, node) = forced.split_once(':').unwrap_or((forced, ""));
        for (name, names) in [
            (host, &mut request.force_hosts),
            (node, &mut request.force_nodes),
        ] {
            if !name.is_empty() {
                known("server.availability_zone", name)?;
                names.push(name.to_owned());
            }
        }
    }
    if let Some(destination) = &parsed.destination {
        for (field, name) in [
            ("server.host", &destination.host),
            ("server.hypervisor_hostname", &destination.node),
        ] {
            if let Some(name) = name {
                known(field, name)?;
            }
        }
    }
    Ok(())
}

/// A flavor in the form that the scheduler needs.
pub(crate) fn flavor_of(flavor: &super_conductor::Flavor) -> placewright_scheduler::flavor::Flavor {
    placewright_scheduler::flavor::Flavor {
        name: flavor.name.clone(),
        vcpus: flavor.vcpus,
        memory_mb: flavor.memory_mb,
        root_gb: flavor.root_gb,
        ephemeral_gb: flavor.ephemeral_gb,
        swap_mb: flavor.swap_mb,
        extra_specs: flavor.extra_specs.clone(),
    }
}

/// Parses the body of a create request.
fn read<'a>(call: &RoutedRequest<'_>, json: &'a Value) -> ApiResult<CreateRequest<'a>> {
    let mut fields = ObjectParser::of_body(json)?;
    let mut parsed = fields.object("server")?;
    let version = call.version;
    let name = parsed.name("name")?;
    let name = name.ok_or_else(|| parsed.wrong("name", "it is missing"))?;
    let flavor = flavor_ref(&mut parsed)?;
    let mut server = ServerFields {
        flavor_id: flavor.clone(),
        ..ServerFields::default()
    };
    read_boot(call, &mut parsed, &mut server)?;
    let is_bfv = boots_from_volume(&server.block_device_mapping_v2);
    read_image(&mut parsed, &mut server)?;
    if let Some(value) = parsed.take("metadata") {
        server.metadata = metadata::read("server.metadata", value)?;
    }
    if version.since(19) {
        let description = parsed.nullable_text("description", 0..=255)?.flatten();
        server.description = description.map(str::to_owned);
    }
    if version.since(52)
        && let Some(value) = parsed.take("tags")
    {
        server.tags = tags::read("server.tags", value)?;
    }
    let mut hostname = None;
    if version.since(90)
        && let Some(text) = parsed.text("hostname", 2..=255)?
    {
        check_hostname(call, "server.hostname", text)?;
        hostname = Some(text.to_owned());
    }
    read_rest(call, &mut parsed, &mut server)?;
    let secrets = secrets::read(&mut parsed)?;
    let (zone, forced, destination) = read_place(call, &mut parsed)?;
    let least = parsed.integer("min_count", 1..=COUNT_MAX)?;
    let most = parsed.integer("max_count", 1..=COUNT_MAX)?;
    let most = most.unwrap_or(least.unwrap_or(1));
    if least.is_some_and(|least| least > most) {
        return Err(parsed.wrong("min_count", "it must not be more than max_count"));
    }
    let wants_reservation = parsed.boolean("return_reservation_id")?.unwrap_or(false);
    parsed.finish()?;
    let count = u32::try_from(most).unwrap_or(1);
    let hints = Hints::read(call, &mut fields, count)?;
    fields.finish()?;
    Ok(CreateRequest {
        name,
        flavor,
        zone,
        forced,
        least: least.and_then(|least| u32::try_from(least).ok()),
        count,
        wants_reservation,
        hints,
        destination,
        is_bfv,
        hostname,
        server,
        secrets,
    })
}

/// The flavor id in a field; it may be a URL that ends with the id.
pub(crate) fn flavor_ref(fields: &mut ObjectParser<'_>) -> ApiResult<String> {
    match fields.need("flavorRef")? {
        Value::Number(number) => Ok(number.to_string()),
        Value::String(text) if (1..=255).contains(&text.len()) => {
            Ok(text.rsplit('/').next().unwrap_or(text).to_owned())
        }
        other => Err(fields::wrong(
            &fields.path_of("flavorRef"),
            "the id of a flavor",
            other,
        )),
    }
}

/// The image, which is required unless the server boots from a volume.
fn read_image(parsed: &mut ObjectParser<'_>, server: &mut ServerFields) -> ApiResult<()> {
    let image = parsed.text("imageRef", 0..=255)?.unwrap_or("");
    if image.is_empty() {
        let boots = server.block_device_mapping_v2.iter().any(is_first);
        if !boots {
            return Err(parsed.wrong("imageRef", "an image or a volume to boot from is needed"));
        }
        return Ok(());
    }
    server.image = Some(image_id(&parsed.path_of("imageRef"), image)?);
    Ok(())
}

/// The UUID of an image; it may be a URL that ends with the UUID.
pub(crate) fn image_id(path: &str, text: &str) -> ApiResult<String> {
    let last = text.rsplit('/').next().unwrap_or(text);
    match Uuid::try_parse(last) {
        Ok(id) => Ok(id.to_string()),
        Err(_) => Err(ApiError::field(
            path,
            format!("it must be the UUID of an image, not {text:?}"),
        )),
    }
}

fn read_rest(
    call: &RoutedRequest<'_>,
    parsed: &mut ObjectParser<'_>,
    server: &mut ServerFields,
) -> ApiResult<()> {
    server.key_name = parsed
        .nullable_text("key_name", 1..=255)?
        .flatten()
        .map(str::to_owned);
    server.config_drive = parsed.boolean("config_drive")?.unwrap_or(false);
    server.access_ip_v4 = access_address(parsed, "accessIPv4")?.flatten();
    server.access_ip_v6 = access_address(parsed, "accessIPv6")?.flatten();
    disk_config(parsed)?
        .unwrap_or("MANUAL")
        .clone_into(&mut server.disk_config);
    if let Some(value) = parsed.take("security_groups") {
        let path = parsed.path_of("security_groups");
        let all = fields::list(&path, value, PARTS_MAX)?;
        for (place, one) in all.iter().enumerate() {
            let mut group = ObjectParser::new(format!("{path}[{place}]"), one)?;
            let name = group.needed_text("name", 1..=255)?;
            group.finish()?;
            server.security_groups.push(name.to_owned());
        }
    }
    if !call.version.since(57) && parsed.take("personality").is_some() {
        let message = "files cannot be put into servers; use user_data";
        return Err(parsed.wrong("personality", message));
    }
    if call.version.since(63) {
        server.trusted_image_certificates = certificates(parsed)?;
    }
    Ok(())
}

/// The requested zone, the host that an administrator forces, and the requested destination.
type RequestedPlace<'a> = (Option<&'a str>, Option<&'a str>, Option<Destination>);

/// Parses zone, forced host and requested host.
fn read_place<'a>(
    call: &RoutedRequest<'_>,
    parsed: &mut ObjectParser<'a>,
) -> ApiResult<RequestedPlace<'a>> {
    let zone = parsed
        .nullable_text("availability_zone", 1..=255)?
        .flatten();
    let (zone, forced) = match zone.and_then(|zone| zone.split_once(':')) {
        Some((zone, forced)) => {
            if forced.matches(':').count() > 1 {
                let message = "it must be a zone, zone:host, zone:host:node or zone::node";
                return Err(parsed.wrong("availability_zone", message));
            }
            call.allow(Rule::ServersCreateForcedHost)?;
            (Some(zone).filter(|zone| !zone.is_empty()), Some(forced))
        }
        None => (zone, None),
    };
    let (mut host, mut node) = (None, None);
    if call.version.since(74) {
        host = parsed.text("host", 1..=255)?;
        node = parsed.text("hypervisor_hostname", 1..=255)?;
    }
    if host.is_none() && node.is_none() {
        return Ok((zone, forced, None));
    }
    call.allow(Rule::ServersCreateDestination)?;
    if forced.is_some() {
        let message = "it cannot name a host when host or hypervisor_hostname does";
        return Err(parsed.wrong("availability_zone", message));
    }
    let destination = Destination {
        host: host.map(str::to_owned),
        node: node.map(str::to_owned),
        ..Destination::default()
    };
    Ok((zone, None, Some(destination)))
}
