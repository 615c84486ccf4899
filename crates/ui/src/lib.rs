//! The page at `/ui/` for operators and tenants: its files, the live view of the fleet, and the forwarding of its
//! requests to the other services of this process.
//!
//! - [`UiService`] is what a listener serves: the page's files, the page's own API below `/ui/api/`, and requests to
//!   the other services, which it hands over with their headers and body unchanged, under the path that the service
//!   knows. So those services identify the caller, and enforce policies and limits.
//! - [`FleetHandle`] is the view of all hosts that the pages of operators follow. One sampler makes its compact rows
//!   for all of these pages.
//! - [`ReplayPageService`] is what `placewright replay --page` serves: the same files, and the progress and
//!   results of the replay.

mod files;
mod fleet;
mod forward;
mod headers;
mod page_api;
mod past;
mod refusal;
mod replay_page;
mod service;

pub use fleet::FleetHandle;
pub use page_api::SignIn;
pub use replay_page::ReplayPageService;
pub use service::{Forwarded, UiService};
