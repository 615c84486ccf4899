//! `/traits` and `/resource_providers/{uuid}/traits`

use placewright_http::json::Writer;
use placewright_http::{ApiError, ApiResult, Query, Reply};
use placewright_placement::rows::Named;
use placewright_placement::{Command, Outcome, Timestamp};

use crate::json::Json;
use crate::refusals::RefusedOperation;
use crate::routed_request::{self, RoutedRequest};
use crate::schema::{self, UuidForms};
use crate::schemas;

fn not_found(name: &str) -> ApiError {
    ApiError::not_found(format!("No such trait(s): {name}."))
}

/// The conditions of `GET /traits`.
#[derive(Debug, Default)]
struct TraitFilter {
    prefix: Option<String>,
    names: Option<Vec<String>>,
    /// If true, at least one provider must have the trait; if false, no provider may have it.
    associated: Option<bool>,
}

impl TraitFilter {
    fn of(query: &Query<'_>) -> ApiResult<Self> {
        let mut filter = Self::default();
        if let Some(name) = query.get("name") {
            let Some((form, value)) = name.split_once(':') else {
                return Err(ApiError::bad_request(format!(
                    "Badly formatted name parameter. Expected name query string parameter in form: \
                     ?name=[in|startswith]:[name1,name2|prefix]. Got: \"{name}\""
                )));
            };
            match form {
                "in" => filter.names = Some(value.split(',').map(str::to_owned).collect()),
                "startswith" => filter.prefix = Some(value.to_owned()),
                // As in the reference, any other form filters nothing.
                _ => {}
            }
        }
        filter.associated = match query.get("associated").map(str::to_lowercase).as_deref() {
            None => None,
            Some("true") => Some(true),
            Some("false") => Some(false),
            Some(_) => {
                return Err(ApiError::bad_request(
                    "The query parameter \"associated\" only accepts \"true\" or \"false\"",
                ));
            }
        };
        Ok(filter)
    }

    fn matches(&self, named: &Named, is_associated: impl FnOnce() -> bool) -> bool {
        let name = &*named.name;
        self.prefix
            .as_deref()
            .is_none_or(|prefix| name.starts_with(prefix))
            && self
                .names
                .as_ref()
                .is_none_or(|names| names.iter().any(|listed| listed == name))
            && self
                .associated
                .is_none_or(|wanted| wanted == is_associated())
    }
}

/// Writes an object with the traits, without its end, and returns the time of the newest trait; none if there is no
/// trait.
fn open_traits<'a>(writer: &mut Writer, traits: impl Iterator<Item = &'a Named>) -> Option<i64> {
    let mut last_modified = None;
    writer.open_object();
    writer.plain_key("traits");
    writer.open_array();
    for named in traits {
        writer.text(&named.name);
        last_modified = last_modified.max(Some(named.modified_at.seconds()));
    }
    writer.close_array();
    last_modified
}

pub(crate) async fn list(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let filter = TraitFilter::of(&request.query(&schemas::names::LIST_TRAITS)?)?;
    let (writer, last_modified) = request
        .read(|state| {
            let mut writer = Writer::with_capacity(10_240);
            let matching = state.all_traits().filter(|(id, named)| {
                filter.matches(named, || !state.trait_members(*id).is_empty())
            });
            let last_modified = open_traits(&mut writer, matching.map(|(_, named)| named));
            writer.close_object();
            (writer, last_modified)
        })
        .await;
    let last_modified = last_modified.unwrap_or_else(|| request.received_s());
    Ok(Reply::json(writer).with_cache_headers(request.has_cache_headers(), Some(last_modified)))
}

pub(crate) async fn get(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let name = request.path_parameter();
    let last_modified = request
        .read(|state| {
            let named = state.trait_id(name).and_then(|id| state.trait_by_id(id))?;
            Some(named.modified_at.seconds())
        })
        .await;
    let last_modified = last_modified.ok_or_else(|| not_found(name))?;
    Ok(Reply::empty(204).with_cache_headers(request.has_cache_headers(), Some(last_modified)))
}

pub(crate) async fn ensure(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let name = request.path_parameter();
    let text = Json::Text(name.into());
    let is_valid = schema::validate(&text, &schemas::names::CUSTOM_TRAIT, UuidForms::Body).is_ok();
    // The pattern allows a newline, which no header can contain.
    if !is_valid || name.ends_with('\n') {
        return Err(ApiError::bad_request(
            "The trait is invalid. A valid trait must be no longer than 255 characters, start with \
             the prefix \"CUSTOM_\" and use following characters: \"A\"-\"Z\", \"0\"-\"9\" and \
             \"_\"",
        ));
    }
    let command = Command::EnsureTrait {
        name: name.to_owned(),
        at: request.received_at,
    };
    let (created, modified_at) = match request.submit(command, RefusedOperation::Trait).await? {
        Outcome::Named {
            created,
            modified_at,
        } => (created, modified_at.seconds()),
        _ => (false, request.received_s()),
    };
    let reply = Reply::empty(if created { 201 } else { 204 });
    let reply = reply.with_location(format!("/traits/{name}"));
    Ok(reply.with_cache_headers(request.has_cache_headers(), Some(modified_at)))
}

pub(crate) async fn delete(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let command = Command::DeleteTrait {
        name: request.path_parameter().to_owned(),
    };
    request.submit(command, RefusedOperation::Trait).await?;
    Ok(Reply::empty(204))
}

fn close_with_generation(writer: &mut Writer, generation: u64) {
    writer.plain_key("resource_provider_generation");
    writer.integer(generation);
    writer.close_object();
}

pub(crate) async fn of_provider(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let not_found = || {
        let uuid = request.path_parameter();
        ApiError::not_found(format!(
            "No resource provider with uuid {uuid} found: No resource provider with uuid {uuid} \
             found"
        ))
    };
    let uuid = request.provider_uuid().map_err(|_| not_found())?;
    let found = request
        .read(|state| {
            let provider = state.provider_by_uuid(uuid)?;
            let mut writer = Writer::with_capacity(512);
            let traits = provider
                .traits
                .iter()
                .filter_map(|id| state.trait_by_id(*id));
            let last_modified = open_traits(&mut writer, traits);
            close_with_generation(&mut writer, provider.generation);
            Some((writer, last_modified))
        })
        .await;
    let (writer, last_modified) = found.ok_or_else(not_found)?;
    let last_modified = last_modified.unwrap_or_else(|| request.received_s());
    Ok(Reply::json(writer).with_cache_headers(request.has_cache_headers(), Some(last_modified)))
}

pub(crate) async fn set_of_provider(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    // As in the reference, the body is validated before the provider is looked up.
    let body = request.json(&schemas::names::SET_TRAITS)?;
    let provider = request.provider_uuid()?;
    let names = body.get("traits").unwrap_or(&Json::Null);
    request.check_entries(names.items().len(), "traits")?;
    let mut traits: Vec<String> = names
        .items()
        .iter()
        .filter_map(Json::text)
        .map(str::to_owned)
        .collect();
    traits.sort_unstable();
    traits.dedup();
    let command = Command::SetTraits {
        provider,
        generation: Some(routed_request::generation(
            body.get("resource_provider_generation"),
        )),
        traits: traits.clone(),
        at: request.received_at,
    };
    // The outcome has the values for the response. A read would also wait until the changes of other
    // requests are durable.
    let (generation, last_modified) =
        match request.submit(command, RefusedOperation::SetTraits).await? {
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
    let last_modified = last_modified.unwrap_or_else(|| request.received_s());
    Ok(Reply::json(writer).with_cache_headers(request.has_cache_headers(), Some(last_modified)))
}

pub(crate) async fn delete_of_provider(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let provider = request.provider_uuid()?;
    let command = Command::SetTraits {
        provider,
        // The client names no generation, so none is compared.
        generation: None,
        traits: Vec::new(),
        at: request.received_at,
    };
    request.submit(command, RefusedOperation::SetTraits).await?;
    Ok(Reply::empty(204))
}
