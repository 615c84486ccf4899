//! Arguments of commands that ask the scheduler API and print its answer.

use anyhow::Context as _;
use clap::Args;
use placewright_client::server_url;
use placewright_roles::output;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::client::Client;

/// The arguments with the address of the scheduler API.
#[derive(Debug, Args)]
pub(crate) struct SchedulerAddress {
    /// The scheduler API's address
    #[arg(
        long,
        env = "PLACEWRIGHT_SCHEDULER_URL",
        default_value = "http://127.0.0.1:8779",
        value_parser = server_url
    )]
    pub(crate) scheduler_url: String,
}

/// The address of the scheduler API, the token of the caller, and the format in which the answer is printed.
#[derive(Debug, Args)]
pub(crate) struct Question {
    #[command(flatten)]
    address: SchedulerAddress,

    #[command(flatten)]
    pub(crate) client: Client,

    /// Print the server's answer as it is
    #[arg(long)]
    json: bool,
}

impl Question {
    /// Sends a POST to a path of the scheduler API, and returns the JSON of the response.
    ///
    /// # Errors
    ///
    /// The reason why there is no response, or why the response is no success.
    pub(crate) fn post(&self, path: &str, body: &Value) -> anyhow::Result<Value> {
        let url = self.address.scheduler_url.trim_end_matches('/');
        self.client.post_json(&format!("{url}{path}"), body)
    }

    /// Reads the JSON at a path of the scheduler API.
    ///
    /// # Errors
    ///
    /// As [`Self::post`].
    pub(crate) fn get(&self, path: &str) -> anyhow::Result<Value> {
        self.client.get_from(&self.address.scheduler_url, path)
    }

    /// Prints an answer as it is, or as the text that `to_text` makes of it.
    ///
    /// # Errors
    ///
    /// The answer cannot be decoded, in which case the error says `not_readable`; or the output cannot be written.
    pub(crate) fn print<T: DeserializeOwned>(
        &self,
        answer: Value,
        not_readable: &'static str,
        to_text: impl FnOnce(&T) -> String,
    ) -> anyhow::Result<()> {
        if self.json {
            return output::print(&format!("{answer}\n"));
        }
        let answer = serde_json::from_value(answer).context(not_readable)?;
        output::print(&to_text(&answer))
    }
}
