//! What the handler of a request notes for the log.

use std::future::Future;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Serialize, Serializer};
use uuid::Uuid;

/// What handlers noted of one request. Clones of the pointer go wherever the request is carried out.
#[derive(Debug, Default)]
pub struct Note(Mutex<Noted>);

/// What was noted.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Noted {
    /// The last entry of the journal that the request made.
    pub sequence: Option<u64>,
    /// The name of the action that a body asked for.
    pub action: Option<String>,
    /// The ids of what the request created, or of what it is about.
    pub ids: Vec<String>,
    /// What consumers hold after the request, in the order in which that was decided.
    pub held: Vec<Held>,
}

/// What a consumer holds after a request; nothing more is held by it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Held {
    /// The UUID of the consumer.
    pub consumer: String,
    /// The entry of the journal that says so. Of two lines about a consumer, the one with the higher
    /// sequence holds.
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
    all: &[(Uuid, Vec<(String, i64)>)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(
        all.iter()
            .map(|(provider, amounts)| (provider, Amounts(amounts))),
    )
}

tokio::task_local! {
    static CURRENT: Option<Arc<Note>>;
}

/// Runs a future that belongs to the request of a note.
pub fn scope<F: Future>(note: Option<Arc<Note>>, future: F) -> impl Future<Output = F::Output> {
    CURRENT.scope(note, future)
}

/// The note of the request that is carried out; none if nothing has to be noted.
#[must_use]
pub fn current() -> Option<Arc<Note>> {
    CURRENT.try_with(Clone::clone).ok().flatten()
}

impl Note {
    /// Notes the name of an action.
    pub fn action(&self, name: &str) {
        self.0.lock().action = Some(name.to_owned());
    }

    /// Notes the id of something that was created.
    pub fn id(&self, id: impl ToString) {
        self.0.lock().ids.push(id.to_string());
    }

    /// Notes an entry of the journal, and what consumers hold since then.
    pub fn journaled(&self, sequence: u64, held: impl IntoIterator<Item = Held>) {
        let mut noted = self.0.lock();
        noted.sequence = noted.sequence.max(Some(sequence));
        let held = held.into_iter().map(|held| Held { sequence, ..held });
        noted.held.extend(held);
    }

    /// Takes what was noted.
    #[must_use]
    pub fn take(&self) -> Noted {
        std::mem::take(&mut *self.0.lock())
    }
}
