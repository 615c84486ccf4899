//! `/traits` and `/resource_providers/{uuid}/traits`

use placewright_http::json::Writer;
use placewright_http::{ApiError, ApiResult, Query, Reply};
use placewright_placement::rows::Named;
use placewright_placement::{Command, Outcome, Timestamp};

use crate::call::{self, RoutedRequest};
use crate::json::Json;
use crate::refusals::RefusedOperation;
use crate::schema::{self, Formats};
use crate::schemas;

fn not_found(name: &str) -> ApiError {
    ApiError::not_found(format!("No such trait(s): {name}."))
}

/// The conditions of `GET /traits`.
#[derive(Debug, Default)]
struct Filters {
    prefix: Option<String>,
    among: Option<Vec<String>>,
    associated: Option<bool>,
}

impl Filters {
    fn of(query: &Query<'_>) -> ApiResult<Self> {
        let mut filters = Self::default();
        if let Some(name) = query.get("name") {
            let Some((form, value)) = name.split_once(':') else {
                return Err(ApiError::bad_request(format!(
                    "Badly formatted name parameter. Expected name query string parameter in form: \
                     ?name=[in|startswith]:[name1,name2|prefix]. Got: \"{name}\""
                )));
            };
            match form {
                "in" => filters.among = Some(value.split(',').map(str::to_owned).collect()),
                "startswith" => filters.prefix = Some(value.to_owned()),
                // Any other word filters nothing, as in the reference.
                _ => {}
            }
        }
        filters.associated = match query.get("associated").map(str::to_lowercase).as_deref() {
            None => None,
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(_) => {
                return Err(ApiError::bad_request(
                    "The query parameter \"associated\" only accepts \"true\" or \"false\"",
                ));
            }
        };
        Ok(filters)
    }

    fn admit(&self, named: &Named, is_associated: impl FnOnce() -> bool) -> bool {
        let name = &*named.name;
        self.prefix
            .as_deref()
            .is_none_or(|prefix| name.starts_with(prefix))
            && self
                .among
                .as_ref()
                .is_none_or(|among| among.iter().any(|one| one == name))
            && self
                .associated
                .is_none_or(|wanted| wanted == is_associated())
    }
}

/// Writes an object with the traits, which the caller closes, and returns the time of the newest.
fn write<'a>(writer: &mut Writer, traits: impl Iterator<Item = &'a Named>) -> Option<i64> {
    let mut modified = None;
    writer.open_object();
    writer.plain_key("traits");
    writer.open_array();
    for named in traits {
        writer.text(&named.name);
        modified = modified.max(Some(named.modified_at.seconds()));
    }
    writer.close_array();
    modified
}

pub(crate) async fn list(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let filters = Filters::of(&call.query(&schemas::names::LIST_TRAITS)?)?;
    let (writer, modified) = call
        .read(|state| {
            let mut writer = Writer::with_capacity(10_240);
            let shown = state.all_traits().filter(|(id, named)| {
                filters.admit(named, || !state.trait_members(*id).is_empty())
            });
            let modified = write(&mut writer, shown.map(|(_, named)| named));
            writer.close_object();
            (writer, modified)
        })
        .await;
    let modified = modified.unwrap_or_else(|| call.now());
    Ok(Reply::json(writer).modified(call.has_cache_headers(), Some(modified)))
}

pub(crate) async fn get(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let name = call.parameter();
    let modified = call
        .read(|state| {
            let named = state.trait_id(name).and_then(|id| state.trait_named(id))?;
            Some(named.modified_at.seconds())
        })
        .await;
    let modified = modified.ok_or_else(|| not_found(name))?;
    Ok(Reply::empty(204).modified(call.has_cache_headers(), Some(modified)))
}

pub(crate) async fn ensure(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let name = call.parameter();
    let text = Json::Text(name.into());
    let fits = schema::validate(&text, &schemas::names::CUSTOM_TRAIT, Formats::Body).is_ok();
    // The pattern allows a newline, which no header can contain.
    if !fits || name.ends_with('\n') {
        return Err(ApiError::bad_request(
            "The trait is invalid. A valid trait must be no longer than 255 characters, start with \
             the prefix \"CUSTOM_\" and use following characters: \"A\"-\"Z\", \"0\"-\"9\" and \
             \"_\"",
        ));
    }
    let command = Command::EnsureTrait {
        name: name.to_owned(),
        at: call.at,
    };
    let (created, modified_at) = match call.submit(command, RefusedOperation::Trait).await? {
        Outcome::Named {
            created,
            modified_at,
        } => (created, modified_at.seconds()),
        _ => (false, call.now()),
    };
    let reply = Reply::empty(if created { 201 } else { 204 });
    let reply = reply.with_location(format!("/traits/{name}"));
    Ok(reply.modified(call.has_cache_headers(), Some(modified_at)))
}

pub(crate) async fn delete(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let command = Command::DeleteTrait {
        name: call.parameter().to_owned(),
    };
    call.submit(command, RefusedOperation::Trait).await?;
    Ok(Reply::empty(204))
}

fn close_with_generation(writer: &mut Writer, generation: u64) {
    writer.plain_key("resource_provider_generation");
    writer.integer(generation);
    writer.close_object();
}

pub(crate) async fn of_provider(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let not_found = || {
        let uuid = call.parameter();
        ApiError::not_found(format!(
            "No resource provider with uuid {uuid} found: No resource provider with uuid {uuid} \
             found"
        ))
    };
    let uuid = call.provider_uuid().map_err(|_| not_found())?;
    let found = call
        .read(|state| {
            let provider = state.provider_by_uuid(uuid)?;
            let mut writer = Writer::with_capacity(512);
            let traits = provider
                .traits
                .iter()
                .filter_map(|id| state.trait_named(*id));
            let modified = write(&mut writer, traits);
            close_with_generation(&mut writer, provider.generation);
            Some((writer, modified))
        })
        .await;
    let (writer, modified) = found.ok_or_else(not_found)?;
    let modified = modified.unwrap_or_else(|| call.now());
    Ok(Reply::json(writer).modified(call.has_cache_headers(), Some(modified)))
}

pub(crate) async fn set_of_provider(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    // Here the body is validated before the provider.
    let body = call.json(&schemas::names::SET_TRAITS)?;
    let provider = call.provider_uuid()?;
    let listed = body.get("traits").unwrap_or(&Json::Null);
    call.check_entries(listed.items().len(), "traits")?;
    let mut traits: Vec<String> = listed
        .items()
        .iter()
        .filter_map(Json::text)
        .map(str::to_owned)
        .collect();
    traits.sort_unstable();
    traits.dedup();
    let command = Command::SetTraits {
        provider,
        generation: Some(call::generation(body.get("resource_provider_generation"))),
        traits: traits.clone(),
        at: call.at,
    };
    // The response's values come with the outcome, because a read would wait for the next append
    // too.
    let (generation, modified) = match call.submit(command, RefusedOperation::SetTraits).await? {
        Outcome::Traits {
            generation,
            modified_at,
        } => (generation, modified_at.map(Timestamp::seconds)),
        _ => (0, None),
    };
    let mut writer = Writer::with_capacity(512);
    writer.open_object();
    writer.plain_key("traits");
    writer.open_array();
    traits.iter().for_each(|name| writer.text(name));
    writer.close_array();
    close_with_generation(&mut writer, generation);
    let modified = modified.unwrap_or_else(|| call.now());
    Ok(Reply::json(writer).modified(call.has_cache_headers(), Some(modified)))
}

pub(crate) async fn delete_of_provider(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let provider = call.provider_uuid()?;
    let command = Command::SetTraits {
        provider,
        generation: None,
        traits: Vec::new(),
        at: call.at,
    };
    call.submit(command, RefusedOperation::SetTraits).await?;
    Ok(Reply::empty(204))
}
