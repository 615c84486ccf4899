//! `/usages` and `/resource_providers/{uuid}/usages`

use std::collections::BTreeMap;

use placewright_http::json::Writer;
use placewright_http::{ApiError, ApiResult, Reply};
use placewright_placement::{ClassId, Consumer, State};

use crate::call::RoutedRequest;
use crate::schemas;

/// Usage by class, in the order of the class numbers.
type Sums = BTreeMap<ClassId, u64>;

pub(crate) async fn of_provider(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let not_found = || {
        let uuid = call.parameter();
        ApiError::not_found(format!(
            "No resource provider with uuid {uuid} found: No resource provider with uuid {uuid} \
             found"
        ))
    };
    let uuid = call.provider_uuid().map_err(|_| not_found())?;
    let writer = call
        .read(|state| {
            let provider = state.provider_by_uuid(uuid)?;
            let mut writer = Writer::with_capacity(256);
            writer.open_object();
            writer.key("resource_provider_generation");
            writer.integer(provider.generation);
            writer.key("usages");
            writer.open_object();
            for record in &provider.inventories {
                writer.key(state.class_name(record.class));
                writer.integer(record.used);
            }
            writer.close_object();
            writer.close_object();
            Some(writer)
        })
        .await;
    let reply = Reply::json(writer.ok_or_else(not_found)?);
    Ok(reply.modified(call.has_cache_headers(), Some(call.now())))
}

fn add(sums: &mut Sums, consumer: &Consumer) {
    for held in &consumer.allocations {
        *sums.entry(held.class).or_default() += u64::from(held.amount);
    }
}

fn write_sums(writer: &mut Writer, state: &State, sums: &Sums) {
    for (class, sum) in sums {
        writer.key(state.class_name(*class));
        writer.integer(*sum);
    }
}

/// The query about a project's usage.
struct Question<'a> {
    project: &'a str,
    user: Option<&'a str>,
    /// Whether the usage is split by consumer type.
    by_type: bool,
    wanted_type: Option<&'a str>,
}

/// The usage of a project's consumers, summed in slices because there may be a million of them.
#[derive(Default)]
struct Gathered {
    /// The slot after the last consumer that was read.
    next: u32,
    /// By consumer type if that is asked for, otherwise all under an empty name.
    groups: BTreeMap<String, (Sums, u64)>,
    /// The state's counter of structural changes in the first slice; class numbers keep their
    /// meaning while it stays the same.
    structure: u64,
    begun_anew: u32,
}

/// The consumers that are read in one slice.
const CONSUMERS_OF_SLICE: usize = 8_192;

/// How often the sums may be started again because of structural changes; then they are computed in
/// one slice.
const ANEW_MAX: u32 = 8;

impl Gathered {
    /// Reads one slice. Returns the response once it is complete.
    fn go_on(&mut self, state: &State, question: &Question<'_>) -> Option<Writer> {
        let structure = state.tree_changes().structure();
        if self.structure != structure {
            *self = Self {
                structure,
                begun_anew: self.begun_anew + 1,
                ..Self::default()
            };
        }
        let most = if self.begun_anew > ANEW_MAX {
            usize::MAX
        } else {
            CONSUMERS_OF_SLICE
        };
        let mut left = most;
        for (slot, consumer) in state.project_consumers_from(question.project, self.next) {
            if left == 0 {
                return None;
            }
            left -= 1;
            self.next = slot + 1;
            self.add(state, question, consumer);
        }
        Some(self.write(state, question))
    }

    /// Consumers written before microversion 1.38 have the type `unknown`; `all` combines all
    /// types.
    fn add(&mut self, state: &State, question: &Question<'_>, consumer: &Consumer) {
        if (question.user).is_some_and(|user| state.user_name(consumer.user) != user) {
            return;
        }
        let known = consumer
            .consumer_type
            .map(|id| state.consumer_type_name(id));
        let own = known.unwrap_or("unknown");
        let group = match question.wanted_type {
            _ if !question.by_type => "",
            Some("all") => "all",
            Some(wanted) if wanted != own => return,
            _ => own,
        };
        if !self.groups.contains_key(group) {
            self.groups.insert(group.to_owned(), Default::default());
        }
        if let Some((sums, count)) = self.groups.get_mut(group) {
            add(sums, consumer);
            *count += 1;
        }
    }

    fn write(&self, state: &State, question: &Question<'_>) -> Writer {
        let mut writer = Writer::with_capacity(256);
        writer.open_object();
        writer.key("usages");
        writer.open_object();
        for (name, (sums, count)) in &self.groups {
            if !question.by_type {
                write_sums(&mut writer, state, sums);
                continue;
            }
            writer.key(name);
            writer.open_object();
            write_sums(&mut writer, state, sums);
            writer.key("consumer_count");
            writer.integer(*count);
            writer.close_object();
        }
        writer.close_object();
        writer.close_object();
        writer
    }
}

pub(crate) async fn of_project(call: &RoutedRequest<'_>) -> ApiResult<Reply> {
    let query = call.query(schemas::usages::get(call.version))?;
    let by_type = call.version.since(38);
    let question = Question {
        project: query.get("project_id").unwrap_or(""),
        user: query.get("user_id"),
        by_type,
        wanted_type: query.get("consumer_type").filter(|_| by_type),
    };
    let writer = call
        .read_in_slices(Gathered::default, |state, gathered| {
            gathered.go_on(state, &question)
        })
        .await;
    Ok(Reply::json(writer).modified(call.has_cache_headers(), Some(call.now())))
}
