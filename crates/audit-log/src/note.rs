//! Notes of a request's handler for the audit log.

use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Serialize, Serializer};
use uuid::Uuid;

/// Collects what handlers note about one request. All tasks of the request share it.
#[derive(Debug, Default)]
pub struct Note(Mutex<RequestNotes>);

/// The notes of handlers about a request.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RequestNotes {
    /// The sequence of the request's last entry in the journal.
    pub sequence: Option<u64>,
    /// The name of the action in the request's body.
    pub action: Option<String>,
    /// The ids of the objects that the request created, or that it is for.
    pub ids: Vec<String>,
    /// The allocations of consumers after the request, in the order of the decisions.
    pub held: Vec<HeldAllocations>,
}

/// All allocations that a consumer holds after a request.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeldAllocations {
    /// The UUID of the consumer.
    pub consumer: String,
    /// The sequence of the journal entry that set the allocations, which [`Note::add_entry`] fills in. Of two lines
    /// about a consumer, the one with the higher sequence is newer.
    pub sequence: u64,
    /// The project that owns the consumer, if it holds anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    /// The user that owns the consumer, if it holds anything.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user_id: Option<String>,
    /// The amounts by resource provider and resource class.
    #[serde(serialize_with = "by_provider")]
    pub allocations: Vec<(Uuid, Vec<(String, i64)>)>,
}

/// The amounts of one provider as an object.
struct Amounts<'a>(&'a [(String, i64)]);

impl Serialize for Amounts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(class, amount)| (class, amount)))
    }
}

fn by_provider<S: Serializer>(
    allocations: &[(Uuid, Vec<(String, i64)>)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(
        allocations
            .iter()
            .map(|(provider, amounts)| (provider, Amounts(amounts))),
    )
}

tokio::task_local! {
    static CURRENT: Option<Arc<Note>>;
}

/// Makes [`current_note`] return this note within a future.
pub fn with_note<F: Future>(note: Option<Arc<Note>>, future: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(note, future)
}

/// The note of the request that the present task carries out; none if the request needs no note, or if the task runs
/// outside of [`with_note`].
#[must_use]
pub fn current_note() -> Option<Arc<Note>> {
    CURRENT.try_with(Clone::clone).ok().flatten()
}

impl Note {
    /// Notes the name of an action.
    pub fn set_action(&self, name: &str) {
        self.0.lock().action = Some(name.to_owned());
    }

    /// Notes the id of an object that the request created, or that it is for.
    pub fn add_id(&self, id: impl ToString) {
        self.0.lock().ids.push(id.to_string());
    }

    /// Notes an entry of the journal, and the allocations of consumers after it.
    pub fn add_entry(&self, sequence: u64, held: impl IntoIterator<Item = HeldAllocations>) {
        let mut notes = self.0.lock();
        notes.sequence = notes.sequence.max(Some(sequence));
        let held = held
            .into_iter()
            .map(|held| HeldAllocations { sequence, ..held });
        notes.held.extend(held);
    }

    /// Takes the notes out.
    #[must_use]
    pub fn take(&self) -> RequestNotes {
        std::mem::take(&mut *self.0.lock())
    }
}
