//! Flavors: list, show, create, describe, delete.

use std::cmp::Ordering;
use std::ops::Bound;

use placewright_auth::Rule;
use placewright_conductor::super_conductor::{Change, Command, Flavor, Refusal};
use placewright_http::{ApiError, ApiResult, Reply};
use placewright_scheduler::extra_spec::ExtraSpecKey;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{find, is_visible, replace};
use crate::error;
use crate::fields::ObjectParser;
use crate::page;
use crate::routed_request::RoutedRequest;
use crate::slices::SliceResult;

/// The greatest amount of a flavor's resource.
const AMOUNT_MAX: i64 = i32::MAX as i64;

/// The JSON representation of a flavor in the request's version.
fn shown(call: &RoutedRequest<'_>, id: &str, flavor: &Flavor) -> Value {
    let swap = if flavor.swap_mb == 0 && !call.version.since(75) {
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
        "links": call.links(&format!("/flavors/{id}")),
    });
    if call.version.since(55) {
        value["description"] = json!(flavor.description);
    }
    if call.version.since(61) && call.is_allowed(Rule::FlavorExtraSpecsIndex) {
        value["extra_specs"] = json!(flavor.extra_specs);
    }
    value
}

fn brief(call: &RoutedRequest<'_>, id: &str, flavor: &Flavor) -> Value {
    let mut value = json!({
        "id": id,
        "name": flavor.name,
        "links": call.links(&format!("/flavors/{id}")),
    });
    if call.version.since(55) {
        value["description"] = json!(flavor.description);
    }
    value
}

pub(crate) async fn list(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    listed(call, "/flavors", brief).await
}

pub(crate) async fn detail(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    listed(call, "/flavors/detail", shown).await
}

/// The conditions of a listing.
struct Filter {
    /// Public flavors, private ones, or both if none.
    is_public: Option<bool>,
    min_ram: usize,
    min_disk: usize,
    descending: bool,
    sort_key: String,
}

impl Filter {
    fn of(call: &RoutedRequest<'_>) -> ApiResult<Self> {
        let is_admin = call.is_allowed(Rule::FlavorAccessList);
        let is_public = match call.query.get("is_public") {
            _ if !is_admin => None,
            None => Some(true),
            Some("none" | "None") => None,
            Some(_) => call.query.boolean("is_public")?,
        };
        let sort_key = call.query.get("sort_key").unwrap_or("flavorid");
        const KEYS: [&str; 13] = [
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
            "swap",
            "updated_at",
            "vcpus",
        ];
        if !KEYS.contains(&sort_key) {
            return Err(ApiError::field(
                "sort_key",
                format!("flavors have no {sort_key}"),
            ));
        }
        let descending = match call.query.get("sort_dir") {
            None | Some("asc") => false,
            Some("desc") => true,
            Some(other) => {
                let message = format!("it must be asc or desc, not {other:?}");
                return Err(ApiError::field("sort_dir", message));
            }
        };
        Ok(Self {
            is_public,
            min_ram: call.query.number("minRam")?.unwrap_or(0),
            min_disk: call.query.number("minDisk")?.unwrap_or(0),
            descending,
            sort_key: sort_key.to_owned(),
        })
    }

    fn takes(&self, call: &RoutedRequest<'_>, flavor: &Flavor) -> bool {
        self.is_public
            .is_none_or(|public| public == flavor.is_public)
            && flavor.memory_mb as usize >= self.min_ram
            && flavor.root_gb as usize >= self.min_disk
            && is_visible(call, flavor)
    }

    fn order(&self, one: &(String, Flavor), other: &(String, Flavor)) -> Ordering {
        let (a, b) = (&one.1, &other.1);
        let order = match self.sort_key.as_str() {
            "name" => a.name.cmp(&b.name),
            "vcpus" => a.vcpus.cmp(&b.vcpus),
            "memory_mb" => a.memory_mb.cmp(&b.memory_mb),
            "root_gb" => a.root_gb.cmp(&b.root_gb),
            "ephemeral_gb" => a.ephemeral_gb.cmp(&b.ephemeral_gb),
            "swap" => a.swap_mb.cmp(&b.swap_mb),
            "is_public" => a.is_public.cmp(&b.is_public),
            "description" => a.description.cmp(&b.description),
            _ => Ordering::Equal,
        };
        let order = order.then_with(|| one.0.cmp(&other.0));
        if self.descending {
            order.reverse()
        } else {
            order
        }
    }
}

async fn listed(
    call: &RoutedRequest<'_>,
    path: &str,
    show: fn(&RoutedRequest<'_>, &str, &Flavor) -> Value,
) -> ApiResult<Reply> {
    let filter = Filter::of(call)?;
    let found = call.gather(|control, _, after: Option<&String>| {
        let after = after.map_or(Bound::Unbounded, Bound::Excluded);
        let all = control
            .conductor
            .flavors()
            .range::<String, _>((after, Bound::Unbounded));
        SliceResult::look(
            all.map(|(id, flavor)| (id.clone(), flavor)),
            |id, flavor| {
                let is_taken = filter.takes(call, flavor);
                is_taken.then(|| (id.clone(), flavor.clone()))
            },
        )
    });
    let mut found = found.await;
    found.sort_by(|one, other| filter.order(one, other));
    let cut = page::cut(call, found, |one, marker| one.0 == marker)?;
    let flavors: Vec<Value> = cut
        .iter()
        .map(|(id, flavor)| show(call, id, flavor))
        .collect();
    let last = cut.last().map_or("", |(id, _)| id.as_str());
    let mut body = json!({"flavors": flavors});
    if let Some(links) = page::next(call, path, cut.len(), last)? {
        body["flavors_links"] = links;
    }
    Reply::value(200, &body)
}

pub(crate) async fn show(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let id = call.parameter("flavor_id");
    let flavor = call.read(|control, _| find(call, control, id).cloned());
    Reply::value(200, &json!({"flavor": shown(call, id, &flavor.await?)}))
}

pub(crate) async fn create(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::FlavorsCreate)?;
    let body = call.json()?;
    let (id, flavor) = read(call, &body)?;
    let command = Command::Guarded {
        expected: vec![Change::Flavor(id.clone(), None)],
        command: Box::new(Command::SetFlavor {
            id: id.clone(),
            flavor: Some(flavor.clone()),
        }),
    };
    call.note_created([&id]);
    match call.submit(command).await? {
        Ok(_) => Reply::value(200, &json!({"flavor": shown(call, &id, &flavor)})),
        Err(Refusal::Changed) => {
            let message = format!("There is a flavor with the id {id} already.");
            Err(ApiError::conflict(message))
        }
        Err(Refusal::Exists { .. }) => {
            let message = format!("There is a flavor with the name {} already.", flavor.name);
            Err(ApiError::conflict(message))
        }
        Err(refusal) => Err(error::of_refusal(refusal)),
    }
}

fn amount<'a>(
    parsed: &mut ObjectParser<'a>,
    key: &'a str,
    least: i64,
    default: Option<i64>,
) -> ApiResult<u32> {
    let number = parsed.integer(key, least..=AMOUNT_MAX)?.or(default);
    let number = number.ok_or_else(|| parsed.wrong(key, "it is missing"))?;
    Ok(u32::try_from(number).unwrap_or(0))
}

fn read(call: &RoutedRequest<'_>, body: &Value) -> ApiResult<(String, Flavor)> {
    let mut fields = ObjectParser::of_body(body)?;
    let mut parsed = fields.object("flavor")?;
    let name = parsed.name("name")?;
    let name = name.ok_or_else(|| parsed.wrong("name", "it is missing"))?;
    let id = match parsed.take("id").or_else(|| parsed.take("flavorid")) {
        None | Some(Value::Null) => Uuid::new_v4().to_string(),
        Some(Value::Number(number)) => number.to_string(),
        Some(Value::String(text)) if text == "auto" => Uuid::new_v4().to_string(),
        Some(Value::String(text)) => text.clone(),
        Some(_) => return Err(parsed.wrong("id", "it must be a text")),
    };
    let is_fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ' ' | '_' | '-');
    if !(1..=255).contains(&id.len()) || !id.chars().all(is_fine) || id.trim() != id {
        let message = "it must have 1 to 255 letters, digits, blanks and . _ -, no blank at an end";
        return Err(parsed.wrong("id", message));
    }
    let memory_mb = amount(&mut parsed, "ram", 1, None)?;
    let vcpus = amount(&mut parsed, "vcpus", 1, None)?;
    let root_gb = amount(&mut parsed, "disk", 0, None)?;
    let swap_mb = amount(&mut parsed, "swap", 0, Some(0))?;
    let ephemeral_gb = amount(&mut parsed, "OS-FLV-EXT-DATA:ephemeral", 0, Some(0))?;
    // Accepted for old clients, without effect.
    parsed.take("rxtx_factor");
    let is_public = parsed
        .boolean("os-flavor-access:is_public")?
        .unwrap_or(true);
    let description = match call.version.since(55) {
        true => parsed.nullable_text("description", 0..=65_535)?.flatten(),
        false => None,
    };
    parsed.finish()?;
    fields.finish()?;
    let projects = if is_public {
        Vec::new()
    } else {
        vec![call.project().to_owned()]
    };
    let flavor = Flavor {
        name: name.to_owned(),
        vcpus,
        memory_mb,
        root_gb,
        ephemeral_gb,
        swap_mb,
        is_public,
        projects,
        description: description.map(str::to_owned),
        extra_specs: std::collections::BTreeMap::new(),
    };
    Ok((id, flavor))
}

pub(crate) async fn update(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::FlavorsUpdate)?;
    let body = call.json()?;
    let mut fields = ObjectParser::of_body(&body)?;
    let mut parsed = fields.object("flavor")?;
    let description = parsed.nullable_text("description", 0..=65_535)?;
    let description = description.ok_or_else(|| parsed.wrong("description", "it is missing"))?;
    parsed.finish()?;
    fields.finish()?;
    let flavor = replace(call, |flavor| {
        flavor.description = description.map(str::to_owned);
        Ok(())
    });
    let id = call.parameter("flavor_id");
    Reply::value(200, &json!({"flavor": shown(call, id, &flavor.await?)}))
}

pub(crate) async fn delete(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    call.allow(Rule::FlavorsDelete)?;
    let id = call.parameter("flavor_id");
    call.read(|control, _| find(call, control, id).map(|_| ()))
        .await?;
    let id = id.to_owned();
    call.carry_out(Command::SetFlavor { id, flavor: None })
        .await?;
    Ok(Reply::empty(202))
}

/// Checks extra specs whose form can be validated (from version 2.86 on).
pub(crate) fn check_extra_specs(path: &str, specs: &[(String, String)]) -> ApiResult<()> {
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
