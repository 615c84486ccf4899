//! `/resource_providers` and `/resource_providers/{uuid}`

use placewright_http::json::Writer;
use placewright_http::{ApiError, ApiResult, Reply, pieces_of};
use placewright_placement::{
    Command, Outcome, ParentChange, Provider, ProviderQuery, ProviderView, QueryRefusal, Refusal,
    State, find_providers_among,
};
use uuid::Uuid;

use super::filters;
use crate::call::RoutedRequest;
use crate::json::Json;
use crate::microversion::Microversion;
use crate::refusals::{self, RefusedOperation};
use crate::{schemas, uuids};

fn path(uuid: Uuid) -> String {
    format!("/resource_providers/{uuid}")
}

/// The sub-resources of a version, in the order of their links.
fn links(version: Microversion) -> impl Iterator<Item = &'static str> {
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
struct Shown<'a> {
    uuid: Uuid,
    name: &'a str,
    generation: u64,
    parent: Option<Uuid>,
    root: Uuid,
}

impl<'a> Shown<'a> {
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
        let length = path.len();
        for name in links(version) {
            path.truncate(length);
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

/// A link whose texts need no escapes.
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
fn parse(call: &RoutedRequest<'_>) -> ApiResult<ProviderQuery> {
    let query = call.query(schemas::providers::list(call.version))?;
    // The order decides which error is reported when there are several.
    let aggregates = filters::aggregates(&query, "", call.version)?;
    let traits = filters::traits(&query, "required", call.version)?;
    let resources = query.get("resources").map(filters::amounts).transpose()?;
    let given = |key| query.get(key).map(str::to_owned);
    Ok(ProviderQuery {
        name: given("name"),
        uuid: given("uuid"),
        in_tree: given("in_tree"),
        required: traits.required,
        forbidden: traits.forbidden,
        member_of: aggregates.member_of,
        forbidden_aggregates: aggregates.forbidden,
        resources: resources.unwrap_or_default(),
    })
}

fn refused(refusal: &QueryRefusal) -> ApiError {
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
struct Copied {
    uuid: Uuid,
    name: Box<str>,
    generation: u64,
    parent: Option<Uuid>,
    root: Uuid,
}

impl Copied {
    fn of(state: &State, provider: &Provider) -> Self {
        let shown = Shown::of(state, provider);
        Self {
            uuid: shown.uuid,
            name: shown.name.into(),
            generation: shown.generation,
            parent: shown.parent,
            root: shown.root,
        }
    }

    fn shown(&self) -> Shown<'_> {
        Shown {
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
struct Gathered {
    /// The index of the next word of 64 slots.
    next: usize,
    all: Vec<Copied>,
    modified: Option<i64>,
    /// The size of their names, in bytes.
    bytes: usize,
}

/// The words of 64 providers that are read in one slice.
const WORDS_OF_SLICE: usize = 64;

/// The approximate size of a provider in a response, besides its name.
const PROVIDER_BYTES: usize = 820;
const TOO_MANY: &str = "Ask with filters, or raise the limit.";

impl Gathered {
    /// Reads one slice. Returns the collection once it is complete.
    fn go_on(&mut self, state: &State, query: &ProviderQuery) -> Option<ApiResult<Self>> {
        let all = state.provider_slots().div_ceil(64);
        // All members of a tree are read, whichever are wanted.
        let is_tree = query.in_tree.is_some();
        let words = if is_tree { all } else { WORDS_OF_SLICE };
        let words = self.next..self.next + words;
        self.next = words.end;
        let found = match find_providers_among(state, query, words) {
            Ok(found) => found,
            Err(refusal) => return Some(Err(refused(&refusal))),
        };
        for provider in found.into_iter().filter_map(|id| state.provider(id)) {
            self.modified = self.modified.max(Some(modified_at(provider)));
            self.bytes += provider.name.len();
            self.all.push(Copied::of(state, provider));
        }
        (self.next >= all).then(|| Ok(std::mem::take(self)))
    }
}

pub(crate) async fn list(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let query = parse(call)?;
    let found = call.read_in_slices(Gathered::default, |state, gathered| {
        gathered.go_on(state, &query)
    });
    let Gathered {
        all,
        modified,
        bytes,
        ..
    } = found.await?;
    let held = all.len() * size_of::<Copied>() + bytes;
    let permit = call.admit_answer(all.len() * PROVIDER_BYTES + bytes, held, TOO_MANY)?;
    let version = call.version;
    let pieces = pieces_of(
        |writer| {
            writer.open_object();
            writer.key("resource_providers");
            writer.open_array();
        },
        all.into_iter(),
        move |writer, provider: Copied| provider.shown().write(writer, version),
        |writer| {
            writer.close_array();
            writer.close_object();
        },
    );
    let modified = modified.unwrap_or_else(|| call.now());
    Ok(Reply::json_in_pieces(pieces, permit).modified(call.has_cache_headers(), Some(modified)))
}

pub(crate) async fn get(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let uuid = call.provider_uuid()?;
    let found = call
        .read(|state| {
            let provider = state.provider_by_uuid(uuid)?;
            let mut writer = Writer::with_capacity(1024);
            Shown::of(state, provider).write(&mut writer, call.version);
            Some((writer, modified_at(provider)))
        })
        .await;
    let (writer, modified) = found.ok_or_else(|| refusals::provider_not_found(call.parameter()))?;
    Ok(Reply::json(writer).modified(call.has_cache_headers(), Some(modified)))
}

/// The parent in a body; only a UUID in canonical form can be found.
enum Parent {
    NotNamed,
    None,
    Is(Uuid),
    Unknown,
}

fn parent_of(body: &Json<'_>) -> Parent {
    match body.get("parent_provider_uuid") {
        None => Parent::NotNamed,
        Some(Json::Text(text)) => uuids::canonical(text).map_or(Parent::Unknown, Parent::Is),
        Some(_) => Parent::None,
    }
}

fn name_of(body: &Json<'_>) -> String {
    body.get("name")
        .and_then(Json::text)
        .unwrap_or_default()
        .to_owned()
}

fn unknown_parent(attempt: &RefusedOperation<'_>) -> ApiError {
    let refusal = Refusal::ParentNotFound { uuid: Uuid::nil() };
    refusals::to_error(&refusal, attempt)
}

pub(crate) async fn create(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let body = call.json(schemas::providers::create(call.version))?;
    let name = name_of(&body);
    let wanted = body
        .get("uuid")
        .and_then(Json::text)
        .and_then(uuids::normalise);
    let uuid = wanted.unwrap_or_else(Uuid::new_v4);
    let attempt = RefusedOperation::CreateProvider { name: &name, uuid };
    if name.is_empty() {
        return Err(ApiError::bad_request(format!(
            "Unable to create resource provider \"\", {uuid}: Object action create failed because: \
             name is required"
        )));
    }
    let parent = match parent_of(&body) {
        Parent::Unknown => return Err(unknown_parent(&attempt)),
        Parent::Is(parent) => Some(parent),
        Parent::None | Parent::NotNamed => None,
    };
    let command = Command::CreateProvider {
        uuid,
        name: name.clone(),
        parent,
        at: call.at,
    };
    let outcome = call.submit(command, attempt).await?;
    let reply = match outcome {
        Outcome::Provider(view) if call.version.since(20) => {
            let mut writer = Writer::with_capacity(1024);
            Shown::of_view(&view).write(&mut writer, call.version);
            Reply::json(writer).modified(true, Some(call.now()))
        }
        _ => Reply::empty(201),
    };
    Ok(reply.with_location(path(uuid)))
}

pub(crate) async fn update(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let uuid = call.provider_uuid()?;
    let body = call
        .json_of_provider(uuid, schemas::providers::update(call.version))
        .await?;
    let attempt = RefusedOperation::UpdateProvider(call.parameter());
    let may_move = call.version.since(37);
    let parent = match parent_of(&body) {
        Parent::Unknown => {
            return Err(call.provider_first(uuid, unknown_parent(&attempt)).await);
        }
        Parent::NotNamed => ParentChange::Keep,
        Parent::None if may_move => ParentChange::Move(None),
        Parent::None => ParentChange::SetOnce(None),
        Parent::Is(parent) if may_move => ParentChange::Move(Some(parent)),
        Parent::Is(parent) => ParentChange::SetOnce(Some(parent)),
    };
    // The response has the time of the previous write.
    let before = call
        .read(move |state| state.provider_by_uuid(uuid).and_then(|one| one.updated_at))
        .await;
    let command = Command::UpdateProvider {
        uuid,
        name: name_of(&body),
        parent,
        at: call.at,
    };
    let mut writer = Writer::with_capacity(1024);
    if let Outcome::Provider(view) = call.submit(command, attempt).await? {
        Shown::of_view(&view).write(&mut writer, call.version);
    }
    let modified = before.map(|before| before.seconds());
    Ok(Reply::json(writer).modified(call.has_cache_headers(), modified))
}

pub(crate) async fn delete(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let target = call.parameter();
    let uuid = uuids::canonical(target).ok_or_else(|| {
        ApiError::not_found(format!(
            "No resource provider with uuid {target} found for delete"
        ))
    })?;
    call.submit(
        Command::DeleteProvider { uuid },
        RefusedOperation::DeleteProvider(target),
    )
    .await?;
    Ok(Reply::empty(204))
}
