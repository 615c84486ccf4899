//! `/resource_providers` and `/resource_providers/{uuid}`

use placewright_http::json::Writer;
use placewright_http::{ApiError, ApiResult, Reply, pieces_of_list};
use placewright_placement::{
    Command, Outcome, ParentChange, Provider, ProviderQuery, ProviderView, QueryRefusal, Refusal,
    State, find_providers_among,
};
use uuid::Uuid;

use super::filters;
use crate::json::Json;
use crate::microversion::Microversion;
use crate::refusals::{self, RefusedOperation};
use crate::routed_request::RoutedRequest;
use crate::{schemas, uuids};

fn provider_path(uuid: Uuid) -> String {
    format!("/resource_providers/{uuid}")
}

/// The names of the sub-resources that a version has, in the order of their links.
fn sub_resources(version: Microversion) -> impl Iterator<Item = &'static str> {
    // Each has the number after the dot of the first microversion that has it.
    [
        (0, "inventories"),
        (0, "usages"),
        (1, "aggregates"),
        (6, "traits"),
        (11, "allocations"),
    ]
    .into_iter()
    .filter(move |(since, _)| version.since(*since))
    .map(|(_, name)| name)
}

/// The representation of a provider, borrowed from the state.
struct Representation<'a> {
    uuid: Uuid,
    name: &'a str,
    generation: u64,
    parent: Option<Uuid>,
    root: Uuid,
}

impl<'a> Representation<'a> {
    fn of(state: &'a State, provider: &'a Provider) -> Self {
        let uuid_of = |id| state.provider(id).map(|provider| provider.uuid);
        Self {
            uuid: provider.uuid,
            name: &provider.name,
            generation: provider.generation,
            parent: provider.parent.and_then(uuid_of),
            root: uuid_of(provider.root).unwrap_or(provider.uuid),
        }
    }

    fn of_view(view: &'a ProviderView) -> Self {
        Self {
            uuid: view.uuid,
            name: &view.name,
            generation: view.generation,
            parent: view.parent,
            root: view.root,
        }
    }

    fn write(&self, writer: &mut Writer, version: Microversion) {
        let mut buffer = [0; 36];
        let uuid: &str = self.uuid.hyphenated().encode_lower(&mut buffer);
        writer.open_object();
        writer.plain_key("uuid");
        writer.plain_text(uuid);
        writer.plain_key("name");
        writer.text(self.name);
        writer.plain_key("generation");
        writer.integer(self.generation);
        writer.plain_key("links");
        writer.open_array();
        let mut path = String::with_capacity(80);
        path.push_str("/resource_providers/");
        path.push_str(uuid);
        write_link(writer, "self", &path);
        path.push('/');
        let prefix_length = path.len();
        for name in sub_resources(version) {
            path.truncate(prefix_length);
            path.push_str(name);
            write_link(writer, name, &path);
        }
        writer.close_array();
        if version.since(14) {
            writer.plain_key("parent_provider_uuid");
            match self.parent {
                Some(parent) => writer.plain_text(parent.hyphenated().encode_lower(&mut [0; 36])),
                None => writer.raw(b"null"),
            }
            writer.plain_key("root_provider_uuid");
            writer.plain_text(self.root.hyphenated().encode_lower(&mut [0; 36]));
        }
        writer.close_object();
    }
}

/// Writes a link whose texts need no escapes.
fn write_link(writer: &mut Writer, relation: &str, path: &str) {
    writer.open_object();
    writer.plain_key("rel");
    writer.plain_text(relation);
    writer.plain_key("href");
    writer.plain_text(path);
    writer.close_object();
}

fn modified_at(provider: &Provider) -> i64 {
    provider.updated_at.unwrap_or(provider.created_at).seconds()
}

/// Parses the query of `GET /resource_providers`.
fn parse(request: &RoutedRequest<'_>) -> ApiResult<ProviderQuery> {
    let query = request.query(schemas::providers::list(request.version))?;
    // The order of parsing decides which of several errors is reported.
    // The suffix is empty, because a query for providers has no groups.
    let aggregates = filters::aggregates(&query, "", request.version)?;
    let traits = filters::traits(&query, "required", request.version)?;
    let resources = query.get("resources").map(filters::amounts).transpose()?;
    let text_of = |key| query.get(key).map(str::to_owned);
    Ok(ProviderQuery {
        name: text_of("name"),
        uuid: text_of("uuid"),
        in_tree: text_of("in_tree"),
        required: traits.required,
        forbidden: traits.forbidden,
        member_of: aggregates.member_of,
        forbidden_aggregates: aggregates.forbidden,
        resources: resources.unwrap_or_default(),
    })
}

fn refusal_error(refusal: &QueryRefusal) -> ApiError {
    ApiError::bad_request(match refusal {
        QueryRefusal::UnknownClass { .. } => {
            format!("Invalid resource class in resources parameter: {refusal}")
        }
        QueryRefusal::UnknownTrait { .. } => {
            format!("Invalid trait(s) in \"required\" parameter: {refusal}")
        }
    })
}

/// A copy of a provider's representation, for use without the state's lock.
#[derive(Debug)]
struct OwnedRepresentation {
    uuid: Uuid,
    name: Box<str>,
    generation: u64,
    parent: Option<Uuid>,
    root: Uuid,
}

impl OwnedRepresentation {
    fn of(state: &State, provider: &Provider) -> Self {
        let representation = Representation::of(state, provider);
        Self {
            uuid: representation.uuid,
            name: representation.name.into(),
            generation: representation.generation,
            parent: representation.parent,
            root: representation.root,
        }
    }

    fn borrowed(&self) -> Representation<'_> {
        Representation {
            uuid: self.uuid,
            name: &self.name,
            generation: self.generation,
            parent: self.parent,
            root: self.root,
        }
    }
}

/// Providers collected in slices.
#[derive(Debug, Default)]
struct ProviderCollector {
    /// The index of the next word of 64 slots to read.
    next_word: usize,
    providers: Vec<OwnedRepresentation>,
    last_modified: Option<i64>,
    /// The size of the providers' names, in bytes.
    name_bytes: usize,
}

/// The words, of 64 slots each, that are read in one slice.
const WORDS_PER_SLICE: usize = 64;

/// The approximate size of a provider in a response, besides its name.
const PROVIDER_BYTES: usize = 820;
/// The advice to a client whose response is too large.
const TOO_MANY_ADVICE: &str = "Ask with filters, or raise the limit.";

impl ProviderCollector {
    /// Reads one slice. Returns the collection once it is complete, none before.
    fn run_slice(&mut self, state: &State, query: &ProviderQuery) -> Option<ApiResult<Self>> {
        let word_count = state.provider_slots().div_ceil(64);
        // A query for one tree reads only the tree's providers, so it needs a single slice.
        let is_tree = query.in_tree.is_some();
        let slice_words = if is_tree { word_count } else { WORDS_PER_SLICE };
        let words = self.next_word..self.next_word + slice_words;
        self.next_word = words.end;
        let ids = match find_providers_among(state, query, words) {
            Ok(ids) => ids,
            Err(refusal) => return Some(Err(refusal_error(&refusal))),
        };
        for provider in ids.into_iter().filter_map(|id| state.provider(id)) {
            self.last_modified = self.last_modified.max(Some(modified_at(provider)));
            self.name_bytes += provider.name.len();
            self.providers
                .push(OwnedRepresentation::of(state, provider));
        }
        (self.next_word >= word_count).then(|| Ok(std::mem::take(self)))
    }
}

pub(crate) async fn list(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let query = parse(request)?;
    let collected = request.read_in_slices(ProviderCollector::default, |state, collector| {
        collector.run_slice(state, &query)
    });
    let ProviderCollector {
        providers,
        last_modified,
        name_bytes,
        ..
    } = collected.await?;
    let memory_bytes = providers.len() * size_of::<OwnedRepresentation>() + name_bytes;
    let response_bytes = providers.len() * PROVIDER_BYTES + name_bytes;
    let permit =
        request.check_and_reserve_response(response_bytes, memory_bytes, TOO_MANY_ADVICE)?;
    let version = request.version;
    let pieces = pieces_of_list(
        |writer| {
            writer.open_object();
            writer.key("resource_providers");
            writer.open_array();
        },
        providers.into_iter(),
        move |writer, provider: OwnedRepresentation| provider.borrowed().write(writer, version),
        |writer| {
            writer.close_array();
            writer.close_object();
        },
    );
    let last_modified = last_modified.unwrap_or_else(|| request.received_s());
    Ok(Reply::json_in_pieces(pieces, permit)
        .with_cache_headers(request.has_cache_headers(), Some(last_modified)))
}

pub(crate) async fn get(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let uuid = request.provider_uuid()?;
    let found = request
        .read(|state| {
            let provider = state.provider_by_uuid(uuid)?;
            let mut writer = Writer::with_capacity(1024);
            Representation::of(state, provider).write(&mut writer, request.version);
            Some((writer, modified_at(provider)))
        })
        .await;
    let (writer, last_modified) =
        found.ok_or_else(|| refusals::provider_not_found(request.path_parameter()))?;
    Ok(Reply::json(writer).with_cache_headers(request.has_cache_headers(), Some(last_modified)))
}

/// The parent in a body. It is `Unknown` if its UUID is not in the canonical form, because no provider can have such a
/// UUID.
enum ParentField {
    Absent,
    Null,
    Is(Uuid),
    Unknown,
}

fn parent_of(body: &Json<'_>) -> ParentField {
    match body.get("parent_provider_uuid") {
        None => ParentField::Absent,
        Some(Json::Text(text)) => {
            uuids::parse_canonical(text).map_or(ParentField::Unknown, ParentField::Is)
        }
        Some(_) => ParentField::Null,
    }
}

fn name_of(body: &Json<'_>) -> String {
    body.get("name")
        .and_then(Json::text)
        .unwrap_or_default()
        .to_owned()
}

fn parent_not_found(operation: &RefusedOperation<'_>) -> ApiError {
    // The text of the error does not contain the UUID.
    let refusal = Refusal::ParentNotFound { uuid: Uuid::nil() };
    refusals::to_error(&refusal, operation)
}

pub(crate) async fn create(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = request.json(schemas::providers::create(request.version))?;
    let name = name_of(&body);
    let given_uuid = body
        .get("uuid")
        .and_then(Json::text)
        .and_then(uuids::parse_any_form);
    let uuid = given_uuid.unwrap_or_else(Uuid::new_v4);
    let operation = RefusedOperation::CreateProvider { name: &name, uuid };
    if name.is_empty() {
        return Err(ApiError::bad_request(format!(
            "Unable to create resource provider \"\", {uuid}: Object action create failed because: \
             name is required"
        )));
    }
    let parent = match parent_of(&body) {
        ParentField::Unknown => return Err(parent_not_found(&operation)),
        ParentField::Is(parent) => Some(parent),
        ParentField::Null | ParentField::Absent => None,
    };
    let command = Command::CreateProvider {
        uuid,
        name: name.clone(),
        parent,
        at: request.received_at,
    };
    let outcome = request.submit(command, operation).await?;
    let reply = match outcome {
        Outcome::Provider(view) if request.version.since(20) => {
            let mut writer = Writer::with_capacity(1024);
            Representation::of_view(&view).write(&mut writer, request.version);
            Reply::json(writer)
                .with_cache_headers(request.has_cache_headers(), Some(request.received_s()))
        }
        _ => Reply::empty(201),
    };
    Ok(reply.with_location(provider_path(uuid)))
}

pub(crate) async fn update(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let uuid = request.provider_uuid()?;
    let body = request
        .json_of_provider(uuid, schemas::providers::update(request.version))
        .await?;
    let operation = RefusedOperation::UpdateProvider(request.path_parameter());
    let may_reparent = request.version.since(37);
    let parent = match parent_of(&body) {
        ParentField::Unknown => {
            return Err(request
                .missing_provider_or(uuid, parent_not_found(&operation))
                .await);
        }
        ParentField::Absent => ParentChange::Keep,
        ParentField::Null if may_reparent => ParentChange::Move(None),
        ParentField::Null => ParentChange::SetOnce(None),
        ParentField::Is(parent) if may_reparent => ParentChange::Move(Some(parent)),
        ParentField::Is(parent) => ParentChange::SetOnce(Some(parent)),
    };
    // As in the reference, the response has the time of the previous update.
    let modified_before = request
        .read(move |state| {
            state
                .provider_by_uuid(uuid)
                .and_then(|provider| provider.updated_at)
        })
        .await;
    let command = Command::UpdateProvider {
        uuid,
        name: name_of(&body),
        parent,
        at: request.received_at,
    };
    let mut writer = Writer::with_capacity(1024);
    if let Outcome::Provider(view) = request.submit(command, operation).await? {
        Representation::of_view(&view).write(&mut writer, request.version);
    }
    let last_modified = modified_before.map(|time| time.seconds());
    Ok(Reply::json(writer).with_cache_headers(request.has_cache_headers(), last_modified))
}

pub(crate) async fn delete(request: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let target = request.path_parameter();
    let uuid = uuids::parse_canonical(target).ok_or_else(|| {
        ApiError::not_found(format!(
            "No resource provider with uuid {target} found for delete"
        ))
    })?;
    request
        .submit(
            Command::DeleteProvider { uuid },
            RefusedOperation::DeleteProvider(target),
        )
        .await?;
    Ok(Reply::empty(204))
}
