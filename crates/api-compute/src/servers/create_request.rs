//! The body of a request for new servers.

use placewright_auth::Rule;
use placewright_http::{ApiError, ApiResult};
use placewright_scheduler::request::{Destination, RequestedNetwork};
use placewright_secrets::SecretFields;
use placewright_types::server::ServerFields;
use serde_json::Value;
use uuid::Uuid;

use super::common_fields::{check_hostname, parse_address, parse_certificates, parse_disk_config};
use super::devices::{LIST_ITEMS_MAX, boots_from_volume, is_boot_device, parse_devices};
use super::hints::Hints;
use super::{metadata, secrets, tags};
use crate::fields::{self, ObjectParser};
use crate::routed_request::RoutedRequest;

/// The maximum number of servers of one request.
const COUNT_MAX: i64 = 1000;

/// A parsed create request. The objects that it refers to are not looked up yet.
pub(super) struct CreateRequest<'a> {
    pub(super) name: &'a str,
    pub(super) flavor_id: String,
    pub(super) zone: Option<&'a str>,
    /// `host`, `host:node` or `:node`.
    pub(super) forced_host: Option<&'a str>,
    /// The least number of servers to create, if the request names one. With fewer hosts, none is created.
    pub(super) count_min: Option<u32>,
    /// The number of servers to create if there are hosts for all.
    pub(super) count: u32,
    /// Whether the response has the reservation id in place of the server (`return_reservation_id`).
    pub(super) wants_reservation: bool,
    pub(super) hints: Hints,
    pub(super) destination: Option<Destination>,
    /// Whether the server boots from a volume.
    pub(super) is_bfv: bool,
    pub(super) hostname: Option<String>,
    /// The ports that come with a resource request.
    pub(super) port_requests: Vec<RequestedNetwork>,
    pub(super) server: ServerFields,
    pub(super) secrets: SecretFields,
}

impl CreateRequest<'_> {
    /// The name of the server with this number, from 0.
    pub(super) fn name_of(&self, index: u32) -> String {
        match self.count {
            1 => self.name.to_owned(),
            _ => format!("{}-{}", self.name, index + 1),
        }
    }
}

/// Parses the body of a create request.
pub(super) fn parse<'a>(
    request: &RoutedRequest<'_>,
    body_json: &'a Value,
) -> ApiResult<CreateRequest<'a>> {
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
    let port_requests = parse_devices(request, &mut parser, &mut server)?;
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
    if count_max > 1 && !port_requests.is_empty() {
        return Err(parser.field_error("max_count", "a port is that of one server"));
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
        port_requests,
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
