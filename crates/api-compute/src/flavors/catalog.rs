//! Flavors: list, show, create, change the description, delete.

use std::cmp::Ordering;
use std::ops::Bound;

use placewright_auth::Rule;
use placewright_conductor::super_conductor::{Change, Command, Flavor, Refusal};
use placewright_http::{ApiError, ApiResult, Reply};
use placewright_scheduler::extra_spec::ExtraSpecKey;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{change_flavor, find, is_visible};
use crate::error;
use crate::fields::ObjectParser;
use crate::page;
use crate::routed_request::RoutedRequest;
use crate::slices::SliceResult;

/// The maximum amount of a resource in a flavor.
const AMOUNT_MAX: i64 = i32::MAX as i64;

/// The JSON representation of a flavor in the request's version.
fn flavor_json(request: &RoutedRequest<'_>, id: &str, flavor: &Flavor) -> Value {
    let swap = if flavor.swap_mb == 0 && !request.version.since(75) {
        json!("")
    } else {
        json!(flavor.swap_mb)
    };
    let mut value = json!({
        "id": id,
        "name": flavor.name,
        "ram": flavor.memory_mb,
        "disk": flavor.root_gb,
        "vcpus": flavor.vcpus,
        "swap": swap,
        "OS-FLV-EXT-DATA:ephemeral": flavor.ephemeral_gb,
        "OS-FLV-DISABLED:disabled": false,
        "os-flavor-access:is_public": flavor.is_public,
        "rxtx_factor": 1.0,
        "links": request.links(&format!("/flavors/{id}")),
    });
    if request.version.since(55) {
        value["description"] = json!(flavor.description);
    }
    if request.version.since(61) && request.is_allowed(Rule::FlavorExtraSpecsIndex) {
        value["extra_specs"] = json!(flavor.extra_specs);
    }
    value
}

fn brief_json(request: &RoutedRequest<'_>, id: &str, flavor: &Flavor) -> Value {
    let mut value = json!({
        "id": id,
        "name": flavor.name,
        "links": request.links(&format!("/flavors/{id}")),
    });
    if request.version.since(55) {
        value["description"] = json!(flavor.description);
    }
    value
}

pub(crate) async fn list(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    list_response(request, "/flavors", brief_json).await
}

pub(crate) async fn detail(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    list_response(request, "/flavors/detail", flavor_json).await
}

/// The conditions and the order of a listing.
struct ListOptions {
    /// Whether only public or only private flavors are listed; `None` for both.
    is_public: Option<bool>,
    /// The least memory of a listed flavor, in MiB.
    min_ram: usize,
    /// The least root disk of a listed flavor, in GiB.
    min_disk: usize,
    is_descending: bool,
    sort_key: String,
}

impl ListOptions {
    fn parse(request: &RoutedRequest<'_>) -> ApiResult<Self> {
        // As in Nova, only callers who may see all flavors can choose between public and private ones. [`is_visible`]
        // reads the same rule.
        let sees_all_flavors = request.is_allowed(Rule::FlavorAccessList);
        let is_public = match request.query.get("is_public") {
            _ if !sees_all_flavors => None,
            None => Some(true),
            Some("none" | "None") => None,
            Some(_) => request.query.boolean("is_public")?,
        };
        let sort_key = request.query.get("sort_key").unwrap_or("flavorid");
        const SORT_KEYS: [&str; 15] = [
            "created_at",
            "description",
            "disabled",
            "ephemeral_gb",
            "flavorid",
            "id",
            "is_public",
            "memory_mb",
            "name",
            "root_gb",
            "rxtx_factor",
            "swap",
            "updated_at",
            "vcpu_weight",
            "vcpus",
        ];
        if !SORT_KEYS.contains(&sort_key) {
            return Err(ApiError::field(
                "sort_key",
                format!("flavors have no {sort_key}"),
            ));
        }
        let is_descending = match request.query.get("sort_dir") {
            None | Some("asc") => false,
            Some("desc") => true,
            Some(other) => {
                let message = format!("it must be asc or desc, not {other:?}");
                return Err(ApiError::field("sort_dir", message));
            }
        };
        Ok(Self {
            is_public,
            min_ram: request.query.number("minRam")?.unwrap_or(0),
            min_disk: request.query.number("minDisk")?.unwrap_or(0),
            is_descending,
            sort_key: sort_key.to_owned(),
        })
    }

    fn accepts(&self, request: &RoutedRequest<'_>, flavor: &Flavor) -> bool {
        self.is_public
            .is_none_or(|public| public == flavor.is_public)
            && flavor.memory_mb as usize >= self.min_ram
            && flavor.root_gb as usize >= self.min_disk
            && is_visible(request, flavor)
    }

    /// Compares two flavors, each with its id.
    fn compare(&self, left: &(String, Flavor), right: &(String, Flavor)) -> Ordering {
        let ((left_id, left), (right_id, right)) = (left, right);
        let order = match self.sort_key.as_str() {
            "name" => left.name.cmp(&right.name),
            "vcpus" => left.vcpus.cmp(&right.vcpus),
            "memory_mb" => left.memory_mb.cmp(&right.memory_mb),
            "root_gb" => left.root_gb.cmp(&right.root_gb),
            "ephemeral_gb" => left.ephemeral_gb.cmp(&right.ephemeral_gb),
            "swap" => left.swap_mb.cmp(&right.swap_mb),
            "is_public" => left.is_public.cmp(&right.is_public),
            "description" => left.description.cmp(&right.description),
            // The other sort keys are the id, which is compared below, and columns that are the same for all flavors.
            _ => Ordering::Equal,
        };
        let order = order.then_with(|| left_id.cmp(right_id));
        if self.is_descending {
            order.reverse()
        } else {
            order
        }
    }
}

async fn list_response(
    request: &RoutedRequest<'_>,
    path: &str,
    to_json: fn(&RoutedRequest<'_>, &str, &Flavor) -> Value,
) -> ApiResult<Reply> {
    let options = ListOptions::parse(request)?;
    let flavors = request.collect_slices(|control, _, after: Option<&String>| {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let rows = control
            .conductor
            .flavors()
            .range::<String, _>((after, Bound::Unbounded));
        SliceResult::collect(
            rows.map(|(id, flavor)| (id.clone(), flavor)),
            |id, flavor| {
                let is_listed = options.accepts(request, flavor);
                is_listed.then(|| (id.clone(), flavor.clone()))
            },
        )
    });
    let mut flavors = flavors.await;
    flavors.sort_by(|left, right| options.compare(left, right));
    let page = page::paginate(request, flavors, |(id, _), marker| id == marker)?;
    let flavors: Vec<Value> = page
        .iter()
        .map(|(id, flavor)| to_json(request, id, flavor))
        .collect();
    let last_id = page.last().map_or("", |(id, _)| id.as_str());
    let mut body = json!({"flavors": flavors});
    if let Some(links) = page::next_link(request, path, page.len(), last_id)? {
        body["flavors_links"] = links;
    }
    Reply::value(200, &body)
}

pub(crate) async fn show(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let id = request.parameter("flavor_id");
    let flavor = request.read(|control, _| find(request, control, id).cloned());
    Reply::value(
        200,
        &json!({"flavor": flavor_json(request, id, &flavor.await?)}),
    )
}

pub(crate) async fn create(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::FlavorsCreate)?;
    let body = request.json()?;
    let (id, flavor) = parse_flavor(request, &body)?;
    // The expected row is none: the command is refused if there is a flavor with this id already.
    let command = Command::Guarded {
        expected: vec![Change::Flavor(id.clone(), None)],
        command: Box::new(Command::SetFlavor {
            id: id.clone(),
            flavor: Some(flavor.clone()),
        }),
    };
    request.note_created([&id]);
    match request.submit(command).await? {
        Ok(_) => Reply::value(200, &json!({"flavor": flavor_json(request, &id, &flavor)})),
        Err(Refusal::Changed) => {
            let message = format!("There is a flavor with the id {id} already.");
            Err(ApiError::conflict(message))
        }
        Err(Refusal::Exists { .. }) => {
            let message = format!("There is a flavor with the name {} already.", flavor.name);
            Err(ApiError::conflict(message))
        }
        Err(refusal) => Err(error::from_refusal(refusal)),
    }
}

/// Parses an amount that is at least `min`. A missing field has the default; without a default it is required.
fn parse_amount<'a>(
    parser: &mut ObjectParser<'a>,
    key: &'a str,
    min: i64,
    default: Option<i64>,
) -> ApiResult<u32> {
    let number = parser.integer(key, min..=AMOUNT_MAX)?.or(default);
    let number = number.ok_or_else(|| parser.field_error(key, "it is missing"))?;
    // `min` is not negative, so every amount fits.
    Ok(u32::try_from(number).unwrap_or(0))
}

fn parse_flavor(request: &RoutedRequest<'_>, body: &Value) -> ApiResult<(String, Flavor)> {
    let mut body_parser = ObjectParser::of_body(body)?;
    let mut parser = body_parser.object("flavor")?;
    let name = parser.name("name")?;
    let name = name.ok_or_else(|| parser.field_error("name", "it is missing"))?;
    let id = match parser.take("id").or_else(|| parser.take("flavorid")) {
        None | Some(Value::Null) => Uuid::new_v4().to_string(),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::String(text)) if text == "auto" => Uuid::new_v4().to_string(),
        Some(Value::String(text)) => text.clone(),
        Some(_) => return Err(parser.field_error("id", "it must be a text")),
    };
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ' ' | '_' | '-');
    if !(1..=255).contains(&id.len()) || !id.chars().all(is_allowed) || id.trim() != id {
        let message = "it must have 1 to 255 letters, digits, blanks and . _ -, no blank at an end";
        return Err(parser.field_error("id", message));
    }
    let memory_mb = parse_amount(&mut parser, "ram", 1, None)?;
    let vcpus = parse_amount(&mut parser, "vcpus", 1, None)?;
    let root_gb = parse_amount(&mut parser, "disk", 0, None)?;
    let swap_mb = parse_amount(&mut parser, "swap", 0, Some(0))?;
    let ephemeral_gb = parse_amount(&mut parser, "OS-FLV-EXT-DATA:ephemeral", 0, Some(0))?;
    // Accepted for old clients, without effect.
    parser.take("rxtx_factor");
    let is_public = parser
        .boolean("os-flavor-access:is_public")?
        .unwrap_or(true);
    let description = match request.version.since(55) {
        true => parser.nullable_text("description", 0..=65_535)?.flatten(),
        false => None,
    };
    parser.finish()?;
    body_parser.finish()?;
    let flavor = Flavor {
        name: name.to_owned(),
        vcpus,
        memory_mb,
        root_gb,
        ephemeral_gb,
        swap_mb,
        is_public,
        // As in Nova, the project of the caller has no access to a private flavor until it is given.
        projects: Vec::new(),
        description: description.map(str::to_owned),
        extra_specs: std::collections::BTreeMap::new(),
    };
    Ok((id, flavor))
}

pub(crate) async fn update(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::FlavorsUpdate)?;
    let body = request.json()?;
    let mut body_parser = ObjectParser::of_body(&body)?;
    let mut parser = body_parser.object("flavor")?;
    let description = parser.nullable_text("description", 0..=65_535)?;
    let description =
        description.ok_or_else(|| parser.field_error("description", "it is missing"))?;
    parser.finish()?;
    body_parser.finish()?;
    let flavor = change_flavor(request, |flavor| {
        flavor.description = description.map(str::to_owned);
        Ok(())
    });
    let id = request.parameter("flavor_id");
    Reply::value(
        200,
        &json!({"flavor": flavor_json(request, id, &flavor.await?)}),
    )
}

pub(crate) async fn delete(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    request.authorize(Rule::FlavorsDelete)?;
    let id = request.parameter("flavor_id");
    request
        .read(|control, _| find(request, control, id).map(|_| ()))
        .await?;
    let id = id.to_owned();
    request
        .execute(Command::SetFlavor { id, flavor: None })
        .await?;
    Ok(Reply::empty(202))
}

/// Checks the values of those extra specs whose form can be validated (from version 2.86 on).
pub(crate) fn check_spec_forms(path: &str, specs: &[(String, String)]) -> ApiResult<()> {
    for (key, value) in specs {
        let expected = match ExtraSpecKey::parse(key) {
            ExtraSpecKey::Resources { .. } if value.parse::<u32>().is_err() => "a whole number",
            ExtraSpecKey::Trait { .. } if !matches!(value.as_str(), "required" | "forbidden") => {
                "required or forbidden"
            }
            ExtraSpecKey::GroupPolicy if !matches!(value.as_str(), "isolate" | "none") => {
                "isolate or none"
            }
            _ => continue,
        };
        let message = format!("it must be {expected}, not {value:?}");
        return Err(ApiError::field(&format!("{path}[{key:?}]"), message));
    }
    Ok(())
}
