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
use placewright_scheduler::request::{Destination, RequestSpec};
use placewright_scheduler::translate::translate;
use placewright_secrets::SecretFields;
use placewright_types::server::{OwnFields, ServerBody, ServerFields};
use serde_json::{Value, json};
use uuid::Uuid;

use super::common_fields::{check_hostname, parse_address, parse_certificates, parse_disk_config};
use super::devices::{LIST_ITEMS_MAX, boots_from_volume, is_boot_device, parse_devices};
use super::hints::Hints;
use super::{action_records, body};
use super::{metadata, secrets, tags};
use crate::admin::zones;
use crate::fields::{self, ObjectParser};
use crate::routed_request::RoutedRequest;
use crate::{error, flavors, image_lookup};

/// The maximum number of servers of one request.
const COUNT_MAX: i64 = 1000;

/// A parsed create request. The objects that it refers to are not looked up yet.
struct CreateRequest<'a> {
    name: &'a str,
    flavor_id: String,
    zone: Option<&'a str>,
    /// `host`, `host:node` or `:node`.
    forced_host: Option<&'a str>,
    count_min: Option<u32>,
    count: u32,
    wants_reservation: bool,
    hints: Hints,
    destination: Option<Destination>,
    /// Whether the server boots from a volume.
    is_bfv: bool,
    hostname: Option<String>,
    server: ServerFields,
    secrets: SecretFields,
}

pub(crate) async fn create(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::ServersCreate)?;
    let body_json = request.json()?;
    let create_request = parse(request, &body_json)?;
    let (request_spec, public_key) = request
        .read(|control, _| look_up(request, control, &create_request))
        .await?;
    let usage = match translate(&request_spec, request.api_state.translate_options()) {
        Ok(translation) => usage_of(&request_spec.flavor, &translation),
        Err(error) => return Err(ApiError::bad_request(format!("{error}."))),
    };
    let has_zero_disk = request_spec.flavor.root_gb == 0
        && !create_request.is_bfv
        && create_request.server.image.is_some();
    if has_zero_disk && !request.is_allowed(Rule::ServersCreateZeroDisk) {
        let message = "With a flavor whose disk is 0, servers must boot from a volume.";
        return Err(ApiError::forbidden(message));
    }
    accept(request, &create_request, request_spec, public_key, usage).await
}

/// Accepts a request: makes the specifications of its servers, and stores a build request for each.
async fn accept(
    request: &RoutedRequest<'_>,
    create_request: &CreateRequest<'_>,
    mut request_spec: RequestSpec,
    public_key: Option<String>,
    usage: Usage,
) -> ApiResult<Reply> {
    let new_id = |_| InstanceId(Uuid::new_v4());
    let instances: Vec<InstanceId> = (0..create_request.count).map(new_id).collect();
    let hints = &create_request.hints;
    let rules = hints.resolve_rules(&mut request_spec, &instances);
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
    body.server.public_key = public_key;
    let has_secrets = !create_request.secrets.is_empty();
    body.server.secrets_mark = has_secrets.then(secrets::new_mark);
    let common_part = server_forms::common(&body);
    check_size(
        request,
        create_request.count,
        common_part.len() + create_request.secrets.byte_len(),
    )?;
    let sealed = secrets::seal(request, create_request.secrets.clone())?;
    let rules = Rules::from(rules);
    let mut builds = Vec::with_capacity(create_request.count as usize);
    for (index, instance) in (0..).zip(instances) {
        let name = if create_request.count == 1 {
            create_request.name.to_owned()
        } else {
            format!("{}-{}", create_request.name, index + 1)
        };
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
    let first_id = builds.first().map_or(Uuid::nil(), |build| build.instance.0);
    request.note_created(builds.iter().map(|build| build.instance));
    submit(request, hints.group, reservation, builds).await?;
    accepted_response(request, create_request, first_id, &reservation_id)
}

/// Submits the build requests to control as one command.
async fn submit(
    request: &RoutedRequest<'_>,
    group: Option<Uuid>,
    reservation: Uuid,
    builds: Vec<NewBuild>,
) -> ApiResult<()> {
    let members_max = request.api_state.limits().server_group_members_max;
    let specs = builds.iter().map(|build| &build.spec);
    let bytes: u64 = specs.map(|spec| INSTANCE_BYTES + spec_bytes(spec)).sum();
    let mut checks = vec![request.project_bytes_check(request.project(), bytes)];
    checks.extend(group.map(|group| LimitCheck::Members {
        group,
        added: builds.len(),
        max: members_max,
    }));
    let command = Command::Limited {
        checks,
        command: Box::new(Command::CreateBuilds {
            reservation,
            builds,
        }),
    };
    match request.submit(command).await? {
        Ok(_) => {}
        Err(super_conductor::Refusal::TooMany { .. }) => {
            return Err(ApiError::forbidden(format!(
                "The server group would have more than {members_max} members; \
                 compute.server_group_members_max allows no more."
            )));
        }
        // When the command is decided, only the existence of the server group is checked again.
        Err(super_conductor::Refusal::NotFound { what, id }) => {
            return Err(ApiError::bad_request(format!("There is no {what} {id}.")));
        }
        Err(refusal) => return Err(error::from_refusal(refusal)),
    }
    Ok(())
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
/// Returns the request for the scheduler, and the public key.
fn look_up(
    request: &RoutedRequest<'_>,
    control: &ControlState,
    create_request: &CreateRequest<'_>,
) -> ApiResult<(RequestSpec, Option<String>)> {
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
    Ok((request_spec, public_key))
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

/// Parses the body of a create request.
fn parse<'a>(request: &RoutedRequest<'_>, body_json: &'a Value) -> ApiResult<CreateRequest<'a>> {
    let mut body_parser = ObjectParser::of_body(body_json)?;
    let mut parser = body_parser.object("server")?;
    let version = request.version;
    let name = parser.name("name")?;
    let name = name.ok_or_else(|| parser.field_error("name", "it is missing"))?;
    let flavor_id = parse_flavor_ref(&mut parser)?;
    let mut server = ServerFields {
        flavor_id: flavor_id.clone(),
        ..ServerFields::default()
    };
    parse_devices(request, &mut parser, &mut server)?;
    let is_bfv = boots_from_volume(&server.block_device_mapping_v2);
    parse_image(&mut parser, &mut server)?;
    if let Some(value) = parser.take("metadata") {
        server.metadata = metadata::parse("server.metadata", value)?;
    }
    if version.since(19) {
        let description = parser.nullable_text("description", 0..=255)?.flatten();
        server.description = description.map(str::to_owned);
    }
    if version.since(52)
        && let Some(value) = parser.take("tags")
    {
        server.tags = tags::parse("server.tags", value)?;
    }
    let mut hostname = None;
    if version.since(90)
        && let Some(text) = parser.text("hostname", 2..=255)?
    {
        check_hostname(request, "server.hostname", text)?;
        hostname = Some(text.to_owned());
    }
    parse_other_fields(request, &mut parser, &mut server)?;
    let secrets = secrets::parse(&mut parser)?;
    let (zone, forced_host, destination) = parse_destination(request, &mut parser)?;
    let count_min = parser.integer("min_count", 1..=COUNT_MAX)?;
    let count_max = parser.integer("max_count", 1..=COUNT_MAX)?;
    let count_max = count_max.unwrap_or(count_min.unwrap_or(1));
    if count_min.is_some_and(|count_min| count_min > count_max) {
        return Err(parser.field_error("min_count", "it must not be more than max_count"));
    }
    let wants_reservation = parser.boolean("return_reservation_id")?.unwrap_or(false);
    parser.finish()?;
    let count = u32::try_from(count_max).unwrap_or(1);
    let hints = Hints::parse(request, &mut body_parser, count)?;
    body_parser.finish()?;
    Ok(CreateRequest {
        name,
        flavor_id,
        zone,
        forced_host,
        count_min: count_min.and_then(|count_min| u32::try_from(count_min).ok()),
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

/// Parses the field with the flavor's id, which may be a URL that ends with the id.
pub(crate) fn parse_flavor_ref(parser: &mut ObjectParser<'_>) -> ApiResult<String> {
    match parser.take_required("flavorRef")? {
        Value::Number(number) => Ok(number.to_string()),
        Value::String(text) if (1..=255).contains(&text.len()) => {
            Ok(text.rsplit('/').next().unwrap_or(text).to_owned())
        }
        other => Err(fields::type_error(
            &parser.path_of("flavorRef"),
            "the id of a flavor",
            other,
        )),
    }
}

/// Parses the image, which is required unless a block device is the boot device.
fn parse_image(parser: &mut ObjectParser<'_>, server: &mut ServerFields) -> ApiResult<()> {
    let image = parser.text("imageRef", 0..=255)?.unwrap_or("");
    if image.is_empty() {
        let has_boot_device = server.block_device_mapping_v2.iter().any(is_boot_device);
        if !has_boot_device {
            return Err(
                parser.field_error("imageRef", "an image or a volume to boot from is needed")
            );
        }
        return Ok(());
    }
    server.image = Some(parse_image_id(&parser.path_of("imageRef"), image)?);
    Ok(())
}

/// Parses the UUID of an image, which may be a URL that ends with the UUID.
pub(crate) fn parse_image_id(path: &str, text: &str) -> ApiResult<String> {
    let last = text.rsplit('/').next().unwrap_or(text);
    match Uuid::try_parse(last) {
        Ok(id) => Ok(id.to_string()),
        Err(_) => Err(ApiError::field(
            path,
            format!("it must be the UUID of an image, not {text:?}"),
        )),
    }
}

/// Parses fields that do not depend on other fields.
fn parse_other_fields(
    request: &RoutedRequest<'_>,
    parser: &mut ObjectParser<'_>,
    server: &mut ServerFields,
) -> ApiResult<()> {
    server.key_name = parser
        .nullable_text("key_name", 1..=255)?
        .flatten()
        .map(str::to_owned);
    server.config_drive = parser.boolean("config_drive")?.unwrap_or(false);
    server.access_ip_v4 = parse_address(parser, "accessIPv4")?.flatten();
    server.access_ip_v6 = parse_address(parser, "accessIPv6")?.flatten();
    parse_disk_config(parser)?
        .unwrap_or("MANUAL")
        .clone_into(&mut server.disk_config);
    if let Some(value) = parser.take("security_groups") {
        let path = parser.path_of("security_groups");
        let items = fields::parse_list(&path, value, LIST_ITEMS_MAX)?;
        for (index, item) in items.iter().enumerate() {
            let mut group = ObjectParser::new(format!("{path}[{index}]"), item)?;
            let name = group.required_text("name", 1..=255)?;
            group.finish()?;
            server.security_groups.push(name.to_owned());
        }
    }
    if !request.version.since(57) && parser.take("personality").is_some() {
        let message = "files cannot be put into servers; use user_data";
        return Err(parser.field_error("personality", message));
    }
    if request.version.since(63) {
        server.trusted_image_certificates = parse_certificates(parser)?;
    }
    Ok(())
}

/// The requested zone, the forced host (see [`CreateRequest`]), and the requested destination.
type RequestedDestination<'a> = (Option<&'a str>, Option<&'a str>, Option<Destination>);

/// Parses the requested zone, forced host and destination.
fn parse_destination<'a>(
    request: &RoutedRequest<'_>,
    parser: &mut ObjectParser<'a>,
) -> ApiResult<RequestedDestination<'a>> {
    let zone = parser
        .nullable_text("availability_zone", 1..=255)?
        .flatten();
    let (zone, forced_host) = match zone.and_then(|zone| zone.split_once(':')) {
        Some((zone, forced_host)) => {
            if forced_host.matches(':').count() > 1 {
                let message = "it must be a zone, zone:host, zone:host:node or zone::node";
                return Err(parser.field_error("availability_zone", message));
            }
            request.authorize(Rule::ServersCreateForcedHost)?;
            (
                Some(zone).filter(|zone| !zone.is_empty()),
                Some(forced_host),
            )
        }
        None => (zone, None),
    };
    let (mut host, mut node) = (None, None);
    if request.version.since(74) {
        host = parser.text("host", 1..=255)?;
        node = parser.text("hypervisor_hostname", 1..=255)?;
    }
    if host.is_none() && node.is_none() {
        return Ok((zone, forced_host, None));
    }
    request.authorize(Rule::ServersCreateDestination)?;
    if forced_host.is_some() {
        let message = "it cannot name a host when host or hypervisor_hostname does";
        return Err(parser.field_error("availability_zone", message));
    }
    let destination = Destination {
        host: host.map(str::to_owned),
        node: node.map(str::to_owned),
        ..Destination::default()
    };
    Ok((zone, None, Some(destination)))
}
